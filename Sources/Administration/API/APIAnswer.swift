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
    static func objects(_ name: String, of members: [APIAnswerMember]) -> Self {
        Self(name, .objects(members))
    }
}

extension APIOperation {
    /// The members of its answer.
    public var answer: [APIAnswerMember] {
        switch kind {
        case .createApp: [.text("key")]
        case .listApps:
            [
                .objects(
                    "apps", .text("app"), .number("userCount"), .number("tokenCount"),
                    .boolean(optional: "isBeingDeleted"))
            ]
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
        case .addAppKey: [.text("key")]
        case .listAppKeys:
            [
                .objects(
                    "keys", .text("name"), .text("role"), .texts(optional: "rights"),
                    .number(optional: "madeUnixSeconds"), .number(optional: "expiresUnixSeconds"),
                    .number(optional: "lastUsedUnixSeconds"))
            ]
        case .revokeAppKey: [.number("connectionCount")]
        case .setPassword, .importPasswords, .expirePassword, .revokePassword:
            [.number("connectionCount")]
        case .listPasswords:
            [
                .objects(
                    "passwords", .text("name"), .text("user"), .text(optional: "device"),
                    .text("kind"), .texts(optional: "rights"), .number("madeUnixSeconds"),
                    .number(optional: "expiresUnixSeconds"),
                    .number(optional: "lastUsedUnixSeconds")),
                .text(optional: "next"),
            ]
        case .addUser: [.boolean("isNew")]
        case .listUsers:
            [
                .objects(
                    "users", .text("user"), .number("sessionCount"), .number("connectionCount"),
                    .number("tokenCount"), .number(optional: "lastSeenUnixMilliseconds")),
                .number(optional: "next"),
            ]
        case .showUser:
            [
                .text("user"), .number("sessionCount"), .number("connectionCount"),
                .number("tokenCount"), .number("groupCount"),
                .number(optional: "lastSeenUnixMilliseconds"),
                .object("offlineQueue", Self.queue),
                .objects(
                    "devices", .text("device"), .text("dialect"), .boolean("isPersistent"),
                    .number(optional: "connectedUnixMilliseconds"),
                    .number(optional: "awaySeconds"),
                    .object(optional: "credential", Self.credential),
                    .text(optional: "address"), .text(optional: "listener"),
                    .object("queue", Self.queue), .number("underWayCount")),
            ]
        case .sendMessage:
            [
                .number("receiverCount"), .number("refusedCount"),
                .objects("refused", .text("user"), .number("reason")), .text(optional: "mid"),
                .text(optional: "reference"), .number(optional: "verdict"),
            ]
        case .setWakeTarget: [.number("id")]
        case .listWakeTargets:
            [
                .objects(
                    "targets", .number("id"), .text(optional: "device"), .text("kind"),
                    .text("address"), .text("environment"), .text(optional: "language"),
                    .boolean("isSilent"))
            ]
        case .removeWakeTarget: [.boolean("isRemoved")]
        case .testWake: [.number("targetCount")]
        case .setWakeTemplate: [.text("template")]
        case .listWakeTemplates:
            [.objects("templates", .text("kind"), .text("template"))]
        case .removeWakeTemplate: [.boolean("isRemoved")]
        case .tryWakeTemplate: [.text("content")]
        case .listWakeLog:
            [
                .objects(
                    "entries", .number("number"), .number("unixMilliseconds"), .number("id"),
                    .text("kind"), .text("step"), .number("wake"), .number("messageCount"),
                    .text(optional: "detail")),
                .number("last"),
            ]
        case .recallMessage, .replaceMessage:
            [.number("withdrawnCount"), .number("lateCount"), .texts("lateUsers")]
        case .mintTokens: [.objects("tokens", .text("user"), .text("id"), .text("token"))]
        case .listTokens:
            [
                .objects(
                    "tokens", .text("id"), .text("user"), .text(optional: "device"),
                    .text(optional: "batch"), .number(optional: "expiresUnixSeconds"),
                    .number(optional: "lastUsedUnixSeconds"), .texts(optional: "rights")),
                .text(optional: "next"),
            ]
        case .revokeTokens:
            [.number("tokenCount"), .number("connectionCount"), .number(optional: "next")]
        case .listSessions:
            [
                .objects("sessions", Self.session), .number(optional: "next"),
            ]
        case .importSession:
            [
                .text("state"), .number("position"), .number("messageCount"),
                .number("refusedCount"), .texts("refusedFilters"),
            ]
        case .kickSessions, .deleteSessions:
            [.number("sessionCount"), .number(optional: "next")]
        case .showOfflineQueue: Self.queue
        case .listQueueMessages:
            [
                .objects(
                    "messages", .number("number"), .text("from"), .text("kind"),
                    .text(optional: "topic"), .text(optional: "groupid"), .number(optional: "t"),
                    .text("grade"), .number("byteCount"), .number("unixMilliseconds"),
                    .number(optional: "expiresUnixSeconds"), .boolean("isUnderWay"),
                    .object(optional: "content", Self.content)),
                .number(optional: "next"),
            ]
        case .purgeQueues: [.number("messageCount"), .number(optional: "next")]
        case .listRetained:
            [.objects("messages", of: Self.retained), .number(optional: "next")]
        case .showRetained:
            [.object("message", Self.retained), .object("content", Self.content)]
        case .deleteRetained: [.number("messageCount"), .boolean("hasMore")]
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
                .texts(optional: "allowed"), .text("meta"), .boolean("isKept"),
                .number("shownCount"), .number("lastNumber"),
                .object(optional: "lastMessage", Self.keptMessage), .texts("members"),
            ]
        case .changeMember: [.boolean("isChanged")]
        case .deleteApp, .deleteUser: Self.deletion
        case .deleteGroup: [.number("memberCount"), .boolean("hasMore")]
        case .backUpStore: Self.backup
        case .showBackup: [.object(optional: "backup", Self.backup)]
        case .readStatistics:
            [
                .text("brokerVersion"), .number("uptimeSeconds"),
                .objects("counters", .text("name"), .number("value")),
                .object(
                    "latencies",
                    ["acknowledgement", "delivery", "turn", "commit"].map { name in
                        .objects(name, .number("upToMicroseconds"), .number("count"))
                    }),
            ]
        case .readActivity:
            [
                .number("milliseconds"),
                .objects(
                    "senders", .text("app"), .text("user"), .number("connectionCount"),
                    .number("messageCount"), .number("byteCount")),
                .objects(
                    "queues", .text("app"), .text("user"), .text(optional: "device"),
                    .boolean("isConnected"), .number("messageCount"), .number("byteCount")),
                .objects(
                    "readers", .text("app"), .text("user"), .text("device"),
                    .number("unsentByteCount")),
            ]
        case .listListeners:
            [
                .objects(
                    "listeners", .text("address"), .text("scheme"), .texts("parts"),
                    .number("connectionCount"), .text(optional: "certificateSubject"),
                    .number(optional: "certificateExpiresUnixSeconds"),
                    .number(optional: "certificateDays"))
            ]
        case .listLogLines:
            [
                .objects(
                    "lines", .number("number"), .number("unixMilliseconds"), .text("level"),
                    .text("event"), .objects("fields", .text("name"), .text("value"))),
                .number("last"),
            ]
        case .listRefusals:
            [
                .objects(
                    "refusals", .number("number"), .number("unixMilliseconds"), .text("event"),
                    .text(optional: "address"), .text(optional: "user"), .text(optional: "device"),
                    .text(optional: "reason"), .number(optional: "code"),
                    .text(optional: "subject"), .text(optional: "detail")),
                .number("last"),
            ]
        case .reloadConfiguration:
            [.texts("changed"), .texts("needsRestart"), .texts("files")]
        case .setLogLevel: [.text("previous")]
        case .startTrace, .listTraces, .readTrace: Self.trace(kind)
        case .addOperator: [.text("token")]
        case .listOperators:
            [
                .objects(
                    "operators", .text("operator"), .text("role"), .number("madeUnixSeconds"),
                    .number(optional: "expiresUnixSeconds"))
            ]
        case .showSelf:
            [
                .text("kind"), .text(optional: "operator"), .text(optional: "role"),
                .text(optional: "app"), .text(optional: "keyName"), .text(optional: "user"),
                .text(optional: "device"), .texts(optional: "rights"),
                .number(optional: "expiresUnixSeconds"),
                .objects(optional: "sessions", Self.session), .number(optional: "sessionCount"),
                .object(optional: "queue", Self.queue),
            ]
        case .makeLoginLink: [.text("code"), .number("expiresUnixSeconds"), .texts("addresses")]
        case .showCluster:
            [
                .objects(
                    "nodes", .text("name"), .text("part"), .text("address"),
                    .text("webAddress"), .number("sequence"), .number("lagRecords"),
                    .number("heardMilliseconds")),
                .number("term"), .boolean("hasLease"), .number("leaseMilliseconds"),
                .number("leaseLeftMilliseconds"), .text("durability"),
                .objects(
                    "servers", .text("name"), .boolean("isLeader"), .boolean("isCurrent"),
                    .number("lag")),
                .texts("alarms"), .number(optional: "firstRecord"),
                .number(optional: "lastRecord"), .number(optional: "logByteCount"),
                .number(optional: "logByteCountMaximum"),
            ]
        case .setAppRights, .changeGroup, .stopTrace, .revokeOperator, .dropQueueMessage,
            .removeFromHistory, .markConversation, .reportApplied, .stepDown:
            []
        case .listConversations:
            [
                .objects(
                    "conversations", .text(optional: "user"), .text(optional: "groupid"),
                    .number("lastNumber"), .number("readThrough"), .number("unreadCount"),
                    .object(optional: "lastMessage", Self.keptMessage)),
                .number(optional: "next"),
            ]
        case .listHistory:
            [.objects("messages", of: Self.keptMessage), .number(optional: "next")]
        case .showReceipts:
            [
                .text("from"), .text(optional: "mid"), .text(optional: "groupid"),
                .texts("receipts"), .number("unixMilliseconds"),
                .number(optional: "expiresUnixSeconds"), .boolean("isExpired"),
                .number("receiverCount"), .number("deliveredCount"), .number("appliedCount"),
                .number(optional: "failedCount"), .boolean(optional: "isRecalled"),
                .number(optional: "withdrawnCount"), .number(optional: "lateCount"),
                .objects(
                    "receivers", .text("user"), .boolean(optional: "isDelivered"),
                    .boolean("isApplied"), .boolean(optional: "isWithdrawn")),
                .text(optional: "next"),
            ]
        case .listKeptTopics:
            [
                .objects(
                    "topics", .text("topic"), .number("lastNumber"), .number("messageCount"),
                    .number("byteCount")),
                .number(optional: "next"),
            ]
        }
    }

    private static let keptMessage: [APIAnswerMember] = [
        .number("number"), .text("from"), .number(optional: "t"), .text("grade"),
        .number("byteCount"), .number("unixMilliseconds"), .number(optional: "expiresUnixSeconds"),
        .object("content", Self.content),
    ]

    private static let deletion: [APIAnswerMember] = [
        .number("userCount"), .number("sessionCount"), .number("credentialCount"),
        .number("groupCount"), .number("retainedCount"), .number("conversationCount"),
        .number("messageCount"), .boolean("hasMore"),
    ]

    private static let backup: [APIAnswerMember] = [
        .number("number"), .text("directory"), .boolean("isFinished"), .text(optional: "failure"),
        .number("readByteCount"), .number("totalByteCount"), .number("byteCount"),
        .texts("findings"),
    ]

    private static let retained: [APIAnswerMember] = [
        .text("topic"), .text("from"), .number(optional: "t"), .text("grade"),
        .number("byteCount"), .number("unixMilliseconds"), .number(optional: "expiresUnixSeconds"),
    ]

    private static let content: [APIAnswerMember] = [
        .text("base64"), .text(optional: "text"), .number("byteCount"), .boolean("isCut"),
    ]

    private static let session: [APIAnswerMember] = [
        .text("user"), .text("device"), .text("dialect"), .boolean("isPersistent"),
        .number(optional: "expirySeconds"), .number(optional: "connectedUnixMilliseconds"),
        .number(optional: "awaySeconds"), .number("keepAliveSeconds"),
        .object("queue", Self.queue), .number("underWayCount"), .texts("filters"),
        .number("filterCount"), .number("groupCount"), .boolean("hasWill"),
        .object(optional: "credential", Self.credential), .text(optional: "address"),
        .text(optional: "listener"), .number(optional: "silentSeconds"),
    ]

    private static let credential: [APIAnswerMember] = [.text("kind"), .text(optional: "id")]

    private static let queue: [APIAnswerMember] = [
        .number("messageCount"), .number("byteCount"), .number("overflowCount"),
        .number("nextNumber"),
    ]
}
