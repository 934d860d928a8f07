// A client without a thread, a socket or a clock: the caller acts as the transport, the broker and
// the time. Fuzzing and tests run the session of ``Client`` in it; no program does.

import BrokerTerms
import ClientCore
import NetTransport
import Primitives
import Threads
import WireFormat

package final class ClientRehearsal {
    /// The loop as a session sees it: one connection at a time, and its outgoing bytes.
    private struct Transport: ClientTransport, ~Copyable {
        var now = Instant(milliseconds: 1_000_000)
        var outgoing: [UInt8] = []
        var connection: ConnectionID?
        var isOpen = false
        private var slot = 0

        mutating func dial(
            _ address: SocketAddress, _ tls: ClientTLSContext?, serverName: String,
            resuming ticket: TLSSessionTicket?
        ) throws(TransportError) -> ConnectionID {
            slot += 1
            let dialed = ConnectionID(loop: 0, slot: slot, generation: 1)
            connection = dialed
            isOpen = false
            return dialed
        }

        mutating func append(
            _ bytes: UnsafeRawBufferPointer, to connection: ConnectionID
        ) -> Bool {
            guard isOpen, connection == self.connection else { return false }
            outgoing += bytes
            return true
        }

        func outgoingByteCount(of connection: ConnectionID) -> Int { outgoing.count }

        mutating func close(_ connection: ConnectionID, afterFlush: Bool) {
            guard connection == self.connection else { return }
            self.connection = nil
            isOpen = false
            outgoing = []
        }

        func sessionTicket(of connection: ConnectionID) -> TLSSessionTicket? { nil }
    }

    private let session: ClientSession
    private let eventBuffer = EventBuffer()
    private var transport = Transport()
    private var lastTicket: UInt64 = 0
    /// Results of calls that have ended, as text.
    private let outcomes = Locked<[String]>([])

    /// - Parameter settings: must have numeric addresses and no TLS.
    package init(_ settings: ClientSettings) throws(MartletError) {
        try settings.check()
        session = ClientSession(
            ClientBlueprint(identifier: 1, settings: settings, tls: nil, eventBuffer: eventBuffer))
    }

    // MARK: - The application

    package func connect() {
        session.connect(makeTicket(), note { "connected \($0.user)" }, in: &transport)
    }

    package func send(_ message: OutgoingMessage) {
        do throws(MartletError) {
            let completion = note { (receipt: Receipt) in "sent \(receipt)" }
            let pending = PendingSend(
                ticket: makeTicket(), send: try EncodedSend(message), completion: completion)
            session.take(.send(pending), in: &transport)
        } catch {
            outcomes.withLock { $0.append("\(error)") }
        }
    }

    package func subscribe(to filter: String, _ grade: Grade) {
        ask(.subscribe(filter, grade))
    }

    package func setWill(to destination: Destination, _ text: String) {
        do throws(MartletError) {
            ask(try .will(to: destination, .text(text), delaySeconds: 0))
        } catch {
            outcomes.withLock { $0.append("\(error)") }
        }
    }

    /// A request with these parameters; every answer is decoded as each kind of answer.
    package func ask(_ operation: MRT.Operation, _ parameters: [UInt8]) {
        ask(ClientRequest(operation: operation, parameters: parameters))
    }

    private func ask(_ request: ClientRequest) {
        let completion = note { (answer: ClientAnswer) -> String in
            var listing = GroupListing()
            let isRead = (try? listing.take(answer)) != nil
            let presence = Presence(answer.content)
            let details = GroupDetails(answer.content, after: "m")
            return "answered \(isRead) \(presence != nil) \(details != nil)"
        }
        session.take(
            .request(
                PendingRequest(ticket: makeTicket(), request: request, completion: completion)),
            in: &transport)
    }

    package func cancel(_ ticket: UInt64) { session.cancel(ticket) }

    package func acknowledge(_ record: InboxRecord) {
        session.acknowledge(record, in: &transport)
    }

    package func leave() { session.leave(false, {}, in: &transport) }

    /// The events that the application has not read.
    package func takeEvent() -> Client.Event? { eventBuffer.takeNext() }

    /// The number of numbered messages that the application has not read.
    package var numberedCount: Int { eventBuffer.numberedCount }

    private func makeTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    private func note<Value: Sendable>(
        _ describe: @escaping @Sendable (Value) -> String
    ) -> Completion<Value> {
        let outcomes = outcomes
        return { result in
            let outcome: String
            switch result {
            case .success(let value): outcome = describe(value)
            case .failure(let error): outcome = "\(error)"
            }
            outcomes.withLock { $0.append(outcome) }
        }
    }

    package func takeOutcomes() -> [String] {
        outcomes.withLock { outcomes in
            defer { outcomes = [] }
            return outcomes
        }
    }

    // MARK: - The network and the time

    /// The server of the present attempt or connection.
    package var server: ServerAddress { session.server }
    package var isDialing: Bool { transport.connection != nil && !transport.isOpen }
    package var isOpen: Bool { transport.isOpen }
    package var isConnected: Bool { session.machine.isConnected }

    package func open() {
        guard isDialing else { return }
        transport.isOpen = true
        session.opened(in: &transport)
        settle()
    }

    package func receive(_ bytes: UnsafeRawBufferPointer) {
        guard transport.isOpen else { return }
        session.received(bytes, in: &transport)
        settle()
    }

    package func lose() {
        guard transport.connection != nil else { return }
        transport.connection = nil
        transport.isOpen = false
        transport.outgoing = []
        session.closed("lost", in: &transport)
        settle()
    }

    package func pass(milliseconds: UInt64) {
        transport.now = transport.now.advanced(byMilliseconds: milliseconds)
        if transport.now >= session.nextDeadline { session.timePassed(in: &transport) }
        settle()
    }

    /// The client's outgoing bytes, which are then sent.
    package func takeOutgoing() -> [UInt8] {
        let bytes = transport.outgoing
        transport.outgoing = []
        session.service(in: &transport)
        settle()
        return bytes
    }

    private func settle() { session.formerConnection = nil }
}
