// The check of a login.

import Testing

@testable import SourceInterfaces

/// As fast as a test needs it.
private struct PlainHasher: PasswordHasher {
    func hash(_ password: String) -> String? { "plain:\(password)" }
    func matches(_ password: String, _ hash: String?) -> Bool? { self.hash(password) == hash }
}

private struct Registered: RegisteredPasswords {
    let hashes: [SourceUser: String]
    func hash(of user: SourceUser) -> String? { hashes[user] }
}

@Suite struct PasswordTests {
    private func check(
        _ content: String, route: SourceRoute = .passwordLogin,
        apps: [String: Set<SourceInterface>] = ["demo": [.rest, .registration]]
    ) -> PasswordCheck {
        PasswordCheck(
            SourceRequest(
                route: route, query: [], content: Array(content.utf8), contentForm: .json,
                host: "h", user: nil),
            apps: SourceApps(apps),
            passwords: Registered(
                hashes: [SourceUser(app: "demo", user: "rosa"): "plain:geheim"]),
            hasher: PlainHasher())
    }

    @Test func `a login needs the password of its user`() {
        guard
            case .correct(let user, let hash) = check(
                #"{"username":"rosa","password":"geheim"}"#
            ).outcome
        else {
            Issue.record("the right password is refused")
            return
        }
        #expect(user == SourceUser(app: "demo", user: "rosa"))
        #expect(hash == "plain:geheim")
        #expect(check(#"{"username":"rosa","password":"x"}"#).isWrong)
        #expect(check(#"{"username":"emil","password":"geheim"}"#).isWrong)
        #expect(!check(#"{"username":"rosa"}"#).isWrong)
    }

    /// The old password was compared before, and its token is asked for after the change.
    @Test func `a password that was changed while it was hashed opens nothing`() {
        let operations = TestOperations()
        let route = SourceRoute.passwordLogin
        let login = check(#"{"username":"rosa","password":"geheim"}"#)
        func answer() -> UInt16 {
            SourceExecutor(operations: operations).answer(
                SourceRequest(
                    route: route, query: [], content: [], contentForm: .json, host: "h",
                    user: nil), check: login
            ).status
        }
        operations.passwordHash = "plain:other"
        #expect(answer() == 403)
        // The test refuses to mint.
        operations.passwordHash = "plain:geheim"
        #expect(answer() == TestOperations.refusal.status)
    }

    @Test func `a user of several apps names the app`() {
        let apps: [String: Set<SourceInterface>] = ["demo": [.rest], "plant": [.rest]]
        guard
            case .refused(let refusal) = check(
                #"{"username":"rosa","password":"geheim"}"#, apps: apps
            ).outcome
        else {
            Issue.record("an app was chosen")
            return
        }
        #expect(refusal.status == 400)
        guard
            case .correct = check(
                #"{"username":"demo/rosa","password":"geheim"}"#, apps: apps
            ).outcome
        else {
            Issue.record("the named app is refused")
            return
        }
        #expect(check(#"{"username":"plant/rosa","password":"geheim"}"#, apps: apps).isWrong)
    }
}
