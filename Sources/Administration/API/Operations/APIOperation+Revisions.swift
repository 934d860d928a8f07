// The operations that take messages back or give them new content.

extension APIOperation {
    private static let members: [APIMember] = [
        .body("from"), .body("reference"), .body("mid"), .body("detail"),
    ]

    private static let revisionAnswer: [APIAnswerMember] = [
        .number("withdrawnCount"), .number("lateCount"), .texts("lateUsers"),
    ]

    static var recallMessage: [APIOperation] {
        let reading: Reading = { values throws(AdministrationRefusal) in
            .recallMessage(
                RecallMessage(
                    app: try values.app(), from: try values.sender(),
                    reference: values.text(optional: "reference"),
                    mid: values.text(optional: "mid"), detail: values.text(optional: "detail")))
        }
        return [
            APIOperation(
                .recallMessage, .post, at: "/apps/{app}/messages/recall", role: .operate,
                summary: "Takes back a message of a user, and waits until that is stored.",
                members: members, answer: revisionAnswer, reading: reading),
            APIOperation(
                .recallMessage, .post, at: "/messages/recall", role: .operate,
                serves: [.appKey, .user],
                summary: "Takes back a message of the user, and waits until that is stored.",
                members: members, answer: revisionAnswer, reading: reading),
        ]
    }

    static var replaceMessage: [APIOperation] {
        let reading: Reading = { values throws(AdministrationRefusal) in
            .replaceMessage(
                ReplaceMessage(
                    app: try values.app(), from: try values.sender(),
                    reference: values.text(optional: "reference"),
                    mid: values.text(optional: "mid"), detail: values.text(optional: "detail"),
                    b: try values.text("b"), t: values.number("t", as: UInt8.self)))
        }
        let members =
            members + [.body("b", required: true), .body("t", .number(maximum: 255))]
        return [
            APIOperation(
                .replaceMessage, .post, at: "/apps/{app}/messages/replace", role: .operate,
                summary: "Gives a message of a user new content, and waits until that is stored.",
                members: members, answer: revisionAnswer, reading: reading),
            APIOperation(
                .replaceMessage, .post, at: "/messages/replace", role: .operate,
                serves: [.appKey, .user],
                summary: "Gives a message of the user new content, and waits until that is stored.",
                members: members, answer: revisionAnswer, reading: reading),
        ]
    }
}
