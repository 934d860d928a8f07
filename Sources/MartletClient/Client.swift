// The client of an application: calls become commands to the one background thread, which owns
// sockets and machines; events come back through an event buffer. Nothing here blocks.

import BrokerTerms
import ClientCore
import Synchronization
import WireFormat

/// A connection to a Martlet broker that stays: it reconnects by itself, sends again what has no
/// result yet, and resumes where the application stopped.
///
/// All clients of a process share one background thread. A client keeps its sends, and where its
/// inbox stands, for as long as it lives; a message that was sent is not lost with a connection,
/// but with the process.
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

    /// A client without references leaves as by ``close(endingSession:)``.
    deinit {
        loop.post(.leave(identifier, endsSession: false) {})
    }

    /// Logs in, and stays logged in from now on. This is an explicit login: it takes the
    /// session over from another connection; later automatic ones do not.
    ///
    /// - Returns: what the broker granted, with the first login (reason 5).
    /// - Throws: ``MartletError/stopped(_:)``, ``MartletError/unreachable(_:)``,
    ///   ``MartletError/closed``; ``MartletError/cancelled``, after which the client still tries.
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
    /// transient message has no result; this returns when it is handed on.
    ///
    /// While there is no connection it waits for one. Messages leave in the order of the calls.
    ///
    /// - Throws: ``MartletError/refused(_:_:)`` with the broker's reason and other errors.
    @discardableResult
    public func send(_ message: OutgoingMessage) async throws(MartletError) -> Receipt {
        let ticket = makeTicket()
        let result = await cancellable(ticket) { [self] completion in
            send(message, ticket: ticket, completion: completion)
        }
        return try result.get()
    }

    /// Sends a message without waiting: the result comes to `completion`, on the
    /// background thread, which it must not block. The client lives until then.
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
    /// everybody arrive without it. The broker keeps it with the session; where the session is new
    /// after a reconnect, the client subscribes again by itself.
    ///
    /// - Parameters:
    ///   - filter: a topic, or a filter with `+` and `#`, by default at most 1,024 bytes.
    ///   - grade: the most that matching messages are delivered with.
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

    /// Whether a user is online, with which devices, and since when.
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

    /// What happens, in order. Messages wait at the broker while the application does not take
    /// them: at most ``ClientSettings/inboxWindow`` are held here.
    public var events: Events { Events(client: self) }

    /// Why the client was stopped for good; nil as long as it was not.
    public var stopReason: ReasonCode? { eventBuffer.stopReason }

    /// This message, and everything before it, is processed: the broker may forget it. Needed with
    /// ``Acknowledgement/byApplication``, and allowed always.
    public func acknowledge(_ message: IncomingMessage) {
        if let record = message.record { loop.post(.acknowledge(identifier, record)) }
    }

    func nextEvent() async -> Event? {
        if acknowledgement == .whenNextIsTaken, let record = eventBuffer.takeRecord() {
            loop.post(.acknowledge(identifier, record))
        }
        return await eventBuffer.next()
    }

    // MARK: - The end

    /// Leaves in order: acknowledgements are sent, nothing arrives afterwards, and the
    /// session stays for its expiry. Sends without a result end with ``MartletError/closed``.
    /// Returns when the broker has confirmed, or after 5 seconds.
    ///
    /// - Parameter endingSession: the session and its queue end now.
    public func close(endingSession: Bool = false) async {
        await withCheckedContinuation { continuation in
            loop.post(.leave(identifier, endsSession: endingSession) { continuation.resume() })
        }
    }

    // MARK: - Support

    private func makeTicket() -> UInt64 {
        lastTicket.add(1, ordering: .relaxed).newValue
    }

    /// Waits for a completion; a cancelled task ends it with ``MartletError/cancelled``.
    private func cancellable<Value: Sendable>(
        _ ticket: UInt64, _ start: (@escaping Completion<Value>) -> Void
    ) async -> Result<Value, MartletError> {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                start { continuation.resume(returning: $0) }
                // Cancelled before there was something to cancel: the handler came too early.
                if Task.isCancelled { loop.post(.cancel(identifier, ticket: ticket)) }
            }
        } onCancel: {
            loop.post(.cancel(identifier, ticket: ticket))
        }
    }
}
