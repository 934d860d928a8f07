// The check of a login.

import Testing

@testable import SourceInterfaces

/// As fast as a test needs it.
private struct PlainHasher: PasswordHasher {
    func isToken(_ password: String) -> Bool { password.hasPrefix("mt1_") }

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
            case .correct(let user) = check(
                #"{"username":"rosa","password":"geheim"}"#
            ).outcome
        else {
            Issue.record("the right password is refused")
            return
        }
        #expect(user == SourceUser(app: "demo", user: "rosa"))
        #expect(check(#"{"username":"rosa","password":"x"}"#).isWrong)
        #expect(check(#"{"username":"emil","password":"geheim"}"#).isWrong)
        #expect(!check(#"{"username":"rosa"}"#).isWrong)
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
