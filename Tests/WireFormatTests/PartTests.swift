// Parameters, results and group events: the vectors of parts, and the properties of decoding random
// bytes.

import PacketMeanings
import Primitives
import Testing

@testable import WireFormat

@Suite("The vectors of parts")
struct PartVectorTests {
    @Test func `have names of their own, and those of the operations of groups are all there`() {
        let names = (Vector.all + Vector.parts).map(\.name)
        #expect(Set(names).count == names.count)
        let operations = Set(Vector.validParts.compactMap { UInt8($0.part!) })
        #expect(operations.isSuperset(of: 16...24))
    }

    @Test(arguments: Vector.parts)
    func `decode to their meanings`(vector: Vector) {
        let meaning = understand(vector)
        #expect(meaning.text == vector.meaning)
    }

    @Test(arguments: Vector.validParts)
    func `are the output of the encoder`(vector: Vector) {
        #expect(understand(vector).encoded == vector.bytes)
    }

    private func understand(_ vector: Vector) -> Meaning {
        understandPart(vector.bytes, of: vector.part!, isFromClient: vector.isFromClient)
    }
}

@Suite("The decoders of parts")
struct PartDecoderTests {
    @Test(arguments: Vector.validParts)
    func `never read beyond the end`(vector: Vector) {
        for count in 0..<vector.bytes.count {
            expectStable(Array(vector.bytes[..<count]), vector)
        }
    }

    @Test(arguments: Vector.validParts)
    func `decode or refuse every changed byte`(vector: Vector) {
        var random = SeededBytes(seed: 0x6d61_7274_6c65_7421)
        for offset in vector.bytes.indices {
            for _ in 0..<8 {
                var changed = vector.bytes
                changed[offset] = random.next()
                expectStable(changed, vector)
            }
        }
    }

    @Test(arguments: Vector.validParts)
    func `decode or refuse random bytes`(vector: Vector) {
        var random = SeededBytes(seed: UInt64(vector.bytes.count))
        for round in 0..<500 {
            // Small values make structure likely: lengths that fit, known forms, short numbers.
            let bytes = (0..<round % 40).map { _ in
                random.next() < 160 ? random.next() & 0x07 : random.next()
            }
            expectStable(bytes, vector)
        }
    }

    /// What is understood is understood the same way after it was encoded again.
    private func expectStable(_ bytes: [UInt8], _ vector: Vector) {
        let part = vector.part!
        let meaning = understandPart(bytes, of: part, isFromClient: vector.isFromClient)
        if meaning.text.hasPrefix("error=") { return }
        let again = understandPart(meaning.encoded, of: part, isFromClient: vector.isFromClient)
        #expect(again.text == meaning.text)
        #expect(again.encoded == meaning.encoded)
    }
}
