// The HTTP API as an OpenAPI 3.1 document, generated from the table of operations.

/// The document at `/api/v1/openapi.json`.
public enum OpenAPIDocument {
    /// Its path below ``APIOperation/root``.
    public static let path = "/openapi.json"

    /// As JSON, with a line feed.
    public static let json: [UInt8] = AdministrationLine.encode(document)

    private static var document: JSONValue {
        [
            "openapi": "3.1.0",
            "info": [
                "title": "Martlet", "version": .text("\(AdministrationLine.version)"),
                "description": "The HTTP API of a Martlet broker.",
            ],
            "servers": [["url": .text(APIOperation.root)]],
            "paths": .object(paths),
            "x-martlet-fields": .object(fields.mapValues(JSONValue.text)),
            "components": [
                "securitySchemes": .object(securitySchemes),
                "schemas": ["Problem": problem],
            ],
        ]
    }

    private static var paths: [String: JSONValue] {
        var paths: [String: [String: JSONValue]] = [:]
        for operation in APIOperation.all {
            paths[operation.path, default: [:]][operation.method.rawValue.lowercased()] =
                value(of: operation)
        }
        for (path, stream) in streams { paths[path] = ["get": stream] }
        return paths.mapValues(JSONValue.object)
    }

    private static func value(of operation: APIOperation) -> JSONValue {
        var value: [String: JSONValue] = [
            "operationId": .text(operation.identifier),
            "summary": .text(operation.summary),
            // A request presents one of these credentials.
            "security": .array(operation.serves.map { .object([$0.rawValue: .array([])]) }),
            "parameters": .array(
                operation.members.filter { $0.place != .body }.map { parameter(of: $0) }
                    + operation.payloadMembers.map {
                        parameter(of: $0, "Only with a payload as content.")
                    }
                    + conditions(of: operation)
                    + (operation.takesActingUser ? [actingUser] : [])
                    + (operation.takesIdempotencyKey ? [idempotencyKey] : [])),
            "responses": .object(responses(of: operation)),
        ]
        if operation.needsRole { value["x-martlet-role"] = .text(operation.role.rawValue) }
        if operation.takesContent { value["requestBody"] = content(of: operation) }
        return .object(value)
    }

    private static func parameter(of member: APIMember, _ description: String? = nil) -> JSONValue {
        var value: [String: JSONValue] = [
            "name": .text(member.name), "in": .text(member.place.rawValue),
            "required": .boolean(member.isRequired), "schema": schema(of: member.form),
        ]
        if let description { value["description"] = .text(description) }
        return .object(value)
    }

    private static func responses(of operation: APIOperation) -> [String: JSONValue] {
        var responses: [String: JSONValue] = [
            "\(operation.status)": [
                "description": "Success",
                "content": ["application/json": ["schema": answer(of: operation)]],
            ],
            "default": refusal,
        ]
        if operation.isAnsweredEarly {
            responses["202"] = [
                "description": "With wait=0: the broker has the message, and has not stored it.",
                "content": ["application/json": ["schema": ["type": "object"]]],
            ]
        }
        return responses
    }

    private static func answer(of operation: APIOperation) -> JSONValue {
        let answer = schema(of: operation.answer)
        guard operation.list != nil else { return answer }
        let others = operation.answer.filter { $0.name == "next" || $0.name == "last" }
        // With count=true.
        let count = schema(of: [.number(ListQuery.countName)] + others)
        return ["anyOf": .array([answer, count])]
    }

    /// The conditions that a list takes, and `count`.
    private static func conditions(of operation: APIOperation) -> [JSONValue] {
        guard let list = operation.list else { return [] }
        var conditions = [APIMember.query(ListQuery.countName, .boolean)]
        for field in list.fields {
            let form: APIMember.Form =
                switch field.form {
                case .text: .text
                case .number: .number(maximum: .max)
                case .boolean: .boolean
                }
            if !operation.members.contains(where: { $0.place == .query && $0.name == field.name }) {
                conditions.append(.query(field.name, form))
            }
            for comparison in ListCondition.Comparison.allCases where comparison.fits(field.form) {
                // The values of an `in` are joined by commas.
                conditions.append(
                    .query(
                        "\(field.name)[\(comparison.rawValue)]", comparison == .in ? .text : form))
            }
        }
        return conditions.map { parameter(of: $0) }
    }

    static var refusal: JSONValue {
        [
            "description": "A refusal",
            "content": [
                "application/problem+json": ["schema": ["$ref": "#/components/schemas/Problem"]]
            ],
        ]
    }

    /// The fields of HTTP that the broker reads in every request, by name. OpenAPI describes others
    /// as parameters of operations, `Authorization` as the security of them, and `Content-Type` by
    /// the types of their content.
    static let fields = [
        "Host": "Required. The dashboard's and the page's own origin are compared with it.",
        "Connection": "close, keep-alive and upgrade are obeyed.",
        "Content-Length": "The bytes of the content, at most 65,536.",
        "Transfer-Encoding": "chunked; no other coding.",
        "Content-Encoding": "Refused with 415: content is read as it is.",
        "Expect": "100-continue; any other expectation is refused with 417.",
        "Origin": "Sent by browsers. Pages of other origins need web.allowedOrigins.",
        "Access-Control-Request-Method": "Sent by browsers in a preflight (OPTIONS).",
        "X-Forwarded-For": "The client, from reverse proxies that the listener names.",
        "Accept": "application/openmetrics-text, for /metrics.",
        "Range": "Bytes of a stored file, for the interface of Diuit.",
        "QB-Token": "A user's token, for the interface of QuickBlox.",
        "X-Diuit-Application-Id": "The app, for a login at the interface of Diuit.",
        "Upgrade": "websocket, for /socket, /mqtt and /mrt.",
        "Sec-WebSocket-Key": "Required for /socket, /mqtt and /mrt.",
        "Sec-WebSocket-Version": "13, for /socket, /mqtt and /mrt.",
        "Sec-WebSocket-Protocol": "mqtt, mqttv3.1 or mrt, for /mqtt and /mrt.",
    ]

    /// The kinds of principals, by what their credentials begin with.
    private static var securitySchemes: [String: JSONValue] {
        [
            APIPrincipal.Kind.operator.rawValue: scheme("An operator's token, mo1_…"),
            APIPrincipal.Kind.appKey.rawValue: scheme("A key of an app, mk1_…"),
            APIPrincipal.Kind.user.rawValue: scheme("A user's token, mt1_…, or a web token (JWT)"),
        ]
    }

    private static func scheme(_ description: String) -> JSONValue {
        ["type": "http", "scheme": "bearer", "description": .text(description)]
    }

    private static var actingUser: JSONValue {
        [
            "name": "Martlet-User", "in": "header", "required": false,
            "schema": ["type": "string"],
            "description": "Stands for the member from, with the escapes of a path.",
        ]
    }

    private static var idempotencyKey: JSONValue {
        [
            "name": "Idempotency-Key", "in": "header", "required": false,
            "schema": ["type": "string"],
            "description": "Makes the message safe to repeat for 24 hours: 1 to 128 characters.",
        ]
    }

    private static func content(of operation: APIOperation) -> JSONValue {
        let members = operation.members.filter { $0.place == .body }
        let required = members.filter(\.isRequired).map { JSONValue.text($0.name) }
        var types: [String: JSONValue] = [
            "application/json": [
                "schema": [
                    "type": "object", "additionalProperties": false,
                    "required": .array(required),
                    "properties": .object(
                        [String: JSONValue](
                            uniqueKeysWithValues: members.map {
                                ($0.name, schema(of: $0))
                            })),
                ]
            ]
        ]
        // Any other type is the payload itself, which has no schema (OpenAPI 3.1, 4.8.14).
        if !operation.payloadMembers.isEmpty { types["*/*"] = .object([:]) }
        return ["required": .boolean(!required.isEmpty), "content": .object(types)]
    }

    /// The schema of a member of a content: null stands for one that is left out.
    private static func schema(of member: APIMember) -> JSONValue {
        let schema = schema(of: member.form)
        return member.isRequired ? schema : ["anyOf": .array([schema, ["type": "null"]])]
    }

    private static func schema(of form: APIMember.Form) -> JSONValue {
        switch form {
        case .text: ["type": "string"]
        case .texts: ["type": "array", "items": ["type": "string"]]
        case .textsByName: ["type": "object", "additionalProperties": ["type": "string"]]
        case .boolean: ["type": "boolean"]
        case .number(let maximum):
            ["type": "integer", "minimum": .number(0), "maximum": .number(maximum)]
        case .count(let maximum):
            ["type": "integer", "minimum": .number(1), "maximum": .number(maximum)]
        case .choice(let words): ["type": "string", "enum": .array(words.map(JSONValue.text))]
        }
    }

    private static func schema(of members: [APIAnswerMember]) -> JSONValue {
        let required = members.filter { !$0.isOptional }.map { JSONValue.text($0.name) }
        return [
            "type": "object", "required": .array(required),
            "properties": .object(
                [String: JSONValue](
                    uniqueKeysWithValues: members.map { ($0.name, schema(of: $0.form)) })),
        ]
    }

    private static func schema(of form: APIAnswerMember.Form) -> JSONValue {
        switch form {
        case .text: ["type": "string"]
        case .texts: ["type": "array", "items": ["type": "string"]]
        case .boolean: ["type": "boolean"]
        case .number: ["type": "integer", "minimum": .number(0)]
        case .object(let members): schema(of: members)
        case .objects(let members): ["type": "array", "items": schema(of: members)]
        }
    }

    /// As ``APIProblem`` is encoded.
    private static var problem: JSONValue {
        [
            "type": "object",
            "required": .array(["type", "title", "status", "detail", "code"]),
            "properties": [
                "type": ["type": "string"], "title": ["type": "string"],
                "status": ["type": "integer"], "detail": ["type": "string"],
                "code": [
                    "type": "object", "required": .array(["number", "name"]),
                    "properties": ["number": ["type": "integer"], "name": ["type": "string"]],
                ],
            ],
        ]
    }
}

extension APIOperation {
    /// A name that is unique among all operations, for generated clients: `token-mint`, or
    /// `group-member-put` where a request has several operations.
    var identifier: String {
        let name = kind.rawValue.replacing(".", with: "-")
        // What operators do not do is another operation.
        guard serves.contains(.operator) else { return "own-\(name)" }
        let isAlone = Self.all.count { $0.kind == kind && $0.serves.contains(.operator) } == 1
        guard !isAlone else { return name }
        let isTwice =
            Self.all.count {
                $0.kind == kind && $0.method == method && $0.words.last == words.last
            } > 1
        let end = words.suffix(isTwice ? 2 : 1).joined(separator: "-")
        return "\(name)-\(end)-\(method.rawValue.lowercased())"
    }

    /// The segments of the path that are no members.
    private var words: [Substring] {
        path.split(separator: "/").filter { !$0.hasPrefix("{") }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    init(stringLiteral value: String) { self = .text(value) }
    init(booleanLiteral value: Bool) { self = .boolean(value) }
    init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object([String: JSONValue](uniqueKeysWithValues: elements))
    }
}

extension JSONValue: Encodable {
    func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .null, .other: try value.encodeNil()
        case .boolean(let boolean): try value.encode(boolean)
        case .number(let number): try value.encode(number)
        case .text(let text): try value.encode(text)
        case .array(let elements): try value.encode(elements)
        case .object(let members): try value.encode(members)
        }
    }
}
