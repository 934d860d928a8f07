// The load: all clients of a run on one event loop, as a state machine. This file has the state and
// the calls of the loop; stages, connecting, publishing and the clients' cycles have files of their
// own.

import BrokerTerms
import Glibc
import NetTransport
import Primitives
import WireFormat

/// Connects clients, sends the messages of the plan, and accounts for every delivery.
struct LoadDriver: LoopHandler, ~Copyable {
    /// The stage of a run. Exits in parentheses.
    enum Stage: String {
        /// Clients connect and subscribe (leaving, warmingUp, enqueuing, cutting, holding,
        /// finished).
        case connecting
        /// Offline: the receivers disconnect (connecting).
        case leaving
        /// Load, not measured yet (measuring).
        case warmingUp = "warming up"
        /// Load, measured (settling).
        case measuring
        /// Offline: the publisher fills the queues (returning, finished).
        case enqueuing
        /// Offline: the receivers return and empty them (finished).
        case returning
        /// Will: the sessions are cut, their wills arrive (finished).
        case cutting
        /// Nothing more is sent; messages in flight may arrive (finished).
        case settling
        /// Idle connections are held (finished).
        case holding
        /// The harness was interrupted: clients disconnect, so that no will is sent (finished).
        case disconnecting
        case finished
    }

    struct Client {
        enum Phase {
            case absent
            /// Disconnected, and scheduled to connect.
            case queued
            case connecting
            /// CONNECT was sent.
            case introduced
            case subscribing
            case ready
            /// Closed by this side; the loop has not reported it yet.
            case leaving
        }

        var connection = ConnectionID(rawValue: 0)
        var phase = Phase.absent
        /// When its connect was scheduled.
        var since: UInt64 = 0
        /// A device that is awake goes to sleep when it has all messages below this number.
        var goal: UInt64 = 0
    }

    struct Publisher {
        var nextSequence: UInt64 = 0
        /// Messages that are not delivered to all receivers, or not confirmed.
        var inFlight = 0
        var isListed = false
        /// Sends up to this number are confirmed, and those of `confirmedBeyond` after it: bit 0 is
        /// the next number.
        var confirmedThrough: UInt64 = 0
        var confirmedBeyond: UInt64 = 0
    }

    let plan: Plan
    let target: LoadTarget
    let mqtt: MQTTCodec?
    /// When the run began; stamps count from here.
    let origin = monotonicNanoseconds()
    var stage = Stage.connecting
    /// The reason why the run ended early; nil if it did not.
    var failure: String?

    /// Receivers first, then publishers, unless they are the same.
    var clients: ContiguousArray<Client>
    var clientBySlot: ContiguousArray<UInt32>
    var toConnect: Range<Int>
    /// Clients that return, from `reconnectsBegun` on.
    var reconnects: ContiguousArray<UInt32> = []
    var reconnectsBegun = 0
    var connectsUnderWay = 0
    var connectsBegun: UInt64 = 0
    var connectStart: UInt64
    var readyCount = 0
    /// The number of clients that must be ready before the run continues.
    var readyGoal: Int
    var ticket: TLSSessionTicket?
    private(set) var tlsSummary: TLSSummary?
    /// The group of `group`, once the broker has created it.
    var group: [UInt8] = []
    /// Wake-ups of `sleepy` that were due.
    var wakesDue: UInt64 = 0

    var publishers: ContiguousArray<Publisher>
    var listedPublishers: ContiguousArray<UInt32> = []
    /// One for each pair, or one for all.
    var sources: ContiguousArray<OutgoingSource>
    /// Outstanding receipts of each message in a window, by publisher and sequence number.
    var awaited: ContiguousArray<UInt32>
    let awaitedMask: UInt64
    /// Open loop: messages that were due since `paceStart`, of all publishers.
    var scheduledCount: UInt64 = 0
    var paceStart: UInt64 = 0

    var sequences: ReceiverSequences
    var tally = LoadTally()
    /// The measurements, up to the last second; `recentLatencies` is added to them.
    var latencies = Histogram()
    var recentLatencies = Histogram()
    var intervals: [Interval] = []
    var intervalStart: Mark?
    var samples: [Sample] = []
    var lastSample: Sample
    var progress: ProgressLine
    var stageStart: UInt64
    var stageEnd: UInt64 = .max
    var lastProgress: UInt64

    init(_ plan: Plan, _ target: LoadTarget) {
        self.plan = plan
        self.target = target
        mqtt = plan.mqtt
        clients = ContiguousArray(repeating: Client(), count: plan.clientCount)
        clientBySlot = ContiguousArray(repeating: 0, count: LoadDriver.slotCount(for: plan))
        toConnect = 0..<(plan.scenario == .offline ? plan.receiverCount : plan.clientCount)
        readyGoal = toConnect.count
        publishers = ContiguousArray(repeating: Publisher(), count: plan.publisherCount)
        sources = LoadDriver.makeSources(of: plan)
        let window: Int
        if case .window(let count) = plan.pace { window = count } else { window = 1 }
        let capacity = 1 << (Int.bitWidth - (window - 1).leadingZeroBitCount)
        awaitedMask = UInt64(capacity - 1)
        awaited = ContiguousArray(repeating: 0, count: capacity * plan.publisherCount)
        sequences = ReceiverSequences(
            rowCount: plan.receiverCount
                * (plan.topology == .everybody ? plan.publisherCount : 1))
        connectStart = origin
        lastProgress = origin
        stageStart = origin
        lastSample = Sample(nanoseconds: origin)
        progress = ProgressLine(isWanted: !plan.isQuiet)
        listedPublishers.reserveCapacity(plan.publisherCount)
    }

    deinit {
        for source in sources { source.bytes.deallocate() }
    }

    /// Connections that the loop must have room for: a returning client's old one may still be
    /// closing.
    static func slotCount(for plan: Plan) -> Int {
        plan.clientCount * (plan.scenario.reconnects ? 2 : 1) + 1
    }

    // MARK: - Calls of the loop

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        guard plan.isWebSocket else {
            introduce(Int(clientBySlot[connection.slot]), in: &loop)
            return
        }
        let handshake = WebSocketClient.handshake(host: plan.host)
        loop.write(handshake.count, to: connection) { $0.write(bytes: handshake.span.bytes) }
    }

    mutating func received(
        _ range: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        if plan.isWebSocket { return receivedFrames(range, from: connection, in: &loop) }
        let client = Int(clientBySlot[connection.slot])
        let bytes = UnsafeRawBufferPointer(rebasing: loop.arena[..<range.endOffset])
        let now = monotonicNanoseconds()
        var offset = Int(range.offset)
        let awaited = takePackets(bytes, at: &offset, of: client, at: now, in: &loop)
        burstEnded(of: client, at: now, in: &loop)
        return Consumption(consumed: offset - Int(range.offset), awaiting: awaited)
    }

    /// Takes all whole packets. Returns how many bytes the next one needs, as far as it is known.
    @inline(__always)
    private mutating func takePackets(
        _ bytes: UnsafeRawBufferPointer, at offset: inout Int, of client: Int, at now: UInt64,
        in loop: inout EventLoop
    ) -> Int {
        var inbox: UInt64 = 0
        defer { acknowledgeBurst(of: client, inbox: inbox, in: &loop) }
        while true {
            switch PacketFrame.next(
                in: bytes.bytes, at: offset, packetMaximum: loop.configuration.packetMaximum)
            {
            case .incomplete(let minimum): return minimum
            case .packet(let frame):
                offset = frame.endOffset
                take(frame, bytes: bytes, from: client, at: now, inbox: &inbox, in: &loop)
            case .malformed, .tooLarge:
                fail("the broker sent what is no packet")
                offset = bytes.count
                return 0
            }
        }
    }

    /// Takes the packets of all whole frames; a broker sends whole packets in each.
    private mutating func receivedFrames(
        _ range: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        let client = Int(clientBySlot[connection.slot])
        let bytes = UnsafeRawBufferPointer(rebasing: loop.arena[..<range.endOffset])
        var offset = Int(range.offset)
        if clients[client].phase == .connecting {
            switch WebSocketClient.readAnswer(UnsafeRawBufferPointer(rebasing: bytes[offset...])) {
            case .incomplete: return Consumption(consumed: 0)
            case .refused:
                fail("the broker refused the handshake of WebSocket")
                return Consumption(consumed: Int(range.count))
            case .accepted(let byteCount):
                offset += byteCount
                introduce(client, in: &loop)
            }
        }
        let now = monotonicNanoseconds()
        while true {
            switch WebSocketClient.readFrame(bytes, at: offset) {
            case .incomplete(let minimum):
                burstEnded(of: client, at: now, in: &loop)
                return Consumption(consumed: offset - Int(range.offset), awaiting: minimum)
            case .packets(let content):
                offset = content.lowerBound
                let frame = UnsafeRawBufferPointer(rebasing: bytes[..<content.upperBound])
                _ = takePackets(frame, at: &offset, of: client, at: now, in: &loop)
                if offset != content.upperBound { fail("a frame ends within a packet") }
                offset = content.upperBound
            case .control(let end): offset = end
            case .malformed:
                fail("the broker sent what is no frame")
                return Consumption(consumed: Int(range.count))
            }
        }
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {
        let client = Int(clientBySlot[connection.slot])
        guard clients[client].connection == connection else { return }
        let phase = clients[client].phase
        clients[client].phase = .absent
        clients[client].connection = ConnectionID(rawValue: 0)
        switch phase {
        case .ready, .leaving: readyCount -= 1
        case .connecting, .introduced, .subscribing: connectsUnderWay -= 1
        case .absent, .queued: break
        }
        guard stage != .leaving, stage != .disconnecting, stage != .finished else { return }
        if phase == .leaving {
            hasLeft(client)
            return
        }
        if isStalledReader(client) {
            tally.stalledLost += 1
            return
        }
        tally.connectionsLost += 1
        if phase != .ready || stage == .enqueuing {
            fail(explain(cause, loop.closeDetail(of: connection)))
        }
    }

    // The driver has no listeners, and one thread.
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func woken(in loop: inout EventLoop) {}
    mutating func stopping(in loop: inout EventLoop) {}

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        preconditionFailure("the load sets no deadlines: \(deadline) of \(connection)")
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        let now = monotonicNanoseconds()
        if stage != .disconnecting, stage != .finished, Interruption.hasCome {
            disconnectAll(at: now, in: &loop)
        }
        switch stage {
        case .connecting, .returning: connectMore(at: now, in: &loop)
        case .warmingUp, .measuring, .settling:
            if plan.scenario == .sleepy { wakeDevices(at: now) }
            if plan.scenario.reconnects { connectMore(at: now, in: &loop) }
            if stage != .settling, plan.scenario != .churn { publish(at: now, in: &loop) }
        case .enqueuing: publish(at: now, in: &loop)
        case .leaving, .cutting, .holding, .disconnecting, .finished: break
        }
        advance(at: now, in: &loop)
        if now >= lastSample.nanoseconds + 1_000_000_000 { sample(at: now) }
        progress.show(stage, fraction: fraction(at: now), tally: tally, at: now)
        loop.nextWake = loop.now.advanced(byMilliseconds: 10)
    }

    // MARK: - Packets

    private mutating func take(
        _ frame: PacketFrame, bytes: UnsafeRawBufferPointer, from client: Int, at now: UInt64,
        inbox: inout UInt64, in loop: inout EventLoop
    ) {
        switch mqtt?.read(frame, in: bytes) ?? MRTCodec.read(frame, in: bytes) {
        case .delivery(let payload, let acknowledgement, let qos):
            if acknowledgement > 0 {
                if let mqtt {
                    mqtt.acknowledge(
                        acknowledgement, qos: qos, to: clients[client].connection, in: &loop)
                } else {
                    inbox = acknowledgement
                }
            }
            takeDelivery(payload.bytes(in: bytes), of: client, at: now)
        case .notice(let acknowledgement):
            inbox = max(inbox, acknowledgement)
        case .confirmed(let number):
            confirm(number, of: plan.publisher(ofClient: client))
        case .releaseWanted(let identifier):
            mqtt?.release(identifier, to: clients[client].connection, in: &loop)
        case .released(let identifier):
            mqtt?.complete(identifier, to: clients[client].connection, in: &loop)
        case .sendRefused(_, let code):
            tally.sendsRefused += 1
            fail("the broker refused a send with code \(hexadecimal(code))")
        case .connected(let sendsMaximum):
            if tlsSummary == nil { tlsSummary = loop.tlsSummary(of: clients[client].connection) }
            checkWindow(against: sendsMaximum)
            becameConnected(client, in: &loop)
        case .granted(let content):
            wasGranted(client, Array(content.bytes(in: bytes)), at: now, in: &loop)
        case .refused(let code): fail("the broker refused a client with code \(hexadecimal(code))")
        case .disconnected(let code):
            fail("the broker sent a client away with code \(hexadecimal(code))")
        case .malformed: fail("the broker sent a packet that makes no sense here")
        case .ignored: break
        }
    }

    private mutating func takeDelivery(
        _ payload: UnsafeRawBufferPointer, of receiver: Int, at now: UInt64
    ) {
        // A broker may send any packet to any client, also to one without subscriptions.
        guard plan.isReceiver(receiver), let stamp = Stamp(payload),
            stamp.publisher < plan.publisherCount,
            stamp.sequence < publishers[Int(stamp.publisher)].nextSequence,
            plan.topology == .everybody || Int(stamp.publisher) == receiver
        else {
            tally.foreign += 1
            return
        }
        let publisher = Int(stamp.publisher)
        let verdict = sequences.take(stamp.sequence, row: sequenceRow(receiver, publisher))
        guard verdict != .duplicate else { return }
        lastProgress = now
        if isStalledReader(receiver) {
            tally.deliveredToStalled += 1
            return
        }
        tally.delivered += 1
        switch stage {
        case .measuring where !plan.scenario.reconnects:
            recentLatencies.record(now - min(now, origin + stamp.nanoseconds))
        case .cutting:
            recentLatencies.record(now - min(now, stageStart))
        case .connecting, .leaving, .warmingUp, .measuring, .enqueuing, .returning, .settling,
            .holding, .disconnecting, .finished:
            break
        }
        if stage != .returning, stage != .cutting { receipt(publisher, stamp.sequence) }
    }

    func sequenceRow(_ receiver: Int, _ publisher: Int) -> Int {
        plan.topology == .everybody ? receiver * plan.publisherCount + publisher : receiver
    }

    /// Receivers that do not read during the measurement are the last ones.
    func isStalledReader(_ client: Int) -> Bool {
        plan.isReceiver(client) && client >= plan.receiverCount - plan.stalledCount
    }

    /// The advice if the first connection has failed: there is no load yet.
    private func explain(_ cause: TransportCloseCause, _ detail: String) -> String {
        let detail = detail.isEmpty ? "" : ": \(detail)"
        guard tally.connected == 0 else { return "a connection failed, \(cause)\(detail)" }
        switch cause {
        case .networkFailure, .connectTimeout:
            return "no connection to \(plan.host), port \(plan.port)\(detail)"
        case .peerClosed where mqtt == nil:
            return
                "\(plan.host), port \(plan.port), closed the connection when it was spoken to in "
                + "mrt: to a broker of MQTT say --dialect mqtt311 or mqtt5"
        case .peerClosed where plan.tls == nil:
            return
                "\(plan.host), port \(plan.port), closed the connection when it was spoken to in "
                + "\(plan.dialect.rawValue): it may want --tls"
        default:
            return "no client came in at \(plan.host), port \(plan.port), \(cause)\(detail)"
        }
    }

    /// In MQTT 5 the broker announces its receive maximum; exceeding it would be a fault of the
    /// load.
    private mutating func checkWindow(against maximum: UInt16) {
        guard plan.qos > 0, case .window(let window) = plan.pace, window > Int(maximum) else {
            return
        }
        fail("the broker takes \(maximum) unconfirmed sends at a time: use --window \(maximum)")
    }

    private func hexadecimal(_ code: UInt8) -> String { "0x" + String(code, radix: 16) }
}
