// The search for plain ASCII, which the rules of text skip: eight bytes at a time must find what
// one at a time does.

import Testing

@testable import WireFormat

@Suite("Printable ASCII")
struct PlainASCIITests {
    @Test func `is detected with another byte at any position`() {
        let slash = UInt8(ascii: "/")
        let quote = UInt8(ascii: "\"")
        let others = Set<UInt8>(0..<0x20).union(0x7F...0xFF).union([slash, quote])
        func isAll(_ bytes: [UInt8]) -> Bool {
            bytes.withUnsafeBytes { PlainASCII.isAll($0.bytes, excluding: (slash, quote, quote)) }
        }
        for count in 0...20 {
            // Neighbours from which a difference could borrow, if it could from any that passes.
            for filler: UInt8 in [0x20, 0x21, 0x23, 0x2E, 0x30, 0x7E] {
                let plain = [UInt8](repeating: filler, count: count)
                #expect(isAll(plain))
                for place in 0..<count {
                    for byte in UInt8.min...UInt8.max {
                        var text = plain
                        text[place] = byte
                        if isAll(text) == others.contains(byte) {
                            Issue.record("\(byte) at \(place) of \(count) among \(filler)")
                        }
                    }
                }
            }
        }
    }
}
