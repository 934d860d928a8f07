// Reads the text of one template, with the place of what is wrong in it.

import JSON5

/// A template, and the text that was read.
package struct TemplateText: Sendable {
    package let template: ContentTemplate
    /// The template as JSON (RFC 8259), without white space and comments.
    package let json: [UInt8]

    /// Levels of objects and lists. A request to the relay has a template two levels deeper, and
    /// its parser reads 32 levels; contents of push services have four.
    package static let depthMaximum = 16

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
        if let deep = Self.tooDeep(node, level: 1) {
            throw Fault(
                position: TextPosition(offset: deep, in: text),
                message: "nested more than \(Self.depthMaximum) levels deep")
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
        guard let template else {
            preconditionFailure("a template of \(text.count) bytes without a fault is refused")
        }
        self.template = template
        json = node.json
    }

    /// The place of the first value below the last level; nil if there is none. The parser bounds
    /// the recursion.
    private static func tooDeep(_ node: JSON5Node, level: Int) -> Int? {
        let parts: [JSON5Node]
        switch node.value {
        case .null, .boolean, .number, .string: return nil
        case .array(let elements): parts = elements
        case .object(let members): parts = members.map(\.node)
        }
        guard level <= depthMaximum else { return node.offset }
        for part in parts {
            if let deep = tooDeep(part, level: level + 1) { return deep }
        }
        return nil
    }
}
