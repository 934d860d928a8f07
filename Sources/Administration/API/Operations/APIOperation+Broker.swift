// The operations on the broker itself, and the one that shows whose credential a request has.

extension APIOperation {
    static let backUpStore = APIOperation(
        .backUpStore, .post, at: "/backups", role: .own, status: 202,
        summary: "Starts a copy of the store into a directory on the broker's machine.",
        members: [.body("directory", required: true)],
        answer: backup
    ) { values throws(AdministrationRefusal) in
        .backUpStore(BackUpStore(directory: try values.text("directory")))
    }

    static let showBackup = APIOperation(
        .showBackup, .get, at: "/backups/last", role: .view,
        summary: "Shows the progress or the result of the last backup, if there is one.",
        answer: [.object(optional: "backup", backup)]
    ) { _ in .showBackup(ShowBackup()) }

    static let readStatistics = APIOperation(
        .readStatistics, .get, at: "/statistics", role: .view,
        summary: "Reads the broker's counters and gauges.",
        answer: [
            .text("brokerVersion"), .number("uptimeSeconds"),
            .objects("counters", .text("name"), .number("value")),
            .object(
                "latencies",
                ["acknowledgement", "delivery", "turn", "commit"].map { name in
                    .objects(name, .number("upToMicroseconds"), .number("count"))
                }),
            .objects(
                optional: "shards",
                [.text("name"), .objects("counters", .text("name"), .number("value"))]),
        ]
    ) { _ in .readStatistics(ReadStatistics()) }

    static let readActivity = APIOperation(
        .readActivity, .get, at: "/activity", role: .view,
        summary: "Reads who sends most, which queues are deepest, and who reads slowly.",
        members: [.limit(ReadActivity.countMaximum)],
        answer: [
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
    ) { values in .readActivity(ReadActivity(limit: values.limit)) }

    static let listListeners = APIOperation(
        .listListeners, .get, at: "/listeners", role: .view,
        summary: "Lists the listeners, with their connections and certificates.",
        answer: [
            .objects(
                "listeners", .text("address"), .text("scheme"), .texts("parts"),
                .number("connectionCount"), .text(optional: "certificateSubject"),
                .number(optional: "certificateExpiresUnixSeconds"),
                .number(optional: "certificateDays"))
        ]
    ) { _ in .listListeners(ListListeners()) }

    static let listRefusals = APIOperation(
        .listRefusals, .get, at: "/refusals", role: .view,
        summary: "Lists the latest refused logins, requests and sends.",
        members: [
            .query("after", .number(maximum: .max)),
            .limit(ListRefusals.countMaximum),
        ],
        answer: [
            .objects(
                "refusals", .number("number"), .number("unixMilliseconds"), .text("event"),
                .text(optional: "address"), .text(optional: "user"), .text(optional: "device"),
                .text(optional: "reason"), .number(optional: "code"),
                .text(optional: "subject"), .text(optional: "detail")),
            .number("last"),
        ]
    ) { values in
        .listRefusals(
            ListRefusals(
                after: values.number("after", as: UInt64.self),
                limit: values.limit))
    }

    static let listLogLines = APIOperation(
        .listLogLines, .get, at: "/log", role: .view,
        summary: "Lists the latest lines of the log.",
        members: [
            .query("after", .number(maximum: .max)),
            .limit(ListLogLines.countMaximum),
        ],
        answer: [
            .objects(
                "lines", .number("number"), .number("unixMilliseconds"), .text("level"),
                .text("event"), .objects("fields", .text("name"), .text("value"))),
            .number("last"),
        ]
    ) { values in
        .listLogLines(
            ListLogLines(
                after: values.number("after", as: UInt64.self),
                limit: values.limit))
    }

    static let reloadConfiguration = APIOperation(
        .reloadConfiguration, .post, at: "/reload", role: .own,
        summary: "Reads the configuration, certificates, keys and lists again.",
        answer: [.texts("changed"), .texts("needsRestart"), .texts("files")]
    ) { _ in .reloadConfiguration(ReloadConfiguration()) }

    static let setLogLevel = APIOperation(
        .setLogLevel, .put, at: "/log-level", role: .own,
        summary: "Changes the level of the log until the next reload or restart.",
        members: [.body("level", .choice(SetLogLevel.levels), required: true)],
        answer: [.text("previous")]
    ) { values throws(AdministrationRefusal) in
        .setLogLevel(SetLogLevel(level: try values.text("level")))
    }

    static let showSelf = APIOperation(
        .showSelf, .get, at: "/me", role: .view, serves: [.operator, .appKey, .user],
        summary: "Shows whose credential the request has: an operator, a key, or a user "
            + "with the user's sessions.",
        answer: [
            .text("kind"), .text(optional: "operator"), .text(optional: "role"),
            .text(optional: "app"), .text(optional: "keyName"), .text(optional: "user"),
            .text(optional: "device"), .texts(optional: "rights"),
            .number(optional: "expiresUnixSeconds"),
            .objects(optional: "sessions", session), .number(optional: "sessionCount"),
            .object(optional: "queue", queue),
        ]
    ) { _ in .showSelf(ShowSelf()) }
}
