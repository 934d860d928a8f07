// The dead letters of a relay against a list that is searched: the same ones stay, and the same
// ones make room.

import TestSurroundings
import Testing

@testable import Push
@testable import Relay

@Suite struct DeadLetterQueueTests {
    private struct Letter: KeptLetter, Equatable {
        let number: Int
        let owner: ExactText
        let byteCount: Int
    }

    /// The same as a list.
    private struct ModelQueue {
        var letters: [Letter] = []
        let countMaximum: Int
        let countOfOwnerMaximum: Int
        let byteCountMaximum: Int

        var byteCount: Int { letters.reduce(0) { $0 + $1.byteCount } }

        mutating func add(_ letter: Letter) -> [Letter] {
            var removed: [Letter] = []
            letters.append(letter)
            while letters.count(where: { $0.owner == letter.owner }) > countOfOwnerMaximum,
                let oldest = letters.firstIndex(where: { $0.owner == letter.owner })
            {
                removed.append(letters.remove(at: oldest))
            }
            while letters.count > countMaximum || byteCount > byteCountMaximum {
                removed.append(letters.removeFirst())
            }
            return removed
        }

        mutating func remove(where isWanted: (Letter) -> Bool) -> [Letter] {
            defer { letters.removeAll(where: isWanted) }
            return letters.filter(isWanted)
        }
    }

    @Test(arguments: 0..<50)
    func `the same letters stay as in a list`(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let countMaximum = random.next(in: 0..<60)
        let countOfOwnerMaximum = random.next(in: 0..<20)
        let byteCountMaximum = random.next(in: 1..<400)
        var queue = DeadLetterQueue<Letter>(
            countMaximum: countMaximum, countOfOwnerMaximum: countOfOwnerMaximum,
            byteCountMaximum: byteCountMaximum)
        var model = ModelQueue(
            countMaximum: countMaximum, countOfOwnerMaximum: countOfOwnerMaximum,
            byteCountMaximum: byteCountMaximum)
        for number in 0..<1_000 {
            let owner = ExactText("u\(random.next(in: 0..<8))")
            switch random.next(in: 0..<20) {
            case 0:
                let digit = random.next(in: 0..<10)
                let isWanted = { (letter: Letter) in letter.number % 10 == digit }
                #expect(queue.remove(where: isWanted) == model.remove(where: isWanted))
            case 1:
                let bit = random.next(in: 0..<2)
                let isWanted = { (letter: Letter) in letter.number % 2 == bit }
                #expect(
                    queue.remove(of: owner, where: isWanted)
                        == model.remove { $0.owner == owner && isWanted($0) })
            default:
                let letter = Letter(
                    number: number, owner: owner, byteCount: random.next(in: 0..<20))
                #expect(queue.add(letter) == model.add(letter))
            }
            #expect(queue.all == model.letters && queue.count == model.letters.count)
            #expect(queue.byteCount == model.byteCount && queue.isEmpty == model.letters.isEmpty)
        }
    }

    @Test func `letters that one user replaces again and again leave nothing behind`() {
        var queue = DeadLetterQueue<Letter>(countMaximum: 100, countOfOwnerMaximum: 1)
        #expect(queue.add(Letter(number: 0, owner: "bob", byteCount: 1)).isEmpty)
        for number in 1...100_000 {
            let removed = queue.add(Letter(number: number, owner: "eve", byteCount: 1))
            #expect(removed.map(\.number) == (number == 1 ? [] : [number - 1]))
        }
        #expect(queue.all.map(\.number) == [0, 100_000])
        #expect(queue.placeCount <= 2 * 2 + RelayLimits.deadLetterSlackCount)
    }
}
