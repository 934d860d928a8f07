// The lists of the HTTP API: which operations are lists, and which members of their items a
// request can set conditions on.

/// What an operation that lists items answers.
public struct APIList: Sendable {
    /// A member of an item that is text, a number or a boolean.
    public struct Field: Hashable, Sendable {
        public enum Form: Hashable, Sendable {
            case text, number, boolean
        }

        /// Its name and, before it, that of the object that contains it, as `queue.messageCount`.
        public let name: String
        public let form: Form
    }

    /// The member of the answer that is the list, as `sessions`.
    public let name: String
    public let fields: [Field]
    /// The member of a query that continues the list at the answer's `next`; nil for a list of one
    /// page.
    public let cursor: String?
    /// How many items one page has at most; nil for a list of one page.
    let pageMaximum: Int?
}

extension APIOperation {
    /// The list that its answer is: one list of objects, with nothing beside it than where it goes
    /// on and what is missing, which a search does not repeat. Nil for other operations.
    public var list: APIList? {
        guard method == .get else { return nil }
        let answer = answer
        let lists = answer.compactMap { member in
            if case .objects(let members) = member.form { (member.name, members) } else { nil }
        }
        guard let (name, members) = lists.first,
            answer.allSatisfy({ [name, "next", "last", "missingShards"].contains($0.name) })
        else { return nil }
        var pageMaximum: Int?
        if let limit = self.members.first(where: { $0.name == "limit" }),
            case .count(let maximum) = limit.form
        {
            pageMaximum = Int(maximum)
        }
        let cursor = self.members.first { $0.name == "after" || $0.name == "before" }?.name
        return APIList(
            name: name, fields: Self.fields(members, within: ""),
            cursor: answer.contains { $0.name == "next" } ? cursor : nil, pageMaximum: pageMaximum)
    }

    private static func fields(_ members: [APIAnswerMember], within path: String) -> [APIList.Field]
    {
        members.flatMap { member -> [APIList.Field] in
            let name = path + member.name
            return switch member.form {
            case .text: [APIList.Field(name: name, form: .text)]
            case .number: [APIList.Field(name: name, form: .number)]
            case .boolean: [APIList.Field(name: name, form: .boolean)]
            case .object(let members): fields(members, within: name + ".")
            case .texts, .objects: []
            }
        }
    }
}
