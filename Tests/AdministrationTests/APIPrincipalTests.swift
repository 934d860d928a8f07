// Which operations of the HTTP API each principal may make.

import Testing

@testable import Administration

@Suite("A principal of the HTTP API")
struct APIPrincipalTests {
    private static func key(
        _ role: OperatorRole, isLimited: Bool = false
    ) -> APIPrincipal {
        .appKey(APIPrincipal.AppKey(app: "plant", name: "ci", role: role, isLimited: isLimited))
    }

    private static let user = APIPrincipal.user(
        APIPrincipal.User(app: "plant", user: "pump-7", device: nil))

    /// The values of an operation's path, with this app.
    private static func path(of operation: APIOperation, app: String = "plant") -> [String] {
        operation.members.filter { $0.place == .path }.map { $0.name == "app" ? app : "x" }
    }

    private static func names(
        _ principal: APIPrincipal, app: String = "plant"
    ) -> Set<String> {
        Set(
            APIOperation.all.filter {
                principal.refusal(of: $0, path: path(of: $0, app: app)) == nil
            }.map { "\($0.method.rawValue) \($0.path)" })
    }

    /// What keys and users do without an app in the path.
    private static let own: Set<String> = [
        "POST /messages", "POST /messages/recall", "POST /messages/replace", "POST /applied",
        "PUT /wake-targets", "GET /wake-targets", "DELETE /wake-targets/{id}", "GET /wake-log",
        "GET /me",
    ]

    @Test func `that is an operator may do what the role says, and names the app in the path`() {
        for role in OperatorRole.allCases {
            for operation in APIOperation.all {
                let refusal = APIPrincipal.operator(name: "a", role: role).refusal(
                    of: operation, path: Self.path(of: operation))
                let expected: APIRefusal? =
                    !operation.serves.contains(.operator)
                    ? .notForOperators
                    : role < operation.role ? .needsRole(operation.role) : nil
                #expect(refusal == expected, "\(role) \(operation.method) \(operation.path)")
            }
        }
    }

    @Test func `that is a key of an app may do what its role says, with that app`() {
        let view = Self.names(Self.key(.view))
        let operate = Self.names(Self.key(.operate))
        #expect(view.contains("GET /apps/{app}") && view.contains("GET /apps/{app}/keys"))
        // It sends nothing, also where the path does not name the app.
        #expect(view.allSatisfy { $0.hasPrefix("GET /apps/{app}") || $0 == "GET /me" })
        #expect(operate.isStrictSuperset(of: view))
        #expect(operate.contains("POST /apps/{app}/tokens"))
        for operation in APIOperation.all where operation.appMember != nil {
            let name = "\(operation.method.rawValue) \(operation.path)"
            // All traces share their places, and a key can neither list nor read one.
            let isServed = operation.role < .own && operation.kind != .startTrace
            #expect(operate.contains(name) == isServed, "\(name)")
        }
        #expect(operate.allSatisfy { $0.contains(" /apps/{app}") || Self.own.contains($0) })
    }

    @Test func `that is a key has nothing of another app, of operators or of users`() throws {
        #expect(Self.names(Self.key(.operate), app: "other") == Self.own)
        let cases: [(String, APIMethod, APIRefusal)] = [
            ("/apps/{app}/keys", .post, .needsRole(.own)),
            ("/apps/{app}/rights", .put, .needsRole(.own)),
            ("/apps/{app}/traces", .post, .notForKeys),
            ("/apps", .get, .notForKeys), ("/operators", .get, .notForKeys),
            ("/statistics", .get, .notForKeys),
        ]
        for (path, method, expected) in cases {
            let operation = try #require(
                APIOperation.all.first { $0.path == path && $0.method == method })
            let refusal = Self.key(.operate).refusal(
                of: operation, path: Self.path(of: operation))
            #expect(refusal == expected, "\(path)")
        }
    }

    @Test func `that is a key with rights makes no tokens and no passwords`() {
        let difference = Self.names(Self.key(.operate))
            .subtracting(Self.names(Self.key(.operate, isLimited: true)))
        #expect(
            difference == [
                "POST /apps/{app}/tokens", "PUT /apps/{app}/passwords/{name}",
                "POST /apps/{app}/passwords", "PUT /apps/{app}/passwords/{name}/expiry",
            ])
    }

    @Test func `that is a user sends messages and sees the user`() {
        #expect(Self.names(Self.user) == Self.own)
    }

    @Test func `has a name in the log`() {
        #expect(APIPrincipal.operator(name: "ci", role: .view).description == "ci")
        #expect(Self.key(.view).description == "app key ci of plant")
        #expect(Self.user.description == "user pump-7 of plant")
    }

    // MARK: - Senders

    private static func send(
        _ content: String, at path: String, as principal: APIPrincipal, actingFor user: String?
    ) throws -> AdministrationCommand {
        let operation = try #require(
            APIOperation.all.first { $0.path == path && $0.method == .post })
        return try operation.command(
            path: Self.path(of: operation), query: [], content: Array(content.utf8),
            by: APIRequester(principal, actingFor: user))
    }

    private static func expected(from user: String) -> AdministrationCommand {
        .sendMessage(SendMessage(app: "plant", from: user, everybody: true, b: "x"))
    }

    @Test(arguments: ["/messages", "/apps/{app}/messages"])
    func `that is a key names the sender in the content or in the head`(path: String) throws {
        let plain = #"{"everybody":true,"b":"x"}"#
        let named = #"{"everybody":true,"b":"x","from":"bob"}"#
        let key = Self.key(.operate)
        #expect(
            try Self.send(plain, at: path, as: key, actingFor: "ann") == Self.expected(from: "ann"))
        #expect(
            try Self.send(named, at: path, as: key, actingFor: nil) == Self.expected(from: "bob"))
        #expect(
            try Self.send(named, at: path, as: key, actingFor: "ann") == Self.expected(from: "bob"))
        let missing = #expect(throws: AdministrationRefusal.self) {
            try Self.send(plain, at: path, as: key, actingFor: nil)
        }
        #expect(missing?.httpStatus == 400 && missing?.message == "/from is missing")
    }

    @Test func `that is a user is the sender, and nobody else`() throws {
        let plain = #"{"everybody":true,"b":"x"}"#
        let own = #"{"everybody":true,"b":"x","from":"pump-7"}"#
        let other = #"{"everybody":true,"b":"x","from":"bob"}"#
        let message = Self.expected(from: "pump-7")
        #expect(try Self.send(plain, at: "/messages", as: Self.user, actingFor: nil) == message)
        #expect(try Self.send(own, at: "/messages", as: Self.user, actingFor: "pump-7") == message)
        for (content, acting) in [(other, nil), (plain, "bob"), (own, "bob")] as [(String, String?)]
        {
            let refusal = #expect(throws: AdministrationRefusal.self) {
                try Self.send(content, at: "/messages", as: Self.user, actingFor: acting)
            }
            #expect(refusal?.httpStatus == 403 && refusal?.reason == 0x87)
        }
    }
}
