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
}
