// Which node is asked for a copy.

import BrokerCore
import Replication
import Testing

@testable import BrokerRuntime

@Suite struct `A node that needs a copy` {
    private func report(
        _ name: String, _ part: NodeReport.Part, _ sequence: UInt64
    ) -> NodeReport {
        NodeReport(
            cluster: StoreIdentity(high: 1, low: 1),
            node: NodeLife(name: Array(name.utf8), life: 1), part: part,
            term: Term(raw: 1), sequence: LogSequence(raw: sequence), address: [], webAddress: [],
            leaseMilliseconds: 2_000, unixMilliseconds: 0, shards: 0)
    }

    private var reports: [NodeReport] {
        [
            report("a", .primary, 100), report("b", .standby, 90), report("c", .standby, 95),
            report("d", .resigned, 99),
        ]
    }

    private func next(_ sources: CopySources) -> String? {
        sources.choose(from: reports).map { String(decoding: $0.node.name, as: UTF8.self) }
    }

    @Test func `asks the standby with the most records, and each other node after a failure`() {
        var sources = CopySources()
        var asked: [String] = []
        for _ in 0..<6 {
            guard let name = next(sources) else { break }
            asked.append(name)
            sources.noteFailure(of: Array(name.utf8), now: 0)
        }
        #expect(asked == ["c", "b", "a", "c", "b", "a"])
        #expect(sources.choose(from: [report("d", .resigned, 99)]) == nil)
    }

    @Test func `waits longer for each failure of the node that it asks`() {
        var sources = CopySources()
        let standby = report("c", .standby, 95)
        var waits: [UInt64] = []
        for _ in 0..<8 {
            waits.append(sources.waitMilliseconds(before: standby, now: 5_000))
            sources.noteFailure(of: standby.node.name, now: 5_000)
        }
        #expect(waits == [0, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
        #expect(sources.waitMilliseconds(before: standby, now: 64_999) == 1)
        #expect(sources.waitMilliseconds(before: standby, now: 65_000) == 0)
        #expect(sources.waitMilliseconds(before: report("b", .standby, 1), now: 5_000) == 0)
    }

    @Test func `remembers no more nodes than a cluster has`() {
        var sources = CopySources()
        for number in 0..<10_000 { sources.noteFailure(of: Array("node \(number)".utf8), now: 0) }
        #expect(next(sources) == "c")
    }
}
