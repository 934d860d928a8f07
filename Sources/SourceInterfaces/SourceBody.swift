// The members of a request's content, whether it is JSON or a form.

/// Members by their names. A member of a form that ends in `[]` is a list, and names in brackets
/// are members of an object: `push_all[occupants_ids][]=1`.
struct SourceBody {
    private(set) var members: [String: SourceValue] = [:]

    /// - Throws: the status 400 for malformed content, 415 for content of another type.
    init(_ request: SourceRequest) throws(SourceRefusal) {
        switch request.contentForm {
        case .json:
            guard case .object(let members) = try SourceValue(request.content) else {
                throw SourceRefusal(400, "the content is not a JSON object")
            }
            self.members = members
        case .form: members = try Self.form(request.content)
        case .other:
            guard request.content.isEmpty else {
                throw SourceRefusal(415, "the content must be application/json")
            }
        }
    }

    /// - Throws: the status 400 without the member, 415 for content that is no JSON.
    init(json request: SourceRequest) throws(SourceRefusal) {
        guard request.contentForm == .json else {
            throw SourceRefusal(415, "the content must be application/json")
        }
        try self.init(request)
    }

    /// A text that is required and not empty.
    func text(_ name: String) throws(SourceRefusal) -> String {
        guard let value = members[name], value != .null else { throw .missing(name) }
        guard case .text(let text) = value else {
            throw SourceRefusal(400, field: name, "must be text")
        }
        guard !text.isEmpty else { throw .missing(name) }
        return text
    }

    /// A text or a number as text; nil if it is absent.
    func plain(_ name: String) throws(SourceRefusal) -> String? {
        guard let value = members[name], value != .null else { return nil }
        guard let text = value.plainText else {
            throw SourceRefusal(400, field: name, "must be text or a number")
        }
        return text
    }

    private static func form(_ content: [UInt8]) throws(SourceRefusal) -> [String: SourceValue] {
        var members: [String: SourceValue] = [:]
        for field in try SourceField.read(content) {
            try add(field.value, at: keys(of: field.name), to: &members)
        }
        return members
    }

    /// `a[b][]` as `a`, `b` and the empty key of a list.
    private static func keys(of name: String) throws(SourceRefusal) -> [String] {
        guard let start = name.firstIndex(of: "[") else { return [name] }
        var keys = [String(name[..<start])]
        var rest = name[start...]
        while let first = rest.first {
            guard first == "[", let end = rest.firstIndex(of: "]"),
                keys.count < SourceLimits.depthMaximum
            else { throw SourceRefusal(400, field: name, "has a malformed name") }
            keys.append(String(rest[rest.index(after: rest.startIndex)..<end]))
            rest = rest[rest.index(after: end)...]
        }
        return keys
    }

    private static func add(
        _ value: String, at keys: [String], to members: inout [String: SourceValue]
    ) throws(SourceRefusal) {
        guard let first = keys.first else { return }
        members[first] = try merged(members[first], value, at: keys.dropFirst(), named: first)
    }

    private static func merged(
        _ present: SourceValue?, _ value: String, at keys: ArraySlice<String>, named name: String
    ) throws(SourceRefusal) -> SourceValue {
        guard let key = keys.first else {
            guard present == nil else { throw SourceRefusal(400, field: name, "is repeated") }
            return .text(value)
        }
        if key.isEmpty, keys.count == 1 {
            switch present {
            case nil: return .array([.text(value)])
            case .array(let values)?: return .array(values + [.text(value)])
            default: throw SourceRefusal(400, field: name, "is a list and something else")
            }
        }
        switch present {
        case nil:
            return .object([key: try merged(nil, value, at: keys.dropFirst(), named: name)])
        case .object(var object)?:
            object[key] = try merged(object[key], value, at: keys.dropFirst(), named: name)
            return .object(object)
        default: throw SourceRefusal(400, field: name, "is an object and something else")
        }
    }
}
