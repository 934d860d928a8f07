// The search for a text in the content of messages.

import Testing

@testable import BrokerCore

@Suite struct `A search for a text` {
    private func isIn(_ text: String, _ content: String) -> Bool {
        ByteSearch(Array(text.utf8)).isIn(Array(content.utf8).span.bytes)
    }

    @Test(
        arguments: [
            ("", "", true), ("", "x", true), ("x", "", false), ("valve", "the valve is open", true),
            ("open", "the valve is open", true), ("opened", "the valve is open", false),
            ("aab", "aaaab", true), ("abab", "abaabab", true), ("abcabd", "abcabcabd", true),
            ("aaaa", "aaa", false), ("\u{FC}ber", "dar\u{FC}ber", true),
        ] as [(String, String, Bool)])
    func `finds what is there`(text: String, content: String, isThere: Bool) {
        #expect(isIn(text, content) == isThere, "\(text) in \(content)")
    }

    /// Texts and contents of two letters repeat themselves in all ways.
    @Test func `agrees with a comparison at each byte`() {
        let words = (1...5).flatMap { length in
            (0..<1 << length).map { bits in
                String((0..<length).map { bits >> $0 & 1 == 0 ? "a" : "b" })
            }
        }
        for text in words {
            for content in words.suffix(32).flatMap({ [$0, $0 + "b" + $0] }) {
                #expect(isIn(text, content) == content.contains(text), "\(text) in \(content)")
            }
        }
    }
}
