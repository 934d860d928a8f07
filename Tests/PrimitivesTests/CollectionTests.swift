// The collections of the core: slab, ring, arena and table, each compared with the standard
// library.

import Testing

@testable import Primitives

@Suite struct `A slab` {
    @Test func `keeps objects in place, and reuses slots`() {
        var slab = Slab<String>(minimumCapacity: 1)
        let handles = (0..<100).map { slab.insert("object \($0)") }
        #expect(handles.map(\.index.place) == Array(0..<100))
        for place in stride(from: 0, to: 100, by: 2) as StrideTo<UInt32> {
            slab.remove(Index(place: place))
        }
        let count = slab.count
        #expect(count == 50)
        let again = slab.insert("again")
        #expect(again.index.place == 98, "the place that was left last is taken first")
        let texts = [1, 98, 99].map { slab[Index(place: $0)] }
        #expect(texts == ["object 1", "again", "object 99"])
        let places = slab.places.map(\.place)
        #expect(places == Array(0..<100))
        let last = slab.places.after(97).map(\.place)
        #expect(last == [98, 99])
    }

    @Test func `detects a handle whose slot was reused`() {
        var slab = Slab<Int>()
        let first = slab.insert(1)
        let removed = slab.remove(first.index)
        let isThere = [slab.contains(first), slab.contains(first.index)]
        #expect(removed == 1 && isThere == [false, false])
        let second = slab.insert(2)
        #expect(second.index == first.index)
        let known = [
            slab.contains(first), slab.contains(second), slab.contains(.none),
            slab.contains(Handle(index: Index(place: 77), generation: 1)),
        ]
        #expect(known == [false, true, false, false])
        let handle = slab.handle(second.index)
        #expect(handle == second)
    }

    @Test func `stores an absent index in the size of a present one`() {
        struct Chain { @Packed var next: Index<Chain>? = nil }
        var chain = Chain()
        #expect(chain.next == nil)
        chain.next = Index(place: 7)
        #expect(chain.next?.place == 7)
        #expect(MemoryLayout<Chain>.size == 4)
        chain.next = nil
        #expect(chain.next == nil)
    }

    @Test func `destroys each remaining object once`() {
        final class Ends { var count = 0 }
        struct Guest: ~Copyable {
            let ends: Ends
            deinit { ends.count += 1 }
        }
        let ends = Ends()
        do {
            var slab = Slab<Guest>(minimumCapacity: 2)
            for _ in 0..<10 { _ = slab.insert(Guest(ends: ends)) }
            slab.remove(Index(place: 3))
            slab.remove(Index(place: 4))
            #expect(ends.count == 2)
        }
        #expect(ends.count == 10)
    }
}

@Suite struct `A ring` {
    @Test func `frees the memory of a burst, and keeps its elements`() {
        var ring = Ring<Int>()
        for element in 0..<5_000 { ring.append(element) }
        #expect(ring.mask == 8_191)
        for element in 0..<4_990 {
            let first = ring.removeFirst()
            #expect(first == element)
        }
        #expect(ring.mask < 256)
        let middle = ring.remove(at: 5)
        #expect(middle == 4_995)
        for element in 0..<300 { ring.append(element) }
        #expect(ring.count == 309 && ring[4] == 4_994 && ring[5] == 4_996 && ring[308] == 299)
    }

    /// The memory of a window of ordinary size comes and goes with no message.
    @Test func `keeps the memory of a small window`() {
        var ring = Ring<Int>()
        for element in 0..<128 { ring.append(element) }
        for _ in 0..<128 { ring.removeFirst() }
        #expect(ring.mask == 127)
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `behaves like an array`(seed: UInt64) {
        var random = Draw(state: seed)
        var ring = Ring<UInt64>()
        var model: [UInt64] = []
        for step in 0..<2_000 as Range<UInt64> {
            switch random.below(10) {
            case 0..<5:
                ring.append(step)
                model.append(step)
            case 5..<8 where !model.isEmpty:
                let first = ring.removeFirst()
                #expect(first == model.removeFirst())
            case 8 where !model.isEmpty:
                let position = Int(random.below(UInt64(model.count)))
                let removed = ring.remove(at: position)
                #expect(removed == model.remove(at: position))
            case 9 where random.below(20) == 0:
                ring.removeAll()
                model.removeAll()
            default: break
            }
            let (contents, isEmpty) = ((0..<ring.count).map { ring[$0] }, ring.isEmpty)
            #expect(contents == model)
            #expect(isEmpty == model.isEmpty)
        }
    }

    @Test func `inserts elements at a position`() {
        var ring = Ring<Int>()
        for number in 0..<20 { ring.append(number) }
        for _ in 0..<15 { ring.removeFirst() }
        for number in 20..<30 { ring.append(number) }
        ring[0] += 100
        let ends = [ring[0], ring[14]]
        #expect(ends == [115, 29])
    }
}

@Suite struct `A byte arena` {
    @Test func `returns ranges that stay valid while it grows`() {
        var arena = ByteArena(capacity: 1)
        let texts = (0..<200).map { String(repeating: "x\($0)", count: $0 % 7) }
        let ranges = texts.map { text in Array(text.utf8).withUnsafeBytes { arena.append($0) } }
        for (text, range) in zip(texts, ranges) {
            let found = String(decoding: range.bytes(in: arena.bytes), as: UTF8.self)
            #expect(found == text)
        }
        let count = arena.count
        #expect(count == texts.reduce(0) { $0 + $1.utf8.count })
    }

    @Test func `is filled in place, emptied, and frees the memory of a huge message`() {
        var arena = ByteArena(capacity: 64)
        let range = arena.reserve(10_000)
        for index in 0..<10_000 { arena.mutableBytes(range)[index] = UInt8(index & 255) }
        let byte = range.bytes(in: arena.bytes)[513]
        #expect(byte == 1)
        arena.removeAll(retainingAtMost: 100)
        let (count, capacity) = (arena.count, arena.capacity)
        #expect(count == 0 && capacity == 100)
        let nothing = arena.reserve(0)
        #expect(nothing == ByteRange(offset: 0, count: 0))
    }
}

@Suite struct `A byte key table` {
    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `behaves like a dictionary`(seed: UInt64) {
        var random = Draw(state: seed)
        var table = ByteKeyTable<String>()
        var model: [String: Index<String>] = [:]
        for step in 0..<6_000 as Range<UInt32> {
            let name = "key \(random.below(500))"
            Array(name.utf8).withUnsafeBytes { key in
                let value = table.value(for: key)
                #expect(value == model[name])
                if model[name] == nil {
                    table.insert(Index(place: step), for: key)
                    model[name] = Index(place: step)
                } else if random.below(3) > 0 {
                    let removed = table.remove(key)
                    #expect(removed == model.removeValue(forKey: name))
                }
            }
            let count = table.count
            #expect(count == model.count)
        }
    }

    @Test func `distinguishes keys with a common prefix, and stores the empty one`() {
        var table = ByteKeyTable<String>()
        let names = ["", "a", "aa", "aaa", "aab"]
        for (value, name) in names.enumerated() {
            Array(name.utf8).withUnsafeBytes { table.insert(Index(place: UInt32(value)), for: $0) }
        }
        for (value, name) in names.enumerated() {
            let found = Array(name.utf8).withUnsafeBytes { table.value(for: $0) }
            #expect(found?.place == UInt32(value))
        }
        let removed = Array("ab".utf8).withUnsafeBytes { table.remove($0) }
        let count = table.count
        #expect(removed == nil && count == 5)
    }
}

/// Random numbers that a seed repeats.
private struct Draw {
    var state: UInt64

    mutating func below(_ bound: UInt64) -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state >> 33) % bound
    }
}
