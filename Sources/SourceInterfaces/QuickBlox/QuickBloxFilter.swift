// The list grammar of QuickBlox: `field=value`, `field[op]=value`, `limit`, `skip`, `count`,
// `sort_asc` and `sort_desc`.

/// What a request for a list asks for.
struct QuickBloxFilter {
    enum Comparison: String, CaseIterable {
        case lt, lte, gt, gte, ne, `in`, nin, all, or, ctn
        case eq
    }

    struct Condition {
        let field: String
        let comparison: Comparison
        /// One, unless the comparison is with several.
        let values: [String]
    }

    /// The fields of a kind of list.
    struct Fields {
        let known: Set<String>
        /// Members of the query that are no conditions.
        let reserved: Set<String>
        let sortable: Set<String>
        /// Fields that conditions cannot name.
        let unfiltered: Set<String>
        /// Whether other fields are an app's own.
        let allowsOthers: Bool
        let newestFirst: String?
    }

    private(set) var conditions: [Condition] = []
    private(set) var limit = SourceLimits.pageCountDefault
    private(set) var skip = 0
    private(set) var countsOnly = false
    private(set) var sortField: String?
    private(set) var isAscending = false
    /// Whether the items come from the newest one.
    private let isNewestFirst: Bool

    /// - Throws: the status 400, with the field.
    init(_ query: [SourceField], of fields: Fields) throws(SourceRefusal) {
        sortField = fields.newestFirst
        isNewestFirst = fields.newestFirst != nil
        for member in query where !fields.reserved.contains(member.name) {
            switch member.name {
            case "limit":
                limit = try Self.number(member, 0...SourceLimits.pageCountDefault)
            case "skip":
                skip = try Self.number(member, 0...SourceLimits.dialogsMaximum)
            case "count": countsOnly = try Self.number(member, 0...1) == 1
            case "sort_asc", "sort_desc":
                guard fields.sortable.contains(member.value) else {
                    throw SourceRefusal(
                        400, field: member.name,
                        "must be one of \(fields.sortable.sorted().joined(separator: ", "))")
                }
                sortField = member.value
                isAscending = member.name == "sort_asc"
            default: conditions.append(try Self.condition(member, of: fields))
            }
        }
        guard conditions.count <= SourceLimits.conditionsMaximum else {
            throw SourceRefusal(400, "more than \(SourceLimits.conditionsMaximum) conditions")
        }
    }

    /// Whether it asks for the newest items, without conditions: those of its page are enough.
    var asksForNewest: Bool {
        conditions.isEmpty && !countsOnly && !isAscending && isNewestFirst
    }

    /// Whether a condition names a field.
    func names(_ field: String) -> Bool { conditions.contains { $0.field == field } }

    private static func number(
        _ member: SourceField, _ range: ClosedRange<Int>
    ) throws(SourceRefusal) -> Int {
        guard let number = Int(member.value), range.contains(number) else {
            throw SourceRefusal(
                400, field: member.name,
                "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    private static func condition(
        _ member: SourceField, of fields: Fields
    ) throws(SourceRefusal) -> Condition {
        var field = member.name
        var comparison = Comparison.eq
        if let start = field.firstIndex(of: "[") {
            let word = field[field.index(after: start)...]
            guard word.last == "]", let named = Comparison(rawValue: String(word.dropLast())),
                named != .eq
            else { throw SourceRefusal(400, field: member.name, "has an unknown operator") }
            comparison = named
            field = String(field[..<start])
        }
        guard !fields.unfiltered.contains(field),
            fields.known.contains(field)
                || fields.allowsOthers
        else { throw SourceRefusal(400, field: member.name, "is no field of a condition") }
        // A text is compared with each of a thousand messages.
        if comparison == .ctn, member.value.utf8.count > SourceLimits.searchBytesMaximum {
            throw SourceRefusal(
                400, field: member.name,
                "has more than \(SourceLimits.searchBytesMaximum) bytes")
        }
        var values = [member.value]
        switch comparison {
        case .in, .nin, .all, .or:
            values = member.value.split(separator: ",").map(String.init)
            guard values.count <= SourceLimits.conditionValuesMaximum else {
                throw SourceRefusal(
                    400, field: member.name,
                    "has more than \(SourceLimits.conditionValuesMaximum) values")
            }
        default: break
        }
        return Condition(field: field, comparison: comparison, values: values)
    }

    // MARK: - Items

    /// The items that fulfil all conditions, in order.
    func select(_ items: [[String: SourceValue]]) -> [[String: SourceValue]] {
        let selected = items.filter { item in
            conditions.allSatisfy { $0.matches(item[$0.field] ?? .null) }
        }
        guard let sortField else { return selected }
        return selected.enumerated().sorted { first, second in
            let (a, b) = (first.element[sortField] ?? .null, second.element[sortField] ?? .null)
            if let order = Self.precedes(a, b), order != Self.precedes(b, a) {
                return order == isAscending
            }
            // What is equal stays in order. Times are seconds, so that many may be equal.
            return isNewestFirst && isAscending
                ? first.offset > second.offset : first.offset < second.offset
        }.map(\.element)
    }

    /// The page of the items that the request asks for.
    func page(_ items: [[String: SourceValue]]) -> [[String: SourceValue]] {
        Array(items.dropFirst(skip).prefix(limit))
    }

    /// Nil for values that cannot be compared; null is before all others.
    private static func precedes(_ first: SourceValue, _ second: SourceValue) -> Bool? {
        if first == .null { return second != .null }
        if second == .null { return false }
        if case .number(let a) = first, case .number(let b) = second { return a < b }
        guard let a = first.plainText, let b = second.plainText else { return nil }
        return a < b
    }
}

extension QuickBloxFilter.Condition {
    /// Whether a value fulfils the condition. A list fulfils it if one of its elements does.
    func matches(_ value: SourceValue) -> Bool {
        let elements: [SourceValue] = if case .array(let array) = value { array } else { [value] }
        func hasAny(of values: [String]) -> Bool {
            elements.contains { element in values.contains { element.equals($0) } }
        }
        switch comparison {
        case .eq, .in, .or: return hasAny(of: values)
        case .ne, .nin: return !hasAny(of: values)
        case .all:
            return values.allSatisfy { value in elements.contains { $0.equals(value) } }
        case .ctn:
            let part = values[0].lowercased()
            return elements.contains {
                $0.plainText?.lowercased().contains(part) ?? false
            }
        case .lt: return elements.contains { $0.isOrdered(values[0]) { $0 < 0 } }
        case .lte: return elements.contains { $0.isOrdered(values[0]) { $0 <= 0 } }
        case .gt: return elements.contains { $0.isOrdered(values[0]) { $0 > 0 } }
        case .gte: return elements.contains { $0.isOrdered(values[0]) { $0 >= 0 } }
        }
    }
}

extension SourceValue {
    /// Whether it is the value that a text of a query stands for.
    fileprivate func equals(_ text: String) -> Bool {
        if self == .null { return text == "null" || text.isEmpty }
        return plainText == text
    }

    /// Whether the order of this value and a text is accepted: -1, 0 or 1. Numbers are compared as
    /// numbers. Null has no order.
    fileprivate func isOrdered(_ text: String, _ accepts: (Int) -> Bool) -> Bool {
        if case .number(let number) = self, let other = Int64(text) {
            return accepts(number < other ? -1 : number == other ? 0 : 1)
        }
        guard let own = plainText else { return false }
        return accepts(own < text ? -1 : own == text ? 0 : 1)
    }
}
