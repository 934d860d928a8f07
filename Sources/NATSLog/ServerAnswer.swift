// The JSON of a server's answers. A server is trusted with the log, but its answers are read as
// those of a stranger: another version may lack a member or have another kind of it.

import JSON5

/// A value of an answer. Members that are missing, or of another kind, are nil.
struct ServerAnswer {
    private let node: JSON5Node

    /// Nil if the bytes are not JSON.
    init?(_ bytes: [UInt8]) {
        guard let node = try? JSON5Parser.parse(bytes) else { return nil }
        self.node = node
    }

    private init(node: JSON5Node) { self.node = node }

    subscript(name: String) -> ServerAnswer? {
        guard case .object(let members) = node.value,
            let member = members.first(where: { $0.key == name })
        else { return nil }
        return ServerAnswer(node: member.node)
    }

    var text: String? {
        guard case .string(let text) = node.value else { return nil }
        return text
    }

    var number: Int64? {
        guard case .number(let text) = node.value else { return nil }
        return Int64(text)
    }

    var position: UInt64? {
        guard case .number(let text) = node.value else { return nil }
        return UInt64(text)
    }

    var isTrue: Bool {
        guard case .boolean(let value) = node.value else { return false }
        return value
    }

    var items: [ServerAnswer] {
        guard case .array(let items) = node.value else { return [] }
        return items.map(ServerAnswer.init(node:))
    }

    /// The error of an answer of the JetStream API.
    var error: JetStreamError? {
        guard let error = self["error"] else { return nil }
        return .refused(
            code: Int(error["err_code"]?.number ?? error["code"]?.number ?? 0),
            text: error["description"]?.text ?? "no description")
    }
}
