// Quoted texts: read back by this parser and by Foundation's.
import Foundation
import Testing

@testable import JSON5

@Suite struct JSONTextTests {
    @Test func `every text survives, including control characters`() throws {
        let controls = String(String.UnicodeScalarView((0...0x9F).compactMap(Unicode.Scalar.init)))
        for text in ["", "plain", "\"\\/", controls, "é\u{2028}😀", "a\r\nb"] {
            let quoted = JSONText.quoted(text)
            #expect(quoted.utf8.allSatisfy { $0 >= 0x20 })
            #expect(try JSON5Parser.parse(Array(quoted.utf8)).value == .string(text))
            #expect(try JSONDecoder().decode(String.self, from: Data(quoted.utf8)) == text)
        }
    }

    @Test func `the short escapes are used if they exist`() {
        #expect(
            JSONText.quoted("a\"b\\c\nd\re\tf\u{1}\u{1B}") == #""a\"b\\c\nd\re\tf\u0001\u001b""#)
    }
}
