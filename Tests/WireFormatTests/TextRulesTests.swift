// The rules of ids, topics and UTF-8, as tables.

import Testing

@testable import WireFormat

private func judge(_ bytes: [UInt8], _ rule: (RawSpan) -> Bool) -> Bool {
    rule(bytes.span.bytes)
}

private func judge(_ text: String, _ rule: (RawSpan) -> Bool) -> Bool {
    judge(Array(text.utf8), rule)
}

@Suite("The rules of text")
struct TextRulesTests {
    @Test func `the check of UTF-8 agrees with the standard library`() {
        // Every pair of bytes at the border of the eight-byte fast path, padded into a character.
        for first in UInt8.min...UInt8.max {
            for second in UInt8.min...UInt8.max {
                for tail: [UInt8] in [[], [0x80], [0xBF, 0x80]] {
                    let bytes = Array("1234567".utf8) + [first, second] + tail
                    let expected = String(validating: bytes, as: UTF8.self) != nil
                    #expect(judge(bytes, TextRules.isUTF8) == expected, "\(bytes)")
                }
            }
        }
    }

    @Test(arguments: ["a", "device-0001", "ü", "a b", "$u", String(repeating: "x", count: 64)])
    func `valid ids are accepted`(text: String) {
        #expect(judge(text, TextRules.isIdentifier))
    }

    @Test(arguments: [
        "", "a/b", "a+", "#", "a\u{0}", "a\u{1f}", "\u{7f}", "\u{80}", "x\u{9f}",
        String(repeating: "x", count: 65),
    ])
    func `invalid ids are refused`(text: String) {
        #expect(!judge(text, TextRules.isIdentifier))
        #expect(judge(text, TextRules.isDevice) == text.isEmpty)
    }

    @Test func `a message id is any text of 1 to 64 bytes without control characters`() {
        #expect(judge("order/17+#", TextRules.isMessageIdentifier))
        #expect(!judge("", TextRules.isMessageIdentifier))
        #expect(!judge("a\n", TextRules.isMessageIdentifier))
        #expect(!judge(String(repeating: "x", count: 65), TextRules.isMessageIdentifier))
    }

    @Test(arguments: ["/", "a", "a//b", " ", "$u/x", "a\u{1}", "é/ü"])
    func `valid topics are accepted`(text: String) {
        #expect(judge(text, TextRules.isTopicName))
        #expect(judge(text, TextRules.isTopicFilter))
    }

    @Test func `a topic has no wildcards and no U+0000`() {
        for text in ["", "a/+", "#", "a#", "a\u{0}"] {
            #expect(!judge(text, TextRules.isTopicName))
        }
        #expect(!judge([0x61, 0xFF], TextRules.isTopicName))
        #expect(judge(String(repeating: "x", count: 65_535), TextRules.isTopicName))
        #expect(!judge(String(repeating: "x", count: 65_536), TextRules.isTopicName))
    }

    @Test(arguments: ["#", "+", "/#", "+/+", "a/+/b", "+/#", "a/#", "/+"])
    func `valid filters are accepted`(text: String) {
        #expect(judge(text, TextRules.isTopicFilter))
    }

    @Test(arguments: ["", "a#", "#/a", "a+", "+a", "a/+b", "##", "++", "a/#/b", "\u{0}"])
    func `invalid filters are refused`(text: String) {
        #expect(!judge(text, TextRules.isTopicFilter))
    }
}
