// Event streams and JSON sockets in the OpenAPI document. They are no operations: their requests
// stand for logins, and docs/JSON.md describes their messages.

extension OpenAPIDocument {
    /// By path.
    static var streams: [String: JSONValue] {
        [
            "/events": [
                "operationId": "event-stream",
                "summary":
                    "Receives a user's messages, or an operator the log, as server-sent events.",
                "security": [["appKey": []], ["user": []], ["operator": []]],
                "parameters": [
                    query("device", ["type": "string"], about: "The device of the session."),
                    query(
                        "subscribe", ["type": "array", "items": ["type": "string"]],
                        about: "Topic filters, at most 64."),
                    query(
                        "window", number(1...65_535), about: "Messages that the stream may contain."
                    ),
                    query(
                        "sessionExpirySeconds", number(0...UInt64(UInt32.max)),
                        about: "How long the session outlives the stream."),
                    query(
                        "cleanStart", ["type": "boolean"],
                        about: "Whether an old session is ended."),
                    query("app", ["type": "string"], about: "The app of an app key."),
                    query(
                        "user", ["type": "string"],
                        about: "The user for whom an app key logs in."),
                    header(
                        "Last-Event-ID",
                        about: "The id of the last event that the client has: it and those before "
                            + "it are acknowledged."),
                    actingUser,
                ],
                "responses": [
                    "200": [
                        "description": "The stream",
                        "content": ["text/event-stream": ["schema": ["type": "string"]]],
                    ],
                    "default": refusal,
                ],
            ],
            "/socket": [
                "operationId": "json-socket",
                "summary": "Becomes a WebSocket whose messages are JSON; the first one logs in.",
                "security": .array([]),
                "parameters": [
                    query(
                        "user", ["type": "string"],
                        about: "The user of an app key, if connect names none: browsers cannot "
                            + "send Martlet-User with a handshake."),
                    actingUser,
                ],
                "responses": [
                    "101": ["description": "The WebSocket"],
                    "default": ["description": "A refusal, as text"],
                ],
            ],
        ]
    }

    private static var actingUser: JSONValue {
        header(
            "Martlet-User",
            about: "The user for whom an app key logs in, if the query names none, with the "
                + "escapes of a path.")
    }

    private static func number(_ range: ClosedRange<UInt64>) -> JSONValue {
        [
            "type": "integer", "minimum": .number(range.lowerBound),
            "maximum": .number(range.upperBound),
        ]
    }

    private static func query(
        _ name: String, _ schema: JSONValue, about description: String
    ) -> JSONValue {
        parameter(name, in: "query", schema, about: description)
    }

    private static func header(_ name: String, about description: String) -> JSONValue {
        parameter(name, in: "header", ["type": "string"], about: description)
    }

    private static func parameter(
        _ name: String, in place: String, _ schema: JSONValue, about description: String
    ) -> JSONValue {
        [
            "name": .text(name), "in": .text(place), "required": false, "schema": schema,
            "description": .text(description),
        ]
    }
}
