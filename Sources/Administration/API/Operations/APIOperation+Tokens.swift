// The operations on tokens.

extension APIOperation {
    private static let tokenSelection: [APIMember] = [
        .query("id"), .query("user"), .query("device"), .query("batch"),
    ]

    static let mintTokens = APIOperation(
        .mintTokens, .post, at: "/apps/{app}/tokens", role: .operate, status: 201,
        summary: "Mints one token for each user.",
        members: [
            .body("users", .texts, required: true), .body("device"),
            .body("expirySeconds", .number(maximum: .max)), .body("batch"),
            .body("rights", .texts),
        ],
        answer: [.objects("tokens", .text("user"), .text("id"), .text("token"))]
    ) { values throws(AdministrationRefusal) in
        .mintTokens(
            MintTokens(
                app: try values.text("app"), users: try values.texts("users"),
                device: values.text(optional: "device"),
                expirySeconds: values.number("expirySeconds", as: UInt64.self),
                batch: values.text(optional: "batch"),
                rights: values.texts(optional: "rights")))
    }

    static let listTokens = APIOperation(
        .listTokens, .get, at: "/apps/{app}/tokens", role: .view,
        summary: "Lists tokens, without their secrets.",
        members: tokenSelection + [.query("after"), .limit(ListTokens.countMaximum)],
        answer: [
            .objects(
                "tokens", .text("id"), .text("user"), .text(optional: "device"),
                .text(optional: "batch"), .number(optional: "expiresUnixSeconds"),
                .number(optional: "lastUsedUnixSeconds"), .texts(optional: "rights")),
            .text(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .listTokens(
            ListTokens(
                try values.tokenSelection(), after: values.text(optional: "after"),
                limit: values.limit))
    }

    static let revokeTokens = APIOperation(
        .revokeTokens, .delete, at: "/apps/{app}/tokens", role: .operate,
        summary: "Revokes tokens and ends their connections.",
        members: tokenSelection + [continuation],
        answer: [.number("tokenCount"), .number("connectionCount"), .number(optional: "next")]
    ) { values throws(AdministrationRefusal) in
        .revokeTokens(
            RevokeTokens(
                try values.tokenSelection(), after: values.number("after", as: UInt32.self))
        )
    }
}

extension APIValues {
    fileprivate func tokenSelection() throws(AdministrationRefusal) -> TokenSelection {
        TokenSelection(
            app: try text("app"), id: text(optional: "id"), user: text(optional: "user"),
            device: text(optional: "device"), batch: text(optional: "batch"))
    }
}
