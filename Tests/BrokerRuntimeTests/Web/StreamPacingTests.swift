// Event streams that are opened at once take turns.

import BrokerTerms
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite struct `Event streams` {
    private static func connection(_ slot: Int) -> ConnectionID {
        ConnectionID(loop: 0, slot: slot, generation: 1)
    }

    @Test func `that arrive in one turn are opened in as many as they need, in their order`() {
        var pacing = RequestPacing(perTurnMaximum: WebLimits.streamsPerTurnMaximum)
        let count = 3 * WebLimits.streamsPerTurnMaximum + 5
        var arriving = (0..<count).map(Self.connection)
        var opened: [ConnectionID] = []
        var turns: UInt64 = 0
        while !arriving.isEmpty {
            turns += 1
            var openedNow = 0
            for connection in arriving {
                if pacing.admits(in: turns) {
                    opened.append(connection)
                    openedNow += 1
                } else {
                    pacing.wait(connection)
                }
            }
            #expect(openedNow <= WebLimits.streamsPerTurnMaximum)
            arriving = pacing.takeNext { _ in true }
        }
        #expect(turns == 4)
        #expect(opened == (0..<count).map(Self.connection))
        let isEmpty = pacing.isEmpty
        #expect(isEmpty)
    }

    @Test func `that close while they wait take no place of others`() {
        var pacing = RequestPacing(perTurnMaximum: WebLimits.streamsPerTurnMaximum)
        for slot in 0..<100 { pacing.wait(Self.connection(slot)) }
        let next = pacing.takeNext { $0.slot >= 90 }
        #expect(next == (90..<100).map(Self.connection))
        let isEmpty = pacing.isEmpty
        #expect(isEmpty)
    }

    @Test func `subscribe to a bounded number of filters in a turn, and one stream always to all`()
    {
        let wanted = StreamSubscriptions(
            filterCount: 64, packets: [UInt8](repeating: 0, count: 640))
        var streams = Dictionary(
            uniqueKeysWithValues: (0..<250).map { (Self.connection($0), wanted) })
        var turns = 0
        while !streams.isEmpty, turns < 100 {
            turns += 1
            let next = StreamSubscriptions.next(of: streams, room: 1 << 20) { _ in true }
            #expect(
                next.count == min(streams.count, WebLimits.streamFiltersPerTurnMaximum / 64))
            for (connection, _) in next { streams[connection] = nil }
        }
        #expect(turns == 16)
        let large = StreamSubscriptions(
            filterCount: 2 * WebLimits.streamFiltersPerTurnMaximum, packets: [0])
        let only = [Self.connection(1): large]
        #expect(StreamSubscriptions.next(of: only, room: 1) { _ in true }.count == 1)
        #expect(StreamSubscriptions.next(of: only, room: 0) { _ in true }.isEmpty)
        #expect(StreamSubscriptions.next(of: only, room: 1) { _ in false }.isEmpty)
    }
}
