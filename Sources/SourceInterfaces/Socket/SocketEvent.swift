// An event of a client: its name, its data, and the number by which the answer names it.

/// One event.
public struct SocketEvent: Hashable, Sendable {
    public let name: String
    /// The first argument; null if there is none.
    let data: SourceValue
    /// The client's number; nil if it wants no answer.
    public let number: UInt64?

    /// - Throws: the status 400 for what is no event.
    public init(_ text: [UInt8], _ form: SocketForm) throws(SourceRefusal) {
        switch form {
        case .socketIO: try self.init(packet: text)
        case .plain: try self.init(object: text)
        }
    }

    private static let malformed = SourceRefusal(400, "the message is no event")

    private init(packet: [UInt8]) throws(SourceRefusal) {
        // The types of both protocols, and the name of the main namespace, which may be left out.
        var rest = packet.dropFirst(2)
        if rest.starts(with: "/,".utf8) { rest = rest.dropFirst(2) }
        let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        number = try digits.isEmpty ? nil : Self.number(String(decoding: digits, as: UTF8.self))
        guard case .array(let parts) = try SourceValue(Array(rest.dropFirst(digits.count))),
            case .text(let name)? = parts.first
        else { throw Self.malformed }
        self.name = name
        data = parts.count > 1 ? parts[1] : .null
    }

    private init(object text: [UInt8]) throws(SourceRefusal) {
        guard case .object(let members) = try SourceValue(text),
            case .text(let name)? = members["event"]
        else { throw Self.malformed }
        self.name = name
        data = members["data"] ?? .null
        switch members["id"] {
        case nil, .null?: number = nil
        case .number(let id)?: number = try Self.number("\(id)")
        default: throw SourceRefusal(400, field: "id", "must be a whole number")
        }
    }

    private static func number(_ text: String) throws(SourceRefusal) -> UInt64 {
        guard let number = UInt64(text), number < SocketLimits.numberMaximum else {
            throw SourceRefusal(400, field: "id", "must be a whole number below 2^53")
        }
        return number
    }

    // MARK: - Data

    /// The members of the data; empty where it is null.
    func members() throws(SourceRefusal) -> [String: SourceValue] {
        switch data {
        case .object(let members): return members
        case .null: return [:]
        default: throw SourceRefusal(400, "the data of the event must be an object")
        }
    }

    /// A text that is required and not empty.
    public func text(_ name: String) throws(SourceRefusal) -> String {
        guard let value = try members()[name], value != .null else { throw .missing(name) }
        guard case .text(let text) = value, !text.isEmpty else {
            throw SourceRefusal(400, field: name, "must be text")
        }
        return text
    }

    /// A whole number in a range; nil if it is absent.
    func number(_ name: String, in range: ClosedRange<Int64>) throws(SourceRefusal) -> Int64? {
        guard let value = try members()[name], value != .null else { return nil }
        guard let text = value.plainText, let number = Int64(text), range.contains(number) else {
            throw SourceRefusal(
                400, field: name,
                "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
