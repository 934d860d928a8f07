// The JSON5 parser: compared with Foundation's, and its positions.
import Foundation
import Testing

@testable import JSON5

@Suite struct JSON5ParserTests {
    static let good = [
        "{}", "[]", "{a:1}", "{'a b':1,}", "[1,2,]", "// c\n{/* d */a:1}// e", "\"x\"",
        "{a:0x1F,b:+1,c:-.5,d:5.,e:1e3,f:1E-3}", "[true,false,null]", "'a\\\nb'", "'\\x41\\u00e9'",
        "'\\ud83d\\ude00'", "'\\'\\\"'", "\u{FEFF}{a:1}", "{$_é1:1}", " [ [ [ ] ] ] ",
    ]

    /// What the standard allows and Foundation does not: some of the escapes, white space beyond
    /// ASCII, and a tab within a text [spec.json5.org, 5 and 8].
    static let goodByTheStandardAlone = [
        "'\\q'", "'\\v'", "'\\0'", "{\u{A0}a\u{2028}:1}", "\"tab\there\"",
    ]

    static let bad = [
        "", " ", "{", "[", "{a}", "{a:}", "{a:1 b:2}", "{,}", "[,]", "[1,,2]", "{a:1}}", "{a:1} x",
        "'a", "'a\nb'", "\"a'", "01", "0x", "1e", ".", "+", "--1", "tru", "yes", "/* a", "{a:1/}",
        "'\\x4'", "'\\u12'", "{1a:1}", "nan", "{a:1;}",
    ]

    /// Any document, read to its leaves: Foundation looks at numbers and texts only when asked.
    private struct Anything: Decodable {
        init(from decoder: any Decoder) throws {
            let single = try decoder.singleValueContainer()
            if single.decodeNil() { return }
            if (try? single.decode(Bool.self)) != nil { return }
            if (try? single.decode(Double.self)) != nil { return }
            if (try? single.decode(String.self)) != nil { return }
            if (try? single.decode([Anything].self)) != nil { return }
            _ = try single.decode([String: Anything].self)
        }
    }

    private func foundationAccepts(_ text: String) -> Bool {
        let decoder = JSONDecoder()
        decoder.allowsJSON5 = true
        return (try? decoder.decode(Anything.self, from: Data(text.utf8))) != nil
    }

    @Test(arguments: good) func `all forms of JSON5 are accepted`(text: String) throws {
        _ = try JSON5Parser.parse(Array(text.utf8))
        #expect(foundationAccepts(text), "the sample itself is in doubt")
    }

    @Test(arguments: goodByTheStandardAlone)
    func `forms that only the standard allows are accepted`(text: String) throws {
        _ = try JSON5Parser.parse(Array(text.utf8))
        #expect(!foundationAccepts(text), "Foundation has caught up: move the sample")
    }

    @Test(arguments: bad) func `forms that JSON5 forbids are refused`(text: String) {
        #expect(throws: JSON5SyntaxError.self) { try JSON5Parser.parse(Array(text.utf8)) }
        #expect(!foundationAccepts(text), "the sample itself is in doubt")
    }

    @Test func `texts are read with their escapes`() throws {
        let samples = [
            ("'a\\\nb'", "ab"), ("\"\\x41\\u00e9\"", "Aé"), ("'\\ud83d\\ude00'", "😀"),
            ("'\\n\\t\\q\\''", "\n\tq'"),
        ]
        for (text, meaning) in samples {
            #expect(try JSON5Parser.parse(Array(text.utf8)).value == .string(meaning))
        }
    }

    @Test func `a repeated key is refused at its second position`() {
        #expect(throws: JSON5SyntaxError(offset: 5, message: "a stands here a second time")) {
            try JSON5Parser.parse(Array("{a:1,a:2}".utf8))
        }
    }

    @Test func `of texts of others the last of equal keys counts, and half a pair is a character`()
        throws
    {
        let samples = [
            ("'\\ud83d'", "\u{FFFD}"), ("'\\ude00'", "\u{FFFD}"), ("'\\ud83dx'", "\u{FFFD}x"),
            ("'\\ud83d\\n'", "\u{FFFD}\n"), ("'\\ud83d\\u0041'", "\u{FFFD}A"),
            ("'\\ud83d\\ud83d\\ude00'", "\u{FFFD}😀"),
        ]
        for (text, meaning) in samples {
            let node = try JSON5Parser.parse(Array(text.utf8), isOfOthers: true)
            #expect(node.value == .string(meaning), "\(text)")
        }
        let object = try JSON5Parser.parse(Array("{a:1,b:2,a:3}".utf8), isOfOthers: true)
        guard case .object(let members) = object.value else {
            Issue.record("\(object)")
            return
        }
        #expect(members.map(\.key) == ["a", "b"])
        #expect(members.map(\.node.value) == [.number("3"), .number("2")])
        #expect(throws: JSON5SyntaxError.self) {
            try JSON5Parser.parse(Array("'\\ud83d\\u00'".utf8), isOfOthers: true)
        }
    }

    @Test func `unpaired surrogates and invalid UTF-8 are refused`() {
        for text in ["'\\ud83d'", "'\\ude00'", "'\\ud83dx'"] {
            #expect(throws: JSON5SyntaxError.self) { try JSON5Parser.parse(Array(text.utf8)) }
        }
        #expect(throws: JSON5SyntaxError(offset: 2, message: "this is not UTF-8 text")) {
            try JSON5Parser.parse([0x5B, 0x22, 0xFF, 0x22, 0x5D])
        }
    }

    @Test func `nesting is bounded`() throws {
        let nested = { (depth: Int) in
            Array(
                (String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
        }
        _ = try JSON5Parser.parse(nested(32))
        #expect(throws: JSON5SyntaxError.self) { try JSON5Parser.parse(nested(33)) }
        #expect(throws: JSON5SyntaxError.self) { try JSON5Parser.parse(nested(1_000_000)) }
    }

    @Test func `every prefix of a document is refused or read without a crash`() {
        let text = Array("// c\n{a: [1, 'x\\u0041', {b: -0x1F}], 'c': /* d */ null,}".utf8)
        for count in 1..<(text.count - 1) {
            #expect(throws: JSON5SyntaxError.self) { try JSON5Parser.parse(Array(text[..<count])) }
        }
    }

    @Test func `columns are counted in characters`() {
        let text = Array("{a:1,\n 'é😀': x}".utf8)
        #expect(TextPosition(offset: 0, in: text) == TextPosition(line: 1, column: 1))
        #expect(TextPosition(offset: text.count - 2, in: text) == TextPosition(line: 2, column: 8))
    }
}
