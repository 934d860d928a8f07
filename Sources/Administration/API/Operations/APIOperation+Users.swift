// The operations on users.

extension APIOperation {
    static let addUser = APIOperation(
        .addUser, .put, at: "/apps/{app}/users/{user}", role: .operate,
        summary: "Makes a user known.",
        answer: [.boolean("isNew")]
    ) { values throws(AdministrationRefusal) in
        .addUser(AddUser(app: try values.text("app"), user: try values.text("user")))
    }

    static let listUsers = APIOperation(
        .listUsers, .get, at: "/apps/{app}/users", role: .view, summary: "Lists users.",
        members: [
            .query("after", .number(maximum: UInt64(UInt32.max))),
            .limit(ListUsers.countMaximum),
        ],
        answer: [
            .objects(
                "users", .text("user"), .number("sessionCount"), .number("connectionCount"),
                .number("tokenCount"), .number(optional: "lastSeenUnixMilliseconds")),
            .number(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .listUsers(
            ListUsers(
                app: try values.text("app"), after: values.number("after", as: UInt32.self),
                limit: values.limit))
    }

    static let showUser = APIOperation(
        .showUser, .get, at: "/apps/{app}/users/{user}", role: .view,
        summary: "Shows a user with its devices and their credentials.",
        answer: [
            .text("user"), .number("sessionCount"), .number("connectionCount"),
            .number("tokenCount"), .number("groupCount"),
            .number(optional: "lastSeenUnixMilliseconds"),
            .object("offlineQueue", queue),
            .objects(
                "devices", .text("device"), .text("dialect"), .boolean("isPersistent"),
                .number(optional: "connectedUnixMilliseconds"),
                .number(optional: "awaySeconds"),
                .object(optional: "credential", credential),
                .text(optional: "address"), .text(optional: "listener"),
                .object("queue", queue), .number("underWayCount")),
        ]
    ) { values throws(AdministrationRefusal) in
        .showUser(ShowUser(app: try values.text("app"), user: try values.text("user")))
    }

    static let deleteUser = APIOperation(
        .deleteUser, .delete, at: "/apps/{app}/users/{user}", role: .operate,
        summary: "Deletes a part of a user; repeat it until nothing is left.",
        members: [.query("force", .boolean)],
        answer: deletion
    ) { values throws(AdministrationRefusal) in
        .deleteUser(
            DeleteUser(
                app: try values.text("app"), user: try values.text("user"),
                force: values.boolean("force")))
    }
}
