// What nodes say to each other about copies of their stores.

import BrokerCore
import Primitives
import Testing

@testable import Replication

@Suite struct `The exchange of a copy` {
    private static let answers: [CopyAnswer] = [
        .pending, .unknown, .refused(Array("no space".utf8)),
        .part(copy: 7, offset: 1 << 40, [1, 2, 3]),
        .ready(
            StoreCopy(
                number: 7, cluster: RecordFixture.cluster, sequence: LogSequence(raw: 9),
                byteCount: 1 << 41, checksum: .max)),
    ]

    @Test(arguments: [CopyQuestion.begin, .part(copy: .max, offset: 3)])
    func `has questions that come back as they were`(question: CopyQuestion) {
        let bytes = question.encoded
        #expect(CopyQuestion(decoding: bytes) == question)
        #expect(CopyQuestion(decoding: bytes + [0]) == nil)
        for count in bytes.indices {
            #expect(CopyQuestion(decoding: Array(bytes.prefix(count))) == nil)
        }
    }

    @Test(arguments: answers)
    func `has answers that come back as they were, and are nothing if a byte is missing`(
        answer: CopyAnswer
    ) {
        let bytes = answer.encoded
        #expect(CopyAnswer(decoding: bytes) == answer)
        #expect(CopyAnswer(decoding: bytes + [0]) == nil)
        for count in bytes.indices {
            #expect(CopyAnswer(decoding: Array(bytes.prefix(count))) == nil)
        }
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 0xFF
            _ = CopyAnswer(decoding: damaged)
        }
    }

    @Test func `takes no part above the limit`() {
        let limit = ReplicationLimits.copyPartByteCount
        let part = { CopyAnswer.part(copy: 1, offset: 0, [UInt8](repeating: 9, count: $0)) }
        #expect(CopyAnswer(decoding: part(limit).encoded) == part(limit))
        #expect(CopyAnswer(decoding: part(limit + 1).encoded) == nil)
    }
}
