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
        /// The bytes of the values, for comparisons with several: an item is compared once with
        /// all of them.
        let set: Set<[UInt8]>
        /// Of a search, in small letters.
        let part: String

        init(field: String, comparison: Comparison, values: [String]) {
            self.field = field
            self.comparison = comparison
            self.values = values
            set = Set(values.map { Array($0.utf8) })
            part = comparison == .ctn ? values[0].lowercased() : ""
        }
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
        var (valueCount, searchCount) = (0, 0)
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
            default:
                let condition = try Self.condition(member, of: fields)
                valueCount += condition.values.count
                if condition.comparison == .ctn { searchCount += 1 }
                try Self.check(valueCount, searchCount, with: member)
                conditions.append(condition)
            }
        }
        guard conditions.count <= SourceLimits.conditionsMaximum else {
            throw SourceRefusal(400, "more than \(SourceLimits.conditionsMaximum) conditions")
        }
    }

    /// Every item is compared with all conditions, on the thread that all operators wait for.
    private static func check(
        _ valueCount: Int, _ searchCount: Int, with member: SourceField
    ) throws(SourceRefusal) {
        guard valueCount <= SourceLimits.conditionValuesMaximum else {
            throw SourceRefusal(
                400, field: member.name,
                "brings the conditions to more than \(SourceLimits.conditionValuesMaximum) values")
        }
        guard searchCount <= SourceLimits.searchesMaximum else {
            throw SourceRefusal(
                400, field: member.name,
                "is a condition ctn above \(SourceLimits.searchesMaximum) of a request")
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
        if comparison == .ctn, member.value.utf8.count > SourceLimits.searchByteCountMaximum {
            throw SourceRefusal(
                400, field: member.name,
                "has more than \(SourceLimits.searchByteCountMaximum) bytes")
        }
        var values = [member.value]
        switch comparison {
        case .in, .nin, .all, .or:
            values = member.value.split(separator: ",").map(String.init)
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
        switch comparison {
        case .eq, .in, .or: return elements.contains { $0.isOne(of: set) }
        case .ne, .nin: return !elements.contains { $0.isOne(of: set) }
        case .all:
            // Null stands for two texts.
            var left = set
            for element in elements { left.subtract(element.queryTexts) }
            return left.isEmpty
        case .ctn:
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
    /// The texts of a query that stand for this value.
    fileprivate var queryTexts: [[UInt8]] {
        if self == .null { return [Array("null".utf8), []] }
        return plainText.map { [Array($0.utf8)] } ?? []
    }

    /// Whether one of the texts of a query stands for it.
    fileprivate func isOne(of texts: Set<[UInt8]>) -> Bool {
        queryTexts.contains { texts.contains($0) }
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
