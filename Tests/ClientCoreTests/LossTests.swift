// Connections break at every byte and the device loses power at every step. The guarantees of both
// sides must hold: every message once, in order, in both directions.

import Primitives
import TestSurroundings
import Testing
import WireFormat

@testable import ClientCore

/// A device that stores what PROTOCOL.md section 8 tells it to, on a line that breaks.
private struct World {
    var random: SeededRandom
    var client: Harness
    var broker = ModelBroker()
    var isOpen = false

    // The device's flash.
    var record = ClientRecord(outboxEpoch: 0xE)
    var unresolved: [(number: UInt64, text: String)] = []

    // What ought to be, and what is.
    var sendCount = 0
    var sent: [String] = []
    var refused: Set<String> = []
    var enqueued: [String] = []
    var processed: [String] = []

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        client = Harness(record: record, seed: seed)
        client.machine.start(now: client.now)
    }

    mutating func step(isCalm: Bool) throws {
        switch random.next(in: isCalm ? 30..<100 : 0..<100) {
        case 0..<4: loseConnection()
        case 4..<6: try losePower()
        case 6..<18: try send()
        case 18..<30:
            let text = "in-\(enqueued.count)"
            enqueued.append(text)
            broker.enqueue(text, gap: random.next() % 3)
        case 30..<60: transmit()
        case 60..<90: receive()
        default:
            // Where nothing else is to do, time passes.
            if client.nextDeadline != .never { client.passToDeadline() }
            if !isCalm && !client.isConnected && isOpen { loseConnection() }
        }
        handleEvents()
    }

    private mutating func send() throws {
        let text = "out-\(sendCount)"
        guard let number = try? client.send(text) else { return }
        sendCount += 1
        sent.append(text)
        unresolved.append((number, text))
        record.outbox = client.outboxRecord
    }

    private mutating func transmit() {
        guard isOpen else { return }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 96, alignment: 8)
        defer { buffer.deallocate() }
        let count = client.machine.transmit(into: buffer, now: client.now)
        // The line may break in the middle of what was written.
        if random.next() % 40 == 0 {
            broker.receive(Array(buffer[..<Int(random.next() % UInt64(count + 1))]))
            loseConnection()
        } else {
            broker.receive(Array(buffer[..<count]))
        }
    }

    private mutating func receive() {
        guard isOpen else { return }
        let bytes = broker.takeOutgoing(1 + Int(random.next() % 60))
        var rest = bytes[...]
        while !rest.isEmpty {
            let space = client.machine.receiveSpace()
            let count = min(space.count, rest.count)
            space.copyBytes(from: rest.prefix(count))
            client.machine.received(byteCount: count, now: client.now)
            rest = rest.dropFirst(count)
            handleEvents()
        }
    }

    private mutating func handleEvents() {
        while let event = client.machine.nextEvent(now: client.now) {
            switch event {
            case .connectionWanted:
                isOpen = true
                client.machine.opened(now: client.now)
            case .connected: record.inbox = client.inboxRecord
            case .delivered(let deliver), .groupChanged(let deliver, _):
                // The effect and the record are one write.
                let text = client.machine.bytes(deliver.payload).dropFirst()
                processed.append(String(decoding: text, as: UTF8.self))
                client.machine.acknowledge(through: deliver.number, now: client.now)
                record.inbox = client.inboxRecord
            case .resolved(let result):
                guard let index = unresolved.firstIndex(where: { $0.number == result.number })
                else { continue }
                if result.reason != .sent { refused.insert(unresolved[index].text) }
                unresolved.remove(at: index)
                record.outbox = client.outboxRecord
            case .disconnected:
                isOpen = false
                broker.connectionLost()
            case .answered, .carried, .credentialAnswered: break
            }
        }
    }

    private mutating func loseConnection() {
        guard isOpen else { return }
        isOpen = false
        broker.connectionLost()
        client.machine.closed(now: client.now)
    }

    private mutating func losePower() throws {
        isOpen = false
        broker.connectionLost()
        let now = client.now
        client = Harness(record: record, seed: random.next())
        client.now = now
        for (number, text) in unresolved { try client.send(text, number: number) }
        client.machine.start(now: client.now)
    }
}

@Suite("A client on a bad line")
struct LossTests {
    @Test(arguments: UInt64(1)...200)
    func `gets and sends every message once and in order`(seed: UInt64) throws {
        var world = World(seed: seed)
        for _ in 0..<400 { try world.step(isCalm: false) }
        for _ in 0..<1500 { try world.step(isCalm: true) }
        #expect(world.broker.complaints == [])
        #expect(world.processed == world.enqueued)
        #expect(world.unresolved.isEmpty)
        #expect(world.broker.accepted == world.sent.filter { !$0.hasSuffix("7") })
        #expect(world.refused == Set(world.sent.filter { $0.hasSuffix("7") }))
        #expect(world.sent.count > 10 && world.enqueued.count > 10)
    }
}
