// The history of topics, through every way to publish and to read, and over the death of the
// broker.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct `History of topics` {
        private static let setting =
            "apps=[{app: 'demo', historyTopics: ['plant/+/alarm', 'log/#']}]"

        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String = "operator"
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            return (try await child.exit(), child.text)
        }

        @Test func `is read by users and operators, listed, searched and removed`() async throws {
            let broker = try await TestBroker(Self.setting)
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let topic = ConversationParty.topic("plant/1/alarm")
            _ = try await alice.send(OutgoingMessage(to: .topic("plant/1/alarm"), text: "hot"))
            _ = try await bob.send(
                OutgoingMessage(to: .topic("plant/1/alarm"), .bytes([0xFF, 0x41]), grade: .once))
            _ = try await bob.send(OutgoingMessage(to: .topic("plant/1/alarm"), .bytes([])))
            _ = try await alice.send(OutgoingMessage(to: .topic("plant/1"), text: "elsewhere"))
            let page = try await bob.history(with: topic)
            #expect(page.messages.map(\.number) == [3, 2, 1] && page.next == nil)
            #expect(page.messages.map(\.sender) == ["bob", "bob", "alice"])
            #expect(page.messages.map(\.payload) == [[], [0xFF, 0x41], nil])
            #expect(page.messages.last?.text == "hot")
            var search = HistorySearch()
            search.sender = "alice"
            #expect(try await bob.search(search, with: topic).messages.map(\.number) == [1])
            await #expect(throws: MartletError.self) {
                try await bob.history(with: .topic("plant/1"))
            }
            await #expect(throws: MartletError.self) {
                try await bob.history(with: .topic("log/+"))
            }
            await #expect(throws: MartletError.self) { try await bob.markRead(topic, through: 1) }
            #expect(try await bob.conversations().conversations == [])
            let asUser = try await martlet(
                "history", "--topic=plant/1/alarm", "--search=hot", of: broker, as: "bob")
            #expect(asUser.text.contains("alice") && asUser.text.contains("hot"))
            let listed = try await martlet("history", "topics", "--json", of: broker)
            #expect(listed.text.contains(#""topic":"plant/1/alarm""#), "\(listed.text)")
            #expect(listed.text.contains(#""messageCount":3"#), "\(listed.text)")
            let data = "--data=\(broker.directory)"
            let app = "--app=demo"
            let removed = try await martlet(
                "history", "remove", "--topic=plant/1/alarm", "2", data, app, of: broker)
            #expect(removed.text == "message 2 is removed", "\(removed.text)")
            let rest = try await martlet(
                "history", "--topic=plant/1/alarm", "--json", data, app, of: broker)
            #expect(rest.text.split(separator: "\n").count == 2, "\(rest.text)")
            #expect(try broker.counter("history/topics") == 1)
            for client in [alice, bob] { await client.close() }
        }

        @Test
        func `survives the death of the broker: what was acknowledged is there, once, in order`()
            async throws
        {
            let broker = try await TestBroker(Self.setting)
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            try await bob.subscribe(to: "log/#")
            var texts: [String] = []
            for round in 1...3 {
                for index in 1...20 {
                    let text = "\(round)-\(index)"
                    _ = try await alice.send(
                        OutgoingMessage(to: .topic("log/1"), text: text, grade: .once))
                    let received = try await bob.nextMessage()
                    bob.acknowledge(received)
                    texts.append(text)
                    #expect(received.text == text)
                    #expect(received.keptNumber == UInt64(texts.count))
                }
                try await broker.killNow()
                try await broker.start()
            }
            var found: [KeptMessage] = []
            var before: UInt64?
            repeat {
                let page = try await bob.history(with: .topic("log/1"), before: before, count: 7)
                found += page.messages
                before = page.next
            } while before != nil
            #expect(found.map(\.text) == texts.reversed())
            #expect(found.map(\.number) == (1...60 as ClosedRange<UInt64>).reversed())
            for client in [alice, bob] { await client.close() }
        }

        @Test func `of MQTT publications is read over MQTT, by who may subscribe`() async throws {
            let broker = try await TestBroker(Self.setting)
            let port = try await broker.port("tcp")
            let token = try broker.token("alice", rights: ["publish:#", "subscribe:log/#"])
            func mosquitto(_ program: String, _ more: [String]) async throws -> String {
                let child = try ChildProcess(
                    program,
                    [
                        "-V", "mqttv5", "-p", "\(port)", "-u", "alice", "-P", token, "-i", "pub",
                    ] + more)
                _ = try await child.exit()
                return child.text
            }
            for (topic, qos) in [
                ("log/1", "1"), ("log/1", "2"), ("log/1", "0"), ("plant/1/alarm", "1"),
            ] {
                _ = try await mosquitto(
                    "/usr/bin/mosquitto_pub", ["-q", qos, "-t", topic, "-m", "qos \(qos)"])
            }
            func ask(_ topic: String) async throws -> String {
                try await mosquitto(
                    "/usr/bin/mosquitto_rr",
                    [
                        "-t", "$api/history", "-e", "$api/reply", "-W", "50", "-m",
                        #"{"topic":"\#(topic)","count":20}"#,
                    ])
            }
            let page = try await ask("log/1")
            #expect(
                page.contains(#""number":2"#) && page.contains(#""payload":"qos 2""#), "\(page)")
            #expect(page.contains(#""payload":"qos 1""#) && !page.contains("qos 0"), "\(page)")
            let refused = try await ask("plant/1/alarm")
            #expect(
                refused.contains(#""reason":135"#) && refused.contains("subscribe"), "\(refused)")
            let unknown = try await ask("log")
            #expect(unknown.contains(#""messages":[]"#), "\(unknown)")
            #expect(try broker.counter("history/messages/kept") == 3)
        }
    }
}
