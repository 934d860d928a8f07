// The operations that list users and show one.

extension APIOperation {
    static var listUsers: [APIOperation] {
        [
            APIOperation(
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
        ]
    }

    static var showUser: [APIOperation] {
        [
            APIOperation(
                .showUser, .get, at: "/apps/{app}/users/{user}", role: .view,
                summary: "Shows a user with its devices and their credentials."
            ) { values throws(AdministrationRefusal) in
                .showUser(ShowUser(app: try values.text("app"), user: try values.text("user")))
            }
        ]
    }
}
