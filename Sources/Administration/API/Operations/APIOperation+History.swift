// The operations on the kept messages of conversations.

extension APIOperation {
    private static let pair = "/apps/{app}/users/{user}/history/{with}"
    private static let group = "/apps/{app}/groups/{groupid}/history"
    // Topics have slashes, so that one is a member of the query.
    private static let topic = "/apps/{app}/topics/history"

    private static let listConversationsAnswer: [APIAnswerMember] = [
        .objects(
            "conversations", .text(optional: "user"), .text(optional: "groupid"),
            .number("lastNumber"), .number("readThrough"), .number("unreadCount"),
            .object(optional: "lastMessage", keptMessage)),
        .number(optional: "next"),
    ]

    static var listConversations: [APIOperation] {
        let path = "/apps/{app}/users/{user}/conversations"
        let members: [APIMember] = [
            .query("after", .number(maximum: .max)), .query("isUnreadOnly", .boolean),
        ]
        return [
            APIOperation(
                .listConversations, .get, at: path, role: .view,
                summary: "Lists a user's conversations with kept messages, and what is unread.",
                members: members + [.limit(ListConversations.countMaximum)],
                answer: listConversationsAnswer
            ) { values throws(AdministrationRefusal) in
                .listConversations(try values.conversations())
            },
            APIOperation(
                .listConversations, .get, at: path + "/newest", role: .operate,
                summary: "Lists a user's conversations with their newest kept messages.",
                members: members + [.limit(ListConversations.messagesMaximum)],
                answer: listConversationsAnswer
            ) { values throws(AdministrationRefusal) in
                .listConversations(try values.conversations(hasMessages: true))
            },
        ]
    }

    private static let listHistoryAnswer: [APIAnswerMember] = [
        .objects("messages", keptMessage), .number(optional: "next"),
    ]

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
                members: members,
                answer: listHistoryAnswer
            ) { values throws(AdministrationRefusal) in
                .listHistory(
                    try values.history(user: try values.text("user"), with: values.text("with")))
            },
            APIOperation(
                .listHistory, .get, at: group, role: .operate,
                summary: "Lists the kept messages of a group, the newest first.",
                members: members,
                answer: listHistoryAnswer
            ) { values throws(AdministrationRefusal) in
                .listHistory(try values.history(groupid: try values.text("groupid")))
            },
            APIOperation(
                .listHistory, .get, at: topic, role: .operate,
                summary: "Lists the kept messages of a topic, the newest first.",
                members: [.query("topic", required: true)] + members,
                answer: listHistoryAnswer
            ) { values throws(AdministrationRefusal) in
                .listHistory(try values.history(topic: try values.text("topic")))
            },
        ]
    }

    static let listKeptTopics = APIOperation(
        .listKeptTopics, .get, at: "/apps/{app}/topics", role: .view,
        summary: "Lists the topics with kept messages.",
        members: [
            .query("after", .number(maximum: .max)), .limit(ListKeptTopics.countMaximum),
        ],
        answer: [
            .objects(
                "topics", .text("topic"), .number("lastNumber"), .number("messageCount"),
                .number("byteCount")),
            .number(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .listKeptTopics(
            ListKeptTopics(
                app: try values.text("app"), after: values.number("after", as: UInt64.self),
                limit: values.limit))
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
            APIOperation(
                .removeFromHistory, .delete, at: topic + "/{number}", role: .operate,
                summary: "Removes one kept message of a topic.",
                members: [
                    .path("number", .number(maximum: .max)), .query("topic", required: true),
                ]
            ) { values throws(AdministrationRefusal) in
                .removeFromHistory(
                    RemoveFromHistory(
                        app: try values.text("app"), topic: try values.text("topic"),
                        number: try values.number(required: "number")))
            },
        ]
    }

    static var markConversation: [APIOperation] {
        let members: [APIMember] = [
            .body("number", .number(maximum: .max), required: true),
            .body("isHidden", .boolean),
        ]
        return [
            APIOperation(
                .markConversation, .put, at: "/apps/{app}/users/{user}/conversations/{with}/read",
                role: .operate,
                summary: "Notes that a user has read, or hides, what it and another one wrote.",
                members: members
            ) { values throws(AdministrationRefusal) in
                .markConversation(
                    MarkConversation(
                        app: try values.text("app"), user: try values.text("user"),
                        with: try values.text("with"),
                        number: try values.number(required: "number"),
                        isHidden: values.boolean("isHidden")))
            },
            APIOperation(
                .markConversation, .put, at: "/apps/{app}/users/{user}/groups/{groupid}/read",
                role: .operate,
                summary: "Notes that a member has read, or hides, the messages of a group.",
                members: members
            ) { values throws(AdministrationRefusal) in
                .markConversation(
                    MarkConversation(
                        app: try values.text("app"), user: try values.text("user"),
                        groupid: try values.text("groupid"),
                        number: try values.number(required: "number"),
                        isHidden: values.boolean("isHidden")))
            },
        ]
    }
}

extension APIValues {
    fileprivate func conversations(
        hasMessages: Bool? = nil
    ) throws(AdministrationRefusal) -> ListConversations {
        ListConversations(
            app: try text("app"), user: try text("user"), isUnreadOnly: boolean("isUnreadOnly"),
            after: number("after", as: UInt64.self), limit: limit, hasMessages: hasMessages)
    }

    fileprivate func history(
        user: String? = nil, with: String? = nil, groupid: String? = nil, topic: String? = nil
    ) throws(AdministrationRefusal) -> ListHistory {
        ListHistory(
            app: try text("app"), user: user, with: with, groupid: groupid, topic: topic,
            before: number("before", as: UInt64.self), limit: limit,
            search: text(optional: "search"), from: text(optional: "from"),
            sinceUnixMilliseconds: number("sinceUnixMilliseconds", as: UInt64.self),
            untilUnixMilliseconds: number("untilUnixMilliseconds", as: UInt64.self))
    }
}
