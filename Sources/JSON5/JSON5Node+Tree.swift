// A node as a tree of JSON: its members, and its text.

extension JSON5Node {
    /// A member of an object.
    package subscript(key: String) -> JSON5Node? {
        guard case .object(let members) = value else { return nil }
        return members.first { $0.key == key }?.node
    }

    package var text: String? {
        if case .string(let text) = value { text } else { nil }
    }

    package var number: UInt64? {
        if case .number(let text) = value { UInt64(text) } else { nil }
    }

    package init(_ value: Value) { self.init(value: value, offset: 0) }

    package static func object(_ members: [(String, JSON5Node)]) -> JSON5Node {
        JSON5Node(.object(members.map { Member(key: $0.0, keyOffset: 0, node: $0.1) }))
    }

    package static func text(_ text: String) -> JSON5Node { JSON5Node(.string(text)) }
    package static func number(_ number: UInt64) -> JSON5Node { JSON5Node(.number(String(number))) }

    /// The members of an object; none for another value.
    package var members: [Member] {
        if case .object(let members) = value { members } else { [] }
    }

    /// The same object with one member set.
    package func setting(_ key: String, _ node: JSON5Node) -> JSON5Node {
        var members = members.filter { $0.key != key }
        members.append(Member(key: key, keyOffset: 0, node: node))
        return JSON5Node(.object(members))
    }

    /// JSON (RFC 8259), without white space.
    package var json: [UInt8] {
        var text = ""
        append(to: &text)
        return Array(text.utf8)
    }

    private func append(to text: inout String) {
        switch value {
        case .null: text += "null"
        case .boolean(let value): text += value ? "true" : "false"
        case .number(let number): text += Self.isJSON(number) ? number : JSONText.quoted(number)
        case .string(let string): text += JSONText.quoted(string)
        case .array(let elements):
            text += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { text += "," }
                element.append(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                text += JSONText.quoted(member.key) + ":"
                member.node.append(to: &text)
            }
            text += "}"
        }
    }

    /// Whether a number of JSON5 is one of JSON.
    package static func isJSON(_ number: String) -> Bool {
        number.wholeMatch(of: /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+\-]?[0-9]+)?/) != nil
    }
}
