// The operations about what receivers did with messages.

extension APIOperation {
    static let showReceipts = APIOperation(
        .showReceipts, .get, at: "/apps/{app}/receipts/{reference}", role: .view,
        summary: "Shows who has a message with a reference, and who has applied it.",
        members: [.query("after"), .limit(ShowReceipts.countMaximum)],
        answer: [
            .text("from"), .text(optional: "mid"), .text(optional: "groupid"),
            .texts("receipts"), .number("unixMilliseconds"),
            .number(optional: "expiresUnixSeconds"), .boolean("isExpired"),
            .number("receiverCount"), .number("deliveredCount"), .number("appliedCount"),
            .number(optional: "failedCount"), .boolean(optional: "isRecalled"),
            .number(optional: "withdrawnCount"), .number(optional: "lateCount"),
            .objects(
                "receivers", .text("user"), .boolean(optional: "isDelivered"),
                .boolean("isApplied"), .boolean(optional: "isWithdrawn")),
            .text(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .showReceipts(
            ShowReceipts(
                app: try values.text("app"), reference: try values.text("reference"),
                after: values.text(optional: "after"), limit: values.limit))
    }

    static var reportApplied: [APIOperation] {
        let members: [APIMember] = [
            .body("reference", required: true), .body("code", .number(maximum: 255)),
            .body("text"),
        ]
        let reading: Reading = { values throws(AdministrationRefusal) in
            // The one in the path, or the one of the credential.
            let named = values.text(optional: "user")
            let user = named == nil ? try values.sender() : try values.text("user")
            return .reportApplied(
                ReportApplied(
                    app: try values.app(), user: user,
                    device: values.text(optional: "device") ?? values.ownDevice,
                    reference: try values.text("reference"),
                    code: values.number("code", as: UInt8.self),
                    text: values.text(optional: "text")))
        }
        return [
            APIOperation(
                .reportApplied, .post, at: "/apps/{app}/users/{user}/applied", role: .operate,
                summary: "Tells the sender of a message that a user has applied it, or why not.",
                members: members + [.body("device")], reading: reading),
            APIOperation(
                .reportApplied, .post, at: "/applied", role: .operate, serves: [.appKey, .user],
                summary: "Tells the sender of a message that the user of the credential has "
                    + "applied it, or why not.",
                members: [.body("from")] + members, reading: reading),
        ]
    }
}
