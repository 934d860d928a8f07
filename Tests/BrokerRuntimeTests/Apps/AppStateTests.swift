// What operators are told of an app whose deletion was interrupted, and of a relay whose user
// somebody else may be.

import Administration
import Configuration
import Testing

@testable import BrokerRuntime

@Suite("The state of an app") struct AppStateTests {
    @Test func `an app whose deletion has begun is named, with what is left`() throws {
        let broker = try RunningBroker()
        try broker.makeApp("plant")
        _ = try broker.makeTokens("ann", "bob", app: "plant")
        let hasBegun = broker.server.shards.first.enter {
            $0.broker.beginDeletion(ofApp: Array("plant".utf8))
        }
        #expect(hasBegun)
        let administrator = try broker.administrator()
        func refusal(_ request: some AdministrationRequest) -> String {
            do {
                _ = try administrator.send(request)
                return "done"
            } catch {
                return "\(error)"
            }
        }
        let expected =
            "the app \"plant\" is being deleted, and 2 users and 2 tokens of it are left; "
            + "continue with: martlet app delete plant"
        for text in [
            refusal(ShowApp(app: "plant")), refusal(MintTokens(app: "plant", users: ["cid"])),
            refusal(CreateApp(app: "plant")), refusal(AddUser(app: "plant", user: "cid")),
        ] {
            #expect(text.contains(expected), "\(text)")
        }
        let apps = try administrator.send(ListApps()).apps
        #expect(apps.map(\.isBeingDeleted) == [true])
        // Its losses were accepted before.
        #expect(try administrator.send(DeleteApp(app: "plant")).hasMore == false)
        #expect(try administrator.send(ListApps()).apps.isEmpty)
        try broker.makeApp("plant")
    }

    @Test func `a relay whose user has a password is logged`() throws {
        var app = AppSettings(app: "demo")
        app.wake = WakeSettings(relay: "push")
        let broker = try RunningBroker { $0.apps = [app] }
        try broker.makeApp()
        _ = try broker.makeTokens("push")
        broker.server.withoutEffect.report()
        let password = SetPassword(app: "demo", name: "push", password: "long enough")
        _ = try broker.administrator().send(password)
        broker.server.withoutEffect.report()
        let line = try #require(broker.log.line { $0.contains("event=relay_exposed") })
        #expect(line.contains("app=demo user=push"), "\(line)")
        #expect(broker.log.seen.count { $0.contains("event=relay_exposed") } == 1)
    }
}
