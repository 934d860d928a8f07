// The vectors, and the properties of decoding random bytes.

import BrokerTerms
import PacketMeanings
import Primitives
import Testing

@testable import WireFormat

@Suite("The vectors")
struct VectorTests {
    @Test func `have names of their own`() {
        #expect(Set(Vector.all.map(\.name)).count == Vector.all.count)
        #expect(Vector.all.count > 150)
    }

    @Test(arguments: Vector.all)
    func `decode to their meanings`(vector: Vector) {
        let meaning = understand(vector.bytes, isFromClient: vector.isFromClient)
        #expect(meaning.text == vector.meaning.replacing(" loose", with: ""))
    }

    @Test(arguments: Vector.valid.filter { !$0.meaning.contains(" loose") })
    func `are the output of the encoder`(vector: Vector) {
        let meaning = understand(vector.bytes, isFromClient: vector.isFromClient)
        #expect(meaning.encoded == vector.bytes)
    }

    @Test func `cover every packet type and every kind of delivery`() {
        let types = Set(Vector.valid.map { $0.bytes[0] >> 4 })
        #expect(types == Set((0...15).filter { MRT.PacketType(rawValue: $0) != nil }))
        for kind: UInt8 in 0...255 where MRT.DeliveryKind(rawValue: kind) != nil {
            #expect(Vector.valid.contains { $0.meaning.contains(" kind=\(kind) ") })
        }
    }
}

@Suite("The MRT decoder")
struct DecoderTests {
    @Test(arguments: Vector.valid)
    func `waits for the rest of an incomplete packet`(vector: Vector) {
        for count in 0..<vector.bytes.count {
            let cut = understand(Array(vector.bytes[..<count]), isFromClient: vector.isFromClient)
            #expect(cut.text.hasPrefix("error=incomplete:"))
        }
    }

    /// The body ends early, and the remaining length says so: nothing may be read beyond it.
    @Test(arguments: Vector.valid)
    func `never reads beyond the end of a body`(vector: Vector) throws {
        let header = try #require(frame(vector.bytes)).headerByteCount
        let body = vector.bytes[Int(header)...]
        for count in 0..<body.count {
            let shorter = [vector.bytes[0]] + varInt(count) + body.prefix(count)
            expectStable(shorter, isFromClient: vector.isFromClient)
        }
    }

    @Test(arguments: Vector.valid)
    func `decodes or refuses every changed byte`(vector: Vector) {
        var random = SeededBytes(seed: 0x6d61_7274_6c65_7421)
        for offset in vector.bytes.indices {
            for _ in 0..<8 {
                var changed = vector.bytes
                changed[offset] = random.next()
                expectStable(changed, isFromClient: vector.isFromClient)
            }
        }
    }

    @Test(arguments: UInt8(0)...15)
    func `decodes or refuses random bodies`(type: UInt8) {
        var random = SeededBytes(seed: UInt64(type))
        let flagMask = MRT.PacketType(rawValue: type)?.flagMask ?? 0x0F
        for round in 0..<4000 {
            let count = round % 40
            let first = type << 4 | (random.next() & flagMask)
            // Small values make structure likely: lengths that fit, known kinds, short numbers.
            let body = (0..<count).map { _ in
                random.next() < 160 ? random.next() & 0x07 : random.next()
            }
            expectStable([first] + varInt(count) + body, isFromClient: round.isMultiple(of: 2))
        }
    }

    /// What is understood is understood the same way after it was encoded again.
    private func expectStable(_ bytes: [UInt8], isFromClient: Bool) {
        let meaning = understand(bytes, isFromClient: isFromClient)
        if meaning.text.hasPrefix("error=") { return }
        let again = understand(meaning.encoded, isFromClient: isFromClient)
        #expect(again.text == meaning.text)
        #expect(again.encoded == meaning.encoded)
        #expect(meaning.encoded.count <= bytes.count)
    }
}

@Suite("Framing")
struct FramingTests {
    @Test(arguments: [
        (0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (2_097_151, 3), (2_097_152, 4),
        (268_435_455, 4),
    ])
    func `finds the size of a packet in its header`(remaining: Int, lengthByteCount: Int) {
        let header = [0x30] + varInt(remaining)
        #expect(header.count == 1 + lengthByteCount)
        let total = header.count + remaining
        #expect(next(header, packetMaximum: total - 1) == .tooLarge(byteCount: total))
        if remaining > 0 {
            #expect(next(header, packetMaximum: total) == .incomplete(byteCountMinimum: total))
        }
    }

    @Test func `finds one packet after the other`() {
        let stream: [UInt8] = [0xC0, 0, 0x30, 2, 1, 2, 0xC0]
        stream.withUnsafeBytes { stream in
            let first = PacketFrame.next(in: stream.bytes, at: 0, packetMaximum: 100)
            #expect(
                first
                    == .packet(
                        PacketFrame(
                            typeAndFlags: 0xC0, headerByteCount: 2,
                            body: ByteRange(offset: 2, count: 0))))
            let second = PacketFrame.next(in: stream.bytes, at: 2, packetMaximum: 100)
            #expect(
                second
                    == .packet(
                        PacketFrame(
                            typeAndFlags: 0x30, headerByteCount: 2,
                            body: ByteRange(offset: 4, count: 2))))
            let third = PacketFrame.next(in: stream.bytes, at: 6, packetMaximum: 100)
            #expect(third == .incomplete(byteCountMinimum: 2))
        }
    }

    @Test func `leaves a padded length to the dialect and refuses five bytes`() throws {
        let padded = try #require(frame([0xC0, 0x80, 0x00]))
        #expect(!padded.hasMinimalLength)
        #expect(next([0xC0, 0x80, 0x80, 0x80, 0x80, 0x00], packetMaximum: .max) == .malformed)
    }

    @Test func `reads the protocol of a CONNECT`() {
        #expect(protocolName("\u{0}\u{3}MRT\u{1}") == .mrt(level: 1))
        #expect(protocolName("\u{0}\u{4}MQTT\u{5}\u{0}") == .mqtt(level: 5))
        #expect(protocolName("\u{0}\u{6}MQIsdp\u{3}") == .mqisdp(level: 3))
        #expect(protocolName("\u{0}\u{4}mqtt\u{4}") == .unknown)
        #expect(protocolName("\u{0}\u{0}\u{4}") == .unknown)
    }

    @Test(arguments: ["", "\u{0}", "\u{0}\u{3}", "\u{0}\u{3}MRT", "\u{7f}\u{7f}ab"])
    func `refuses a CONNECT that is cut in its name`(body: String) {
        #expect(protocolName(body) == nil)
    }

    /// Nil where the body is malformed.
    private func protocolName(_ body: String) -> ProtocolName? {
        Array(body.utf8).withUnsafeBytes { try? ProtocolName.read($0.bytes) }
    }

    private func next(_ bytes: [UInt8], packetMaximum: Int) -> FramingResult {
        bytes.withUnsafeBytes {
            PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: packetMaximum)
        }
    }
}

@Suite("Variable byte integers")
struct VariableIntegerTests {
    @Test func `of every length survive encoding and decoding`() {
        for shift in 0..<63 {
            for value in [UInt64(1) << shift, (UInt64(1) << shift) - 1, WireLimits.varIntMaximum] {
                let written = bytes(count: VariableInteger.byteCount(value)) {
                    $0.write(varInt: value)
                }
                written.withUnsafeBytes { written in
                    var reader = PacketReader(written.bytes)
                    // A macro cannot take a reader apart: it is not Escapable.
                    let (read, isAtEnd) = (try? reader.readVarInt(), reader.isAtEnd)
                    #expect(read == value)
                    #expect(isAtEnd)
                }
            }
        }
    }
}

@Suite("Reason codes")
struct ReasonCodeTests {
    @Test func `are failures from 0x80 on, and each has a name of its own`() {
        for reason in ReasonCode.allCases {
            #expect(reason.isFailure == (reason.rawValue >= 0x80))
        }
        let names = Set(ReasonCode.allCases.map { "\($0.name)" })
        #expect(names.count == ReasonCode.allCases.count)
    }

    @Test func `that are unknown are still failures`() {
        #expect(ReasonCode(received: 0xFE) == .unspecifiedError)
        #expect(ReasonCode(received: 0x97) == .quotaExceeded)
        #expect(ReasonCode(received: 0x20) == nil)
    }
}
