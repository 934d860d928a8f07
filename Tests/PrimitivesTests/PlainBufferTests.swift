// Consecutive values that keep their order while the buffer grows, empties and fills again.

import Primitives
import Testing

@Suite struct PlainBufferTests {
    private func contents(_ buffer: borrowing PlainBuffer<Int>) -> [Int] { Array(buffer.elements) }

    @Test func `keep the order while growing`() {
        var buffer = PlainBuffer<Int>(capacity: 1)
        #expect(contents(buffer) == [])
        for number in 0..<1000 { buffer.append(number) }
        #expect(contents(buffer) == Array(0..<1000))
        buffer[999] = -1
        #expect(contents(buffer) == Array(0..<999) + [-1])
    }

    @Test func `can be emptied and filled again`() {
        var buffer = PlainBuffer<Int>()
        buffer.append(contentsOf: [1, 2, 3])
        buffer.removeAll()
        #expect(contents(buffer) == [])
        buffer.append(4)
        #expect(contents(buffer) == [4])
    }

    @Test func `trap at an invalid index`() async {
        await #expect(processExitsWith: .failure) {
            let buffer = PlainBuffer<Int>()
            _ = buffer[0]
        }
    }
}
