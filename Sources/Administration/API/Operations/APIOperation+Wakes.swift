// The operations on wake targets.

extension APIOperation {
    private static let ofUser = "/apps/{app}/users/{user}/wake-targets"
    private static let own = "/wake-targets"

    private static let setWakeTargetAnswer: [APIAnswerMember] = [.number("id")]

    static var setWakeTarget: [APIOperation] {
        let kinds = WakeTargetKind.allCases.map(\.rawValue)
        let environments = WakeTargetEnvironment.allCases.map(\.rawValue)
        let members: [APIMember] = [
            .body("kind", .choice(kinds), required: true), .body("address", required: true),
            .body("device"), .body("environment", .choice(environments)), .body("language"),
        ]
        let reading: Reading = { values throws(AdministrationRefusal) in
            .setWakeTarget(
                SetWakeTarget(
                    app: try values.app(), user: try values.wakeUser(),
                    kind: try values.word("kind", as: WakeTargetKind.self),
                    address: try values.text("address"), device: values.text(optional: "device"),
                    environment: try values.word(
                        optional: "environment", as: WakeTargetEnvironment.self),
                    language: values.text(optional: "language")))
        }
        return [
            APIOperation(
                .setWakeTarget, .put, at: ofUser, role: .operate,
                summary: "Sets where a relay reaches a user of whom no device is connected.",
                members: members, answer: setWakeTargetAnswer, reading: reading),
            APIOperation(
                .setWakeTarget, .put, at: own, role: .operate, serves: [.appKey, .user],
                summary: "Sets a wake target of the user of the credential.",
                members: [.body("from")] + members, answer: setWakeTargetAnswer, reading: reading),
        ]
    }

    private static let listWakeTargetsAnswer: [APIAnswerMember] = [
        .objects(
            "targets", .number("id"), .text(optional: "device"), .text("kind"),
            .text("address"), .text("environment"), .text(optional: "language"),
            .boolean("isSilent"))
    ]

    static var listWakeTargets: [APIOperation] {
        let reading: Reading = { values throws(AdministrationRefusal) in
            .listWakeTargets(
                ListWakeTargets(app: try values.app(), user: try values.wakeUser()))
        }
        return [
            APIOperation(
                .listWakeTargets, .get, at: ofUser, role: .operate,
                summary: "Lists the wake targets of a user.", answer: listWakeTargetsAnswer,
                reading: reading),
            APIOperation(
                .listWakeTargets, .get, at: own, role: .operate, serves: [.appKey, .user],
                summary: "Lists the wake targets of the user of the credential.",
                members: [.query("from")], answer: listWakeTargetsAnswer, reading: reading),
        ]
    }

    private static let removeWakeTargetAnswer: [APIAnswerMember] = [.boolean("isRemoved")]

    static var removeWakeTarget: [APIOperation] {
        let identifier = APIMember.path("id", .number(maximum: .max))
        let reading: Reading = { values throws(AdministrationRefusal) in
            .removeWakeTarget(
                RemoveWakeTarget(
                    app: try values.app(), user: try values.wakeUser(),
                    id: try values.number(required: "id")))
        }
        return [
            APIOperation(
                .removeWakeTarget, .delete, at: ofUser + "/{id}", role: .operate,
                summary: "Removes a wake target of a user.", members: [identifier],
                answer: removeWakeTargetAnswer, reading: reading),
            APIOperation(
                .removeWakeTarget, .delete, at: own + "/{id}", role: .operate,
                serves: [.appKey, .user],
                summary: "Removes a wake target of the user of the credential.",
                members: [identifier, .query("from")], answer: removeWakeTargetAnswer,
                reading: reading),
        ]
    }

    private static let listWakeLogAnswer: [APIAnswerMember] = [
        .objects(
            "entries", .number("number"), .number("unixMilliseconds"), .number("id"),
            .text("kind"), .text("step"), .number("wake"), .number("messageCount"),
            .text(optional: "detail")),
        .number("last"),
    ]

    static var listWakeLog: [APIOperation] {
        let members: [APIMember] = [
            .query("after", .number(maximum: .max)), .limit(ListWakeLog.countMaximum),
        ]
        let reading: Reading = { values throws(AdministrationRefusal) in
            .listWakeLog(
                ListWakeLog(
                    app: try values.app(), user: try values.wakeUser(),
                    after: values.number("after", as: UInt64.self), limit: values.limit))
        }
        return [
            APIOperation(
                .listWakeLog, .get, at: "/apps/{app}/users/{user}/wake-log", role: .operate,
                summary: "Lists what the relay reported of the wake-ups of a user.",
                members: members, answer: listWakeLogAnswer, reading: reading),
            APIOperation(
                .listWakeLog, .get, at: "/wake-log", role: .operate, serves: [.appKey, .user],
                summary: "Lists what the relay reported of the wake-ups of the user of the "
                    + "credential.",
                members: [.query("from")] + members, answer: listWakeLogAnswer, reading: reading),
        ]
    }

    static let testWake = APIOperation(
        .testWake, .post, at: "/apps/{app}/users/{user}/wake-test", role: .operate,
        summary: "Asks the relay to wake a user by way of a test.",
        members: [.body("id", .number(maximum: .max))],
        answer: [.number("targetCount")]
    ) { values throws(AdministrationRefusal) in
        .testWake(
            TestWake(
                app: try values.text("app"), user: try values.text("user"),
                id: values.number("id", as: UInt64.self)))
    }
}

extension APIValues {
    /// The user in the path, or the one of the credential.
    fileprivate func wakeUser() throws(AdministrationRefusal) -> String {
        if let user = text(optional: "user") { return user }
        return try sender()
    }
}
