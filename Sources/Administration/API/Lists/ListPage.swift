// Reads a page of a list that the broker has written, to find the items that fulfil conditions.
// Things stay the bytes that they are: most of them are only looked at.

/// The items of one page.
struct ListPage {
    /// The items, as JSON.
    private(set) var items: [ArraySlice<UInt8>] = []
    /// Where the list goes on, as JSON; nil at its end.
    private(set) var next: ArraySlice<UInt8>?
    /// The number of the latest item, of lists that have one.
    private(set) var last: ArraySlice<UInt8>?

    /// - Parameters:
    ///   - reply: the answer of an operation, as ``AdministrationLine`` writes it.
    ///   - list: the name of the list in it.
    init(_ reply: [UInt8], list: String) {
        var object = WrittenJSON(reply[...])
        object.forEachMember { name, value in
            if name.elementsEqual(list.utf8) {
                var elements = WrittenJSON(value)
                elements.forEachElement { items.append($0) }
            } else if name.elementsEqual("next".utf8) {
                next = value
            } else if name.elementsEqual("last".utf8) {
                last = value
            }
        }
    }
}

extension ListCondition {
    /// Whether an item fulfils it.
    func isFulfilled(by item: ArraySlice<UInt8>) -> Bool {
        let value = Self.value(at: path[...], of: item)
        switch test {
        case .isOneOf(let values):
            return value.map { value in values.contains { $0.elementsEqual(value) } } ?? false
        case .isNoneOf(let values):
            return value.map { value in !values.contains { $0.elementsEqual(value) } } ?? true
        case .begins(let prefix): return value?.starts(with: prefix) ?? false
        case .isWithin(let range):
            guard let range, let value, let number = UInt64(String(decoding: value, as: UTF8.self))
            else { return false }
            return range.contains(number)
        }
    }

    private static func value(
        at path: ArraySlice<[UInt8]>, of object: ArraySlice<UInt8>
    ) -> ArraySlice<UInt8>? {
        guard let first = path.first else { return object }
        var found: ArraySlice<UInt8>?
        var members = WrittenJSON(object)
        members.forEachMember { name, value in
            if name.elementsEqual(first) { found = value }
        }
        return found.flatMap { value(at: path.dropFirst(), of: $0) }
    }
}

/// A cursor over JSON that the broker has written itself: without white space, without escapes in
/// the names of members, and without null.
private struct WrittenJSON {
    private var rest: ArraySlice<UInt8>

    init(_ text: ArraySlice<UInt8>) { rest = text }

    /// Calls `body` with each member of the object that begins here: its name, without quotes, and
    /// its value.
    mutating func forEachMember(_ body: (ArraySlice<UInt8>, ArraySlice<UInt8>) -> Void) {
        take("{")
        while !takes("}") {
            let name = takeValue()
            take(":")
            body(name.dropFirst().dropLast(), takeValue())
            _ = takes(",")
        }
    }

    /// Calls `body` with each element of the list that begins here.
    mutating func forEachElement(_ body: (ArraySlice<UInt8>) -> Void) {
        take("[")
        while !takes("]") {
            body(takeValue())
            _ = takes(",")
        }
    }

    /// Takes a whole value: to the comma or the bracket behind it that is outside of texts and
    /// brackets.
    private mutating func takeValue() -> ArraySlice<UInt8> {
        var depth = 0
        var isWithinText = false
        var offset = rest.startIndex
        scan: while offset < rest.endIndex {
            let byte = rest[offset]
            if isWithinText {
                if byte == UInt8(ascii: "\\") { offset += 1 }
                if byte == UInt8(ascii: "\"") { isWithinText = false }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isWithinText = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    if depth == 0 { break scan }
                    depth -= 1
                case UInt8(ascii: ","), UInt8(ascii: ":"): if depth == 0 { break scan }
                default: break
                }
            }
            offset += 1
        }
        precondition(
            offset > rest.startIndex && offset < rest.endIndex, "no value in \(rest.count) bytes")
        defer { rest = rest[offset...] }
        return rest[..<offset]
    }

    private mutating func takes(_ character: Unicode.Scalar) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func take(_ character: Unicode.Scalar) {
        let isThere = takes(character)
        precondition(isThere, "\(character) is missing in what the broker wrote")
    }
}
