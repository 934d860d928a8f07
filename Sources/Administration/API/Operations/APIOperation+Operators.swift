// The operations on operators, and on the links that sign them in to the dashboard.

extension APIOperation {
    static let addOperator = APIOperation(
        .addOperator, .post, at: "/operators", role: .own, status: 201,
        summary: "Adds an operator and makes their token.",
        members: [
            .body("operator", required: true),
            .body("role", .choice(OperatorRole.allCases.map(\.rawValue)), required: true),
            .body("expirySeconds", .number(maximum: .max)),
        ],
        answer: [.text("token")]
    ) { values throws(AdministrationRefusal) in
        .addOperator(
            AddOperator(
                operator: try values.text("operator"),
                role: try values.word("role", as: OperatorRole.self),
                expirySeconds: values.number("expirySeconds", as: UInt64.self)))
    }

    static let listOperators = APIOperation(
        .listOperators, .get, at: "/operators", role: .own, summary: "Lists the operators.",
        answer: [
            .objects(
                "operators", .text("operator"), .text("role"), .number("madeUnixSeconds"),
                .number(optional: "expiresUnixSeconds"))
        ]
    ) { _ in .listOperators(ListOperators()) }

    static let revokeOperator = APIOperation(
        .revokeOperator, .delete, at: "/operators/{operator}", role: .own,
        summary: "Removes an operator, whose token is refused from then on."
    ) { values throws(AdministrationRefusal) in
        .revokeOperator(RevokeOperator(operator: try values.text("operator")))
    }

    static let makeLoginLink = APIOperation(
        .makeLoginLink, .post, at: "/operators/{operator}/links", role: .own, status: 201,
        summary: "Makes a link that signs in to the dashboard once.",
        members: [.body("role", .choice(OperatorRole.allCases.map(\.rawValue)), required: true)],
        answer: [.text("code"), .number("expiresUnixSeconds"), .texts("addresses")]
    ) { values throws(AdministrationRefusal) in
        .makeLoginLink(
            MakeLoginLink(
                operator: try values.text("operator"),
                role: try values.word("role", as: OperatorRole.self)))
    }
}
