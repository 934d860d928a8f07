// What few messages have beside their content, through every dialect and over the death of the
// broker: attributes, mentions, times of late readings.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct SendFieldsTests {
        /// A subscriber of Mosquitto on the plain port, whose client id is its user.
        private func subscriber(
            _ user: String, version: String, topic: String, count: Int, of broker: TestBroker
        ) async throws -> ChildProcess {
            let child = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-V", version, "-h", "localhost", "-p",
                    "\(broker.plainPort)", "-i", user, "-q", "1", "-t", topic, "-C", "\(count)",
                    "-F", "%P|%p", "-d",
                ])
            _ = try await child.line(with: "Subscribed")
            return child
        }

        private func publish(
            as user: String, topic: String, properties: [(String, String)], payload: String,
            of broker: TestBroker
        ) async throws {
            var words = [
                "-V", "5", "-h", "localhost", "-p", "\(broker.plainPort)", "-i", user, "-q", "1",
                "-t", topic, "-m", payload,
            ]
            for (name, value) in properties {
                words += ["-D", "publish", "user-property", name, value]
            }
            let child = try ChildProcess("/usr/bin/mosquitto_pub", words)
            #expect(try await child.exit() == .code(0), "\(child.text)")
        }

        private func martlet(
            _ arguments: String..., of broker: TestBroker, as user: String
        ) async throws {
            let child = try ChildProcess(
                "martlet", arguments, environment: broker.environment(user))
            #expect(try await child.exit() == .code(0), "\(child.text)")
        }

        /// An event stream of a user.
        private func stream(_ user: String, of broker: TestBroker) async throws -> ChildProcess {
            let child = try ChildProcess(
                "/usr/bin/curl",
                [
                    "-sSN", "--max-time", "300", "-H",
                    "Authorization: Bearer \(try broker.token(user))",
                    "http://localhost:\(broker.wsPort)/api/v1/events",
                ])
            _ = try await child.line(with: "connected")
            return child
        }

        @Test func `attributes reach the clients of every dialect, and come back from MQTT 5`()
            async throws
        {
            let broker = try await TestBroker(web: true)
            try broker.addUsers("bob", "carol", "dave", "erin")
            let bob = try await broker.client("bob")
            let five = try await subscriber(
                "carol", version: "5", topic: "$u/carol", count: 1, of: broker)
            let three = try await subscriber(
                "dave", version: "311", topic: "$u/dave", count: 2, of: broker)
            let erin = try await stream("erin", of: broker)
            try await martlet(
                "send", "--to=bob,carol,dave,erin", "--attribute=site=7", "--attribute=unit=°C",
                "hot", of: broker, as: "alice")
            let message = try await bob.nextMessage()
            #expect(message.attributes == ["site": "7", "unit": "°C"] && message.text == "hot")
            bob.acknowledge(message)
            let properties = try await five.line(with: #""b":"hot""#)
            #expect(properties.contains("site:7") && properties.contains("unit:°C"))
            #expect(!properties.contains("attributes"))
            _ = try await three.line(
                with: #""b":"hot""#, #""attributes":{"site":"7","unit":"°C"}"#)
            _ = try await erin.line(with: #""attributes":{"site":"7","unit":"°C"}"#, #""b":"hot""#)

            // From MQTT 5: what the others can have, and a time of its own.
            let time = UInt64(Date().timeIntervalSince1970 * 1_000) - 3_600_000
            for user in ["bob", "dave", "erin"] {
                try await publish(
                    as: "frank", topic: "$u/\(user)",
                    properties: [
                        ("site", "9"), ("from", "mallory"),
                        ("long", String(repeating: "v", count: 256)),
                        ("martlet-late", "\(time)"),
                    ], payload: #"{"t":"0","b":"back"}"#, of: broker)
            }
            let back = try await bob.nextMessage()
            #expect(back.attributes == ["site": "9"] && back.from == "frank")
            #expect(back.isLate && back.time == time)
            _ = try await three.line(
                with: #""b":"back""#, #""attributes":{"site":"9"}"#, #""isLate":true"#,
                #""time":"\#(time)""#)
            _ = try await erin.line(
                with: #""attributes":{"site":"9"}"#, #""isLate":true"#, #""time":\#(time)"#)
            erin.signal(SIGTERM)
            await bob.close()
        }

        @Test func `mentions are told to those who are mentioned, or only they get the message`()
            async throws
        {
            let broker = try await TestBroker(web: true)
            let alice = try await broker.client("alice")
            let group = try await alice.createGroup(title: "Pumps")
            let bob = try await broker.client("bob")
            let erin = try await broker.client("erin")
            for client in [bob, erin] { try await client.joinGroup(group) }
            // Its first message tells that dave has joined.
            let carol = try await subscriber(
                "carol", version: "5", topic: "$g/\(group)", count: 3, of: broker)
            let dave = try await subscriber(
                "dave", version: "311", topic: "$g/\(group)", count: 2, of: broker)
            var message = OutgoingMessage(to: .group(group), text: "look")
            message.mentions = Mentions(of: ["bob", "carol", "nobody"])
            _ = try await alice.send(message)
            message = OutgoingMessage(to: .group(group), text: "secret")
            message.mentions = Mentions(of: ["erin", "dave"], only: true)
            _ = try await alice.send(message)
            message = OutgoingMessage(to: .group(group), text: "end")
            message.mentions = Mentions(all: true)
            _ = try await alice.send(message)
            #expect(try await mentions(of: bob) == ["look byName", "end all"])
            #expect(try await mentions(of: erin) == ["look", "secret byName", "end all"])
            #expect(try await carol.exit() == .code(0))
            #expect(carol.text.contains("mentioned:name") && carol.text.contains("mentioned:all"))
            #expect(!carol.text.contains("secret"))
            #expect(try await dave.exit() == .code(0))
            #expect(dave.text.contains(#""b":"secret"},"#))
            #expect(
                dave.lines.contains { $0.contains("secret") && $0.contains(#""mentioned":"name""#) }
            )
            #expect(!dave.lines.contains { $0.contains("look") && $0.contains("mentioned") })
            for client in [alice, bob, erin] { await client.close() }
        }

        /// The messages of a client up to `end`, and how it is mentioned in each.
        private func mentions(of client: Client) async throws -> [String] {
            var found: [String] = []
            while found.last?.hasPrefix("end") != true {
                let message = try await client.nextMessage()
                client.acknowledge(message)
                guard case .group = message.kind else { continue }
                found.append(message.text + (message.mention.map { " \($0)" } ?? ""))
            }
            return found
        }

        @Test func `attributes and times survive the death of the broker`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            await bob.close()
            let alice = try await broker.client("alice")
            let time = UInt64(Date().timeIntervalSince1970 * 1_000) - 86_400_000
            for number in 1...20 {
                var message = OutgoingMessage(
                    to: .user("bob"), text: "\(number)", grade: number % 2 == 0 ? .once : .durable)
                message.attributes = ["number": "\(number)"]
                (message.time, message.isLate) = (time, true)
                _ = try await alice.send(message)
            }
            try await broker.killNow()
            #expect(try await broker.verifyStore() == .code(0))
            try await broker.start()
            let again = try await broker.client("bob")
            for number in 1...20 {
                let message = try await again.nextMessage()
                again.acknowledge(message)
                #expect(message.text == "\(number)" && message.time == time && message.isLate)
                #expect(message.attributes == ["number": "\(number)"])
            }
            for client in [alice, again] { await client.close() }
        }

        @Test func `what breaks a rule is refused, and the connection stays`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let alice = try await broker.client("alice")
            func reason(_ change: (inout OutgoingMessage) -> Void) async -> String {
                var message = OutgoingMessage(to: .user("bob"), text: "x")
                change(&message)
                do throws(MartletError) {
                    _ = try await alice.send(message)
                    return "sent"
                } catch {
                    if case .refused(let reason, _) = error { return "\(reason.name)" }
                    return "\(error)"
                }
            }
            #expect(await reason { $0.mentions = Mentions(all: true) } == "topic-name-invalid")
            #expect(await reason { $0.priority = .high } == "qos-not-supported")
            #expect(
                await reason { ($0.time, $0.isLate) = (1, true) } == "payload-format-invalid")
            #expect(await reason { $0.attributes = ["from": "x"] } == "payload-format-invalid")
            #expect(
                await reason { $0.attributes = ["a": String(repeating: "x", count: 256)] }
                    == "packet-too-large")
            #expect(await reason { $0.attributes = ["a": "b"] } == "sent")
            await alice.close()
        }
    }
}
