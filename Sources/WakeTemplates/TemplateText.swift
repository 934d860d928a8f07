// Reads the text of one template, with the place of what is wrong in it.

import JSON5

/// A template, and the text that was read.
package struct TemplateText: Sendable {
    package let template: ContentTemplate
    /// The template as JSON (RFC 8259), without white space and comments.
    package let json: [UInt8]

    /// The first thing that is wrong in a text.
    package struct Fault: Error, Hashable, Sendable, CustomStringConvertible {
        package let position: TextPosition
        package let message: String

        package var description: String {
            "line \(position.line), column \(position.column): \(message)"
        }
    }

    /// Reads JSON5.
    ///
    /// - Parameter isContentAllowed: whether `${message}` may be used.
    package init(_ text: [UInt8], isContentAllowed: Bool) throws(Fault) {
        let node: JSON5Node
        do throws(JSON5SyntaxError) {
            node = try JSON5Parser.parse(text)
        } catch {
            throw Fault(
                position: TextPosition(offset: error.offset, in: text), message: error.message)
        }
        var first: Fault?
        let template = ContentTemplate(
            node, key: "template", isContentAllowed: isContentAllowed
        ) { key, message, offset in
            guard first == nil else { return }
            first = Fault(
                position: TextPosition(offset: offset, in: text), message: "\(key) \(message)")
        }
        if let first { throw first }
        guard let template else { preconditionFailure("a template without a fault was refused") }
        self.template = template
        json = node.json
    }
}
