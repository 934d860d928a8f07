// The operations on users.

extension APIOperation {
    static let addUser = APIOperation(
        .addUser, .put, at: "/apps/{app}/users/{user}", role: .operate,
        summary: "Makes a user known."
    ) { values throws(AdministrationRefusal) in
        .addUser(AddUser(app: try values.text("app"), user: try values.text("user")))
    }

    static let listUsers = APIOperation(
        .listUsers, .get, at: "/apps/{app}/users", role: .view, summary: "Lists users.",
        members: [
            .query("after", .number(maximum: UInt64(UInt32.max))),
            .limit(ListUsers.countMaximum),
        ]
    ) { values throws(AdministrationRefusal) in
        .listUsers(
            ListUsers(
                app: try values.text("app"), after: values.number("after", as: UInt32.self),
                limit: values.limit))
    }

    static let showUser = APIOperation(
        .showUser, .get, at: "/apps/{app}/users/{user}", role: .view,
        summary: "Shows a user with its devices and their credentials."
    ) { values throws(AdministrationRefusal) in
        .showUser(ShowUser(app: try values.text("app"), user: try values.text("user")))
    }

    static let deleteUser = APIOperation(
        .deleteUser, .delete, at: "/apps/{app}/users/{user}", role: .operate,
        summary: "Deletes a part of a user; repeat it until nothing is left.",
        members: [.query("force", .boolean)]
    ) { values throws(AdministrationRefusal) in
        .deleteUser(
            DeleteUser(
                app: try values.text("app"), user: try values.text("user"),
                force: values.boolean("force")))
    }
}
