// The text message: `t`, a type, and `b`, a text or URL. MRT carries it as one
// byte and UTF-8, MQTT as JSON; inside the broker it is always the former. One limit holds for
// both: the bytes of the minimal JSON form,
//
//     {"t":"0","b":"…"}     members in this order, no white space, only the escapes JSON requires

import BrokerTerms
import Primitives

/// Functions on a `t`/`b` message in its binary form: `t` as one byte, then `b` as UTF-8.
public enum TextBody {
    /// `{"t":"","b":""}`: what the minimal form has beside the digits of `t` and the text of `b`.
    @usableFromInline static var frameByteCount: Int { 15 }

    /// Bytes of the minimal JSON form of a binary payload; nil where it has no type byte or `b` is
    /// not UTF-8.
    @inlinable
    public static func minimalJSONByteCount(_ payload: RawSpan) -> Int? {
        guard !payload.isEmpty else { return nil }
        let type = payload[0]
        let text = payload.extracting(1...)
        let digits = type < 10 ? 1 : type < 100 ? 2 : 3
        let (escapedByteCount, isASCII) = JSONText.measure(text)
        guard isASCII || TextRules.isUTF8(text) else { return nil }
        return frameByteCount + digits + escapedByteCount
    }

    /// Why a binary payload is refused, or nil: ``ReasonCode/payloadFormatInvalid`` where `b` is
    /// not UTF-8, ``ReasonCode/packetTooLarge`` where the minimal form exceeds `messageMaximum`
    /// bytes.
    @inlinable
    public static func fault(
        _ payload: RawSpan, messageMaximum: Int
    ) -> ReasonCode? {
        guard let count = minimalJSONByteCount(payload) else { return .payloadFormatInvalid }
        return count > messageMaximum ? .packetTooLarge : nil
    }

    /// Reads the JSON form in any legal spelling into the binary form.
    ///
    /// Accepted are an object of exactly the members `t` and `b`, once each, in either order, with
    /// white space and escapes as JSON allows them; `t` is a string or a number of
    /// "0" to "255" without leading zeros.
    ///
    /// - Parameter output: at least as many bytes as `json`.
    /// - Returns: the bytes of the binary form, at the start of `output`; nil for anything else,
    ///   which is ``ReasonCode/payloadFormatInvalid``.
    public static func readJSON(
        _ json: RawSpan, into output: UnsafeMutableRawBufferPointer
    ) -> Int? {
        precondition(
            output.count >= json.byteCount,
            "\(output.count) bytes of output for \(json.byteCount) bytes of JSON")
        var reader = JSONReader(json)
        var type: UInt8?
        var textByteCount: Int?
        guard reader.take(UInt8(ascii: "{")) else { return nil }
        repeat {
            // The name and `t` pass through the free part of the output.
            let free = UnsafeMutableRawBufferPointer(
                rebasing: output[min(output.count, 1 + (textByteCount ?? 0))...])
            guard reader.readString(into: free) == 1 else { return nil }
            let name = free[0]
            guard reader.take(UInt8(ascii: ":")) else { return nil }
            if name == UInt8(ascii: "t"), type == nil {
                type = readType(&reader, free)
                if type == nil { return nil }
            } else if name == UInt8(ascii: "b"), textByteCount == nil {
                textByteCount = reader.readString(into: free)
                if textByteCount == nil { return nil }
            } else {
                return nil
            }
        } while reader.take(UInt8(ascii: ","))
        guard reader.take(UInt8(ascii: "}")), let type, let textByteCount else { return nil }
        reader.skipWhiteSpace()
        guard reader.isAtEnd else { return nil }
        output[0] = type
        return 1 + textByteCount
    }

    private static func readType(
        _ reader: inout JSONReader, _ free: UnsafeMutableRawBufferPointer
    ) -> UInt8? {
        reader.skipWhiteSpace()
        var count = 0
        if let digit = reader.takeDigit() {
            free[0] = digit
            count = 1
            while let digit = reader.takeDigit() {
                if count == 3 { return nil }
                free[count] = digit
                count += 1
            }
        } else {
            guard let length = reader.readString(into: free), (1...3).contains(length) else {
                return nil
            }
            count = length
        }
        var value = 0
        for byte in free[..<count] {
            guard case 0x30...0x39 = byte else { return nil }
            value = value * 10 + Int(byte - 0x30)
        }
        if value > 255 || (count > 1 && free[0] == 0x30) { return nil }
        return UInt8(value)
    }

    /// Bytes that ``writeJSON(_:to:)`` writes: those of the minimal form, without checking UTF-8.
    public static func jsonByteCount(_ payload: RawSpan) -> Int {
        precondition(!payload.isEmpty, "a message without its type")
        return frameByteCount + JSONText.digitCount(UInt64(payload[0]))
            + JSONText.escapedByteCount(payload.extracting(1...))
    }

    /// Writes the minimal JSON form of a binary payload that was checked when it was accepted.
    public static func writeJSON(
        _ payload: RawSpan, to writer: inout PacketWriter
    ) {
        precondition(!payload.isEmpty, "a message without its type")
        writer.write(literal: #"{"t":""#)
        JSONText.write(decimal: UInt64(payload[0]), to: &writer)
        writer.write(literal: #"","b":""#)
        JSONText.write(
            escaped: payload.extracting(1...), to: &writer)
        writer.write(literal: #""}"#)
    }
}

/// What a receiver of JSON is given:
///
///     {"msg":{"t":"0","b":"…"},"from":"…","time":"…"}
///     {"msg":{"t":"0","b":"…"},"from":"…","time":"…","groupid":"…"}
///     {"msg":{"t":"0","b":"…"},"from":"…","time":"…","attributes":{"…":"…"}}
public struct TextEnvelope: ~Escapable {
    /// The message in binary form, as it was accepted.
    public var payload: RawSpan
    /// The sender's user id.
    public var from: RawSpan
    /// Unix milliseconds; a decimal string in the JSON.
    public var time: UInt64
    /// Empty for messages that no group received.
    public var group: RawSpan
    /// Further members as JSON, without braces; empty for none.
    public var members: RawSpan

    @_lifetime(copy payload, copy from, copy group, copy members)
    public init(
        payload: RawSpan, from: RawSpan, time: UInt64,
        group: RawSpan = RawSpan(), members: RawSpan = RawSpan()
    ) {
        self.payload = payload
        self.from = from
        self.time = time
        self.group = group
        self.members = members
    }

    /// `{"msg":` `,"from":"` `","time":"` `"}`, and `","groupid":"` for groups.
    private static let frameByteCount = 7 + 9 + 10 + 2
    private static let groupFrameByteCount = 13

    /// Bytes of the JSON text.
    public var byteCount: Int {
        var count = TextEnvelope.frameByteCount + TextBody.jsonByteCount(payload)
        count += JSONText.escapedByteCount(from) + JSONText.digitCount(time)
        if !group.isEmpty {
            count += TextEnvelope.groupFrameByteCount + JSONText.escapedByteCount(group)
        }
        if !members.isEmpty { count += 1 + members.byteCount }
        return count
    }

    /// Writes ``byteCount`` bytes.
    public func write(to writer: inout PacketWriter) {
        writer.write(literal: #"{"msg":"#)
        TextBody.writeJSON(payload, to: &writer)
        writer.write(literal: #","from":""#)
        JSONText.write(escaped: from, to: &writer)
        writer.write(literal: #"","time":""#)
        JSONText.write(decimal: time, to: &writer)
        if !group.isEmpty {
            writer.write(literal: #"","groupid":""#)
            JSONText.write(escaped: group, to: &writer)
        }
        guard !members.isEmpty else {
            writer.write(literal: #""}"#)
            return
        }
        writer.write(literal: #"","#)
        writer.write(bytes: members)
        writer.write(literal: "}")
    }
}
