// A name as a key: Swift compares texts by canonical equivalence (Unicode, section 3.7), and the
// broker compares bytes. Two users whose names only look the same are two users.

/// A text that equals only texts of the same bytes.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool {
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        // Equal bytes have equal hashes of texts.
        hasher.combine(text)
    }
}

extension ExactText: ExpressibleByStringLiteral {
    package init(stringLiteral text: String) { self.init(text) }
}
