// The sessions of a Mosquitto with what waits for them, from stores that the tests write.

import Foundation
import TestSurroundings
import Testing

@testable import martlet

/// A store of Mosquitto 2.0 in the making.
private struct StoreFile {
    var bytes = [0x00, 0xB5, 0x00] + Array("mosquitto db".utf8) + [0, 0, 0, 0] + big(6, 4)

    /// A number in network order.
    private static func big(_ number: Int, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func native(_ number: Int) -> [UInt8] { big(number, 8).reversed() }

    private mutating func add(_ kind: Int, _ chunk: [UInt8]) {
        bytes += Self.big(kind, 4) + Self.big(chunk.count, 4) + chunk
    }

    /// - Parameter expires: Unix seconds; 0 for none.
    mutating func addMessage(_ identifier: Int, topic: String, expires: Int = 0) {
        let topic = Array(topic.utf8)
        add(
            2,
            Self.native(identifier) + Self.native(expires) + Self.big(1, 4)
                + [0, 0, 0, 0, 0, 0] + Self.big(topic.count, 2) + [0, 0, 0, 0] + topic + [0x78])
    }

    /// A message that waits for a client, or that a client has not completed.
    mutating func addWaiting(
        _ message: Int, client: String, qos: UInt8 = 1, state: UInt8 = 11, isIncoming: Bool = false
    ) {
        let name = Array(client.utf8)
        add(
            3,
            Self.native(message) + [0, 1] + Self.big(name.count, 2)
                + [qos, state, 0, isIncoming ? 0 : 1] + name)
    }

    mutating func addSubscription(_ filter: String, client: String) {
        let (name, filter) = (Array(client.utf8), Array(filter.utf8))
        add(
            5,
            Self.big(0, 4) + Self.big(name.count, 2) + Self.big(filter.count, 2) + [1, 0, 0, 0]
                + name + filter)
    }

    mutating func addClient(_ client: String, user: String) {
        let (name, user) = (Array(client.utf8), Array(user.utf8))
        add(
            6,
            Self.native(0) + Self.big(3_600, 4) + [0, 0] + Self.big(name.count, 2) + [0, 0]
                + Self.big(user.count, 2) + [0, 0, 0, 0] + name + user)
    }
}

@Suite("The import of sessions of Mosquitto")
struct ImportSessionsTests {
    private let files: TemporaryDirectory

    init() throws { files = try TemporaryDirectory() }

    /// - Parameter users: those who are in a password file, if there are any.
    private func plan(
        _ store: StoreFile, users: [String] = [], unixSeconds: Int64 = 0
    ) throws -> ImportPlan {
        try Data(store.bytes).write(to: URL(filePath: files.file("mosquitto.db")))
        var text = "listener 1883\n"
        if !users.isEmpty {
            let hash = "$6$V0ORzqVy5MlINaA2$\(Data(repeating: 1, count: 64).base64EncodedString())"
            let lines = users.map { "\($0):\(hash)\n" }.joined()
            try Data(lines.utf8).write(to: URL(filePath: files.file("passwd")))
            text += "allow_anonymous false\npassword_file \(files.file("passwd"))\n"
        }
        try Data(text.utf8).write(to: URL(filePath: files.file("mosquitto.conf")))
        return ImportPlan(
            configuration: files.file("mosquitto.conf"), store: files.file("mosquitto.db"),
            app: "demo", unixSeconds: unixSeconds)
    }

    /// Whether the report has a line with this verdict and these words.
    private func tells(
        _ plan: ImportPlan, _ verdict: ImportReport.Verdict, _ words: String
    ) -> Bool {
        plan.report.lines.contains { $0.verdict == verdict && $0.text.contains(words) }
    }

    @Test func `keep the places of messages that expire between two attempts`() throws {
        var store = StoreFile()
        store.addClient("dev1", user: "ann")
        for number in 1...6 {
            store.addMessage(number, topic: "t/\(number)", expires: number <= 2 ? 100 : 0)
            store.addWaiting(number, client: "dev1")
        }
        let first = try plan(store, unixSeconds: 50)
        let second = try plan(store, unixSeconds: 200)
        #expect(first.sessions[0].items.map(\.message) == Array(1...6))
        #expect(second.sessions[0].items.map(\.message) == Array(1...6))
        #expect(tells(second, .changed, "6 queued messages, 2 expired"))
        let message = try #require(second.messages[1])
        #expect(message.item(qos: 1, unixSeconds: 50) == "1\n50\n\neA==\nt/1")
        #expect(message.item(qos: 1, unixSeconds: 200) == "1\n0\n\n\nt/1")
    }

    @Test func `tell publications of QoS 2 that their client has not released`() throws {
        var store = StoreFile()
        store.addClient("pb", user: "ann")
        for number in 1...12 {
            store.addMessage(number, topic: "t/\(number)")
            store.addWaiting(number, client: "pb", qos: 2, state: 7, isIncoming: true)
        }
        store.addWaiting(1, client: "pb", qos: 2, state: 5)
        store.addWaiting(2, client: "pb", qos: 2, state: 6)
        let plan = try plan(store)
        #expect(
            tells(
                plan, .refused,
                "12 publications of client pb with QoS 2 that it has not released (PUBREL), on t/1"
            ))
        #expect(tells(plan, .refused, "t/10 and 2 more; let it publish them again"))
        #expect(
            tells(
                plan, .refused,
                "1 messages of client pb with QoS 2 that it has received and not completed "
                    + "(PUBREC without PUBCOMP), on t/2;"))
        #expect(tells(plan, .changed, "1 of QoS 2 without PUBREC, which come again"))
        #expect(plan.sessions[0].items.map(\.message) == [1])
    }

    @Test func `go to nobody else where the user is not taken`() throws {
        var store = StoreFile()
        store.addMessage(1, topic: "secret")
        for user in ["a/b", "a_b", "c/d", "c_d", "e"] {
            store.addClient("of \(user)", user: user)
            store.addWaiting(1, client: "of \(user)")
        }
        let plan = try plan(store, users: ["a_b", "a/b", "c/d", "c_d"])
        #expect(
            plan.sessions.map { "\($0.device): \($0.user)" } == [
                "of a_b: a_b", "of c/d: c_d", "of e: e",
            ])
        #expect(tells(plan, .refused, "it is of user a/b, who is not taken"))
        #expect(tells(plan, .refused, "it is of user c_d, who is not taken"))
    }

    @Test func `are taken as a whole, or not at all`() throws {
        var store = StoreFile()
        store.addMessage(1, topic: "t")
        for (client, count) in [("few", 1_000), ("many", 1_001)] {
            store.addClient(client, user: "ann")
            store.addWaiting(1, client: client)
            for number in 1...count { store.addSubscription("f/\(number)", client: client) }
        }
        let plan = try plan(store)
        #expect(plan.sessions.map(\.device) == ["few"])
        #expect(tells(plan, .refused, "client many with 1001 subscriptions"))
    }

    @Test func `leave out topics and filters that no client may use`() throws {
        var store = StoreFile()
        store.addClient("dev1", user: "ann")
        for (number, topic) in ["good", "bad/#", "", "a\0b", "$SYS/x"].enumerated() {
            store.addMessage(number, topic: topic)
            store.addWaiting(number, client: "dev1")
        }
        for filter in ["good/#", "$share/g/x", "a/#/b", "", "$u/bob", "$share/+/x", "$share//x"] {
            store.addSubscription(filter, client: "dev1")
        }
        let plan = try plan(store)
        #expect(plan.sessions[0].items.map(\.message) == [0])
        #expect(plan.sessions[0].filters == ["1\n0\ngood/#", "1\n0\n$share/g/x"])
        #expect(
            tells(
                plan, .changed,
                "5 queued messages, 4 too large or on a topic that clients may not use, a/#/b, , "
                    + "$u/bob, $share/+/x, $share//x not subscribed"))
    }

    @Test func `are told to be incomplete where the broker refuses a later piece`() throws {
        var store = StoreFile()
        store.addMessage(1, topic: "t")
        for client in ["begun", "none"] {
            store.addClient(client, user: "ann")
            for _ in 1...3 { store.addWaiting(1, client: client) }
        }
        var plan = try plan(store)
        #expect(plan.sessions.map(\.device) == ["begun", "none"])
        plan.settle(session: 0, SessionImport.Result(refusal: "no room", reachedCount: 2))
        plan.settle(session: 1, SessionImport.Result(refusal: "no room"))
        #expect(
            tells(
                plan, .refused,
                "no room; 2 of 3 messages and no subscriptions are taken; the session is "
                    + "incomplete, and its client logs in with a clean start only, until martlet "
                    + "session delete ann --device begun removes it"))
        #expect(
            tells(
                plan, .refused,
                "client none with 0 subscriptions and 3 queued messages: no room"))
    }

    /// The same text in two forms of Unicode: composed and decomposed.
    @Test func `are apart for client ids that only look the same`() throws {
        var store = StoreFile()
        store.addMessage(1, topic: "t")
        for (client, user) in [("caf\u{E9}", "one"), ("cafe\u{301}", "two")] {
            store.addClient(client, user: user)
            store.addWaiting(1, client: client)
        }
        let plan = try plan(store)
        #expect(plan.sessions.count == 2)
        #expect(
            Set(plan.sessions.map { Array($0.device.utf8) })
                == [Array("caf\u{E9}".utf8), Array("cafe\u{301}".utf8)])
        #expect(plan.sessions.allSatisfy { $0.items.count == 1 })
        #expect(Set(plan.sessions.map(\.user)) == ["one", "two"])
    }
}
