// What a request for a list asks besides what its operation knows: conditions on the items, as
// `queue.messageCount[gt]=100`, or how many there are, as `count=true`.

/// A condition on one field of an item.
public struct ListCondition: Hashable, Sendable {
    /// How a field is compared.
    public enum Comparison: String, Hashable, Sendable, CaseIterable {
        case eq, ne, lt, lte, gt, gte, `in`, prefix

        /// Whether fields of a form can be compared so: numbers have an order, texts have prefixes.
        func fits(_ form: APIList.Field.Form) -> Bool {
            switch self {
            case .eq, .ne: true
            case .in: form != .boolean
            case .lt, .lte, .gt, .gte: form == .number
            case .prefix: form == .text
            }
        }
    }

    /// What the value of the field has to be. Values are JSON, as the broker writes it.
    enum Test: Hashable, Sendable {
        case isOneOf([[UInt8]])
        /// A field that is absent is none of them.
        case isNoneOf([[UInt8]])
        case begins([UInt8])
        /// Nil if no number is within.
        case isWithin(ClosedRange<UInt64>?)
    }

    /// The names of the member and of the object that contains it, in the order of a path.
    let path: [[UInt8]]
    let test: Test

    /// The values of an `in`: more need a list of one's own.
    public static let valueCountMaximum = 64

    fileprivate init(
        _ field: APIList.Field, _ comparison: Comparison, with text: String, in member: String
    ) throws(AdministrationRefusal) {
        guard comparison.fits(field.form) else {
            let known = Comparison.allCases.filter { $0.fits(field.form) }.map(\.rawValue)
            throw .malformed(
                "?\(member) is not known; \(field.name) has \(known.joined(separator: ", "))")
        }
        path = field.name.split(separator: ".").map { Array($0.utf8) }
        switch comparison {
        case .eq: test = .isOneOf([try Self.json(text, field.form, in: member)])
        case .ne: test = .isNoneOf([try Self.json(text, field.form, in: member)])
        case .in:
            let texts = text.split(separator: ",", omittingEmptySubsequences: false)
            guard texts.count <= Self.valueCountMaximum else {
                throw .malformed("?\(member) has more than \(Self.valueCountMaximum) values")
            }
            var values: [[UInt8]] = []
            for text in texts {
                values.append(try Self.json(String(text), field.form, in: member))
            }
            test = .isOneOf(values)
        case .prefix: test = .begins(try Self.json(text, field.form, in: member).dropLast())
        case .lt, .lte, .gt, .gte:
            let number = try Self.number(text, in: member)
            test = .isWithin(Self.range(comparison, number))
        }
    }

    /// The numbers that compare so with `number`; nil if there are none.
    private static func range(
        _ comparison: Comparison, _ number: UInt64
    ) -> ClosedRange<UInt64>? {
        switch comparison {
        case .lt: number == 0 ? nil : 0...number - 1
        case .lte: 0...number
        case .gt: number == .max ? nil : number + 1 ... .max
        case .gte: number ... .max
        case .eq, .ne, .in, .prefix: preconditionFailure("\(comparison) is no order")
        }
    }

    private static func number(
        _ text: String, in member: String
    ) throws(AdministrationRefusal) -> UInt64 {
        // An Int reads a sign too, which no number of the broker has.
        guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = UInt64(text) else {
            throw .malformed("?\(member) must be a whole number from 0 to \(UInt64.max)")
        }
        return number
    }

    private static func json(
        _ text: String, _ form: APIList.Field.Form, in member: String
    ) throws(AdministrationRefusal) -> [UInt8] {
        switch form {
        case .number: return Array("\(try number(text, in: member))".utf8)
        case .boolean:
            guard text == "true" || text == "false" else {
                throw .malformed("?\(member) must be true or false")
            }
            return Array(text.utf8)
        case .text:
            // Without the line feed.
            return AdministrationLine.encode(JSONValue.text(text)).dropLast()
        }
    }
}

/// The conditions of a request for a list.
public struct ListQuery: Sendable {
    public let list: APIList
    public let conditions: [ListCondition]
    /// Whether the answer is how many items there are.
    public let isCount: Bool
    /// The members of the query that are for the operation.
    public let members: [(name: String, value: String)]

    /// More conditions than an item has fields have no use.
    public static let conditionCountMaximum = 16
    /// The member of a query that asks for ``isCount``.
    static let countName = "count"

    /// Reads the query of a request; nil if it has neither conditions nor asks for a count, or the
    /// operation is no list.
    ///
    /// - Throws: a refusal that names the member.
    public init?(
        _ query: [(name: String, value: String)], of operation: APIOperation
    ) throws(AdministrationRefusal) {
        guard !query.isEmpty, let list = operation.list else { return nil }
        var conditions: [ListCondition] = []
        var members: [(name: String, value: String)] = []
        var seen: Set<String> = []
        var isCount: Bool?
        for (name, value) in query {
            if operation.members.contains(where: { $0.place == .query && $0.name == name }) {
                members.append((name, value))
                continue
            }
            guard seen.insert(name).inserted else { throw .malformed("?\(name) is repeated") }
            if name == Self.countName {
                guard value == "true" || value == "false" else {
                    throw .malformed("?\(name) must be true or false")
                }
                isCount = value == "true"
            } else if let (field, comparison) = try Self.condition(name, of: list) {
                conditions.append(try ListCondition(field, comparison, with: value, in: name))
            } else {
                // The operation refuses it, and says what is known.
                members.append((name, value))
            }
        }
        if conditions.isEmpty, isCount == nil { return nil }
        guard conditions.count <= Self.conditionCountMaximum else {
            throw .malformed("more than \(Self.conditionCountMaximum) conditions")
        }
        self.list = list
        self.conditions = conditions
        self.isCount = isCount ?? false
        self.members = members
    }

    /// What `FIELD` or `FIELD[COMPARISON]` compares; nil for what is no field.
    private static func condition(
        _ name: String, of list: APIList
    ) throws(AdministrationRefusal) -> (APIList.Field, ListCondition.Comparison)? {
        guard name.last == "]", let bracket = name.firstIndex(of: "[") else {
            return list.fields.first { $0.name == name }.map { ($0, .eq) }
        }
        let word = name[name.index(after: bracket)...].dropLast()
        guard let field = list.fields.first(where: { $0.name == name[..<bracket] }) else {
            throw .malformed(
                "?\(name) is not known; the members with conditions are "
                    + list.fields.map(\.name).joined(separator: ", "))
        }
        guard let comparison = ListCondition.Comparison(rawValue: String(word)) else {
            throw .malformed(
                "?\(name) is not known; comparisons are "
                    + ListCondition.Comparison.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return (field, comparison)
    }
}
