// The client's side of the HTTP API: what a request of the admin socket is as an HTTP request, and
// what an HTTP answer is as a reply.

/// A request as the HTTP API expects it.
public struct APIMessage: Hashable, Sendable {
    public let method: APIMethod
    /// Path and query, with escapes.
    public let target: String
    /// A JSON object; nil if the operation takes no content.
    public let content: [UInt8]?

    /// The message that the broker reads as this request.
    public init(_ request: some AdministrationRequest) {
        let command: AdministrationCommand
        var values: [String: JSONValue] = [:]
        do throws(AdministrationRefusal) {
            command = try AdministrationCommand(line: request.line)
            let object = AdministrationLine.encode(request)
            Self.collect(try AdministrationLine.decode(JSONValue.self, from: object), into: &values)
        } catch {
            preconditionFailure("\(request) cannot be read again: \(error.message)")
        }
        // A request may have several operations, of which one has this meaning.
        for operation in APIOperation.all where operation.kind == command.kind {
            guard let message = Self(operation, values, meaning: command) else { continue }
            self = message
            return
        }
        preconditionFailure("no operation of the API has the meaning of \(request)")
    }

    /// The message of an operation; nil if it means something else.
    private init?(
        _ operation: APIOperation, _ values: [String: JSONValue],
        meaning command: AdministrationCommand
    ) {
        var path: [String] = []
        var query: [(name: String, value: String)] = []
        var body: [String: JSONValue] = [:]
        for member in operation.members {
            guard let value = values[member.name] else {
                if member.isRequired { return nil }
                continue
            }
            switch member.place {
            case .path: path.append(value.text)
            case .query: query.append((member.name, value.text))
            case .body: body[member.name] = value
            }
        }
        let content =
            operation.takesContent ? AdministrationLine.encode(JSONValue.object(body)) : nil
        let meant = try? operation.command(path: path, query: query, content: content ?? [])
        guard meant == command else { return nil }
        method = operation.method
        self.content = content
        var segments = path[...]
        var target = APIOperation.root
        for segment in operation.path.split(separator: "/") {
            let isMember = segment.hasPrefix("{")
            target += "/" + (isMember ? Self.escaped(segments.removeFirst()) : String(segment))
        }
        for (index, member) in query.enumerated() {
            target += index == 0 ? "?" : "&"
            target += "\(member.name)=\(Self.escaped(member.value))"
        }
        self.target = target
    }

    /// The members of a request, which its selection or change may contain.
    private static func collect(
        _ value: JSONValue, named name: String = "", into values: inout [String: JSONValue]
    ) {
        guard case .object(let members) = value else {
            values[name] = value
            return
        }
        for (member, value) in members {
            // The value of an enumeration's case has the name of the case.
            collect(value, named: member == "_0" ? name : member, into: &values)
        }
    }

    /// Text with everything escaped that is not unreserved (RFC 3986, 2.3).
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                escaped.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                escaped += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
        return escaped
    }
}

extension AdministrationRequest {
    /// The reply in an answer of the HTTP API.
    ///
    /// - Throws: ``AdministrationError/refused(_:)`` for a problem, and
    ///   ``AdministrationError/malformedReply(_:)`` for what is no answer of the API.
    public static func reply(
        status: Int, content: [UInt8]
    ) throws(AdministrationError) -> Reply {
        let refusal: AdministrationRefusal
        do throws(AdministrationRefusal) {
            if (200...299).contains(status) {
                return try AdministrationLine.decode(Reply.self, from: content)
            }
            let problem = try AdministrationLine.decode(APIProblem.self, from: content)
            guard problem.code.number >= 0x80 else { throw .malformed("its code is no failure") }
            refusal = AdministrationRefusal(reason: problem.code.number, message: problem.detail)
        } catch {
            throw .malformedReply("HTTP status \(status), \(error.message)")
        }
        throw .refused(refusal)
    }
}

extension JSONValue {
    /// A value as the text of a path or a query.
    fileprivate var text: String {
        switch self {
        case .boolean(let boolean): "\(boolean)"
        case .number(let number): "\(number)"
        case .text(let text): text
        case .null, .array, .object, .other: ""
        }
    }
}
