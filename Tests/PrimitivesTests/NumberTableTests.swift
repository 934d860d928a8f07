// The table of numbers against the standard library's dictionary.
import Testing

@testable import Primitives

@Suite struct NumberTableTests {
    @Test func `an empty table has no number`() {
        let table = NumberTable()
        #expect(table.value(for: 0) == nil)
        #expect(table.count == 0)
    }

    @Test func `a number keeps its last index`() {
        var table = NumberTable()
        table.set(1, for: 7)
        table.set(2, for: 7)
        #expect(table.value(for: 7) == 2)
        #expect(table.count == 1)
        #expect(table.remove(7) == 2)
        #expect(table.remove(7) == nil)
    }

    @Test func `it behaves like a dictionary under random operations`() {
        var table = NumberTable()
        var model: [UInt64: UInt32] = [:]
        var state: UInt64 = 1
        for step in 0..<20_000 {
            // A linear congruential generator: the test is the same each time.
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let key = state >> 33 & 0x3FF
            if state >> 60 < 8 {
                table.set(UInt32(step), for: key)
                model[key] = UInt32(step)
            } else {
                #expect(table.remove(key) == model.removeValue(forKey: key))
            }
            #expect(table.count == model.count)
        }
        for key in 0..<UInt64(0x400) { #expect(table.value(for: key) == model[key]) }
    }
}
