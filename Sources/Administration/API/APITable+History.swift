// The operations on the kept messages of conversations.

extension APIOperation {
    private static let pair = "/apps/{app}/users/{user}/history/{with}"
    private static let group = "/apps/{app}/groups/{groupid}/history"

    static var listConversations: [APIOperation] {
        [
            APIOperation(
                .listConversations, .get, at: "/apps/{app}/users/{user}/conversations",
                role: .view,
                summary: "Lists a user's conversations with kept messages, and what is unread.",
                members: [
                    .query("after", .number(maximum: .max)),
                    .limit(ListConversations.countMaximum), .query("isUnreadOnly", .boolean),
                ]
            ) { values throws(AdministrationRefusal) in
                .listConversations(
                    ListConversations(
                        app: try values.text("app"), user: try values.text("user"),
                        isUnreadOnly: values.boolean("isUnreadOnly"),
                        after: values.number("after", as: UInt64.self), limit: values.limit))
            }
        ]
    }

    static var listHistory: [APIOperation] {
        let members: [APIMember] = [
            .query("before", .number(maximum: .max)), .limit(ListHistory.countMaximum),
            .query("search"), .query("from"),
            .query("sinceUnixMilliseconds", .number(maximum: .max)),
            .query("untilUnixMilliseconds", .number(maximum: .max)),
        ]
        return [
            APIOperation(
                .listHistory, .get, at: pair, role: .operate,
                summary: "Lists the kept messages of two users, the newest first.",
                members: members
            ) { values throws(AdministrationRefusal) in
                .listHistory(
                    try values.history(user: try values.text("user"), with: values.text("with")))
            },
            APIOperation(
                .listHistory, .get, at: group, role: .operate,
                summary: "Lists the kept messages of a group, the newest first.",
                members: members
            ) { values throws(AdministrationRefusal) in
                .listHistory(try values.history(groupid: try values.text("groupid")))
            },
        ]
    }

    static var removeFromHistory: [APIOperation] {
        [
            APIOperation(
                .removeFromHistory, .delete, at: pair + "/{number}", role: .operate,
                summary: "Removes one kept message of two users.",
                members: [.path("number", .number(maximum: .max))]
            ) { values throws(AdministrationRefusal) in
                .removeFromHistory(
                    RemoveFromHistory(
                        app: try values.text("app"), user: try values.text("user"),
                        with: try values.text("with"),
                        number: try values.number(required: "number")))
            },
            APIOperation(
                .removeFromHistory, .delete, at: group + "/{number}", role: .operate,
                summary: "Removes one kept message of a group.",
                members: [.path("number", .number(maximum: .max))]
            ) { values throws(AdministrationRefusal) in
                .removeFromHistory(
                    RemoveFromHistory(
                        app: try values.text("app"), groupid: try values.text("groupid"),
                        number: try values.number(required: "number")))
            },
        ]
    }
}

extension APIValues {
    fileprivate func history(
        user: String? = nil, with: String? = nil, groupid: String? = nil
    ) throws(AdministrationRefusal) -> ListHistory {
        ListHistory(
            app: try text("app"), user: user, with: with, groupid: groupid,
            before: number("before", as: UInt64.self), limit: limit,
            search: text(optional: "search"), from: text(optional: "from"),
            sinceUnixMilliseconds: number("sinceUnixMilliseconds", as: UInt64.self),
            untilUnixMilliseconds: number("untilUnixMilliseconds", as: UInt64.self))
    }
}
