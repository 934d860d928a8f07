// The node's flash while it loses its power twice, at any two steps of its writes: what was stored
// and not settled is there, in order; what was settled durably never comes back; and the node can
// always go on. The same scenario as in ../../c-client/test/log.c, for the log of the node in C.

import Board

/// What the world outside of the node knows.
struct Model {
    /// Numbers whose message was stored whole, and is still to be sent.
    var stored: UInt64 = 0
    /// Results were seen up to here.
    var settled: UInt64 = 0
}

func check(_ condition: Bool, _ text: @autoclosure () -> String) {
    if condition { return }
    fatalError(text())
}

enum TornWrites {
    /// Lives of a scenario: what a node does between two losses of power.
    static let workCount = 14

    static func payload(_ number: UInt64) -> [UInt8] {
        // Lengths of one unit to the longest.
        [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 1 + Int(number * 29 % 64))
    }

    static func start(_ model: inout Model, _ place: String) -> MessageRing {
        var ring = MessageRing(newEpoch: 7)
        check(ring.epoch == 7, "\(place): another numbering")
        check(ring.highest >= model.stored, "\(place): \(ring.highest), stored \(model.stored)")
        check(ring.highest <= model.stored + 1, "\(place): \(ring.highest) was never given")
        check(ring.seen <= max(model.settled, ring.seen), "\(place): seen")
        // What is there follows what is settled without a gap, up to the last.
        var number = ring.seen
        var room = InlineArray<64, UInt8>(repeating: 0)
        while let (found, length) = ring.next(into: &room) {
            check(found == number + 1, "\(place): \(found) after \(number)")
            let expected = payload(found)
            check(length == expected.count, "\(place): length of \(found)")
            for index in 0..<length {
                check(room[index] == expected[index], "\(place): content of \(found)")
            }
            number = found
            ring.take(length: length)
        }
        check(number == ring.highest, "\(place): nothing after \(number) of \(ring.highest)")
        check(
            ring.seen <= model.settled, "\(place): \(ring.seen) settled, not \(model.settled)")
        model.stored = ring.highest
        // What the node has to settle again was settled before.
        model.settled = ring.seen
        return ring
    }

    static func append(_ ring: inout MessageRing, _ model: inout Model) -> Bool {
        let isTaken = payload(ring.highest + 1).withUnsafeBytes { ring.append($0) }
        if isTaken, flash_is_off() == 0 { model.stored = ring.highest }
        return isTaken
    }

    /// Settles one by one, and stores whenever there is room: the ring is full most of the time.
    static func live(_ ring: inout MessageRing, _ model: inout Model) {
        for work in 0..<workCount where flash_is_off() == 0 {
            if work % 5 == 4 {
                _ = append(&ring, &model)
            } else if ring.seen < ring.highest {
                ring.settle(through: ring.seen + 1)
                // The broker may be told, and the model knows it, whether power is there or not.
                model.settled = ring.seen
            }
        }
    }

    /// All that is there is settled, and the ring takes messages again, more than it has room for.
    static func goOn(_ ring: inout MessageRing, _ model: inout Model, _ place: String) {
        for _ in 0..<40 {
            while append(&ring, &model) {}
            check(ring.seen < ring.highest, "\(place): full of nothing")
            ring.settle(through: ring.seen + 1)
            model.settled = ring.seen
        }
        _ = start(&model, place)
    }

    /// A ring that is full, after as many laps as are asked for.
    static func fill(_ settledCount: Int) -> Model {
        var model = Model()
        flash_set_power(.max)
        flash_format()
        var ring = MessageRing(newEpoch: 7)
        for _ in 0..<settledCount {
            while append(&ring, &model) {}
            ring.settle(through: ring.seen + 1)
            model.settled = ring.seen
        }
        while append(&ring, &model) {}
        return model
    }

    static func run() -> Int {
        var pairs = 0
        for settledCount in 0..<6 {
            let full = fill(settledCount)
            flash_save(0)
            var first: UInt32 = 0
            while true {
                flash_load(0)
                var model = full
                flash_set_power(.max)
                var ring = start(&model, "full after \(settledCount)")
                flash_set_power(first)
                live(&ring, &model)
                let wasCut = flash_is_off() != 0
                flash_save(1)
                var second: UInt32 = 0
                while wasCut {
                    var after = model
                    flash_load(1)
                    let place = "\(settledCount), \(first), \(second)"
                    flash_set_power(.max)
                    var ring = start(&after, place)
                    flash_set_power(second)
                    live(&ring, &after)
                    let wasCutAgain = flash_is_off() != 0
                    flash_set_power(.max)
                    var last = start(&after, place)
                    goOn(&last, &after, place)
                    pairs += 1
                    guard wasCutAgain else { break }
                    second += 1
                }
                guard wasCut else { break }
                first += 1
            }
        }
        return pairs
    }

    /// A node that loses its power in the middle of settling, again and again, while its ring is
    /// full: whatever that eats up, it starts and can go on.
    static func exhaust() {
        var random: UInt32 = 1
        for round in 0..<50 {
            var model = fill(round)
            for life in 0..<20 {
                flash_set_power(.max)
                var ring = start(&model, "round \(round), life \(life)")
                random = random &* 1_664_525 &+ 1_013_904_223
                // Erasing is two steps, a header eight and an entry four.
                flash_set_power((random >> 8) % 14)
                for _ in 0..<2 where flash_is_off() == 0 && ring.seen < ring.highest {
                    ring.settle(through: ring.seen + 1)
                    model.settled = ring.seen
                }
            }
            flash_set_power(.max)
            var ring = start(&model, "after round \(round)")
            goOn(&ring, &model, "after round \(round)")
        }
    }

    /// The record: the last whole one is found, whatever two writes are torn.
    static func record() -> Int {
        var pairs = 0
        for count in 0..<(2 * Int(BOARD_FLASH_SECTOR) / 40 + 3) {
            for first in UInt32(0)..<14 {
                for second in UInt32(0)..<14 {
                    flash_set_power(.max)
                    flash_format()
                    var store = RecordStore()
                    for _ in 0..<count {
                        store.record.starts += 1
                        store.store()
                    }
                    var stored = UInt32(count)
                    for power in [first, second, .max] {
                        flash_set_power(.max)
                        var store = RecordStore()
                        let found = store.record.starts
                        check(found == stored, "record \(count), \(first), \(second): \(found)")
                        flash_set_power(power)
                        store.record.starts += 1
                        store.store()
                        // The last step may have been the last of the record.
                        flash_set_power(.max)
                        let after = RecordStore().record.starts
                        check(after == stored || after == stored + 1, "record: \(after)")
                        stored = after
                    }
                    check(stored > UInt32(count), "record \(count): nothing is stored any more")
                    pairs += 1
                }
            }
        }
        return pairs
    }
}

@main
struct Program {
    static func main() {
        print("    \(TornWrites.run()) pairs of torn writes of the ring")
        TornWrites.exhaust()
        print("    \(TornWrites.record()) pairs of torn writes of the record")
    }
}
