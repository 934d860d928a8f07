// Reports that nodes send each other, and what a resignation changes.

import BrokerCore
import Primitives
import Testing

@testable import Replication

@Suite struct `A report of a node` {
    private let report = NodeReport(
        cluster: RecordFixture.cluster, node: NodeLife(name: Array("a".utf8), life: 7),
        part: .primary, term: Term(raw: 3), sequence: LogSequence(raw: 9),
        address: Array("a.example:8883".utf8), webAddress: [], leaseMilliseconds: 2_000,
        unixMilliseconds: 12, shards: 13)

    @Test func `comes back as it was, and is nothing if a byte is missing or added`() {
        let bytes = report.encoded
        #expect(NodeReport(decoding: bytes) == report)
        #expect(NodeReport(decoding: bytes + [0]) == nil)
        for count in bytes.indices {
            #expect(NodeReport(decoding: Array(bytes.prefix(count))) == nil)
        }
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 0xFF
            _ = NodeReport(decoding: damaged)
        }
    }

    @Test func `lets a standby take over at once after a resignation`() throws {
        var scene = ReplicaScene()
        scene.handle(.resigned(Term(raw: 5), through: LogSequence(raw: 8)))
        #expect(scene.replica.role == .standby && scene.requestCount == 0)
        // Of another term, or behind records that it lacks, it means nothing.
        scene.handle(.resigned(.none, through: LogSequence(raw: 1)))
        #expect(scene.requestCount == 0)
        scene.handle(.resigned(.none, through: .start))
        #expect(scene.requestCount == 1)
        scene.answer(.committed(LogSequence(raw: 1)))
        #expect(scene.replica.role == .primary)
    }
}

extension ReplicaScene {
    var requestCount: Int { requests.count }
}
