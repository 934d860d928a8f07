// The field Idempotency-Key: which values are keys, and which keys they are.

import Testing
import WireFormat

@testable import BrokerRuntime

@Suite("The field Idempotency-Key")
struct IdempotencyKeyTests {
    private static func read(_ value: String) -> String? {
        IdempotencyKey.read(Array(value.utf8).span.bytes).map {
            String(decoding: $0, as: UTF8.self)
        }
    }

    @Test(arguments: [
        ("8e03978e-40d5", "8e03978e-40d5"),
        (#""8e03978e-40d5""#, "8e03978e-40d5"),
        (#""a b;c,d""#, "a b;c,d"),
        (#""a\"b\\c""#, #"a"b\c"#),
        (#"a\b"#, #"a\b"#),
        ("~", "~"),
        (#""\"""#, "\""),
    ])
    func `is a string, or its characters without quotes`(value: String, key: String) {
        #expect(Self.read(value) == key)
    }

    @Test(arguments: [
        "", #""""#, #"""#, #""a"#, #"a""#, #"a"b"#, #""a"b""#, #""a\b""#, #""a\"#, #""a\""#, "a b",
        "a;b", "a,b", "a\tb", "a\u{7F}", "\u{E4}", "\"\u{E4}\"", "a\0",
    ])
    func `is refused where it is malformed`(value: String) {
        #expect(Self.read(value) == nil)
    }

    @Test func `has at most 128 characters, without its quotes and escapes`() {
        let longest = String(repeating: "a", count: WebLimits.idempotencyKeyByteCountMaximum)
        #expect(longest.count == 128)
        #expect(Self.read(longest) == longest && Self.read("\"\(longest)\"") == longest)
        #expect(Self.read(longest + "a") == nil && Self.read("\"\(longest)a\"") == nil)
        let quotes = String(repeating: "\"", count: 128)
        #expect(Self.read("\"" + String(repeating: #"\""#, count: 128) + "\"") == quotes)
    }
}
