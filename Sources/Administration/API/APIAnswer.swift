// The answers of the HTTP API: the members of each operation's reply, for the OpenAPI document and
// for docs/operating/api.md. A test compares them with the answers of a broker.

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
    static func number(_ name: String) -> Self { Self(name, .number) }
    static func number(optional name: String) -> Self { Self(name, .number, isOptional: true) }
    static func object(_ name: String, _ members: [APIAnswerMember]) -> Self {
        Self(name, .object(members))
    }
    static func objects(_ name: String, _ members: APIAnswerMember...) -> Self {
        Self(name, .objects(members))
    }
}

extension APIOperation {
    /// The members of its answer.
    public var answer: [APIAnswerMember] {
        switch kind {
        case .createApp: [.text("key")]
        case .listApps:
            [.objects("apps", .text("app"), .number("userCount"), .number("tokenCount"))]
        case .showApp:
            [
                .text("app"), .boolean("hasKey"), .texts("rights"), .number("userCount"),
                .number("groupCount"), .number("sessionCount"), .number("connectionCount"),
                .number("tokenCount"),
            ]
        case .explainRights:
            [
                .text("grounds"), .text(optional: "right"), .number(optional: "reason"),
                .text("origin"), .boolean("isConnected"), .texts("rights"),
            ]
        case .addUser: [.boolean("isNew")]
        case .sendMessage:
            [
                .number("receiverCount"), .number("refusedCount"),
                .objects("refused", .text("user"), .number("reason")),
            ]
        case .mintTokens: [.objects("tokens", .text("user"), .text("id"), .text("token"))]
        case .listTokens:
            [
                .objects(
                    "tokens", .text("id"), .text("user"), .text(optional: "device"),
                    .text(optional: "batch"), .number(optional: "expiresUnixSeconds"),
                    .number(optional: "lastUsedUnixSeconds"), .texts(optional: "rights")),
                .text(optional: "next"),
            ]
        case .revokeTokens: [.number("tokenCount"), .number("connectionCount")]
        case .listSessions:
            [
                .objects(
                    "sessions", .text("user"), .text("device"), .text("dialect"),
                    .boolean("isPersistent"), .number(optional: "expirySeconds"),
                    .number(optional: "connectedUnixMilliseconds"),
                    .number(optional: "awaySeconds"), .number("keepAliveSeconds"),
                    .object("queue", Self.queue), .number("underWayCount"), .texts("filters"),
                    .number("filterCount"), .number("groupCount"), .boolean("hasWill")),
                .number(optional: "next"),
            ]
        case .kickSessions, .deleteSessions: [.number("sessionCount")]
        case .showOfflineQueue: Self.queue
        case .purgeQueues: [.number("messageCount")]
        case .createGroup: [.text("groupid")]
        case .listGroups:
            [
                .objects(
                    "groups", .text("groupid"), .text("title"), .text("owner"),
                    .number("memberCount"), .boolean("isLimited")),
                .number(optional: "next"),
            ]
        case .showGroup:
            [
                .text("groupid"), .text("title"), .text("owner"), .number("memberCount"),
                .texts(optional: "allowed"), .text("meta"), .texts("members"),
            ]
        case .changeMember: [.boolean("isChanged")]
        case .backUpStore, .showBackup:
            [
                .number("number"), .text("directory"), .boolean("isFinished"),
                .text(optional: "failure"), .number("readByteCount"), .number("totalByteCount"),
                .number("byteCount"), .texts("findings"),
            ]
        case .readStatistics:
            [
                .text("brokerVersion"), .number("uptimeSeconds"),
                .objects("counters", .text("name"), .number("value")),
            ]
        case .startTrace, .listTraces, .readTrace: Self.trace(kind)
        case .addOperator: [.text("token")]
        case .listOperators:
            [
                .objects(
                    "operators", .text("operator"), .text("role"), .number("madeUnixSeconds"),
                    .number(optional: "expiresUnixSeconds"))
            ]
        case .setAppRights, .changeGroup, .stopTrace, .revokeOperator: []
        }
    }

    private static let queue: [APIAnswerMember] = [
        .number("messageCount"), .number("byteCount"), .number("overflowCount"),
        .number("nextNumber"),
    ]
}
