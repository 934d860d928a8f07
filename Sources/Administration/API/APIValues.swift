// The values of a request to the HTTP API: members of its path, its query and its JSON object,
// checked against what the operation declares.

import BrokerTerms
import FoundationEssentials

/// A member of a request.
public struct APIMember: Hashable, Sendable {
    /// Where it is.
    public enum Place: String, Hashable, Sendable {
        case path, query, body
    }

    /// What it may be.
    public enum Form: Hashable, Sendable {
        case text
        case texts
        /// An object whose values are texts.
        case textsByName
        case boolean
        /// A whole number up to this one.
        case number(maximum: UInt64)
        /// A whole number from 1 to this one.
        case count(maximum: UInt64)
        case choice([String])
    }

    public let name: String
    public let place: Place
    public let form: Form
    public let isRequired: Bool

    init(name: String, place: Place, form: Form, isRequired: Bool) {
        self.name = name
        self.place = place
        self.form = form
        self.isRequired = isRequired
    }

    static func path(_ name: String, _ form: Form = .text) -> APIMember {
        APIMember(name: name, place: .path, form: form, isRequired: true)
    }

    static func query(_ name: String, _ form: Form = .text, required: Bool = false) -> APIMember {
        APIMember(name: name, place: .query, form: form, isRequired: required)
    }

    /// How many items of a list are wanted at most.
    static func limit(_ maximum: Int) -> APIMember {
        .query("limit", .count(maximum: UInt64(maximum)))
    }

    static func body(_ name: String, _ form: Form = .text, required: Bool = false) -> APIMember {
        APIMember(name: name, place: .body, form: form, isRequired: required)
    }
}

/// Content that is the payload of a message, instead of a JSON object.
public struct APIPayload: Hashable, Sendable {
    public var bytes: [UInt8]
    /// `Content-Type`; nil without one.
    public var mediaType: String?

    public init(bytes: [UInt8], mediaType: String?) {
        self.bytes = bytes
        self.mediaType = mediaType
    }
}

/// The members of a request by their names.
struct APIValues {
    private var values: [String: JSONValue] = [:]
    /// The content, if it is a payload.
    let payload: APIPayload?
    private let requester: APIRequester?

    /// Reads a request whose path fits the operation.
    ///
    /// - Throws: a refusal that names the member.
    init(
        _ members: [APIMember], path: [String], query: [(name: String, value: String)],
        content: [UInt8], payload: APIPayload? = nil, by requester: APIRequester? = nil
    ) throws(AdministrationRefusal) {
        self.requester = requester
        self.payload = payload
        for (member, text) in zip(members.filter { $0.place == .path }, path) {
            values[member.name] = try Self.value(of: member, text)
        }
        for (name, text) in query {
            guard let member = members.first(where: { $0.place == .query && $0.name == name })
            else { throw Self.unknown("?\(name)", in: members, at: .query) }
            let isNew = values.updateValue(try Self.value(of: member, text), forKey: name) == nil
            guard isNew else { throw .malformed("?\(name) is repeated") }
        }
        if !content.isEmpty {
            var body = try APIBody(content)
            values.merge(try body.read(members)) { _, new in new }
        }
        for member in members where member.isRequired && values[member.name] == nil {
            throw .malformed("\(Self.path(of: member)) is missing")
        }
    }

    /// A value of a query, which is text whatever its form is.
    private static func value(
        of member: APIMember, _ text: String
    ) throws(AdministrationRefusal) -> JSONValue {
        let value: JSONValue =
            switch (member.form, text) {
            case (.boolean, "true"): .boolean(true)
            case (.boolean, "false"): .boolean(false)
            case (.number, _), (.count, _): UInt64(text).map(JSONValue.number) ?? .text(text)
            default: .text(text)
            }
        try check(value, member)
        return value
    }

    /// Refuses a value of another form than that of its member.
    static func check(
        _ value: JSONValue, _ member: APIMember
    ) throws(AdministrationRefusal) {
        switch (member.form, value) {
        case (.text, .text), (.boolean, .boolean): return
        case (.number(let maximum), .number(let number)) where number <= maximum: return
        case (.count(let maximum), .number(let number)) where number > 0 && number <= maximum:
            return
        case (.choice(let words), .text(let word)) where words.contains(word): return
        case (.texts, .array(let elements)):
            for (index, element) in elements.enumerated() {
                guard case .text = element else {
                    throw .malformed("\(path(of: member))/\(index) must be text")
                }
            }
            return
        case (.textsByName, .object(let object)):
            for (name, element) in object.sorted(by: { $0.key < $1.key }) {
                guard case .text = element else {
                    throw .malformed("\(path(of: member))/\(name) must be text")
                }
            }
            return
        default: break
        }
        let form =
            switch member.form {
            case .text: "text"
            case .texts: "a list of texts"
            case .textsByName: "an object of texts"
            case .boolean: "true or false"
            case .number(let maximum): "a whole number from 0 to \(maximum)"
            case .count(let maximum): "a whole number from 1 to \(maximum)"
            case .choice(let words): "one of \(words.joined(separator: ", "))"
            }
        throw .malformed("\(path(of: member)) must be \(form)")
    }

    private static func path(of member: APIMember) -> String {
        switch member.place {
        case .path: "{\(member.name)}"
        case .query: "?\(member.name)"
        case .body: "/\(member.name)"
        }
    }

    static func unknown(
        _ path: String, in members: [APIMember], at place: APIMember.Place
    ) -> AdministrationRefusal {
        let known = members.filter { $0.place == place }.map(\.name)
        return .malformed(
            "\(path) is not known; "
                + (known.isEmpty ? "there is no such member" : "known are ")
                + known.joined(separator: ", "))
    }

    // MARK: - Values

    /// The app in the path, or else the one of the credential.
    func app() throws(AdministrationRefusal) -> String {
        guard let app = text(optional: "app") ?? requester?.principal.app else {
            throw .malformed("{app} is missing")
        }
        return app
    }

    /// The user as whom a request acts: the one of a token, or the one that an operator or the
    /// holder of an app's key names.
    func sender() throws(AdministrationRefusal) -> String {
        let named = text(optional: "from") ?? requester?.actingUser
        if case .user(let user)? = requester?.principal {
            for other in [text(optional: "from"), requester?.actingUser] {
                guard other == nil || other == user.user else {
                    throw AdministrationRefusal(
                        .notAuthorized, "the token is the one of \(user.user)", cause: .forbidden)
                }
            }
            return user.user
        }
        guard let named else {
            throw .malformed("\(payload == nil ? "/" : "?")from is missing")
        }
        return named
    }

    /// The only device that may use the token of the request; nil for any.
    var ownDevice: String? {
        if case .user(let user)? = requester?.principal { user.device } else { nil }
    }

    /// A text that the operation declares as required.
    func text(_ name: String) throws(AdministrationRefusal) -> String {
        guard let text = text(optional: name) else { throw .malformed("\(name) is missing") }
        return text
    }

    func text(optional name: String) -> String? {
        guard case .text(let text) = values[name] else { return nil }
        return text
    }

    /// A list that the operation declares as required.
    func texts(_ name: String) throws(AdministrationRefusal) -> [String] {
        guard let texts = texts(optional: name) else { throw .malformed("\(name) is missing") }
        return texts
    }

    func texts(optional name: String) -> [String]? {
        guard case .array(let elements) = values[name] else { return nil }
        return elements.compactMap {
            if case .text(let text) = $0 { text } else { nil }
        }
    }

    func textsByName(_ name: String) -> [String: String]? {
        guard case .object(let object) = values[name] else { return nil }
        return object.compactMapValues {
            if case .text(let text) = $0 { text } else { nil }
        }
    }

    func boolean(_ name: String) -> Bool? {
        guard case .boolean(let value) = values[name] else { return nil }
        return value
    }

    func number<Number: FixedWidthInteger>(_ name: String, as type: Number.Type) -> Number? {
        guard case .number(let value) = values[name] else { return nil }
        return Number(exactly: value)
    }

    /// How many items of a list are wanted at most; nil for as many as a page has.
    var limit: Int? { number("limit", as: Int.self) }

    /// A number that the operation declares as required.
    func number(required name: String) throws(AdministrationRefusal) -> UInt64 {
        guard let number = number(name, as: UInt64.self) else {
            throw .malformed("\(name) is missing")
        }
        return number
    }

    /// A word of an enumeration that the operation declares as a choice of its words.
    func word<Word: RawRepresentable<String>>(
        _ name: String, as type: Word.Type
    ) throws(AdministrationRefusal) -> Word {
        guard let word = try word(optional: name, as: type) else {
            throw .malformed("\(name) is missing")
        }
        return word
    }

    func word<Word: RawRepresentable<String>>(
        optional name: String, as type: Word.Type
    ) throws(AdministrationRefusal) -> Word? {
        guard let text = text(optional: name) else { return nil }
        guard let word = Word(rawValue: text) else { throw .malformed("\(name) is not known") }
        return word
    }
}

/// A JSON value.
enum JSONValue: Decodable, Hashable {
    case null
    case boolean(Bool)
    /// A whole number; others are ``other``.
    case number(UInt64)
    case text(String)
    case array([JSONValue])
    case object([String: JSONValue])
    /// A number that no member may be.
    case other

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let text = try? value.decode(String.self) {
            // First, because a decoding that fails is slow, and lists of users are long.
            self = .text(text)
        } else if let boolean = try? value.decode(Bool.self) {
            self = .boolean(boolean)
        } else if let number = try? value.decode(UInt64.self) {
            self = .number(number)
        } else if let array = try? value.decode([JSONValue].self) {
            self = .array(array)
        } else if let object = try? value.decode([String: JSONValue].self) {
            self = .object(object)
        } else {
            self = .other
        }
    }
}
