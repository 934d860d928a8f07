// The members of the answers of the HTTP API, for the OpenAPI document and for
// docs/operating/api.md. A test compares them with the answers of a broker.

/// A member of an answer.
public struct APIAnswerMember: Hashable, Sendable {
    public indirect enum Form: Hashable, Sendable {
        case text
        case texts
        case boolean
        case number
        /// An object with these members.
        case object([APIAnswerMember])
        /// A list of such objects.
        case objects([APIAnswerMember])
    }

    public let name: String
    public let form: Form
    /// Whether it may be absent.
    public let isOptional: Bool

    private init(_ name: String, _ form: Form, isOptional: Bool = false) {
        self.name = name
        self.form = form
        self.isOptional = isOptional
    }

    static func text(_ name: String) -> Self { Self(name, .text) }
    static func text(optional name: String) -> Self { Self(name, .text, isOptional: true) }
    static func texts(_ name: String) -> Self { Self(name, .texts) }
    static func texts(optional name: String) -> Self { Self(name, .texts, isOptional: true) }
    static func boolean(_ name: String) -> Self { Self(name, .boolean) }
    static func boolean(optional name: String) -> Self { Self(name, .boolean, isOptional: true) }
    static func number(_ name: String) -> Self { Self(name, .number) }
    static func number(optional name: String) -> Self { Self(name, .number, isOptional: true) }
    static func object(_ name: String, _ members: [APIAnswerMember]) -> Self {
        Self(name, .object(members))
    }
    static func object(optional name: String, _ members: [APIAnswerMember]) -> Self {
        Self(name, .object(members), isOptional: true)
    }
    static func objects(_ name: String, _ members: APIAnswerMember...) -> Self {
        objects(name, members)
    }
    static func objects(optional name: String, _ members: [APIAnswerMember]) -> Self {
        Self(name, .objects(members), isOptional: true)
    }
    static func objects(_ name: String, _ members: [APIAnswerMember]) -> Self {
        Self(name, .objects(members))
    }
}

/// What several operations answer.
extension APIOperation {
    static let keptMessage: [APIAnswerMember] = [
        .number("number"), .text("from"), .number(optional: "t"), .text("grade"),
        .number("byteCount"), .number("unixMilliseconds"), .number(optional: "expiresUnixSeconds"),
        .object("content", content),
    ]

    static let deletion: [APIAnswerMember] = [
        .number("userCount"), .number("sessionCount"), .number("credentialCount"),
        .number("groupCount"), .number("retainedCount"), .number("conversationCount"),
        .number("messageCount"), .boolean("hasMore"),
    ]

    static let backup: [APIAnswerMember] = [
        .number("number"), .text("directory"), .boolean("isFinished"), .text(optional: "failure"),
        .number("readByteCount"), .number("totalByteCount"), .number("byteCount"),
        .texts("findings"),
    ]

    static let retained: [APIAnswerMember] = [
        .text("topic"), .text("from"), .number(optional: "t"), .text("grade"),
        .number("byteCount"), .number("unixMilliseconds"), .number(optional: "expiresUnixSeconds"),
    ]

    static let content: [APIAnswerMember] = [
        .text("base64"), .text(optional: "text"), .number("byteCount"), .boolean("isCut"),
    ]

    static let session: [APIAnswerMember] = [
        .text("user"), .text("device"), .text("dialect"), .boolean("isPersistent"),
        .number(optional: "expirySeconds"), .number(optional: "connectedUnixMilliseconds"),
        .number(optional: "awaySeconds"), .number("keepAliveSeconds"),
        .object("queue", queue), .number("underWayCount"), .texts("filters"),
        .number("filterCount"), .number("groupCount"), .boolean("hasWill"),
        .object(optional: "credential", credential), .text(optional: "address"),
        .text(optional: "listener"), .number(optional: "silentSeconds"),
    ]

    static let credential: [APIAnswerMember] = [.text("kind"), .text(optional: "id")]

    static let queue: [APIAnswerMember] = [
        .number("messageCount"), .number("byteCount"), .number("overflowCount"),
        .number("nextNumber"),
    ]
}
