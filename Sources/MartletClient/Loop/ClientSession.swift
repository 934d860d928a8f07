// One client on the background thread: its machine, its connection, and its waiting calls. It is
// the shell around ``ClientMachine``: the machine decides, and this class transports bytes and
// results.

import BrokerTerms
import ClientCore
import NetTransport
import Primitives
import WireFormat

/// A client on the background thread, which alone uses it.
final class ClientSession {
    /// A call that waits until the machine's outbox has room.
    enum Call {
        case send(PendingSend)
        case request(PendingRequest)

        func fail(_ error: MartletError) {
            switch self {
            case .send(let pending): pending.completion(.failure(error))
            case .request(let pending): pending.completion(.failure(error))
            }
        }

        var ticket: UInt64 {
            switch self {
            case .send(let pending): pending.ticket
            case .request(let pending): pending.ticket
            }
        }
    }

    let identifier: UInt64
    let settings: ClientSettings
    let eventBuffer: EventBuffer
    private let tls: ClientTLSContext?
    /// The last session ticket of each server.
    private var tickets: [TLSSessionTicket?]
    private let memory: ClientMemories
    var machine: ClientMachine

    // The connection.
    private(set) var connection: ConnectionID?
    /// A connection that this client has given up and the handler must still remove.
    var formerConnection: ConnectionID?
    private(set) var isOpen = false
    /// The broker has sent something on this connection.
    private(set) var isAnswered = false
    /// Addresses of the server that this attempt has not tried.
    private var addresses: ArraySlice<SocketAddress> = []
    /// A host name must be resolved.
    var wantsResolution = false
    private var isResolving = false
    /// The last error of the attempt, as text.
    private var detail = ""
    /// The errors of the servers that were tried before in this round, with their addresses.
    private var failures: [String] = []
    /// The last granted terms; nil until the first login.
    private var terms: ConnectionTerms?
    private var failedAttempts = 0

    // Waiting calls.
    private var connectWaiters: [UInt64: Completion<ConnectionTerms>] = [:]
    private var leaveWaiters: [@Sendable () -> Void] = []
    private var calls = FIFO<Call>()
    private var sends: [UInt64: PendingSend] = [:]
    private var requests: [UInt64: PendingRequest] = [:]
    /// The subscriptions, to be requested again if a session is new.
    private var subscriptions: [String: Grade] = [:]
    /// Subscriptions that this client requests again, by request id.
    private var renewals: [UInt64: String] = [:]
    /// The will that the application set, to be set again if it was sent.
    private var will: ClientRequest?
    /// The request with which this client sets the will again; 0 for none.
    private var willRenewal: UInt64 = 0
    /// The highest number in the present epoch that was passed to the application.
    private var handedOver: UInt64 = 0

    // Closing.
    /// The error of every further call; nil while the client works.
    private var ending: MartletError?
    private var isLeaving = false
    /// Nothing is left to do, and no further call can be made.
    private(set) var isOver = false

    // The handler's timer.
    var timer = TimerWheel.Token.none
    var timerDeadline = Instant.never

    init(_ blueprint: ClientBlueprint) {
        identifier = blueprint.identifier
        settings = blueprint.settings
        tls = blueprint.tls
        eventBuffer = blueprint.eventBuffer
        memory = ClientMemories(settings)
        tickets = Array(repeating: nil, count: settings.servers.count)
        // A client keeps its sends in memory, so each process begins a new numbering.
        var record = ClientRecord(outboxEpoch: .random(in: 1 ... .max))
        record.inbox = settings.inbox.map { MRT.Resume(epoch: $0.epoch, lastNumber: $0.number) }
        handedOver = settings.inbox?.number ?? 0
        machine = ClientMachine(
            identity: memory.identity, memory: memory.memory, record: record,
            options: ClientOptions(jitterSeed: .random(in: .min ... .max)))
    }

    var nextDeadline: Instant { machine.nextDeadline }

    /// The server of the present attempt or connection.
    var server: ServerAddress { settings.servers[machine.server] }

    // MARK: - Calls of the application

    func connect(
        _ ticket: UInt64, _ completion: @escaping Completion<ConnectionTerms>,
        in loop: inout some ClientTransport & ~Copyable
    ) {
        if let ending {
            completion(.failure(ending))
        } else if let terms, machine.isConnected {
            completion(.success(terms))
        } else {
            connectWaiters[ticket] = completion
            machine.start(now: loop.now)
            service(in: &loop)
        }
    }
    func take(_ call: Call, in loop: inout some ClientTransport & ~Copyable) {
        if let ending {
            call.fail(ending)
        } else if calls.count >= settings.waitingSendsMaximum {
            call.fail(.tooManySends)
        } else {
            calls.append(call)
            service(in: &loop)
        }
    }

    func cancel(_ ticket: UInt64) {
        if let call = calls.remove(where: { $0.ticket == ticket }) {
            call.fail(.cancelled)
        } else if let (number, pending) = sends.first(where: { $0.value.ticket == ticket }) {
            sends[number] = nil
            pending.completion(.failure(.cancelled))
        } else if let (number, pending) = requests.first(where: { $0.value.ticket == ticket }) {
            requests[number] = nil
            pending.completion(.failure(.cancelled))
        } else if let completion = connectWaiters.removeValue(forKey: ticket) {
            completion(.failure(.cancelled))
        }
    }

    func acknowledge(_ record: InboxRecord, in loop: inout some ClientTransport & ~Copyable) {
        // A message of an earlier session may be read late: its number is void.
        guard machine.inboxRecord?.epoch == record.epoch, record.number <= handedOver else {
            return
        }
        machine.acknowledge(through: record.number, now: loop.now)
        service(in: &loop)
    }

    func leave(
        _ endsSession: Bool, _ completion: @escaping @Sendable () -> Void,
        in loop: inout some ClientTransport & ~Copyable
    ) {
        leaveWaiters.append(completion)
        isLeaving = true
        machine.leave(sessionExpirySeconds: endsSession ? 0 : nil, now: loop.now)
        service(in: &loop)
        // Without a connection there is nothing to wait for.
        if connection == nil { end(.closed) }
    }

    // MARK: - The transport

    func resolved(
        _ server: ServerAddress, _ result: NameLookupResult,
        in loop: inout some ClientTransport & ~Copyable
    ) {
        // A result for an attempt that was given up.
        guard isResolving, server == self.server else { return }
        isResolving = false
        switch result {
        case .success(let found): addresses = found[...]
        case .failure(let error): detail = "\(error)"
        }
        tryNextAddress(&loop)
        service(in: &loop)
    }

    func opened(in loop: inout some ClientTransport & ~Copyable) {
        isOpen = true
        isAnswered = false
        machine.opened(now: loop.now)
        service(in: &loop)
    }

    func received(_ bytes: UnsafeRawBufferPointer, in loop: inout some ClientTransport & ~Copyable)
    {
        isAnswered = true
        var rest = bytes
        while !rest.isEmpty, isOpen {
            let room = machine.receiveSpace()
            let part = UnsafeRawBufferPointer(rebasing: rest.prefix(room.count))
            room.copyMemory(from: part)
            machine.received(byteCount: part.count, now: loop.now)
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
            drainEvents(&loop)
        }
        service(in: &loop)
    }

    func closed(_ reason: String, in loop: inout some ClientTransport & ~Copyable) {
        connection = nil
        detail = reason
        if isOpen {
            isOpen = false
            machine.closed(now: loop.now)
        } else {
            tryNextAddress(&loop)
        }
        service(in: &loop)
    }

    func timePassed(in loop: inout some ClientTransport & ~Copyable) {
        machine.timePassed(now: loop.now)
        service(in: &loop)
    }

    private func openTransport(_ loop: inout some ClientTransport & ~Copyable) {
        let server = server
        if let address = SocketAddress(numericHost: server.host, port: server.port) {
            addresses = [address]
            tryNextAddress(&loop)
        } else {
            isResolving = true
            wantsResolution = true
        }
    }

    /// Connects to the next address of the server; if there is none, the attempt has failed.
    private func tryNextAddress(_ loop: inout some ClientTransport & ~Copyable) {
        while let address = addresses.popFirst() {
            do throws(TransportError) {
                connection = try loop.dial(
                    address, tls, serverName: server.host, resuming: tickets[machine.server])
                return
            } catch {
                detail = "\(error)"
            }
        }
        machine.closed(now: loop.now)
    }

    private func closeTransport(_ loop: inout some ClientTransport & ~Copyable) {
        isResolving = false
        wantsResolution = false
        addresses = []
        isOpen = false
        guard let connection else { return }
        // Unsent bytes belong to a connection that has ended; without them the close is orderly.
        loop.close(connection, afterFlush: loop.outgoingByteCount(of: connection) == 0)
        formerConnection = connection
        self.connection = nil
    }

    // MARK: - The machine

    /// Executes everything that has become possible: events, bytes, waiting calls.
    func service(in loop: inout some ClientTransport & ~Copyable) {
        repeat {
            drainEvents(&loop)
            transmit(&loop)
        } while admitCalls()
    }

    private func drainEvents(_ loop: inout some ClientTransport & ~Copyable) {
        while let event = machine.nextEvent(now: loop.now) { handle(event, &loop) }
    }

    private func transmit(_ loop: inout some ClientTransport & ~Copyable) {
        while let connection, isOpen,
            loop.outgoingByteCount(of: connection) < ClientBounds.unsentByteCountMaximum
        {
            let count = machine.transmit(into: memory.transmit, now: loop.now)
            guard count > 0 else { return }
            let bytes = UnsafeRawBufferPointer(rebasing: memory.transmit[..<count])
            // If the bytes are not accepted, the connection is closing, and `closed` follows.
            guard loop.append(bytes, to: connection) else { return }
        }
    }

    /// Passes waiting calls to the machine, in order, while it has room. True if it passed any.
    private func admitCalls() -> Bool {
        var isAnyTaken = false
        while let call = calls.first {
            do throws(ClientError) {
                switch call {
                case .send(let pending): try admit(pending)
                case .request(let pending): try admit(pending)
                }
                isAnyTaken = true
            } catch {
                switch error {
                case .outboxFull: return isAnyTaken
                case .notConnected: call.fail(.notConnected)
                case .refused(let reason): call.fail(.refused(reason, ""))
                }
            }
            _ = calls.popFirst()
        }
        return isAnyTaken
    }

    private func admit(_ pending: PendingSend) throws(ClientError) {
        try checkSize(pending.send.byteCountMaximum)
        let number = try pending.send.bytes.span.bytes.withUnsafeBytes {
            bytes throws(ClientError) in
            try machine.send(pending.send.packet, from: bytes)
        }
        if number > 0 {
            sends[number] = pending
        } else {
            let identifier = pending.send.messageID
            pending.completion(.success(Receipt(messageID: identifier)))
        }
    }

    private func admit(_ pending: PendingRequest) throws(ClientError) {
        try checkSize(pending.request.byteCountMaximum)
        requests[try machine.ask(pending.request)] = pending
    }

    /// A packet that can never fit would wait forever.
    private func checkSize(_ byteCount: Int) throws(ClientError) {
        if byteCount + ClientBounds.outboxEntryOverhead > settings.outboxByteCount {
            throw .refused(.packetTooLarge)
        }
    }

    // MARK: - Events

    private func handle(_ event: ClientEvent, _ loop: inout some ClientTransport & ~Copyable) {
        switch event {
        case .connectionWanted: openTransport(&loop)
        case .connected(let connected): connectedReceived(connected, &loop)
        case .delivered(let packet): deliveredReceived(packet, nil, now: loop.now)
        case .groupChanged(let packet, let change):
            deliveredReceived(packet, change, now: loop.now)
        case .resolved(let result): resultReceived(result)
        case .answered(let response): responseReceived(response)
        case .disconnected(let disconnection): disconnectedReceived(disconnection, &loop)
        case .carried, .credentialAnswered:
            // This client has opened no channel and replaces no credential.
            machine.refuse(.protocolError, now: loop.now)
        }
    }

    private func connectedReceived(
        _ connected: ClientConnected, _ loop: inout some ClientTransport & ~Copyable
    ) {
        let accepted = connected.accepted
        let terms = ConnectionTerms(
            user: String(decoding: machine.bytes(accepted.user), as: UTF8.self),
            isSessionPresent: accepted.isSessionPresent, isNewInbox: connected.isNewInbox,
            sessionEpoch: accepted.sessionEpoch, serverTime: accepted.serverTime,
            keepAliveSeconds: accepted.keepAliveSeconds,
            sessionExpirySeconds: accepted.sessionExpirySeconds,
            inboxWindow: accepted.inboxWindow, sendWindow: accepted.sendWindow,
            messageMaximum: accepted.messageMaximum, payloadMaximum: accepted.payloadMaximum,
            unreadCount: accepted.unreadCount.map { Int($0) }, server: server)
        self.terms = terms
        if connected.isNewInbox { handedOver = 0 }
        if let connection, let ticket = loop.sessionTicket(of: connection) {
            tickets[machine.server] = ticket
        }
        failedAttempts = 0
        failures = []
        eventBuffer.put(.connected(terms))
        for completion in connectWaiters.values { completion(.success(terms)) }
        connectWaiters = [:]
        if !accepted.isSessionPresent { renewSubscriptions() }
        if !accepted.hasWill { renewWill() }
    }

    private func deliveredReceived(
        _ packet: MRT.Deliver, _ change: MRT.GroupEvent?, now: Instant
    ) {
        // A broker that respects the window never causes this, unless the application reads nothing
        // while sessions end: refused deliveries are repeated on the next connection.
        if packet.number > 0, eventBuffer.numberedCount >= numberedCountMaximum {
            machine.refuse(.receiveMaximumExceeded, delivery: packet.number, now: now)
            return
        }
        let body = machine.bytes(ByteRange(offset: 0, count: packet.payload.endOffset))
        let epoch = machine.inboxRecord?.epoch ?? 0
        handedOver = max(handedOver, packet.number)
        eventBuffer.put(.message(IncomingMessage(packet, change, in: body, epoch: epoch)))
    }

    /// The window of a session that has ended, and that of the present one.
    private var numberedCountMaximum: Int { 2 * Int(settings.inboxWindow) }

    private func resultReceived(_ result: MRT.SendResult) {
        let identifier = String(decoding: machine.bytes(result.messageIdentifier), as: UTF8.self)
        let messageID = identifier.isEmpty ? nil : identifier
        guard result.number > 0 else {
            eventBuffer.put(.transientRefused(result.reason, messageID: messageID))
            return
        }
        // No call waits for the result of a send that was cancelled.
        guard let pending = sends.removeValue(forKey: result.number) else { return }
        if result.reason.isFailure {
            pending.completion(.failure(.refused(result.reason, "")))
            return
        }
        var receipt = Receipt(messageID: messageID, refusedCount: result.refusedCount)
        receipt.reference = MessageReference(result.reference)
        receipt.hasReceivers = result.reason != .noMatchingSubscribers
        let body = machine.bytes(ByteRange(offset: 0, count: result.refusals.endOffset))
        var list = MRT.RefusalList(result.refusals, in: body.bytes)
        while let refusal = list.next() {
            let index = Int(refusal.index)
            guard index < pending.send.receivers.count else { continue }
            receipt.refusals.append(
                Receipt.Refusal(user: pending.send.receivers[index], reason: refusal.reason))
        }
        pending.completion(.success(receipt))
    }

    private func responseReceived(_ response: MRT.Response) {
        let content = machine.bytes(response.content)
        if let filter = renewals.removeValue(forKey: response.identifier) {
            guard response.reason.isFailure else { return }
            subscriptions[filter] = nil
            eventBuffer.put(.subscriptionLost(filter: filter, response.reason))
            return
        }
        if response.identifier == willRenewal {
            willRenewal = 0
            if response.reason.isFailure { loseWill(response.reason) }
            return
        }
        guard let pending = requests.removeValue(forKey: response.identifier) else { return }
        if response.reason.isFailure {
            let text = String(decoding: content, as: UTF8.self)
            pending.completion(.failure(.refused(response.reason, text)))
            return
        }
        switch pending.request.lastingEffect {
        case .subscribed(let filter, let grade): subscriptions[filter] = grade
        case .unsubscribed(let filter): subscriptions[filter] = nil
        case .willSet(let request): will = request
        case .willCleared: will = nil
        case nil: break
        }
        pending.completion(
            .success(ClientAnswer(reason: response.reason, content: Array(content))))
    }

    /// The session is new: the subscriptions of the old one are requested again.
    private func renewSubscriptions() {
        for (filter, grade) in subscriptions where !renewals.values.contains(filter) {
            do throws(ClientError) {
                renewals[try machine.ask(.subscribe(filter, grade))] = filter
            } catch {
                subscriptions[filter] = nil
                eventBuffer.put(.subscriptionLost(filter: filter, .quotaExceeded))
            }
        }
    }

    /// The will was sent, or ended with its session: it is set again.
    private func renewWill() {
        guard let will, willRenewal == 0 else { return }
        // A newer one that is in flight is sent again before this, and must not be replaced by it.
        let isNewerUnderWay = requests.values.contains {
            $0.request.operation == .setWill || $0.request.operation == .clearWill
        }
        if isNewerUnderWay { return }
        do throws(ClientError) {
            willRenewal = try machine.ask(will)
        } catch {
            loseWill(.quotaExceeded)
        }
    }

    private func loseWill(_ reason: ReasonCode) {
        will = nil
        eventBuffer.put(.willLost(reason))
    }

    // MARK: - Closing

    private func disconnectedReceived(
        _ disconnection: ClientDisconnection, _ loop: inout some ClientTransport & ~Copyable
    ) {
        let explanation = explanation(disconnection)
        closeTransport(&loop)
        defer { detail = "" }
        if isLeaving {
            end(.closed)
        } else if disconnection.isWithinRound {
            failures.append(explanation)
        } else if let retryAt = disconnection.retryAt {
            failedAttempts += 1
            let failures = (self.failures + [explanation]).joined(separator: "; ")
            eventBuffer.put(
                .disconnected(
                    Disconnection(
                        reason: disconnection.reason,
                        detail: self.failures.isEmpty ? detail : failures,
                        retryMilliseconds: retryAt.milliseconds(since: loop.now))))
            self.failures = []
            if terms == nil, failedAttempts >= settings.firstAttemptsMaximum ?? .max {
                machine.leave(now: loop.now)
                end(.unreachable(failures))
            }
        } else {
            end(.stopped(disconnection.reason ?? .unspecifiedError))
        }
    }

    /// Why an attempt has failed, with the server.
    private func explanation(_ disconnection: ClientDisconnection) -> String {
        let server = settings.servers[disconnection.server]
        guard let reason = disconnection.reason else {
            return "\(server): \(detail.isEmpty ? "no connection" : detail)"
        }
        let named = reason.redirection(machine.bytes(disconnection.text).bytes)
        return "\(server): \(reason.explanation)" + (named.map { ", \($0)" } ?? "")
    }

    /// Ends all waiting calls; the client does nothing more.
    private func end(_ error: MartletError) {
        isOver = isLeaving
        if ending == nil {
            ending = error
            if case .stopped(let reason) = error {
                eventBuffer.finish(reason)
            } else {
                eventBuffer.finish()
            }
        }
        for completion in connectWaiters.values { completion(.failure(error)) }
        connectWaiters = [:]
        for pending in sends.values { pending.completion(.failure(error)) }
        sends = [:]
        for pending in requests.values { pending.completion(.failure(error)) }
        requests = [:]
        while let call = calls.popFirst() { call.fail(error) }
        for completion in leaveWaiters { completion() }
        leaveWaiters = []
    }
}
