// The events of a turn by the cores that they enter.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore
@testable import Dialects

@Suite("The events of a turn, by cores")
final class TurnEventsTests {
    private var decoder = PacketDecoder(
        loop: 0, terms: [ListenerTerms(allowsAnonymous: true)], packetMaximum: 1 << 20)
    private var others = [TurnEvents(), TurnEvents()]
    private var own = TurnEvents()

    private func connection(_ slot: Int) -> ConnectionID {
        ConnectionID(loop: 0, slot: slot, generation: 1)
    }

    private func event(_ slot: Int) -> Event { .outgoingDrained(connection(slot)) }

    private func slots(_ events: ContiguousArray<Event>) -> [Int] {
        events.map { $0.connection.slot }
    }

    /// Connections with an odd slot are in the second core, those above 100 in the third one.
    private func distribute() -> [[ConnectionID]] {
        var asked: [[ConnectionID]] = []
        decoder.distribute(into: &others, own: &own) { owner, events in
            asked.append([owner] + events.map(\.connection))
            return owner.slot > 100 ? 2 : owner.slot % 2
        }
        return asked
    }

    private func addBurst(of slot: Int, _ count: Int, at offset: Int) {
        let first = decoder.events.count
        for _ in 0..<count { decoder.events.append(event(slot)) }
        decoder.runs.append(
            EventRun(
                owner: connection(slot), events: first..<first + count,
                bytes: ByteRange(offset: offset, count: 10)))
    }

    @Test func `each list has its events in order, with their bursts`() {
        addBurst(of: 2, 2, at: 0)
        decoder.events.append(event(1))
        addBurst(of: 3, 1, at: 10)
        addBurst(of: 101, 3, at: 20)
        decoder.events.append(event(4))
        addBurst(of: 3, 2, at: 30)
        let asked = distribute()
        #expect(asked.map(\.count) == [3, 2, 2, 4, 2, 3])
        #expect(slots(decoder.events) == [2, 2, 4])
        #expect(slots(others[0].events) == [1, 3, 3, 3])
        #expect(slots(others[1].events) == [101, 101, 101])
        #expect(decoder.runs.map(\.events) == [0..<2])
        #expect(others[0].runs.map(\.events) == [1..<2, 2..<4])
        #expect(others[0].runs.map { Int($0.bytes.offset) } == [10, 30])
        #expect(others[1].runs.map(\.events) == [0..<3])
        #expect(own.isEmpty)
    }

    @Test func `a burst without events concerns no core`() {
        addBurst(of: 2, 0, at: 0)
        addBurst(of: 3, 1, at: 0)
        #expect(distribute().count == 1)
        #expect(decoder.events.isEmpty && decoder.runs.isEmpty)
        #expect(slots(others[0].events) == [3])
    }

    @Test func `the sensors of a gateway are in the core of the gateway`() {
        // Events of channels are in the burst of the connection that they came over.
        let channel = ConnectionID(
            loop: 0, slot: ConnectionID.channelSlotsStart + 8, generation: 1)
        decoder.events.append(.outgoingDrained(channel))
        decoder.runs.append(
            EventRun(
                owner: connection(7), events: 0..<1, bytes: ByteRange(offset: 0, count: 4)))
        #expect(distribute() == [[connection(7), channel]])
        #expect(decoder.events.isEmpty)
        #expect(others[0].events.map(\.connection) == [channel])
    }

    @Test func `the memory of a turn serves the next ones`() {
        func turn() {
            addBurst(of: 2, 100, at: 0)
            addBurst(of: 3, 100, at: 10)
            _ = distribute()
            #expect(decoder.events.count == 100)
            // The core of the second list, and then that of the first one, takes its events.
            decoder.exchange(with: &others[0])
            clear()
            decoder.exchange(with: &others[0])
            clear()
        }
        func clear() {
            decoder.events.removeAll(keepingCapacity: true)
            decoder.runs.removeAll(keepingCapacity: true)
        }
        func memory() -> [Int] {
            [decoder.events.capacity, own.events.capacity, others[0].events.capacity].sorted()
        }
        for _ in 0..<4 { turn() }
        let before = memory()
        for _ in 0..<4 { turn() }
        #expect(memory() == before && before[0] >= 100)
    }
}
