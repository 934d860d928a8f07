// The sequence numbers of a receiver: in order, late, twice.
import Testing

@testable import martlet_bench

@Suite struct ReceiverSequencesTests {
    private func verdicts(of numbers: [UInt64]) -> [ReceiverSequences.Verdict] {
        var sequences = ReceiverSequences(rowCount: 1)
        return numbers.map { sequences.take($0, row: 0) }
    }

    @Test func `consecutive numbers are in order`() {
        #expect(verdicts(of: [0, 1, 2]) == [.inOrder, .inOrder, .inOrder])
    }

    @Test func `a repeated number is a duplicate`() {
        #expect(verdicts(of: [0, 0, 1, 0]) == [.inOrder, .duplicate, .inOrder, .duplicate])
    }

    @Test func `a skipped number may arrive late once`() {
        #expect(verdicts(of: [0, 2, 1, 1]) == [.inOrder, .inOrder, .late, .duplicate])
    }

    @Test func `after a gap of any size no missing number counts as received`() {
        for leap in [UInt64(62), 63, 64, 65, 1000] {
            #expect(
                verdicts(of: [0, leap, leap - 1]) == [.inOrder, .inOrder, .late], "leap \(leap)")
        }
    }

    @Test func `rows are independent`() {
        var sequences = ReceiverSequences(rowCount: 2)
        _ = sequences.take(0, row: 0)
        #expect(sequences.take(0, row: 1) == .inOrder)
        #expect(sequences.duplicateCount == 0)
    }
}
