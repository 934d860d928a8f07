// The load: all clients of a run on one event loop, as a state machine. This file holds the state,
// the way in from the loop and the stages of a run; connecting and publishing have files of their
// own.

import Glibc
import NetTransport
import Primitives
import WireFormat

/// Connects clients, sends what the plan says, and accounts for every delivery.
struct LoadDriver: LoopHandler, ~Copyable {
    /// Where a run stands. Exits in parentheses.
    enum Stage {
        /// Clients connect and subscribe (leaving, warmingUp, enqueuing, holding, finished).
        case connecting
        /// Offline: the receivers go away (connecting).
        case leaving
        /// Load, not measured yet (measuring).
        case warmingUp
        /// Load, measured (settling).
        case measuring
        /// Offline: the publisher fills the queues (returning, finished).
        case enqueuing
        /// Offline: the receivers come back and empty them (finished).
        case returning
        /// Nothing more is sent; what is on its way may arrive (finished).
        case settling
        /// Idle connections are held (finished).
        case holding
        case finished
    }

    struct Client {
        enum Phase {
            case absent
            case connecting
            case subscribing
            case ready
        }

        var connection = ConnectionID(rawValue: 0)
        var phase = Phase.absent
    }

    struct Publisher {
        var nextSequence: UInt64 = 0
        /// Messages that are not delivered to all, and confirmed, yet.
        var inFlight = 0
        var isListed = false
        /// Sends up to this number are confirmed, and those of `confirmedBeyond` behind it: bit 0
        /// is the next number.
        var confirmedThrough: UInt64 = 0
        var confirmedBeyond: UInt64 = 0
    }

    let plan: Plan
    let target: LoadTarget
    /// When the run began; stamps count from here.
    let origin = monotonicNanoseconds()
    private(set) var stage = Stage.connecting
    /// Why the run ended early; nil when it did not.
    private(set) var failure: String?

    /// Receivers first, then publishers.
    var clients: ContiguousArray<Client>
    var clientBySlot: ContiguousArray<UInt32>
    var toConnect: Range<Int>
    var connectsUnderWay = 0
    var connectsBegun: UInt64 = 0
    var connectStart: UInt64
    var readyCount = 0
    /// So many have to be ready before the run goes on.
    private var readyGoal: Int
    var ticket: TLSSessionTicket?
    private(set) var tlsSummary: TLSSummary?

    var publishers: ContiguousArray<Publisher>
    var listedPublishers: ContiguousArray<UInt32> = []
    var sources: ContiguousArray<OutgoingSource>
    /// Receipts that each message in a window still waits for, by publisher and sequence number.
    var awaited: ContiguousArray<UInt32>
    let awaitedMask: UInt64
    /// Open loop: messages that should have been sent since `paceStart`, over all publishers.
    var scheduledCount: UInt64 = 0
    var paceStart: UInt64 = 0

    private(set) var ledger: ReceiverLedger
    var tally = LoadTally()
    private(set) var latencies = Histogram()
    private(set) var intervals: [Interval] = []
    private var intervalStart: Mark?
    private var stageEnd: UInt64 = .max
    private var lastProgress: UInt64
    private var lastLine: UInt64
    private var lastLineTally = LoadTally()

    init(_ plan: Plan, _ target: LoadTarget) {
        self.plan = plan
        self.target = target
        clients = ContiguousArray(repeating: Client(), count: plan.clientCount)
        clientBySlot = ContiguousArray(repeating: 0, count: plan.clientCount + 1)
        toConnect = 0..<(plan.scenario == .offline ? plan.receiverCount : plan.clientCount)
        readyGoal = toConnect.count
        publishers = ContiguousArray(repeating: Publisher(), count: plan.publisherCount)
        sources = OutgoingSource.all(of: plan)
        let window: Int
        if case .window(let count) = plan.pace { window = count } else { window = 1 }
        let capacity = 1 << (Int.bitWidth - (window - 1).leadingZeroBitCount)
        awaitedMask = UInt64(capacity - 1)
        awaited = ContiguousArray(repeating: 0, count: capacity * plan.publisherCount)
        ledger = ReceiverLedger(
            rowCount: plan.receiverCount
                * (plan.topology == .everybody ? plan.publisherCount : 1))
        connectStart = origin
        lastProgress = origin
        lastLine = origin
        listedPublishers.reserveCapacity(plan.publisherCount)
    }

    deinit {
        for source in sources { source.bytes.deallocate() }
    }

    // MARK: - From the loop

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        introduce(Int(clientBySlot[connection.slot]), in: &loop)
    }

    mutating func received(
        _ range: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        let client = Int(clientBySlot[connection.slot])
        let bytes = UnsafeRawBufferPointer(rebasing: loop.arena[..<range.endOffset])
        let now = monotonicNanoseconds()
        var offset = Int(range.offset)
        var inbox: UInt64 = 0
        while true {
            switch PacketFrame.next(
                in: bytes, at: offset, packetMaximum: loop.configuration.packetMaximum)
            {
            case .incomplete(let minimum):
                acknowledgeBurst(of: client, inbox: inbox, in: &loop)
                return Consumption(consumed: offset - Int(range.offset), awaiting: minimum)
            case .packet(let frame):
                offset = frame.endOffset
                take(frame, bytes, from: client, at: now, &inbox, in: &loop)
            case .malformed, .tooLarge:
                fail("the broker sent what is no packet")
                return Consumption(consumed: Int(range.count))
            }
        }
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: CloseCause, in loop: inout EventLoop
    ) {
        let client = Int(clientBySlot[connection.slot])
        let phase = clients[client].phase
        clients[client] = Client()
        if phase == .ready { readyCount -= 1 }
        guard stage != .leaving, stage != .finished else { return }
        tally.connectionsLost += 1
        if phase != .ready || stage == .enqueuing {
            fail("a connection failed: \(cause) \(loop.closeDetail(of: connection))")
        }
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        preconditionFailure("the load sets no deadlines")
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        let now = monotonicNanoseconds()
        switch stage {
        case .connecting, .returning: connectMore(at: now, in: &loop)
        case .warmingUp, .measuring, .enqueuing: publish(at: now, in: &loop)
        case .leaving, .settling, .holding, .finished: break
        }
        advance(at: now, in: &loop)
        writeLine(at: now)
        loop.nextWake = loop.now.advanced(byMilliseconds: 10)
    }

    // MARK: - Packets

    private mutating func take(
        _ frame: PacketFrame, _ bytes: UnsafeRawBufferPointer, from client: Int, at now: UInt64,
        _ inbox: inout UInt64, in loop: inout EventLoop
    ) {
        let packet =
            plan.dialect == .mrt
            ? MRTCodec.read(frame, in: bytes) : MQTTCodec.read(frame, in: bytes)
        switch packet {
        case .delivery(let payload, let acknowledgement):
            if acknowledgement > 0 {
                if plan.dialect == .mrt {
                    inbox = acknowledgement
                } else {
                    MQTTCodec.writeAcknowledgement(
                        of: acknowledgement, to: clients[client].connection, in: &loop)
                }
            }
            takeDelivery(payload.bytes(in: bytes), of: client, at: now)
        case .confirmed(let number):
            confirm(number, of: client - plan.receiverCount)
        case .sendRefused(_, let code):
            tally.sendsRefused += 1
            fail("the broker refused a send with code \(hexadecimal(code))")
        case .connected:
            if tlsSummary == nil { tlsSummary = loop.tlsSummary(of: clients[client].connection) }
            becameConnected(client, in: &loop)
        case .subscribed: becameReady(client)
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
        guard let stamp = Stamp(payload), stamp.publisher < plan.publisherCount,
            stamp.sequence < publishers[Int(stamp.publisher)].nextSequence,
            plan.topology == .everybody || Int(stamp.publisher) == receiver
        else {
            tally.foreign += 1
            return
        }
        let publisher = Int(stamp.publisher)
        let row =
            plan.topology == .pairs ? receiver : receiver * plan.publisherCount + publisher
        guard ledger.take(stamp.sequence, row: row) != .duplicate else { return }
        tally.delivered += 1
        lastProgress = now
        if stage == .measuring {
            latencies.record(now - min(now, origin + stamp.nanoseconds))
        }
        if stage != .returning { receipt(publisher, stamp.sequence) }
    }

    private func hexadecimal(_ code: UInt8) -> String { "0x" + String(code, radix: 16) }

    // MARK: - Stages

    mutating func fail(_ reason: String) {
        guard failure == nil else { return }
        failure = reason
        finishInterval()
        stage = .finished
    }

    /// Goes on to the next stage when this one is done.
    private mutating func advance(at now: UInt64, in loop: inout EventLoop) {
        switch stage {
        case .connecting:
            if toConnect.isEmpty, readyCount == readyGoal {
                allConnected(at: now, in: &loop)
            } else if isStalled(at: now) {
                fail("\(readyGoal - readyCount) clients wait for the broker to let them in")
            }
        case .leaving:
            guard readyCount == 0 else { return }
            stage = .connecting
            toConnect = plan.receiverCount..<plan.clientCount
            readyGoal = toConnect.count
        case .warmingUp where now >= stageEnd:
            stage = .measuring
            stageEnd = now + UInt64(plan.seconds * 1e9)
            latencies.removeAll()
            startInterval()
        case .measuring where now >= stageEnd:
            finishInterval()
            stage = .settling
        case .settling where isAllDelivered || isStalled(at: now):
            stage = .finished
        case .holding where now >= stageEnd:
            finishInterval()
            stage = .finished
        case .enqueuing where tally.confirmed == plan.limit * UInt64(plan.publisherCount):
            finishInterval()
            stage = .returning
            toConnect = 0..<plan.receiverCount
            lastProgress = now
            startInterval()
        case .returning where isAllDelivered:
            finishInterval()
            stage = .finished
        case .warmingUp, .measuring, .enqueuing, .returning:
            if isStalled(at: now) {
                fail("nothing arrived for \(LoadDriver.stallNanoseconds / 1_000_000_000) s")
            }
        case .settling, .holding, .finished:
            break
        }
    }

    private mutating func allConnected(at now: UInt64, in loop: inout EventLoop) {
        lastProgress = now
        switch plan.scenario {
        case .connect:
            finishInterval()
            stage = .holding
            stageEnd = now + UInt64(plan.seconds * 1e9)
            startInterval()
        case .offline where toConnect.upperBound == plan.receiverCount:
            stage = .leaving
            for receiver in 0..<plan.receiverCount {
                loop.close(clients[receiver].connection, afterFlush: true)
            }
        case .offline:
            stage = .enqueuing
            startInterval()
            listAllPublishers()
        case .fanOut, .fanIn, .unicast, .floor:
            stage = .warmingUp
            stageEnd = now + UInt64(plan.warmUpSeconds * 1e9)
            paceStart = now
            listAllPublishers()
        }
    }

    /// Long enough for a broker that syncs its disk in between.
    private static let stallNanoseconds: UInt64 = 5_000_000_000

    private func isStalled(at now: UInt64) -> Bool {
        now > lastProgress + LoadDriver.stallNanoseconds
    }

    /// Deliveries that the messages sent so far ask for.
    var expectedDeliveries: UInt64 {
        publishers.reduce(0) { $0 + $1.nextSequence } * UInt64(plan.receiversPerMessage)
    }

    private var isAllDelivered: Bool { tally.delivered == expectedDeliveries }

    // MARK: - Measuring

    private func mark() -> Mark {
        Mark(
            nanoseconds: monotonicNanoseconds(), tally: tally, broker: target.cost?.read(),
            allocations: plan.allocationCountFile.flatMap(ProcFile.firstWord),
            ownCPUNanoseconds: nanoseconds(of: CLOCK_THREAD_CPUTIME_ID))
    }

    mutating func startInterval() {
        intervalStart = mark()
    }

    private mutating func finishInterval() {
        guard let start = intervalStart else { return }
        intervalStart = nil
        let end = mark()
        let name: String
        let operation: Interval.Operation
        let count: UInt64
        switch stage {
        case .enqueuing:
            (name, operation) = ("enqueue", .enqueue)
            count =
                (end.tally.confirmed - start.tally.confirmed) * UInt64(plan.receiversPerMessage)
        case .connecting, .holding:
            (name, operation) = (stage == .holding ? "idle" : "connect", .connect)
            count = end.tally.connected
        case .leaving, .warmingUp, .measuring, .returning, .settling, .finished:
            (name, operation) = (stage == .returning ? "drain" : "load", .delivery)
            count = end.tally.delivered - start.tally.delivered
        }
        intervals.append(
            Interval(name: name, operation: operation, count: count, start: start, end: end))
    }

    /// One line per counter and second, in emqtt_bench's form.
    private mutating func writeLine(at now: UInt64) {
        guard !plan.isQuiet, now >= lastLine + 1_000_000_000 else { return }
        Report.writeLine(
            seconds: (now - origin) / 1_000_000_000, elapsed: Double(now - lastLine) / 1e9,
            from: lastLineTally, to: tally)
        lastLine = now
        lastLineTally = tally
    }

    mutating func progress(at now: UInt64) {
        lastProgress = now
    }
}
