// What a group of a hundred thousand members costs the store: a change of one of them is one row.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct LargeGroupTests {
    /// What the next commit writes.
    private func written(_ world: World) -> (recordCount: Int, byteCount: Int) {
        #expect(world.beginCommit())
        let batch = world.lastBatch
        #expect(batch.entries.isEmpty && batch.messages.isEmpty, "nobody is told of it")
        let byteCount = batch.records.reduce(0) { $0 + $1.key.count + ($1.value?.count ?? 0) }
        let count = batch.records.count
        world.finishCommit()
        return (count, byteCount)
    }

    @Test func `joining and leaving a hundred thousand writes one small row each`() {
        let world = World()
        world.begin("ann/phone", "zoe/pc")
        let group = world.makeGroup(owner: "ann/phone")
        // In their order, so that the test does not spend its time on sorting.
        world.addMembers((0..<100_000).map { "m\(1_000_000 + $0)" }, to: group)
        world.commit()
        _ = world.lines()
        for _ in 0..<2 {
            world.groups("zoe/pc") { .join($0.appendRange(group)) }
            let join = written(world)
            #expect(join.recordCount == 1 && join.byteCount < 64, "\(join)")
            world.groups("zoe/pc") { .leave($0.appendRange(group)) }
            let leave = written(world)
            #expect(leave.recordCount == 1 && leave.byteCount < 64, "\(leave)")
        }
        #expect(world.counters.groupEventsSkipped == 4)
    }
}
