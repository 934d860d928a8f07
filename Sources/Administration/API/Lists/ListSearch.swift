// A search of a list for the items that fulfil the conditions of a request, page by page.

/// A search that goes on until it has found enough, or has compared enough.
public struct ListSearch: Sendable {
    private let query: ListQuery
    /// How many items the answer has at most.
    private let limit: Int
    private var found: [[UInt8]] = []
    private var foundByteCount = 0
    private var count = 0
    private var comparedCount = 0
    private var turnComparedCount = 0
    /// Where the list goes on, as JSON; nil at its end.
    private var next: [UInt8]?
    /// The `last` of the answer, of lists that have one.
    private var last: [UInt8]?
    private var hasBegun = false

    /// Things that are compared in one turn, while messages wait: 3 ms of sessions, which take 15
    /// microseconds each (docs/PERFORMANCE.md).
    static let turnMaximum = 200
    /// Things that one request compares: 1.5 s of turns, between which others take theirs.
    public static let comparedCountMaximum = 100_000
    /// Bytes of the items of an answer: those of 1,000 sessions with long names.
    static let foundByteCountMaximum = 1 << 20

    /// - Parameters:
    ///   - query: what the request asks for.
    ///   - operation: what lists the items.
    ///   - path: the values of the operation's path.
    /// - Throws: a refusal of the members that are for the operation.
    public init(
        _ query: ListQuery, of operation: APIOperation, path: [String], by requester: APIRequester?
    ) throws(AdministrationRefusal) {
        _ = try operation.command(
            path: path, query: query.members, content: [], by: requester)
        self.query = query
        let asked = query.members.first { $0.name == "limit" }.flatMap { Int($0.value) }
        limit = query.isCount ? .max : asked ?? query.list.pageMaximum ?? .max
    }

    /// The query of the page that comes next.
    public var page: [(name: String, value: String)] {
        guard let cursor = query.list.cursor, let pageCount else { return query.members }
        var page = query.members.filter { $0.name != "limit" }
        page.append(("limit", "\(pageCount)"))
        if hasBegun, let next {
            page.removeAll { $0.name == cursor }
            // A text of a cursor is a token's id, which has no escapes.
            let text = next.first == UInt8(ascii: "\"") ? next.dropFirst().dropLast() : next[...]
            page.append((cursor, String(decoding: text, as: UTF8.self)))
        }
        return page
    }

    /// The items of a page: as many as may still be found, so that the page ends where the answer
    /// does; nil for a list without pages.
    private var pageCount: Int? {
        query.list.pageMaximum.map { min(limit - found.count, $0, Self.turnMaximum) }
    }

    /// Takes the answer to ``page``.
    public mutating func take(_ reply: [UInt8]) {
        let page = ListPage(reply, list: query.list.name)
        // A page that is not the last one and has fewer items has looked at others, as a search in
        // history does.
        let examinedCount = max(page.items.count, page.next == nil ? 1 : pageCount ?? 1)
        hasBegun = true
        next = page.next.map { Array($0) }
        last = page.last.map { Array($0) }
        comparedCount += examinedCount
        turnComparedCount += examinedCount
        for item in page.items where query.conditions.allSatisfy({ $0.isFulfilled(by: item) }) {
            count += 1
            if query.isCount { continue }
            found.append(Array(item))
            foundByteCount += item.count
        }
    }

    /// Whether the answer is complete, or as long as answers are.
    public var isComplete: Bool {
        hasBegun
            && (next == nil || query.list.cursor == nil || found.count >= limit
                || foundByteCount >= Self.foundByteCountMaximum
                || comparedCount >= Self.comparedCountMaximum)
    }

    public mutating func beginTurn() { turnComparedCount = 0 }

    /// Whether others take their turns before the next page.
    public var isTurnOver: Bool { turnComparedCount >= Self.turnMaximum }

    /// The answer, as JSON with a line feed; its members are sorted by name.
    public var answer: [UInt8] {
        var members: [(name: String, value: [UInt8])] = []
        if query.isCount {
            members.append((ListQuery.countName, Array("\(count)".utf8)))
        } else {
            let items = found.joined(separator: [UInt8(ascii: ",")])
            members.append((query.list.name, Array("[".utf8) + items + Array("]".utf8)))
        }
        if let next, query.list.cursor != nil { members.append(("next", next)) }
        if let last { members.append(("last", last)) }
        members.sort { $0.name < $1.name }
        let object = members.map { Array("\"\($0.name)\":".utf8) + $0.value }
        return Array("{".utf8) + object.joined(separator: [UInt8(ascii: ",")]) + Array("}\n".utf8)
    }
}
