// The operations on messages that wait.

extension APIOperation {
    // MARK: - Queues

    private static let listQueueMessagesAnswer: [APIAnswerMember] = [
        .objects(
            "messages", .number("number"), .text("from"), .text("kind"),
            .text(optional: "topic"), .text(optional: "groupid"), .number(optional: "t"),
            .text("grade"), .number("byteCount"), .number("unixMilliseconds"),
            .number(optional: "expiresUnixSeconds"), .boolean("isUnderWay"),
            .object(optional: "content", content)),
        .number(optional: "next"),
    ]

    static var listQueueMessages: [APIOperation] {
        let path = "/apps/{app}/users/{user}/queue"
        let members: [APIMember] = [
            .query("device"), .query("after", .number(maximum: .max)),
            .limit(ListQueueMessages.countMaximum),
        ]
        return [
            APIOperation(
                .listQueueMessages, .get, at: path + "/messages", role: .view,
                summary: "Lists messages of a device's queue or of the user's offline queue.",
                members: members,
                answer: listQueueMessagesAnswer
            ) { values throws(AdministrationRefusal) in
                .listQueueMessages(try values.listQueueMessages(hasContents: false))
            },
            APIOperation(
                .listQueueMessages, .get, at: path + "/contents", role: .operate,
                summary: "Lists the same messages with their contents.", members: members,
                answer: listQueueMessagesAnswer
            ) { values throws(AdministrationRefusal) in
                .listQueueMessages(try values.listQueueMessages(hasContents: true))
            },
        ]
    }

    static let dropQueueMessage = APIOperation(
        .dropQueueMessage, .delete,
        at: "/apps/{app}/users/{user}/queue/messages/{number}", role: .operate,
        summary: "Removes one message from a queue.",
        members: [.path("number", .number(maximum: .max)), .query("device")]
    ) { values throws(AdministrationRefusal) in
        .dropQueueMessage(
            DropQueueMessage(
                app: try values.text("app"), user: try values.text("user"),
                device: values.text(optional: "device"),
                number: try values.number(required: "number")))
    }
}

extension APIOperation {
    // MARK: - Retained messages

    static let listRetained = APIOperation(
        .listRetained, .get, at: "/apps/{app}/retained", role: .view,
        summary: "Lists retained messages.",
        members: [
            .query("filter"), .query("after", .number(maximum: UInt64(UInt32.max))),
            .limit(ListRetained.countMaximum),
        ],
        answer: [.objects("messages", retained), .number(optional: "next")]
    ) { values throws(AdministrationRefusal) in
        .listRetained(
            ListRetained(
                app: try values.text("app"), filter: values.text(optional: "filter"),
                after: values.number("after", as: UInt32.self),
                limit: values.limit))
    }

    static let showRetained = APIOperation(
        .showRetained, .get, at: "/apps/{app}/retained/message", role: .operate,
        summary: "Shows the retained message of a topic with its content.",
        members: [.query("topic", required: true)],
        answer: [.object("message", retained), .object("content", content)]
    ) { values throws(AdministrationRefusal) in
        .showRetained(
            ShowRetained(app: try values.text("app"), topic: try values.text("topic")))
    }

    static let deleteRetained = APIOperation(
        .deleteRetained, .delete, at: "/apps/{app}/retained", role: .operate,
        summary: "Deletes retained messages, at most 10,000.",
        members: [.query("filter", required: true)],
        answer: [.number("messageCount"), .boolean("hasMore")]
    ) { values throws(AdministrationRefusal) in
        .deleteRetained(
            DeleteRetained(app: try values.text("app"), filter: try values.text("filter")))
    }
}

extension APIValues {
    fileprivate func listQueueMessages(
        hasContents: Bool
    ) throws(AdministrationRefusal) -> ListQueueMessages {
        ListQueueMessages(
            app: try text("app"), user: try text("user"), device: text(optional: "device"),
            hasContents: hasContents, after: number("after", as: UInt64.self),
            limit: limit)
    }
}
