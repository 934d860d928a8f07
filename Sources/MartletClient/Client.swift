// The client of an application: calls become commands to the background thread, which owns sockets
// and machines; events return through an event buffer. Nothing here blocks.

import BrokerTerms
import ClientCore
import Synchronization
import WireFormat

/// A persistent connection to a Martlet broker: it reconnects automatically, repeats sends without
/// a result, and resumes where the application stopped.
///
/// All clients of a process share one background thread. A client keeps its sends, and the position
/// of its inbox, as long as it exists: a sent message is not lost with a connection, but it is lost
/// with the process.
public final class Client: Sendable {
    let identifier: UInt64
    private let loop: ClientLoop
    private let eventBuffer = EventBuffer()
    private let acknowledgement: Acknowledgement
    private let lastTicket = Atomic<UInt64>(0)

    /// A client that is not connected yet; see ``connect()``.
    ///
    /// - Throws: ``MartletError/invalid(_:)`` or ``MartletError/system(_:)``.
    public init(_ settings: ClientSettings) throws(MartletError) {
        try settings.check()
        loop = try ClientLoop.shared.get()
        identifier = loop.makeIdentifier()
        acknowledgement = settings.acknowledgement
        let blueprint = ClientBlueprint(
            identifier: identifier, settings: settings, tls: try settings.tlsContext(),
            eventBuffer: eventBuffer)
        loop.post(.open(blueprint))
    }

    /// A client without references disconnects as with ``close(endingSession:)``.
    deinit {
        loop.post(.leave(identifier, endsSession: false) {})
    }

    /// Logs in, and stays logged in from now on. This is an explicit login: it takes the session
    /// over from another connection; later automatic ones do not.
    ///
    /// - Returns: the terms that the broker granted with the first login (reason 5).
    /// - Throws: ``MartletError/stopped(_:)``, ``MartletError/unreachable(_:)``,
    ///   ``MartletError/closed``; ``MartletError/cancelled``, after which the client continues to
    ///   try.
    @discardableResult
    public func connect() async throws(MartletError) -> ConnectionTerms {
        let ticket = makeTicket()
        let result = await cancellable(ticket) { [self] completion in
            loop.post(.connect(identifier, ticket: ticket, completion))
        }
        return try result.get()
    }

    // MARK: - Sending

    /// Sends a message and waits for its result: reason 1 means that every receiver with a
    /// persistent session has acknowledged it, or that it is stored (docs/PROTOCOL.md section 5). A
    /// transient message has no result; the call returns when the message is passed on.
    ///
    /// Without a connection, the call waits for one. Messages are sent in the order of the calls.
    ///
    /// - Throws: ``MartletError/refused(_:_:)`` with the broker's reason, and other errors.
    @discardableResult
    public func send(_ message: OutgoingMessage) async throws(MartletError) -> Receipt {
        let ticket = makeTicket()
        let result = await cancellable(ticket) { [self] completion in
            send(message, ticket: ticket, completion: completion)
        }
        return try result.get()
    }

    /// Sends a message without waiting: `completion` gets the result on the background thread,
    /// which it must not block. The client exists until then.
    public func send(
        _ message: OutgoingMessage,
        completion: @escaping @Sendable (Result<Receipt, MartletError>) -> Void
    ) {
        send(message, ticket: makeTicket()) { [self] result in
            withExtendedLifetime(self) { completion(result) }
        }
    }

    private func send(
        _ message: OutgoingMessage, ticket: UInt64, completion: @escaping Completion<Receipt>
    ) {
        do throws(MartletError) {
            let encoded = try EncodedSend(message)
            loop.post(
                .send(
                    identifier, PendingSend(ticket: ticket, send: encoded, completion: completion)))
        } catch {
            completion(.failure(error))
        }
    }

    // MARK: - Requests

    /// Subscribes to a plain topic, with `+` and `#` as in MQTT. Messages to the user and to
    /// everybody need no subscription. The broker keeps the subscription with the session; if the
    /// session is new after a reconnect, the client subscribes again automatically.
    ///
    /// - Parameters:
    ///   - filter: a topic, or a filter with `+` and `#`, by default at most 1,024 bytes.
    ///   - grade: the highest grade of matching messages.
    /// - Returns: the granted grade.
    @discardableResult
    public func subscribe(
        to filter: String, grade: Grade = .durable
    ) async throws(MartletError) -> Grade {
        let answer = try await request(.subscribe(filter, grade))
        guard let byte = answer.content.first, let granted = Grade(rawValue: byte) else {
            throw .unreadableAnswer
        }
        return granted
    }

    /// Ends a subscription.
    public func unsubscribe(from filter: String) async throws(MartletError) {
        _ = try await request(.unsubscribe(filter))
    }

    /// Whether a user is connected, with which devices, and since when.
    public func presence(of user: String) async throws(MartletError) -> Presence {
        var bytes = ByteBuilder()
        let part = MRT.PresenceQuery(user: try bytes.append(identifier: user))
        let answer = try await request(.presence, part: part, bytes: bytes)
        guard let presence = Presence(answer.content) else { throw .unreadableAnswer }
        return presence
    }

    func request(
        _ operation: MRT.Operation, part: some RequestPart, bytes: ByteBuilder
    ) async throws(MartletError) -> ClientAnswer {
        try await request(ClientRequest(operation, part: part, source: bytes.bytes))
    }

    func request(_ request: ClientRequest) async throws(MartletError) -> ClientAnswer {
        let ticket = makeTicket()
        let result = await cancellable(ticket) { [self] completion in
            loop.post(
                .request(
                    identifier,
                    PendingRequest(ticket: ticket, request: request, completion: completion)))
        }
        return try result.get()
    }

    // MARK: - Receiving

    /// The events, in order. Messages that the application does not read wait at the broker: at
    /// most ``ClientSettings/inboxWindow`` are held here.
    public var events: Events { Events(client: self) }

    /// The reason why the client stopped permanently; nil if it did not.
    public var stopReason: ReasonCode? { eventBuffer.stopReason }

    /// This message and all earlier ones are processed: the broker may discard them. Required with
    /// ``Acknowledgement/byApplication``, and always allowed.
    public func acknowledge(_ message: IncomingMessage) {
        if let record = message.record { loop.post(.acknowledge(identifier, record)) }
    }

    func nextEvent() async -> Event? {
        if acknowledgement == .whenNextIsTaken, let record = eventBuffer.takeRecord() {
            loop.post(.acknowledge(identifier, record))
        }
        return await eventBuffer.next()
    }

    // MARK: - Closing

    /// Disconnects normally: acknowledgements are sent, no more messages arrive, and the session
    /// stays for its expiry. Sends without a result end with ``MartletError/closed``. Returns when
    /// the broker has confirmed, or after 5 seconds.
    ///
    /// - Parameter endingSession: end the session and its queue now.
    public func close(endingSession: Bool = false) async {
        await withCheckedContinuation { continuation in
            loop.post(.leave(identifier, endsSession: endingSession) { continuation.resume() })
        }
    }

    // MARK: - Support

    private func makeTicket() -> UInt64 {
        lastTicket.add(1, ordering: .relaxed).newValue
    }

    /// Waits for a completion; cancelling the task ends it with ``MartletError/cancelled``.
    private func cancellable<Value: Sendable>(
        _ ticket: UInt64, _ start: (@escaping Completion<Value>) -> Void
    ) async -> Result<Value, MartletError> {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                start { continuation.resume(returning: $0) }
                // Cancelled before there was a call to cancel.
                if Task.isCancelled { loop.post(.cancel(identifier, ticket: ticket)) }
            }
        } onCancel: {
            loop.post(.cancel(identifier, ticket: ticket))
        }
    }
}
