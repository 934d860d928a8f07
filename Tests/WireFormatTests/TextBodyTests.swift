// The text message: what counts against its limit, which JSON is accepted, and the JSON for
// receivers.

import BrokerTerms
import PacketMeanings
import Testing

@testable import WireFormat

/// The binary form of a message.
private func binary(_ type: UInt8, _ text: String) -> [UInt8] { [type] + Array(text.utf8) }

/// What a JSON text reads as, or nil.
private func read(_ json: String) -> [UInt8]? { read(Array(json.utf8)) }

private func read(_ json: [UInt8]) -> [UInt8]? {
    var output = [UInt8](repeating: 0, count: json.count)
    let count = json.withUnsafeBytes { json in
        output.withUnsafeMutableBytes { TextBody.readJSON(json.bytes, into: $0) }
    }
    return count.map { Array(output[..<$0]) }
}

/// The minimal JSON form.
private func write(_ payload: [UInt8]) -> String {
    payload.withUnsafeBytes { payload in
        String(
            decoding: bytes(count: TextBody.jsonByteCount(payload.bytes)) { writer in
                TextBody.writeJSON(payload.bytes, to: &writer)
            }, as: UTF8.self)
    }
}

@Suite("A t/b message")
struct TextBodyTests {
    @Test func `is written with only the escapes that JSON requires`() {
        #expect(write(binary(0, "hello")) == #"{"t":"0","b":"hello"}"#)
        #expect(write(binary(255, "")) == #"{"t":"255","b":""}"#)
        #expect(
            write(binary(10, "a\"b\\c/\u{8}\t\n\u{c}\r\u{0}\u{1f}\u{7f}é")) == #"{"t":"10","b":""#
                + #"a\"b\\c/\b\t\n\f\r\u0000\u001f"# + "\u{7f}é" + #""}"#)
    }

    @Test func `counts exactly the bytes of its minimal form`() throws {
        // One character at every place of a word of eight bytes, besides some longer texts.
        let characters = (0..<0x100).map { Character(Unicode.Scalar(UInt8($0))) }
        let places = (0..<9).flatMap { place in
            characters.map { String(repeating: "é", count: place) + "a" + String($0) + "bcdefghi" }
        }
        for text in ["", "hello", String(repeating: "\\", count: 300)] + places {
            for type: UInt8 in [0, 10, 255] {
                let payload = binary(type, text)
                let count = payload.withUnsafeBytes { TextBody.minimalJSONByteCount($0.bytes) }
                #expect(try #require(count) == write(payload).utf8.count)
            }
        }
    }

    @Test func `of 1024 bytes is accepted and of 1025 is too large`() {
        func fault(_ payload: [UInt8]) -> ReasonCode? {
            payload.withUnsafeBytes { TextBody.fault($0.bytes, messageMaximum: 1024) }
        }
        let room = 1024 - #"{"t":"0","b":""}"#.utf8.count
        #expect(fault(binary(0, String(repeating: "x", count: room))) == nil)
        #expect(fault(binary(0, String(repeating: "x", count: room + 1))) == .packetTooLarge)
        #expect(fault(binary(10, String(repeating: "x", count: room))) == .packetTooLarge)
        #expect(fault(binary(0, String(repeating: "x", count: room - 1) + "\n")) == .packetTooLarge)
        #expect(fault([0, 0xFF]) == .payloadFormatInvalid)
        #expect(fault([]) == .payloadFormatInvalid)
    }

    @Test(arguments: [
        (#"{"t":"0","b":"hello"}"#, 0, "hello"),
        (#"{"b":"hello","t":"0"}"#, 0, "hello"),
        (#"{"t":7,"b":""}"#, 7, ""),
        (" {\t\"t\" :\n\"255\" ,\r\"b\": \"x\" } ", 255, "x"),
        (#"{"\u0074":"\u0031\u0032","\u0062":"\u00e9\/\ud83d\ude00\u0000"}"#, 12, "é/😀\u{0}"),
        (#"{"b":"long enough to pass the name","t":"4"}"#, 4, "long enough to pass the name"),
    ])
    func `is decoded in any valid spelling`(json: String, type: UInt8, text: String) {
        #expect(read(json) == binary(type, text))
    }

    @Test(arguments: [
        "", "{", "{}", "[]", "\"\"", #"{"t":"0"}"#, #"{"b":"x"}"#, #"{"t":"0","b":"x""#,
        #"{"t":"0","b":"x"} x"#, #"{"t":"0","b":"x","c":1}"#, #"{"t":"0","t":"0","b":"x"}"#,
        #"{"b":"x","t":"0","b":"x"}"#, #"{"t":"00","b":"x"}"#, #"{"t":"256","b":"x"}"#,
        #"{"t":"","b":"x"}"#, #"{"t":"-1","b":"x"}"#, #"{"t":"1e1","b":"x"}"#,
        #"{"t":1.0,"b":"x"}"#, #"{"t":01,"b":"x"}"#, #"{"t":1000,"b":"x"}"#,
        #"{"t":null,"b":"x"}"#, #"{"t":"0","b":1}"#, #"{"t":"0","b":"\ud800"}"#,
        #"{"t":"0","b":"\udc00"}"#, #"{"t":"0","b":"\ud800\u0041"}"#, #"{"t":"0","b":"\x"}"#,
        #"{"t":"0","b":"\u12g4"}"#, #"{"t":"0","b":"\"#, #"{"t":"0",,"b":"x"}"#,
        #"{"t":"0","b":"x",}"#, "{\"t\":\"0\",\"b\":\"\n\"}", #"{"tt":"0","b":"x"}"#,
    ])
    func `is refused if the text is anything else`(json: String) {
        #expect(read(json) == nil)
    }

    @Test func `is refused if the text is not UTF-8`() {
        let head = Array(#"{"t":"0","b":""#.utf8)
        let tail = Array(#""}"#.utf8)
        for bad: [UInt8] in [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80]] {
            #expect(read(head + bad + tail) == nil)
        }
    }

    @Test func `survives every truncation and every changed byte`() {
        let json = Array(#"{"\u0074":"12","b":"\ud83d\ude00 é\n"}"#.utf8)
        for count in 0..<json.count { #expect(read(Array(json[..<count])) == nil) }
        for offset in json.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = json
                changed[offset] = byte
                guard let payload = read(changed) else { continue }
                #expect(read(write(payload)) == payload)
            }
        }
    }

    @Test func `is delivered as JSON with its sender, time and group`() {
        func envelope(_ group: String, members: String = "") -> String {
            let payload = binary(0, "hi")
            let from = Array("al\"ice".utf8)
            let (group, members) = (Array(group.utf8), Array(members.utf8))
            return payload.withUnsafeBytes { payload in
                from.withUnsafeBytes { from in
                    group.withUnsafeBytes { group in
                        let envelope = TextEnvelope(
                            payload: payload.bytes, from: from.bytes, time: 1_790_000_000_123,
                            group: group.bytes, members: members.span.bytes)
                        let text = bytes(count: envelope.byteCount) { envelope.write(to: &$0) }
                        return String(decoding: text, as: UTF8.self)
                    }
                }
            }
        }
        let head = #"{"msg":{"t":"0","b":"hi"},"from":"al\"ice","time":"1790000000123""#
        #expect(envelope("") == head + "}")
        #expect(envelope("fleet") == head + #","groupid":"fleet"}"#)
        #expect(envelope("", members: #""late":true"#) == head + #","late":true}"#)
        #expect(
            envelope("fleet", members: #""a":1,"b":2"#)
                == head + #","groupid":"fleet","a":1,"b":2}"#)
    }
}
