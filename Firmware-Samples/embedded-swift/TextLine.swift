// Short texts without String, which would cost 21 KB of flash: digits and words in a fixed buffer.

import Board

/// A text of at most 64 bytes.
struct TextLine {
    private var storage = InlineArray<64, UInt8>(repeating: 0)
    private(set) var count = 0

    mutating func append(_ text: StaticString) {
        for index in 0..<text.utf8CodeUnitCount { append(byte: text.utf8Start[index]) }
    }

    mutating func append(byte: UInt8) {
        storage[count] = byte
        count += 1
    }

    /// Decimal.
    mutating func append(_ number: UInt32) {
        var divisor: UInt32 = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            append(
                byte: UInt8(truncatingIfNeeded: number / divisor % 10) + UInt8(ascii: "0"))
            divisor /= 10
        }
    }

    /// Calls `body` with the bytes.
    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        storage.span.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    }

    /// Writes it to the log, behind a word.
    func say(after word: StaticString) {
        board_log(word.utf8Start, UInt32(word.utf8CodeUnitCount))
        withBytes { bytes in
            board_log(bytes.bindMemory(to: UInt8.self).baseAddress, UInt32(bytes.count))
        }
        var end = UInt8(ascii: "\n")
        board_log(&end, 1)
    }
}
