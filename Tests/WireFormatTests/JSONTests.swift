// JSON objects, base64, and frames of text.

import Foundation
import Primitives
import Testing

@testable import WireFormat

@Suite("Base64")
struct Base64Tests {
    @Test func `is that of Foundation, both ways`() {
        var random = SystemRandomNumberGenerator()
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            var text: [UInt8] = []
            Base64.append(bytes.span.bytes, to: &text)
            #expect(String(decoding: text, as: UTF8.self) == Data(bytes).base64EncodedString())
            var read: [UInt8] = []
            #expect(Base64.append(decoding: text.span.bytes, to: &read))
            #expect(read == bytes)
        }
    }

    @Test(arguments: ["A", "AA", "AAA", "A===", "AB==", "AAB=", "AA=A", "====", "AA==AAAA", "A A="])
    func `refuses what no encoder writes`(text: String) {
        var bytes: [UInt8] = []
        #expect(!Base64.append(decoding: Array(text.utf8).span.bytes, to: &bytes))
    }
}

@Suite("A JSON object")
struct JSONObjectTests {
    @Test func `has its members, unescaped`() throws {
        let json = #" {"a" : "x\u00fc\n", "b":[ "1" , "" ],"c":{"d":true},"e":0,"f":null,"g":[]} "#
        let object = try JSONObject(Array(json.utf8).span.bytes)
        #expect(
            object.members.map { String(decoding: object.text[$0.name.offsets], as: UTF8.self) }
                == ["a", "b", "c", "e", "f", "g"])
        guard case .string(let text) = object.members[0].value,
            case .strings(2, let run?) = object.members[1].value,
            case .object(let inner) = object.members[2].value, case .bool(true) = inner[0].value,
            case .number(0) = object.members[3].value, case .null = object.members[4].value,
            case .strings(0, _) = object.members[5].value
        else {
            Issue.record("\(object)")
            return
        }
        #expect(String(decoding: object.text[text.offsets], as: UTF8.self) == "xü\n")
        #expect(Array(object.text[run.offsets]) == [1, UInt8(ascii: "1"), 0])
    }

    @Test func `has at most so many members, values and levels`() throws {
        func members(_ count: Int) -> [UInt8] {
            Array("{\((0..<count).map { "\"m\($0)\":0" }.joined(separator: ","))}".utf8)
        }
        _ = try JSONObject(members(JSONObject.memberCountMaximum).span.bytes)
        #expect(throws: WireError.malformed) {
            _ = try JSONObject(members(JSONObject.memberCountMaximum + 1).span.bytes)
        }
        func list(_ count: Int) -> [UInt8] {
            let strings = repeatElement("\"\"", count: count).joined(separator: ",")
            return Array("{\"l\":[\(strings)]}".utf8)
        }
        _ = try JSONObject(list(JSONObject.valueCountMaximum - 1).span.bytes)
        #expect(throws: WireError.malformed) {
            _ = try JSONObject(list(JSONObject.valueCountMaximum).span.bytes)
        }
    }

    @Test func `has whole numbers up to 2^63 - 1, and no longer ones`() throws {
        for (text, isNumber) in [
            ("0", true), ("9223372036854775807", true), ("9223372036854775808", false),
            ("18446744073709551610", false), ("18446744073709551615", false),
            ("18446744073709551616", false), ("18446744073709551619", false),
            ("99999999999999999999", false), ("00", false), ("1e2", false),
        ] {
            let json = Array("{\"n\":\(text)}".utf8)
            let object = try? JSONObject(json.span.bytes)
            #expect((object != nil) == isNumber, "\(text)")
        }
    }

    @Test func `is written as it is read`() throws {
        var writer = JSONWriter()
        writer.write("word", "x" as StaticString)
        writer.write("number", .max)
        writer.write("list") { (list: inout JSONList) in
            list.append(Array("a\"".utf8).span.bytes)
            list.append { (inner: inout JSONWriter) in inner.write("flag", false) }
        }
        writer.write(hexadecimal: "epoch", 0xAB)
        #expect(
            String(decoding: writer.end(), as: UTF8.self)
                == #"{"word":"x","number":18446744073709551615,"list":["a\"",{"flag":false}],"#
                + #""epoch":"00000000000000ab"}"#)
        #expect(UInt64(hexadecimal: Array("00000000000000ab".utf8).span.bytes) == 0xAB)
        #expect(UInt64(hexadecimal: Array("00000000000000aB".utf8).span.bytes) == nil)
    }
}
