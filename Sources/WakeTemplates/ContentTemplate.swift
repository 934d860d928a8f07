// A template: JSON whose texts have variables such as ${count}. The relay parses those of its file
// when it reads the file, and the broker those of an app when an operator sets one, so that an
// error is found with its place before the template counts.

import JSON5

/// A variable of a template.
enum TemplateVariable: String, CaseIterable {
    case group
    /// The group, or the sender where there is none.
    case conversation = "convId"
    /// Unix milliseconds.
    case timestamp
    case sender = "fromClientId"
    case count
    /// The text of the message.
    case message
    case user
    case device
    case language

    func value(of wake: WakeVariables) -> String {
        switch self {
        case .group: wake.group
        case .conversation: wake.group.isEmpty ? wake.from : wake.group
        case .timestamp: "\(wake.time)"
        case .sender: wake.from
        case .count: "\(wake.count)"
        case .message: wake.text
        case .user: wake.user
        case .device: wake.device
        case .language: wake.language
        }
    }

    /// Whether a text that has nothing else becomes a number.
    var isNumber: Bool { self == .timestamp || self == .count }
}

/// A template that was parsed.
package struct ContentTemplate: Sendable {
    private enum Piece: Sendable {
        case text(String)
        case variable(TemplateVariable)
    }

    private indirect enum Part: Sendable {
        case fixed(JSON5Node)
        case text([Piece])
        case list([Part])
        case object([(key: String, part: Part)])
    }

    private let root: Part

    /// Tells what is wrong: the key of a value, what is wrong with it, and its offset in the text.
    package typealias Complaint = (_ key: String, _ message: String, _ offset: Int) -> Void

    /// Parses a value of a document.
    ///
    /// - Parameters:
    ///   - key: its name in complaints.
    ///   - isContentAllowed: whether `${message}` may be used.
    /// - Returns: nil after a complaint.
    package init?(
        _ node: JSON5Node, key: String, isContentAllowed: Bool, complain: Complaint
    ) {
        guard case .object = node.value else {
            complain(key, "must be an object, not \(node.kindName)", node.offset)
            return nil
        }
        var isWrong = false
        root = Self.parse(node, key: key, isContentAllowed: isContentAllowed) {
            isWrong = true
            complain($0, $1, $2)
        }
        guard !isWrong else { return nil }
    }

    /// A template of this program.
    init(builtIn node: JSON5Node) {
        root = Self.parse(node, key: "", isContentAllowed: false) { key, message, _ in
            preconditionFailure("the built-in template \(key) \(message)")
        }
    }

    private static func parse(
        _ node: JSON5Node, key: String, isContentAllowed: Bool, _ complain: Complaint
    ) -> Part {
        switch node.value {
        case .null, .boolean: return .fixed(node)
        case .number(let text):
            if !JSON5Node.isJSON(text) {
                complain(key, "is a number that JSON does not have", node.offset)
            }
            return .fixed(node)
        case .string(let text):
            var pieces: [Piece] = []
            var rest = text[...]
            while let start = rest.firstRange(of: "${") {
                if start.lowerBound > rest.startIndex {
                    pieces.append(.text(String(rest[..<start.lowerBound])))
                }
                guard let end = rest[start.upperBound...].firstIndex(of: "}") else {
                    complain(key, "has ${ without }", node.offset)
                    return .text([])
                }
                let name = String(rest[start.upperBound..<end])
                if let variable = TemplateVariable(rawValue: name) {
                    if variable == .message, !isContentAllowed {
                        complain(
                            key, "has ${message}, which needs contents: true", node.offset)
                    }
                    pieces.append(.variable(variable))
                } else {
                    let known = TemplateVariable.allCases.map(\.rawValue).joined(separator: ", ")
                    complain(
                        key, "has the unknown variable ${\(name)}; known: \(known)", node.offset)
                }
                rest = rest[rest.index(after: end)...]
            }
            if !rest.isEmpty { pieces.append(.text(String(rest))) }
            return .text(pieces)
        case .array(let elements):
            return .list(
                elements.enumerated().map {
                    parse(
                        $0.element, key: "\(key)[\($0.offset)]", isContentAllowed: isContentAllowed,
                        complain)
                })
        case .object(let members):
            return .object(
                members.map {
                    (
                        $0.key,
                        parse(
                            $0.node, key: "\(key).\($0.key)", isContentAllowed: isContentAllowed,
                            complain)
                    )
                })
        }
    }

    /// The content for one wake-up.
    func content(for wake: WakeVariables) -> JSON5Node { Self.content(root, wake) }

    private static func content(_ part: Part, _ wake: WakeVariables) -> JSON5Node {
        switch part {
        case .fixed(let node): return node
        case .text(let pieces):
            if pieces.count == 1, case .variable(let variable) = pieces[0], variable.isNumber {
                return JSON5Node(.number(variable.value(of: wake)))
            }
            return .text(
                pieces.reduce(into: "") { text, piece in
                    switch piece {
                    case .text(let fixed): text += fixed
                    case .variable(let variable): text += variable.value(of: wake)
                    }
                })
        case .list(let parts): return JSON5Node(.array(parts.map { content($0, wake) }))
        case .object(let members): return .object(members.map { ($0.key, content($0.part, wake)) })
        }
    }
}
