// A program that the broker asks and tells: the relay of wake-ups, the moderator. It has the real
// client machine, keeps its inbox record in flash, and fails as devices do. It is no client of the
// profile: the oracle does not expect messages at it.

import ClientCore
import Primitives
import WireFormat

/// Which program a run has in addition to its clients.
enum Service: String {
    case relay
    case moderator

    /// The token with which it logs in.
    var token: String { "token-of-\(rawValue)" }
}

class ServiceClient: NetworkedClient {
    let index: Int
    let service: Service
    let context: SimulationContext
    let network: SimulatedNetwork
    let habits: ClientHabits
    var oracle: Oracle { context.oracle }
    /// The oracle knows no session of it.
    var session: Int? { nil }

    /// Nil while it has no power.
    private(set) var machine: ClientMachine?
    private(set) var link: Int?

    // Its flash.
    private var inbox: MRT.Resume?
    private var cookie: UInt64?
    private var boots: UInt64 = 0

    private let memory: MachineMemory
    private var dueEntered = Instant.never
    private var isStartComing = false

    init(
        _ index: Int, _ service: Service, context: SimulationContext, network: SimulatedNetwork
    ) {
        self.index = index
        self.service = service
        self.context = context
        self.network = network
        // It has no index of a user or of a device.
        habits = ClientHabits(
            user: -1, device: -1, sessionExpirySeconds: service == .relay ? .max : 300,
            keepAliveSeconds: 60, inboxWindow: 64, acknowledgementDelayMilliseconds: 0)
        memory = MachineMemory(
            names: Array((service.rawValue + service.token).utf8), receiveCount: 65_536,
            outboxCount: 65_536, transmitCount: 4_096)
    }

    deinit { machine = nil }

    var isConnected: Bool { machine?.isConnected ?? false }
    /// Whether all its requests and publications are answered.
    var isAtRest: Bool { true }

    // MARK: What a service does

    /// An event of the broker has arrived.
    func take(_ event: EventText) {}
    /// A request is answered.
    func take(_ response: MRT.Response) {}
    /// A publication is answered.
    func take(_ result: MRT.SendResult) {}
    /// It has lost its power, and all that it remembered.
    func forget() {}
    /// The time that it asked for with ``Occurrence/serviceDue(service:)`` has come.
    func due() {}

    func request<Part: RequestPart>(
        _ operation: MRT.Operation, _ part: Part, from source: [UInt8]
    ) -> UInt64? {
        source.withUnsafeBytes { try? machine?.request(operation, part, from: $0) }
    }

    /// Publishes bytes on a topic. Returns the number of the publication; nil without a connection,
    /// or without memory for it.
    func publish(_ payload: [UInt8], on topic: String) -> UInt64? {
        let name = Array(topic.utf8)
        var packet = MRT.Send(
            grade: .durable, number: 0, target: .topic(ByteRange(offset: 0, count: name.count)),
            payload: ByteRange(offset: name.count, count: payload.count))
        packet.isRaw = true
        return (name + payload).withUnsafeBytes { try? machine?.send(packet, from: $0) }
    }

    // MARK: Power

    func powerOn() {
        guard machine == nil else { return }
        boots += 1
        var record = ClientRecord(outboxEpoch: boots << 8 | UInt64(index) + 1)
        record.inbox = inbox
        record.cookie = cookie
        var connect = MRT.Connect()
        let nameCount = service.rawValue.utf8.count
        connect.device = ByteRange(offset: 0, count: nameCount)
        connect.credential = .token(
            ByteRange(offset: nameCount, count: memory.nameByteCount - nameCount))
        connect.keepAliveSeconds = habits.keepAliveSeconds
        connect.inboxWindow = habits.inboxWindow
        connect.sessionExpirySeconds = habits.sessionExpirySeconds
        machine = ClientMachine(
            identity: memory.identity(connect), memory: memory.ofClient, record: record,
            options: ClientOptions(jitterSeed: UInt64(index) << 32 | boots))
        note("switched on")
        start()
    }

    func powerOff() {
        guard machine != nil else { return }
        note("loses its power")
        machine = nil
        if let link { network.clientDied(link) }
        link = nil
        forget()
        context.enter(
            .clientPowered(client: index),
            after: context.serviceRandom.milliseconds(in: 10...10_000))
    }

    // MARK: Life

    func start() {
        isStartComing = false
        guard machine != nil else { return }
        machine?.start(now: context.now)
        runOn()
    }

    func leave() {
        guard isConnected else { return }
        note("leaves")
        machine?.leave(now: context.now)
        runOn()
    }

    func timePassed() {
        dueEntered = .never
        guard machine != nil else { return }
        machine?.timePassed(now: context.now)
        runOn()
    }

    func linkOpened(_ opened: Int, isAccepted: Bool) {
        guard link == opened, machine != nil else { return }
        if isAccepted {
            machine?.opened(now: context.now)
        } else {
            link = nil
            machine?.closed(now: context.now)
        }
        runOn()
    }

    func linkClosed(_ closed: Int) {
        guard link == closed, machine != nil else { return }
        link = nil
        machine?.closed(now: context.now)
        runOn()
    }

    func received(_ bytes: [UInt8]) {
        guard machine != nil, !bytes.isEmpty else { return }
        var rest = bytes[...]
        while !rest.isEmpty {
            guard let space = machine?.receiveSpace() else { return }
            let count = min(rest.count, space.count)
            space.copyBytes(from: rest.prefix(count))
            machine?.received(byteCount: count, now: context.now)
            rest = rest.dropFirst(count)
            drainEvents()
        }
        runOn()
    }

    func runOn() {
        drainEvents()
        while let count = machine?.transmit(into: memory.transmit, now: context.now), count > 0 {
            guard let link else {
                preconditionFailure("\(service) has \(count) bytes and no connection")
            }
            network.write(Array(memory.transmit[..<count])[...], on: link, towards: .broker)
        }
        if let deadline = machine?.nextDeadline, deadline < dueEntered, deadline != .never {
            dueEntered = deadline
            context.eventQueue.enter(.clientDue(client: index), at: max(deadline, context.now))
        }
    }

    private func drainEvents() {
        while let event = machine?.nextEvent(now: context.now) {
            switch event {
            case .connectionWanted: link = network.open(client: index)
            case .connected(let connected):
                cookie = connected.accepted.resumeCookie
                if connected.isNewInbox { storeInbox(number: 0) }
                note("connected, session \(String(connected.accepted.sessionEpoch, radix: 16))")
            case .delivered(let deliver), .groupChanged(let deliver, _): handle(deliver)
            case .resolved(let result): take(result)
            case .answered(let response): take(response)
            case .carried, .credentialAnswered: break
            case .disconnected(let end): disconnected(end)
            }
        }
    }

    /// Processes a message together with its record, then acknowledges it.
    private func handle(_ deliver: MRT.Deliver) {
        let payload = machine?.bytes(deliver.payload).map { $0 } ?? []
        if deliver.kind == .brokerEvent { take(EventText(payload)) }
        guard deliver.number > 0 else { return }
        storeInbox(number: deliver.number)
        machine?.acknowledge(through: deliver.number, now: context.now)
    }

    private func storeInbox(number: UInt64) {
        guard let record = machine?.inboxRecord else { return }
        inbox = MRT.Resume(epoch: record.epoch, lastNumber: number)
    }

    private func disconnected(_ end: ClientDisconnection) {
        note("disconnected, \(end.reason.map { "\($0.name)" } ?? "no reason")")
        switch end.reason {
        case .malformedPacket, .protocolError, .receiveMaximumExceeded, .packetTooLarge,
            .badUserNameOrPassword, .notAuthorized:
            oracle.fail(.nobodyIsAtFault, "the \(service) is sent away: \(end.reason!.name)")
        default: break
        }
        if let link { network.closedByClient(link) }
        link = nil
        guard end.retryAt == nil, !isStartComing else { return }
        isStartComing = true
        context.enter(
            .clientStarted(client: index),
            after: context.serviceRandom.milliseconds(in: 10...20_000))
    }

    func note(_ text: @autoclosure () -> String) {
        oracle.history.note(.broker, "the \(service): \(text())")
    }

    // It is no client of an application.
    func send(_ order: Order) {}
    func subscribe(_ filter: Int, _ grade: MRT.Grade) {}
    func unsubscribe(_ filter: Int) {}
}

/// An event of the broker: a JSON object that the broker has written, without spaces. Texts of a
/// run need no escapes.
struct EventText {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private func rest(behind key: String) -> ArraySlice<UInt8>? {
        bytes.firstRange(of: Array(key.utf8)).map { bytes[$0.upperBound...] }
    }

    /// The text of the first member with this name.
    func text(_ name: String) -> String? {
        guard let rest = rest(behind: "\"\(name)\":\""),
            let end = rest.firstIndex(of: UInt8(ascii: "\""))
        else { return nil }
        return String(decoding: rest[..<end], as: UTF8.self)
    }

    /// The number of the first member with this name.
    func number(_ name: String) -> Int64? { number(behind: "\"\(name)\":") }

    private func number(behind key: String) -> Int64? {
        guard let rest = rest(behind: key) else { return nil }
        let digits = rest.prefix { (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
        return Int64(String(decoding: digits, as: UTF8.self))
    }

    /// The ids of the targets.
    var targets: [UInt64] {
        let key = Array("{\"id\":".utf8)
        return bytes.ranges(of: key).compactMap { range in
            let digits = bytes[range.upperBound...].prefix { (0x30...0x39).contains($0) }
            return UInt64(String(decoding: digits, as: UTF8.self))
        }
    }

    /// The version of the template for a kind; 0 if there is none.
    func template(_ kind: String) -> Int { Int(number(behind: "\"\(kind)\":{\"v\":") ?? 0) }

    /// Whether there is a target of a kind.
    func has(kind: String) -> Bool { rest(behind: "\"kind\":\"\(kind)\"") != nil }

    /// The message whose text it has: `t`/`b`, or the payload of a publication.
    var message: Int? {
        guard let text = text("b") ?? text("payload"), let end = text.firstIndex(of: ";") else {
            return nil
        }
        return Int(text[..<end])
    }
}
