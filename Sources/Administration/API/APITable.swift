// The operations of the HTTP API: for each request of an administrator its methods and paths. A
// request without a row does not compile. docs/operating/api.md has the same table.

extension APIOperation {
    /// All operations.
    public static let all = AdministrationCommand.Kind.allCases.flatMap(rows)

    private static func rows(of kind: AdministrationCommand.Kind) -> [APIOperation] {
        switch kind {
        case .createApp: createApp
        case .listApps: listApps
        case .showApp: showApp
        case .setAppRights: setAppRights
        case .explainRights: explainRights
        case .addAppKey: addAppKey
        case .listAppKeys: listAppKeys
        case .revokeAppKey: revokeAppKey
        case .addUser: addUser
        case .listUsers: listUsers
        case .showUser: showUser
        case .sendMessage: sendMessage
        case .mintTokens: mintTokens
        case .listTokens: listTokens
        case .revokeTokens: revokeTokens
        case .listSessions: listSessions
        case .kickSessions: kickSessions
        case .deleteSessions: deleteSessions
        case .showOfflineQueue: showOfflineQueue
        case .listQueueMessages: listQueueMessages
        case .dropQueueMessage: dropQueueMessage
        case .listConversations: listConversations
        case .listHistory: listHistory
        case .removeFromHistory: removeFromHistory
        case .purgeQueues: purgeQueues
        case .listRetained: listRetained
        case .showRetained: showRetained
        case .deleteRetained: deleteRetained
        case .createGroup: createGroup
        case .listGroups: listGroups
        case .showGroup: showGroup
        case .changeMember: changeMember
        case .changeGroup: changeGroup
        case .backUpStore: backUpStore
        case .showBackup: showBackup
        case .readStatistics: readStatistics
        case .listListeners: listListeners
        case .listRefusals: listRefusals
        case .listLogLines: listLogLines
        case .reloadConfiguration: reloadConfiguration
        case .setLogLevel: setLogLevel
        case .startTrace: startTrace
        case .listTraces: listTraces
        case .readTrace: readTrace
        case .stopTrace: stopTrace
        case .addOperator: addOperator
        case .listOperators: listOperators
        case .revokeOperator: revokeOperator
        case .makeLoginLink: makeLoginLink
        case .showSelf: showSelf
        }
    }

    // MARK: - Apps

    private static var createApp: [APIOperation] {
        [
            APIOperation(
                .createApp, .post, at: "/apps", role: .own, status: 201,
                summary: "Creates an app and its key.",
                members: [.body("app", required: true), .body("rights", .texts)]
            ) { values throws(AdministrationRefusal) in
                .createApp(
                    CreateApp(app: try values.text("app"), rights: values.texts(optional: "rights"))
                )
            }
        ]
    }

    private static var listApps: [APIOperation] {
        [
            APIOperation(.listApps, .get, at: "/apps", role: .view, summary: "Lists the apps.") {
                _ in
                .listApps(ListApps())
            }
        ]
    }

    private static var showApp: [APIOperation] {
        [
            APIOperation(
                .showApp, .get, at: "/apps/{app}", role: .view,
                summary: "Shows an app with its rights."
            ) { values throws(AdministrationRefusal) in
                .showApp(ShowApp(app: try values.text("app")))
            }
        ]
    }

    private static var setAppRights: [APIOperation] {
        [
            APIOperation(
                .setAppRights, .put, at: "/apps/{app}/rights", role: .own,
                summary: "Replaces the rights of the app's users.",
                members: [.body("rights", .texts, required: true)]
            ) { values throws(AdministrationRefusal) in
                .setAppRights(
                    SetAppRights(app: try values.text("app"), rights: try values.texts("rights")))
            }
        ]
    }

    private static var explainRights: [APIOperation] {
        let actions = ExplainRights.Action.allCases.map(\.rawValue)
        return [
            APIOperation(
                .explainRights, .get, at: "/apps/{app}/explain", role: .view,
                summary: "Shows which right allows an action of a device.",
                members: [
                    .query("user", required: true), .query("device"),
                    .query("action", .choice(actions), required: true), .query("target"),
                ]
            ) { values throws(AdministrationRefusal) in
                .explainRights(
                    ExplainRights(
                        app: try values.text("app"), user: try values.text("user"),
                        device: values.text(optional: "device") ?? "",
                        action: try values.word("action", as: ExplainRights.Action.self),
                        target: values.text(optional: "target") ?? ""))
            }
        ]
    }

    // MARK: - Keys

    private static var addAppKey: [APIOperation] {
        [
            APIOperation(
                .addAppKey, .post, at: "/apps/{app}/keys", role: .own, status: 201,
                summary: "Adds a key to an app.",
                members: [
                    .body("name", required: true),
                    .body("role", .choice(AddAppKey.roles.map(\.rawValue)), required: true),
                    .body("rights", .texts), .body("expirySeconds", .number(maximum: .max)),
                ]
            ) { values throws(AdministrationRefusal) in
                .addAppKey(
                    AddAppKey(
                        app: try values.text("app"), name: try values.text("name"),
                        role: try values.word("role", as: OperatorRole.self),
                        rights: values.texts(optional: "rights"),
                        expirySeconds: values.number("expirySeconds", as: UInt64.self)))
            }
        ]
    }

    private static var listAppKeys: [APIOperation] {
        [
            APIOperation(
                .listAppKeys, .get, at: "/apps/{app}/keys", role: .view,
                summary: "Lists the keys of an app by their names, without the keys themselves."
            ) { values throws(AdministrationRefusal) in
                .listAppKeys(ListAppKeys(app: try values.text("app")))
            }
        ]
    }

    private static var revokeAppKey: [APIOperation] {
        [
            APIOperation(
                .revokeAppKey, .delete, at: "/apps/{app}/keys/{name}", role: .own,
                summary: "Revokes a key of an app and ends its connections."
            ) { values throws(AdministrationRefusal) in
                .revokeAppKey(
                    RevokeAppKey(app: try values.text("app"), name: try values.text("name")))
            }
        ]
    }

    // MARK: - Users

    private static var addUser: [APIOperation] {
        [
            APIOperation(
                .addUser, .put, at: "/apps/{app}/users/{user}", role: .operate,
                summary: "Makes a user known."
            ) { values throws(AdministrationRefusal) in
                .addUser(AddUser(app: try values.text("app"), user: try values.text("user")))
            }
        ]
    }

    // MARK: - Tokens

    private static let tokenSelection: [APIMember] = [
        .query("id"), .query("user"), .query("device"), .query("batch"),
    ]

    private static var mintTokens: [APIOperation] {
        [
            APIOperation(
                .mintTokens, .post, at: "/apps/{app}/tokens", role: .operate, status: 201,
                summary: "Mints one token for each user.",
                members: [
                    .body("users", .texts, required: true), .body("device"),
                    .body("expirySeconds", .number(maximum: .max)), .body("batch"),
                    .body("rights", .texts),
                ]
            ) { values throws(AdministrationRefusal) in
                .mintTokens(
                    MintTokens(
                        app: try values.text("app"), users: try values.texts("users"),
                        device: values.text(optional: "device"),
                        expirySeconds: values.number("expirySeconds", as: UInt64.self),
                        batch: values.text(optional: "batch"),
                        rights: values.texts(optional: "rights")))
            }
        ]
    }

    private static var listTokens: [APIOperation] {
        [
            APIOperation(
                .listTokens, .get, at: "/apps/{app}/tokens", role: .view,
                summary: "Lists tokens, without their secrets.",
                members: tokenSelection + [.query("after"), .limit(ListTokens.countMaximum)]
            ) { values throws(AdministrationRefusal) in
                .listTokens(
                    ListTokens(
                        try values.tokenSelection(), after: values.text(optional: "after"),
                        limit: values.limit))
            }
        ]
    }

    private static var revokeTokens: [APIOperation] {
        [
            APIOperation(
                .revokeTokens, .delete, at: "/apps/{app}/tokens", role: .operate,
                summary: "Revokes tokens and ends their connections.", members: tokenSelection
            ) { values throws(AdministrationRefusal) in
                .revokeTokens(RevokeTokens(try values.tokenSelection()))
            }
        ]
    }

    // MARK: - Sessions and queues

    private static let sessionSelection: [APIMember] = [
        .query("user"), .query("device"), .query("isConnected", .boolean),
        .query("awaySeconds", .number(maximum: .max)),
    ]

    private static let continuation = APIMember.query(
        "after", .number(maximum: UInt64(UInt32.max)))

    private static var listSessions: [APIOperation] {
        [
            APIOperation(
                .listSessions, .get, at: "/apps/{app}/sessions", role: .view,
                summary: "Lists sessions.",
                members: sessionSelection + [
                    continuation, .limit(ListSessions.countMaximum),
                ]
            ) { values throws(AdministrationRefusal) in
                .listSessions(
                    ListSessions(
                        try values.sessionSelection(),
                        after: values.number("after", as: UInt32.self), limit: values.limit))
            }
        ]
    }

    private static var kickSessions: [APIOperation] {
        [
            APIOperation(
                .kickSessions, .delete, at: "/apps/{app}/connections", role: .operate,
                summary: "Ends the connections of sessions, which remain.",
                members: sessionSelection + [.query("sendsWills", .boolean), continuation]
            ) { values throws(AdministrationRefusal) in
                .kickSessions(
                    KickSessions(
                        try values.sessionSelection(), sendsWills: values.boolean("sendsWills"),
                        after: values.number("after", as: UInt32.self)))
            }
        ]
    }

    private static var deleteSessions: [APIOperation] {
        [
            APIOperation(
                .deleteSessions, .delete, at: "/apps/{app}/sessions", role: .operate,
                summary: "Ends sessions.",
                members: sessionSelection + [.query("sendsWills", .boolean), continuation]
            ) { values throws(AdministrationRefusal) in
                .deleteSessions(
                    DeleteSessions(
                        try values.sessionSelection(), sendsWills: values.boolean("sendsWills"),
                        after: values.number("after", as: UInt32.self)))
            }
        ]
    }

    private static var showOfflineQueue: [APIOperation] {
        [
            APIOperation(
                .showOfflineQueue, .get, at: "/apps/{app}/users/{user}/queue", role: .view,
                summary: "Shows the offline queue of a user."
            ) { values throws(AdministrationRefusal) in
                .showOfflineQueue(
                    ShowOfflineQueue(app: try values.text("app"), user: try values.text("user")))
            }
        ]
    }

    private static var purgeQueues: [APIOperation] {
        [
            APIOperation(
                .purgeQueues, .delete, at: "/apps/{app}/queues", role: .operate,
                summary:
                    "Discards the queues of disconnected sessions, and a user's offline queue.",
                members: sessionSelection + [continuation]
            ) { values throws(AdministrationRefusal) in
                .purgeQueues(
                    PurgeQueues(
                        try values.sessionSelection(),
                        after: values.number("after", as: UInt32.self)))
            }
        ]
    }

    // MARK: - Groups

    private static var createGroup: [APIOperation] {
        [
            APIOperation(
                .createGroup, .post, at: "/apps/{app}/groups", role: .operate, status: 201,
                summary: "Creates a group for an owner.",
                members: [
                    .body("owner", required: true), .body("title", required: true),
                    .body("allowed", .texts), .body("meta"),
                ]
            ) { values throws(AdministrationRefusal) in
                .createGroup(
                    CreateGroup(
                        app: try values.text("app"), owner: try values.text("owner"),
                        title: try values.text("title"),
                        allowed: values.texts(optional: "allowed"),
                        meta: values.text(optional: "meta") ?? ""))
            }
        ]
    }

    private static var listGroups: [APIOperation] {
        [
            APIOperation(
                .listGroups, .get, at: "/apps/{app}/groups", role: .view, summary: "Lists groups.",
                members: [
                    .query("user"), .query("after", .number(maximum: UInt64(UInt32.max))),
                    .limit(ListGroups.countMaximum),
                ]
            ) { values throws(AdministrationRefusal) in
                .listGroups(
                    ListGroups(
                        app: try values.text("app"), user: values.text(optional: "user"),
                        after: values.number("after", as: UInt32.self), limit: values.limit))
            }
        ]
    }

    private static var showGroup: [APIOperation] {
        [
            APIOperation(
                .showGroup, .get, at: "/apps/{app}/groups/{groupid}", role: .view,
                summary: "Shows a group and its members.",
                members: [.query("after"), .limit(ShowGroup.memberCountMaximum)]
            ) { values throws(AdministrationRefusal) in
                .showGroup(
                    ShowGroup(
                        app: try values.text("app"), groupid: try values.text("groupid"),
                        after: values.text(optional: "after"), limit: values.limit))
            }
        ]
    }

    private static var changeMember: [APIOperation] {
        let path = "/apps/{app}/groups/{groupid}/members/{user}"
        let ends = [ChangeMember.Action.leave, .kick, .ban].map(\.rawValue)
        return [
            APIOperation(
                .changeMember, .put, at: path, role: .operate, summary: "Adds a user to a group."
            ) { values throws(AdministrationRefusal) in
                .changeMember(try values.changeMember(.join))
            },
            APIOperation(
                .changeMember, .delete, at: path, role: .operate,
                summary: "Removes a user from a group: the user leaves, is kicked, or is banned.",
                members: [.query("action", .choice(ends), required: true)]
            ) { values throws(AdministrationRefusal) in
                .changeMember(
                    try values.changeMember(
                        try values.word("action", as: ChangeMember.Action.self)))
            },
        ]
    }

    private static var changeGroup: [APIOperation] {
        let path = "/apps/{app}/groups/{groupid}"
        return [
            APIOperation(
                .changeGroup, .put, at: path + "/meta", role: .operate,
                summary: "Replaces a group's data.",
                members: [.body("meta", required: true)]
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.meta(try values.text("meta"))))
            },
            APIOperation(
                .changeGroup, .put, at: path + "/allowed", role: .operate,
                summary: "Lets only these users join a group.",
                members: [.body("allowed", .texts, required: true)]
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.allowed(try values.texts("allowed"))))
            },
            APIOperation(
                .changeGroup, .delete, at: path + "/allowed", role: .operate,
                summary: "Lets everybody join a group."
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.everybodyAllowed))
            },
        ]
    }

    // MARK: - The broker

    private static var backUpStore: [APIOperation] {
        [
            APIOperation(
                .backUpStore, .post, at: "/backups", role: .own, status: 202,
                summary: "Starts a copy of the store into a directory on the broker's machine.",
                members: [.body("directory", required: true)]
            ) { values throws(AdministrationRefusal) in
                .backUpStore(BackUpStore(directory: try values.text("directory")))
            }
        ]
    }

    private static var showBackup: [APIOperation] {
        [
            APIOperation(
                .showBackup, .get, at: "/backups/last", role: .view,
                summary: "Shows the progress or the result of the last backup."
            ) { _ in .showBackup(ShowBackup()) }
        ]
    }

    private static var readStatistics: [APIOperation] {
        [
            APIOperation(
                .readStatistics, .get, at: "/statistics", role: .view,
                summary: "Reads the broker's counters and gauges."
            ) { _ in .readStatistics(ReadStatistics()) }
        ]
    }

    // MARK: - Operators

    private static var addOperator: [APIOperation] {
        let roles = OperatorRole.allCases.map(\.rawValue)
        return [
            APIOperation(
                .addOperator, .post, at: "/operators", role: .own, status: 201,
                summary: "Adds an operator and makes their token.",
                members: [
                    .body("operator", required: true),
                    .body("role", .choice(roles), required: true),
                    .body("expirySeconds", .number(maximum: .max)),
                ]
            ) { values throws(AdministrationRefusal) in
                .addOperator(
                    AddOperator(
                        operator: try values.text("operator"),
                        role: try values.word("role", as: OperatorRole.self),
                        expirySeconds: values.number("expirySeconds", as: UInt64.self)))
            }
        ]
    }

    private static var listOperators: [APIOperation] {
        [
            APIOperation(
                .listOperators, .get, at: "/operators", role: .own, summary: "Lists the operators."
            ) { _ in .listOperators(ListOperators()) }
        ]
    }

    private static var revokeOperator: [APIOperation] {
        [
            APIOperation(
                .revokeOperator, .delete, at: "/operators/{operator}", role: .own,
                summary: "Removes an operator, whose token is refused from then on."
            ) { values throws(AdministrationRefusal) in
                .revokeOperator(RevokeOperator(operator: try values.text("operator")))
            }
        ]
    }
}

extension APIValues {
    fileprivate func tokenSelection() throws(AdministrationRefusal) -> TokenSelection {
        TokenSelection(
            app: try text("app"), id: text(optional: "id"), user: text(optional: "user"),
            device: text(optional: "device"), batch: text(optional: "batch"))
    }

    fileprivate func sessionSelection() throws(AdministrationRefusal) -> SessionSelection {
        SessionSelection(
            app: try text("app"), user: text(optional: "user"), device: text(optional: "device"),
            isConnected: boolean("isConnected"),
            awaySeconds: number("awaySeconds", as: UInt64.self))
    }

    fileprivate func changeMember(
        _ action: ChangeMember.Action
    ) throws(AdministrationRefusal) -> ChangeMember {
        ChangeMember(
            app: try text("app"), groupid: try text("groupid"), user: try text("user"),
            action: action)
    }

    fileprivate func changeGroup(
        _ change: ChangeGroup.Change
    ) throws(AdministrationRefusal) -> ChangeGroup {
        ChangeGroup(app: try text("app"), groupid: try text("groupid"), change: change)
    }
}
