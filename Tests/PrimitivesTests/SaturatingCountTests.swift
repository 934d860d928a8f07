// A count that peers can increase without a limit.

import Primitives
import Testing

@Suite struct SaturatingCountTests {
    @Test func `a count stays at its maximum`() {
        var count = SaturatingCount(.max - 1)
        count += 1
        #expect(count.value == .max)
        count += 1
        #expect(count.value == .max)
        count += SaturatingCount(7)
        #expect(count.value == .max)
    }
}
