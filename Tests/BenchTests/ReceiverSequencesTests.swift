// The sequence numbers of a receiver: in order, late, twice.
import Testing

@testable import martlet_bench

@Suite struct ReceiverSequencesTests {
    private func verdicts(of numbers: [UInt64]) -> [ReceiverSequences.Verdict] {
        var sequences = ReceiverSequences(rowCount: 1)
        return numbers.map { sequences.take($0, row: 0) }
    }

    @Test func `numbers that rise by one are in order`() {
        #expect(verdicts(of: [0, 1, 2]) == [.inOrder, .inOrder, .inOrder])
    }

    @Test func `a number that comes again is a duplicate`() {
        #expect(verdicts(of: [0, 0, 1, 0]) == [.inOrder, .duplicate, .inOrder, .duplicate])
    }

    @Test func `a number that was passed over may come late, once`() {
        #expect(verdicts(of: [0, 2, 1, 1]) == [.inOrder, .inOrder, .late, .duplicate])
    }

    @Test func `after a leap of any width nothing before it is taken for seen`() {
        for leap in [UInt64(62), 63, 64, 65, 1000] {
            #expect(
                verdicts(of: [0, leap, leap - 1]) == [.inOrder, .inOrder, .late], "leap \(leap)")
        }
    }

    @Test func `rows do not know each other`() {
        var sequences = ReceiverSequences(rowCount: 2)
        _ = sequences.take(0, row: 0)
        #expect(sequences.take(0, row: 1) == .inOrder)
        #expect(sequences.duplicateCount == 0)
    }
}
