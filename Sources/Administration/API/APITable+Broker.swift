// The rows of the HTTP API for the broker itself and its dashboard.

extension APIOperation {
    static var makeLoginLink: [APIOperation] {
        let roles = OperatorRole.allCases.map(\.rawValue)
        return [
            APIOperation(
                .makeLoginLink, .post, at: "/operators/{operator}/links", role: .own, status: 201,
                summary: "Makes a link that signs in to the dashboard once.",
                members: [.body("role", .choice(roles), required: true)]
            ) { values throws(AdministrationRefusal) in
                .makeLoginLink(
                    MakeLoginLink(
                        operator: try values.text("operator"),
                        role: try values.word("role", as: OperatorRole.self)))
            }
        ]
    }

    static var listListeners: [APIOperation] {
        [
            APIOperation(
                .listListeners, .get, at: "/listeners", role: .view,
                summary: "Lists the listeners, with their connections and certificates."
            ) { _ in .listListeners(ListListeners()) }
        ]
    }

    static var listRefusals: [APIOperation] {
        [
            APIOperation(
                .listRefusals, .get, at: "/refusals", role: .view,
                summary: "Lists the latest refused logins, requests and sends.",
                members: [
                    .query("after", .number(maximum: .max)),
                    .limit(ListRefusals.countMaximum),
                ]
            ) { values in
                .listRefusals(
                    ListRefusals(
                        after: values.number("after", as: UInt64.self),
                        limit: values.limit))
            }
        ]
    }

    static var listLogLines: [APIOperation] {
        [
            APIOperation(
                .listLogLines, .get, at: "/log", role: .view,
                summary: "Lists the latest lines of the log.",
                members: [
                    .query("after", .number(maximum: .max)),
                    .limit(ListLogLines.countMaximum),
                ]
            ) { values in
                .listLogLines(
                    ListLogLines(
                        after: values.number("after", as: UInt64.self),
                        limit: values.limit))
            }
        ]
    }

    static var reloadConfiguration: [APIOperation] {
        [
            APIOperation(
                .reloadConfiguration, .post, at: "/reload", role: .own,
                summary: "Reads the configuration, certificates, keys and lists again."
            ) { _ in .reloadConfiguration(ReloadConfiguration()) }
        ]
    }

    static var setLogLevel: [APIOperation] {
        [
            APIOperation(
                .setLogLevel, .put, at: "/log-level", role: .own,
                summary: "Changes the level of the log until the next reload or restart.",
                members: [.body("level", .choice(SetLogLevel.levels), required: true)]
            ) { values throws(AdministrationRefusal) in
                .setLogLevel(SetLogLevel(level: try values.text("level")))
            }
        ]
    }

    static var showSelf: [APIOperation] {
        [
            APIOperation(
                .showSelf, .get, at: "/me", role: .view, serves: [.operator, .appKey, .user],
                summary: "Shows whose credential the request has: an operator, a key, or a user "
                    + "with the user's sessions."
            ) { _ in .showSelf(ShowSelf()) }
        ]
    }
}
