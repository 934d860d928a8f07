// A template: JSON whose texts have variables such as ${count}. It is parsed when the configuration
// is read, so that an error is found at the start, with its place.

import ClientProgram
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

    func value(of wake: Wake) -> String {
        switch self {
        case .group: wake.group
        case .conversation: wake.group.isEmpty ? wake.from : wake.group
        case .timestamp: "\(wake.time)"
        case .sender: wake.from
        case .count: "\(wake.count)"
        case .message: wake.text
        case .user: wake.user
        case .device: wake.target.device
        case .language: wake.target.language
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

    /// Parses a value of the configuration.
    ///
    /// - Parameter isContentAllowed: whether `${message}` may be used.
    /// - Returns: nil after a complaint.
    init?(
        _ node: JSON5Node, key: String, isContentAllowed: Bool, reader r: inout SectionReader
    ) {
        let before = r.complaints.count
        guard case .object = node.value else {
            r.complain(key, "must be an object, not \(node.kindName)", at: node.offset)
            return nil
        }
        root = Self.parse(node, key: key, isContentAllowed: isContentAllowed, &r)
        guard r.complaints.count == before else { return nil }
    }

    /// A template of this program.
    init(builtIn node: JSON5Node) {
        var reader = SectionReader(path: "", text: [])
        root = Self.parse(node, key: "", isContentAllowed: false, &reader)
        precondition(reader.complaints.isEmpty, "\(reader.complaints)")
    }

    private static func parse(
        _ node: JSON5Node, key: String, isContentAllowed: Bool, _ r: inout SectionReader
    ) -> Part {
        switch node.value {
        case .null, .boolean: return .fixed(node)
        case .number(let text):
            if !JSON5Node.isJSON(text) {
                r.complain(key, "is a number that JSON does not have", at: node.offset)
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
                    r.complain(key, "has ${ without }", at: node.offset)
                    return .text([])
                }
                let name = String(rest[start.upperBound..<end])
                if let variable = TemplateVariable(rawValue: name) {
                    if variable == .message, !isContentAllowed {
                        r.complain(
                            key, "has ${message}, which needs contents: true", at: node.offset)
                    }
                    pieces.append(.variable(variable))
                } else {
                    let known = TemplateVariable.allCases.map(\.rawValue).joined(separator: ", ")
                    r.complain(
                        key, "has the unknown variable ${\(name)}; known: \(known)",
                        at: node.offset)
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
                        &r)
                })
        case .object(let members):
            return .object(
                members.map {
                    (
                        $0.key,
                        parse(
                            $0.node, key: "\(key).\($0.key)", isContentAllowed: isContentAllowed, &r
                        )
                    )
                })
        }
    }

    /// The content for one wake-up.
    func content(for wake: Wake) -> JSON5Node { Self.content(root, wake) }

    private static func content(_ part: Part, _ wake: Wake) -> JSON5Node {
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
