// The operations on sessions and their queues.

extension APIOperation {
    private static let sessionSelection: [APIMember] = [
        .query("user"), .query("device"), .query("isConnected", .boolean),
        .query("awaySeconds", .number(maximum: .max)),
    ]

    static let listSessions = APIOperation(
        .listSessions, .get, at: "/apps/{app}/sessions", role: .view,
        summary: "Lists sessions.",
        members: sessionSelection + [
            continuation, .limit(ListSessions.countMaximum),
        ],
        answer: [
            .objects("sessions", session), .number(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .listSessions(
            ListSessions(
                try values.sessionSelection(),
                after: values.number("after", as: UInt32.self), limit: values.limit))
    }

    static let importSession = APIOperation(
        .importSession, .post, at: "/apps/{app}/sessions", role: .own,
        summary: "Takes a piece of a session of another broker: messages that wait, and with the "
            + "last piece its subscriptions. An item of `messages` has five lines, one of "
            + "`filters` three; `martlet import mosquitto` writes them.",
        members: [
            .body("user", required: true), .body("device", required: true),
            .body("expirySeconds", .number(maximum: UInt64(UInt32.max))),
            .body("from", required: true),
            .body("position", .number(maximum: .max), required: true),
            .body("messages", .texts, required: true), .body("filters", .texts),
        ],
        answer: [
            .text("state"), .number("position"), .number("messageCount"),
            .number("refusedCount"), .texts("refusedFilters"),
        ]
    ) { values throws(AdministrationRefusal) in
        .importSession(
            ImportSession(
                app: try values.text("app"), user: try values.text("user"),
                device: try values.text("device"),
                expirySeconds: values.number("expirySeconds", as: UInt32.self),
                from: try values.text("from"),
                position: values.number("position", as: UInt64.self) ?? 0,
                messages: try values.texts("messages"), filters: values.texts(optional: "filters")))
    }

    static let kickSessions = APIOperation(
        .kickSessions, .delete, at: "/apps/{app}/connections", role: .operate,
        summary: "Ends the connections of sessions, which remain.",
        members: sessionSelection + [.query("sendsWills", .boolean), continuation],
        answer: [.number("sessionCount"), .number(optional: "next")]
    ) { values throws(AdministrationRefusal) in
        .kickSessions(
            KickSessions(
                try values.sessionSelection(), sendsWills: values.boolean("sendsWills"),
                after: values.number("after", as: UInt32.self)))
    }

    static let deleteSessions = APIOperation(
        .deleteSessions, .delete, at: "/apps/{app}/sessions", role: .operate,
        summary: "Ends sessions.",
        members: sessionSelection + [.query("sendsWills", .boolean), continuation],
        answer: [.number("sessionCount"), .number(optional: "next")]
    ) { values throws(AdministrationRefusal) in
        .deleteSessions(
            DeleteSessions(
                try values.sessionSelection(), sendsWills: values.boolean("sendsWills"),
                after: values.number("after", as: UInt32.self)))
    }

    static let showOfflineQueue = APIOperation(
        .showOfflineQueue, .get, at: "/apps/{app}/users/{user}/queue", role: .view,
        summary: "Shows the offline queue of a user.",
        answer: queue
    ) { values throws(AdministrationRefusal) in
        .showOfflineQueue(
            ShowOfflineQueue(app: try values.text("app"), user: try values.text("user")))
    }

    static let purgeQueues = APIOperation(
        .purgeQueues, .delete, at: "/apps/{app}/queues", role: .operate,
        summary:
            "Discards the queues of disconnected sessions, and a user's offline queue.",
        members: sessionSelection + [continuation],
        answer: [.number("messageCount"), .number(optional: "next")]
    ) { values throws(AdministrationRefusal) in
        .purgeQueues(
            PurgeQueues(
                try values.sessionSelection(),
                after: values.number("after", as: UInt32.self)))
    }
}

extension APIValues {
    fileprivate func sessionSelection() throws(AdministrationRefusal) -> SessionSelection {
        SessionSelection(
            app: try text("app"), user: text(optional: "user"), device: text(optional: "device"),
            isConnected: boolean("isConnected"),
            awaySeconds: number("awaySeconds", as: UInt64.self))
    }
}
