// The operations on passwords.

extension APIOperation {
    static let setPassword = APIOperation(
        .setPassword, .put, at: "/apps/{app}/passwords/{name}", role: .operate,
        summary: "Sets a password, or its hash as Mosquitto writes it, and ends the connections of "
            + "the earlier one. With `keepsTerms` it has the user, the device, the rights and the "
            + "expiry of the earlier one where the request names no others.",
        members: [
            .body("password"), .body("hash"), .body("user"), .body("device"),
            .body("rights", .texts), .body("expirySeconds", .number(maximum: .max)),
            .body("keepsTerms", .boolean),
        ],
        answer: [.number("connectionCount")]
    ) { values throws(AdministrationRefusal) in
        .setPassword(
            SetPassword(
                app: try values.text("app"), name: try values.text("name"),
                password: values.text(optional: "password"), hash: values.text(optional: "hash"),
                user: values.text(optional: "user"), device: values.text(optional: "device"),
                rights: values.texts(optional: "rights"),
                expirySeconds: values.number("expirySeconds", as: UInt64.self),
                keepsTerms: values.boolean("keepsTerms")))
    }

    static let importPasswords = APIOperation(
        .importPasswords, .post, at: "/apps/{app}/passwords", role: .operate,
        summary:
            "Sets passwords by their hashes, all or none. An item of `rights` has one right on "
            + "each line.",
        members: [
            .body("names", .texts, required: true), .body("hashes", .texts, required: true),
            .body("users", .texts), .body("rights", .texts),
        ],
        answer: [.number("connectionCount")]
    ) { values throws(AdministrationRefusal) in
        .importPasswords(
            ImportPasswords(
                app: try values.text("app"), names: try values.texts("names"),
                hashes: try values.texts("hashes"), users: values.texts(optional: "users"),
                rights: values.texts(optional: "rights")))
    }

    static let listPasswords = APIOperation(
        .listPasswords, .get, at: "/apps/{app}/passwords", role: .view,
        summary: "Lists passwords by their names, without the hashes.",
        members: [.query("user"), .query("after"), .limit(ListPasswords.countMaximum)],
        answer: [
            .objects(
                "passwords", .text("name"), .text("user"), .text(optional: "device"),
                .text("kind"), .texts(optional: "rights"), .number("madeUnixSeconds"),
                .number(optional: "expiresUnixSeconds"),
                .number(optional: "lastUsedUnixSeconds")),
            .text(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .listPasswords(
            ListPasswords(
                app: try values.text("app"), user: values.text(optional: "user"),
                after: values.text(optional: "after"), limit: values.limit))
    }

    static let expirePassword = APIOperation(
        .expirePassword, .put, at: "/apps/{app}/passwords/{name}/expiry", role: .operate,
        summary: "Changes when a password expires; never without `expirySeconds`.",
        members: [.body("expirySeconds", .number(maximum: .max))],
        answer: [.number("connectionCount")]
    ) { values throws(AdministrationRefusal) in
        .expirePassword(
            ExpirePassword(
                app: try values.text("app"), name: try values.text("name"),
                expirySeconds: values.number("expirySeconds", as: UInt64.self)))
    }

    static let revokePassword = APIOperation(
        .revokePassword, .delete, at: "/apps/{app}/passwords/{name}", role: .operate,
        summary: "Revokes a password and ends its connections.",
        answer: [.number("connectionCount")]
    ) { values throws(AdministrationRefusal) in
        .revokePassword(
            RevokePassword(app: try values.text("app"), name: try values.text("name")))
    }
}
