// The operations on apps, their rights and their keys.

extension APIOperation {
    static let createApp = APIOperation(
        .createApp, .post, at: "/apps", role: .own, status: 201,
        summary: "Creates an app and its key.",
        members: [.body("app", required: true), .body("rights", .texts)],
        answer: [.text("key")]
    ) { values throws(AdministrationRefusal) in
        .createApp(
            CreateApp(app: try values.text("app"), rights: values.texts(optional: "rights"))
        )
    }

    static let listApps = APIOperation(
        .listApps, .get, at: "/apps", role: .view, summary: "Lists the apps.",
        answer: [
            .objects(
                "apps", .text("app"), .number("userCount"), .number("tokenCount"),
                .boolean(optional: "isBeingDeleted"), .text(optional: "shard")),
            .texts(optional: "missingShards"),
        ]
    ) { _ in .listApps(ListApps()) }

    static let showApp = APIOperation(
        .showApp, .get, at: "/apps/{app}", role: .view,
        summary: "Shows an app with its rights.",
        answer: [
            .text("app"), .boolean("hasKey"), .texts("rights"), .number("userCount"),
            .number("groupCount"), .number("sessionCount"), .number("connectionCount"),
            .number("tokenCount"),
        ]
    ) { values throws(AdministrationRefusal) in
        .showApp(ShowApp(app: try values.text("app")))
    }

    static let setAppRights = APIOperation(
        .setAppRights, .put, at: "/apps/{app}/rights", role: .own,
        summary: "Replaces the rights of the app's users.",
        members: [.body("rights", .texts, required: true)]
    ) { values throws(AdministrationRefusal) in
        .setAppRights(
            SetAppRights(app: try values.text("app"), rights: try values.texts("rights")))
    }

    static let deleteApp = APIOperation(
        .deleteApp, .delete, at: "/apps/{app}", role: .own,
        summary: "Deletes a part of an app, which admits nobody from then on; repeat it until "
            + "nothing is left.",
        members: [.query("force", .boolean)],
        answer: deletion
    ) { values throws(AdministrationRefusal) in
        .deleteApp(
            DeleteApp(app: try values.text("app"), force: values.boolean("force")))
    }

    static let explainRights = APIOperation(
        .explainRights, .get, at: "/apps/{app}/explain", role: .view,
        summary: "Shows which right allows an action of a device, or the login of a key "
            + "as a user.",
        members: [
            .query("user"), .query("device"), .query("key"),
            .query("action", .choice(ExplainRights.Action.words), required: true),
            .query("target"),
        ],
        answer: [
            .text("grounds"), .text(optional: "right"), .number(optional: "reason"),
            .text("origin"), .boolean("isConnected"), .texts("rights"),
        ]
    ) { values throws(AdministrationRefusal) in
        guard let action = ExplainRights.Action(word: try values.text("action")) else {
            throw .malformed("action is not known")
        }
        return .explainRights(
            ExplainRights(
                app: try values.text("app"), user: values.text(optional: "user"),
                device: values.text(optional: "device") ?? "",
                key: values.text(optional: "key"), action: action,
                target: values.text(optional: "target") ?? ""))
    }

    static let addAppKey = APIOperation(
        .addAppKey, .post, at: "/apps/{app}/keys", role: .own, status: 201,
        summary: "Adds a key to an app.",
        members: [
            .body("name", required: true),
            .body("role", .choice(AddAppKey.roles.map(\.rawValue)), required: true),
            .body("rights", .texts), .body("expirySeconds", .number(maximum: .max)),
        ],
        answer: [.text("key")]
    ) { values throws(AdministrationRefusal) in
        .addAppKey(
            AddAppKey(
                app: try values.text("app"), name: try values.text("name"),
                role: try values.word("role", as: OperatorRole.self),
                rights: values.texts(optional: "rights"),
                expirySeconds: values.number("expirySeconds", as: UInt64.self)))
    }

    static let listAppKeys = APIOperation(
        .listAppKeys, .get, at: "/apps/{app}/keys", role: .view,
        summary: "Lists the keys of an app by their names, without the keys themselves.",
        answer: [
            .objects(
                "keys", .text("name"), .text("role"), .texts(optional: "rights"),
                .number(optional: "madeUnixSeconds"), .number(optional: "expiresUnixSeconds"),
                .number(optional: "lastUsedUnixSeconds"))
        ]
    ) { values throws(AdministrationRefusal) in
        .listAppKeys(ListAppKeys(app: try values.text("app")))
    }

    static let revokeAppKey = APIOperation(
        .revokeAppKey, .delete, at: "/apps/{app}/keys/{name}", role: .own,
        summary: "Revokes a key of an app and ends its connections.",
        answer: [.number("connectionCount")]
    ) { values throws(AdministrationRefusal) in
        .revokeAppKey(
            RevokeAppKey(app: try values.text("app"), name: try values.text("name")))
    }
}
