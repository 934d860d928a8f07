// The HTTP API as an OpenAPI 3.1 document, generated from the table of operations.

/// The document at `/api/v1/openapi.json`.
public enum APIDescription {
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
        return paths.mapValues(JSONValue.object)
    }

    private static func value(of operation: APIOperation) -> JSONValue {
        var value: [String: JSONValue] = [
            "operationId": .text(operation.identifier),
            "summary": .text(operation.summary),
            // A request presents one of these credentials.
            "security": .array(operation.serves.map { .object([$0.rawValue: .array([])]) }),
            "parameters": .array(
                operation.members.filter { $0.place != .body }.map { member in
                    [
                        "name": .text(member.name), "in": .text(member.place.rawValue),
                        "required": .boolean(member.isRequired), "schema": schema(of: member.form),
                    ]
                } + (operation.takesActingUser ? [actingUser] : [])),
            "responses": [
                "\(operation.status)": [
                    "description": "Success",
                    "content": ["application/json": ["schema": schema(of: operation.answer)]],
                ],
                "default": [
                    "description": "A refusal",
                    "content": [
                        "application/problem+json": [
                            "schema": ["$ref": "#/components/schemas/Problem"]
                        ]
                    ],
                ],
            ],
        ]
        if operation.needsRole { value["x-martlet-role"] = .text(operation.role.rawValue) }
        if operation.takesContent { value["requestBody"] = content(of: operation) }
        return .object(value)
    }

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

    private static func content(of operation: APIOperation) -> JSONValue {
        let members = operation.members.filter { $0.place == .body }
        let required = members.filter(\.isRequired).map { JSONValue.text($0.name) }
        return [
            "required": .boolean(!required.isEmpty),
            "content": [
                "application/json": [
                    "schema": [
                        "type": "object", "additionalProperties": false,
                        "required": .array(required),
                        "properties": .object(
                            [String: JSONValue](
                                uniqueKeysWithValues: members.map {
                                    ($0.name, schema(of: $0.form))
                                })),
                    ]
                ]
            ],
        ]
    }

    private static func schema(of form: APIMember.Form) -> JSONValue {
        switch form {
        case .text: ["type": "string"]
        case .texts: ["type": "array", "items": ["type": "string"]]
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
