// The list of groups that everybody may join: its order, and removals while it is long.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct OpenGroupsTests {
    @Test func `keeps its order while groups go and come`() {
        var random = WalkRandom(seed: 5)
        var list = OpenGroups()
        var positions: [Index<Group>: Int] = [:]
        var order: [Index<Group>] = []
        for round in 0..<5_000 as Range<UInt32> {
            if random.below(100) < 55 || order.isEmpty {
                let group = Index<Group>(place: round)
                positions[group] = list.append(group)
                order.append(group)
            } else {
                let group = order.remove(at: Int(random.below(UInt64(order.count))))
                list.remove(at: positions[group]!)
                if list.isSparse {
                    for (position, group) in list.compact().enumerated() {
                        positions[group] = position
                    }
                }
            }
            #expect(list.count == order.count)
        }
        #expect(list.prefix(.max) == order && list.prefix(3) == Array(order.prefix(3)))
        for group in order { #expect(list.group(at: positions[group]!) == group) }
    }
}
