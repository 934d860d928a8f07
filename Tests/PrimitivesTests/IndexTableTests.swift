// The table of bare indexes against the standard library's dictionary.
import Testing

@testable import Primitives

@Suite struct IndexTableTests {
    /// Keys by index, as the objects would hold them.
    private static func find(
        _ key: UInt64, in table: borrowing IndexTable<UInt64>, _ keys: [UInt64]
    ) -> Index<UInt64>? {
        table.find(table.hash(key)) { keys[Int($0.place)] == key }
    }

    @Test func `an empty table finds nothing`() {
        let table = IndexTable<UInt64>()
        let found = Self.find(1, in: table, [])
        #expect(found == nil)
        let count = table.count
        #expect(count == 0)
    }

    @Test func `it behaves like a dictionary under random operations`() {
        var table = IndexTable<UInt64>()
        var model: [UInt64: Index<UInt64>] = [:]
        var keys: [UInt64] = []
        var state: UInt64 = 1
        for _ in 0..<20_000 {
            // A linear congruential generator: the test is the same each time.
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let key = state >> 33 & 0x3FF
            let found = Self.find(key, in: table, keys)
            #expect(found == model[key])
            if let index = model[key] {
                let hash = table.hash(key)
                let removed = [table.remove(index, hash: hash), table.remove(index, hash: hash)]
                #expect(removed == [true, false])
                model[key] = nil
            } else {
                let index = Index<UInt64>(place: UInt32(keys.count))
                table.insert(index, hash: table.hash(key))
                model[key] = index
                keys.append(key)
            }
            let count = table.count
            #expect(count == model.count)
        }
        for key in 0..<UInt64(0x400) {
            let found = Self.find(key, in: table, keys)
            #expect(found == model[key])
        }
    }

    @Test func `keys with one hash are distinguished by their objects`() {
        var table = IndexTable<UInt64>()
        for index in 0..<20 as Range<UInt32> {
            table.insert(Index(place: index), hash: 5)
        }
        let isRemoved = table.remove(Index(place: 7), hash: 5)
        #expect(isRemoved)
        let found = [13, 7, 19].map { (wanted: UInt32) in
            table.find(5) { $0.place == wanted }?.place
        }
        #expect(found == [13, nil, 19])
        let other = table.find(6) { _ in true }
        #expect(other == nil)
    }
}
