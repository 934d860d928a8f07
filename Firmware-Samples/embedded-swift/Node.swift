// A sensor node on a bare board, in Embedded Swift: samples a simulated sensor, keeps what is not
// sent yet and one record in flash, talks to a gateway over a UART, carries out commands, sleeps
// between. It runs the repository's own protocol core; the same node in C is in ../c-node.
//
// A command takes effect exactly once: number and effect go into one record of flash, in one
// programming, and only then is the command acknowledged. A power cut before that brings the
// command again; one after it does not.

import Board
import BrokerTerms
import ClientCore
import Primitives
import WireFormat

struct Node: ~Copyable {
    private static let sampleMilliseconds: UInt64 = 250
    private static let receiver: StaticString = "ops"

    private var store = RecordStore()
    private var ring: MessageRing
    private var machine: ClientMachine
    private var serial = mrt_serial()
    private var uart: UnsafeMutablePointer<mrt_uart>
    private var wantsLink = false
    private var isOpen = false
    /// The will is to be set, when there is room for the request.
    private var wantsWill = false
    private let outgoing = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 8)
    private var outgoingStart = 0
    private var outgoingEnd = 0
    private var nextSample = Instant(milliseconds: 0)
    private var readingCount: UInt32 = 0
    private var lastTicks: UInt32 = 0
    private var now = Instant(milliseconds: 0)

    init() {
        store.record.starts += 1
        store.store()
        // No source of randomness on this board: the factory's seed and the count of starts.
        let seed = board_factory_seed() &+ UInt64(store.record.starts) &* 0x9E37_79B9_7F4A_7C15
        ring = MessageRing(newEpoch: seed | 1)
        // All memory is taken here, once, and never given back.
        var connect = MRT.Connect()
        connect.keepAliveSeconds = 10
        connect.inboxWindow = 4
        var record = ClientRecord(outboxEpoch: ring.epoch)
        record.outbox.resultsSeen = ring.seen
        record.outbox.highestUsed = ring.seen
        record.highestSent = ring.highest
        if store.record.inboxEpoch != 0 {
            record.inbox = MRT.Resume(
                epoch: store.record.inboxEpoch, lastNumber: store.record.inboxNumber)
        }
        machine = ClientMachine(
            identity: ClientIdentity(
                connect: connect, bytes: UnsafeRawBufferPointer(start: nil, count: 0)),
            memory: ClientMemory(
                receive: .allocate(byteCount: 512, alignment: 8),
                outbox: .allocate(byteCount: 1024, alignment: 8)),
            record: record, options: ClientOptions(jitterSeed: seed))
        uart = .allocate(capacity: 1)
        uart.initialize(
            to: mrt_uart(
                context: nil, write: { _, bytes, count in board_write(bytes, count) },
                read: { _, bytes, count in board_read(bytes, count) },
                milliseconds: { _ in board_milliseconds() }))
        mrt_serial_init(&serial, uart)
    }

    mutating func run() {
        machine.start(now: now)
        while true {
            let ticks = board_milliseconds()
            now = now.advanced(byMilliseconds: UInt64(ticks &- lastTicks))
            lastTicks = ticks
            machine.timePassed(now: now)
            let hasWorked = carry()
            handleEvents()
            setWill()
            sample()
            feed()
            if !hasWorked { board_sleep() }
        }
    }

    // MARK: - The line

    /// Moves bytes between the machine and the line; true where there were some.
    private mutating func carry() -> Bool {
        guard wantsLink else { return false }
        if !isOpen {
            guard mrt_serial_link(&serial, true) > 0 else { return false }
            isOpen = true
            machine.opened(now: now)
        }
        if outgoingStart == outgoingEnd {
            outgoingStart = 0
            outgoingEnd = machine.transmit(into: outgoing, now: now)
        }
        var moved: Int32 = 0
        if outgoingStart < outgoingEnd {
            let rest = outgoing.baseAddress! + outgoingStart
            moved = mrt_serial_send(
                &serial, rest.assumingMemoryBound(to: UInt8.self),
                UInt32(outgoingEnd - outgoingStart))
            if moved > 0 { outgoingStart += Int(moved) }
        }
        let space = machine.receiveSpace()
        let count = mrt_serial_receive(
            &serial, space.baseAddress!.assumingMemoryBound(to: UInt8.self), UInt32(space.count))
        if count > 0 { machine.received(byteCount: Int(count), now: now) }
        if moved < 0 || count < 0 { machine.closed(now: now) }
        return moved != 0 || count != 0
    }

    private mutating func closeLink() {
        wantsLink = false
        isOpen = false
        outgoingStart = 0
        outgoingEnd = 0
        _ = mrt_serial_link(&serial, false)
    }

    // MARK: - Events

    private mutating func handleEvents() {
        while let event = machine.nextEvent(now: now) {
            switch event {
            case .connectionWanted: wantsLink = true
            case .connected(let connected): self.connected(connected)
            case .delivered(let message) where message.number > 0: execute(message)
            case .resolved:
                // Before the broker is told: what it forgets must not be sent again.
                ring.settle(through: machine.outboxRecord.resultsSeen)
            case .answered(let response) where response.reason == .success:
                // The one thing that is asked for.
                TextLine().say(after: "will kept")
            case .disconnected: closeLink()
            case .delivered, .groupChanged, .answered, .credentialAnswered, .carried: break
            }
        }
    }

    private mutating func connected(_ connected: ClientConnected) {
        if connected.isNewInbox, let inbox = machine.inboxRecord {
            store.record.inboxEpoch = inbox.epoch
            store.record.inboxNumber = inbox.lastNumber
            store.store()
        }
        wantsWill = !connected.accepted.hasWill
    }

    /// Asks for the will, as soon as there is room.
    private mutating func setWill() {
        guard wantsWill, machine.isConnected else { return }
        var text = TextLine()
        text.append(Self.receiver)
        text.append(byte: 0)
        text.append("lost")
        let will = MRT.Will(
            delaySeconds: 0, target: .user(ByteRange(offset: 0, count: 3)), isRaw: false,
            payload: ByteRange(offset: 3, count: text.count - 3))
        let request = text.withBytes { try? machine.request(.setWill, will, from: $0) }
        wantsWill = request == nil
    }

    /// The text of a command is a number.
    private mutating func execute(_ message: MRT.Deliver) {
        var number: UInt32 = 0
        for byte in machine.bytes(message.payload).dropFirst() {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { break }
            number = number &* 10 &+ UInt32(byte - UInt8(ascii: "0"))
        }
        store.record.executed += 1
        store.record.sum &+= number
        store.record.inboxEpoch = machine.inboxRecord!.epoch
        store.record.inboxNumber = message.number
        store.store()
        machine.acknowledge(through: message.number, now: now)
        var text = TextLine()
        text.append(number)
        text.say(after: "executed ")
    }

    // MARK: - The sensor

    /// A reading: which start of the node, which one of it, and what commands have done so far.
    private mutating func sample() {
        guard now >= nextSample else { return }
        nextSample = now.advanced(byMilliseconds: Self.sampleMilliseconds)
        var text = TextLine()
        text.append(store.record.starts)
        text.append(".")
        text.append(readingCount + 1)
        var whole = TextLine()
        whole.append(byte: 0)
        text.withBytes { for byte in $0 { whole.append(byte: byte) } }
        whole.append(" executed=")
        whole.append(store.record.executed)
        whole.append(" sum=")
        whole.append(store.record.sum)
        guard whole.withBytes({ ring.append($0) }) else { return }
        readingCount += 1
        text.say(after: "stored ")
    }

    /// Hands stored readings to the machine, as far as it has room. They have the numbers there
    /// that they have here.
    private mutating func feed() {
        var payload = InlineArray<64, UInt8>(repeating: 0)
        while let (number, length) = ring.next(into: &payload) {
            var source = InlineArray<67, UInt8>(repeating: 0)
            for index in 0..<3 { source[index] = Self.receiver.utf8Start[index] }
            for index in 0..<length { source[3 + index] = payload[index] }
            let send = MRT.Send(
                grade: .once, number: 0, target: .user(ByteRange(offset: 0, count: 3)),
                payload: ByteRange(offset: 3, count: length))
            let given = source.span.withUnsafeBytes { try? machine.send(send, from: $0) }
            guard let given else { return }
            precondition(given == number, "ring and machine count differently")
            ring.take(length: length)
        }
    }
}

@main
struct Program {
    static func main() {
        board_start()
        var node = Node()
        node.run()
    }
}
