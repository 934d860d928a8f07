// A JSON5 document as a tree with the position of each value, so that an error in a value can name
// its line and column after the text was read.

/// One value of a document and its position.
package struct JSON5Node: Hashable, Sendable {
    package enum Value: Hashable, Sendable {
        case null
        case boolean(Bool)
        /// As written: `0x10`, `1e3`, `-Infinity`. The reader converts it to the kind it needs.
        case number(String)
        case string(String)
        case array([JSON5Node])
        case object([Member])
    }

    /// A key and its value, in the order of the document.
    package struct Member: Hashable, Sendable {
        package var key: String
        package var keyOffset: Int
        package var node: JSON5Node

        package init(key: String, keyOffset: Int, node: JSON5Node) {
            self.key = key
            self.keyOffset = keyOffset
            self.node = node
        }
    }

    package var value: Value
    /// The offset in the text, in bytes.
    package var offset: Int

    package init(value: Value, offset: Int) {
        self.value = value
        self.offset = offset
    }

    /// The kind of the value in messages: "a number".
    package var kindName: String {
        switch value {
        case .null: "null"
        case .boolean: "true or false"
        case .number: "a number"
        case .string: "a text"
        case .array: "a list"
        case .object: "an object"
        }
    }
}

/// A position in a text: both count from 1, columns in characters as an editor shows them.
public struct TextPosition: Hashable, Sendable {
    public let line: Int
    public let column: Int

    public init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    /// The position of the byte at `offset`.
    package init(offset: Int, in text: [UInt8]) {
        let before = text[..<min(offset, text.count)]
        line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let lineStart = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        column = String(decoding: before[lineStart...], as: UTF8.self).count + 1
    }
}

/// Text that is not JSON5.
package struct JSON5SyntaxError: Error, Hashable, Sendable {
    package var offset: Int
    package var message: String

    package init(offset: Int, message: String) {
        self.offset = offset
        self.message = message
    }
}
