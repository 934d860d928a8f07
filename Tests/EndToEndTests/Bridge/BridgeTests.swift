// The bridge as a program, between a real Mosquitto and a real martletd.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct BridgeTests {
        @Test(arguments: ["3.1.1", "5"])
        func `topics become users, groups and topics, and messages become topics`(
            version: String
        ) async throws {
            let broker = try await TestBroker()
            let mosquitto = try await Mosquitto()
            let bob = try await broker.client("bob")
            let sensor = try await broker.client("sensor-7")
            let group = try await bob.createGroup(title: "all")
            try await bob.subscribe(to: "site/#", grade: .once)
            let bridge = try await TestBridge(
                broker, port: mosquitto.port,
                rules: """
                    toMartlet: [
                      { from: "plant/+/temp", to: { user: "sensor-{1}" }, type: 7 },
                      { from: "shift", to: { group: "\(group)" } },
                      { from: "site7/#", to: { topic: "site/{1..}" } },
                      { from: "made", to: { user: "bob" }, payload: "json" },
                    ],
                    toMqtt: [
                      { from: { inbox: "*" }, to: "martlet/{from}" },
                      { from: { group: "\(group)" }, to: "groups/{group}/{from}",
                        payload: "json" },
                      { from: { broadcast: "*" }, to: "all/{from}", qos: 1 },
                      { from: { topic: "command/+/set" }, to: "set/{1}", retain: true },
                      { from: { topic: "site/#" }, to: "back/{0..}" },
                    ],
                    """, version: version)
            try await bridge.waitForSubscriptions("mqtt", "martlet")
            let sub = try await mosquitto.subscriber(
                "-t", "martlet/#", "-t", "groups/#", "-t", "all/#", "-t", "set/#", "-t", "back/#")
            defer { sub.signal(SIGKILL) }

            try await mosquitto.publish("plant/7/temp", "20,5 °C", qos: 1)
            let reading = try await sensor.nextMessage()
            #expect(reading.from == "gate")
            #expect(reading.content == .text("20,5 °C", type: 7))
            try await mosquitto.publish("shift", "begins", qos: 2)
            try await mosquitto.publish("made", #"{"t":"9","b":"by hand"}"#, qos: 2)
            try await mosquitto.publish("site7/hall/door", "open", qos: 0)
            var found: Set<String> = []
            while found.count < 3 {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                // That the bridge has joined is told too.
                if case .groupEvent = message.kind { continue }
                found.insert("\(message.kind) \(message.content)")
            }
            #expect(
                found == [
                    #"group("\#(group)") text("begins", type: 0)"#,
                    #"unicast text("by hand", type: 9)"#,
                    #"topic("site/hall/door") bytes(\#(Array("open".utf8)))"#,
                ])

            for grade in [Grade.durable, .once] {
                try await bob.send(
                    OutgoingMessage(to: .user("gate"), text: "to you", grade: grade))
            }
            try await bob.send(OutgoingMessage(to: .group(group), text: "to all of us"))
            try await bob.send(OutgoingMessage(to: .everybody, text: "to all", grade: .once))
            try await bob.send(
                OutgoingMessage(to: .topic("command/3/set"), .bytes([0x31]), grade: .once))
            try await bob.send(OutgoingMessage(to: .topic("site/x"), .bytes([0x32])))
            for line in [
                "back/site/x 1 2", "set/3 2 1", "martlet/bob 2 to you", "martlet/bob 1 to you",
                "groups/\(group)/bob 1 ", "all/bob 1 to all",
            ] { _ = try await sub.line(with: line) }
            let lines = sub.lines.filter { $0.contains("/") && !$0.hasPrefix("Client") }
            #expect(lines.contains("martlet/bob 1 to you"))
            #expect(
                lines.contains {
                    $0.hasPrefix("groups/\(group)/bob 1 {\"msg\":{\"t\":\"0\",\"b\":\"to all of us")
                })
            #expect(lines.contains("all/bob 1 to all"))
            // What the bridge has sent itself does not go back.
            #expect(!lines.contains { $0.hasPrefix("back/site/hall") })
            let late = try mosquitto.client("sub", "-t", "set/#", "-C", "1", "-F", "%t %r")
            #expect(try await late.exit() == .code(0))
            #expect(late.lines == ["set/3 1"])

            let total = try await bridge.stop()
            #expect(total("to_martlet") == 4)
            #expect(total("to_mqtt") == 6)
            #expect(total("own") == 1)
            #expect(total("refused_to_martlet") == 0)
            #expect(total("refused_to_mqtt") == 0)
        }

        @Test
        func `permanently refused messages are counted, logged and published as dead letters`()
            async throws
        {
            let broker = try await TestBroker("limits.payloadMaximum=2000")
            let mosquitto = try await Mosquitto()
            let bob = try await broker.client("bob")
            try await bob.subscribe(to: "dead/#")
            let bridge = try await TestBridge(
                broker, port: mosquitto.port,
                rules: """
                    toMartlet: [
                      { from: "to/+", to: { user: "{1}" } },
                      { from: "raw", to: { topic: "raw" } },
                    ],
                    deadLetter: { martlet: "dead/{topic}" },
                    packetMaximumBytes: 65536,
                    """)
            try await bridge.waitForSubscriptions("mqtt")
            try await mosquitto.publish("to/nobody", "one", qos: 1)
            try await mosquitto.publish("to/bob", String(repeating: "x", count: 1_100), qos: 2)
            // Too large for Martlet, and so is its dead letter; then too large for the bridge.
            try await mosquitto.publish("raw", String(repeating: "y", count: 2_001), qos: 1)
            try await mosquitto.publish("raw", String(repeating: "z", count: 70_000), qos: 2)
            try await mosquitto.publish("to/bob", "good", qos: 2)
            var found: [String: [String]] = [:]
            for _ in 0..<3 {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                switch message.content {
                case .text(let text, _): found["\(message.kind)", default: []].append(text)
                case .bytes(let bytes):
                    found["\(message.kind)", default: []].append(
                        String(decoding: bytes, as: UTF8.self))
                }
            }
            #expect(found[#"topic("dead/to/nobody")"#] == ["one"])
            #expect(found[#"topic("dead/to/bob")"#]?.map(\.count) == [1_100])
            #expect(found["unicast"] == ["good"])
            let total = try await bridge.stop()
            #expect(total("refused_to_martlet") == 4)
            #expect(total("to_martlet") == 1)
            let text = bridge.process!.text
            for line in [
                #"topic="to/nobody" reason=topic-name-invalid"#,
                #"topic="to/bob" reason=packet-too-large"#,
                #"topic="raw" reason=packet-too-large dead_letter=1"#,
            ] { #expect(text.contains(line)) }
            // Nothing is left to come again.
            try await bridge.start()
            let again = try await bridge.stop()
            #expect(again("refused_to_martlet") == 0)
            #expect(again("to_martlet") == 0)
        }

        @Test
        func
            `a message that the other broker never takes is logged and put where it was asked for`()
            async throws
        {
            let broker = try await TestBroker()
            let folder = try Identities()
            try folder.write(
                Array("topic readwrite open/#\ntopic readwrite dead/#\n".utf8), to: "acl")
            let port = try ReservedPort()
            let mosquitto = try await Mosquitto(
                port: port,
                settings: [
                    "listener \(port) 127.0.0.1", "allow_anonymous true",
                    "acl_file \(folder.file("acl"))", "max_packet_size 2000",
                ])
            let bob = try await broker.client("bob")
            let bridge = try await TestBridge(
                broker, port: port.number,
                rules: """
                    toMqtt: [
                      { from: { inbox: "*" }, to: "closed/{from}" },
                      { from: { topic: "to/#" }, to: "open/{1..}" },
                    ],
                    deadLetter: { mqtt: "dead/{from}" },
                    """)
            try await bridge.waitForSubscriptions("martlet")
            let sub = try await mosquitto.subscriber("-t", "#")
            defer { sub.signal(SIGKILL) }
            for grade in [Grade.durable, .once] {
                try await bob.send(
                    OutgoingMessage(to: .user("gate"), text: "\(grade)", grade: grade))
            }
            // Too large for the other broker, and so is its dead letter.
            let large = [UInt8](repeating: 0x78, count: 2_001)
            try await bob.send(
                OutgoingMessage(to: .topic("to/large"), .bytes(large), grade: .once))
            try await bob.send(
                OutgoingMessage(to: .topic("to/end"), .bytes([0x31]), grade: .once))
            _ = try await sub.line(with: "open/end 2 1")
            let letters = sub.lines.filter { $0.hasPrefix("dead/bob ") }
            #expect(letters.count == 2)
            #expect(letters[0].hasPrefix(#"dead/bob 1 {"msg":{"t":"0","b":"durable"}"#))
            #expect(letters[1].hasPrefix(#"dead/bob 2 {"msg":{"t":"0","b":"once"}"#))
            #expect(!sub.text.contains("closed/"))
            let total = try await bridge.stop()
            #expect(total("refused_to_mqtt") == 3)
            #expect(total("to_mqtt") == 1)
            let text = bridge.process!.text
            for line in [
                #"direction=to-mqtt from="bob" address="" reason=not-authorized"#,
                #"address="to/large" reason=packet-too-large"#,
                #"address="to/large" reason=packet-too-large dead_letter=1"#,
            ] { #expect(text.contains(line), "\(line) in \(text)") }
            // Nothing is left to come again.
            try await bridge.start()
            let again = try await bridge.stop()
            #expect(again("refused_to_mqtt") == 0)
            #expect(again("to_mqtt") == 0)
        }

        @Test func `the bridge logs in over TLS with a certificate, a user and a password`()
            async throws
        {
            let broker = try await TestBroker()
            let identities = try Identities()
            try await identities.makeAuthority()
            try await identities.issue("plant-bridge")
            let passwords = try ChildProcess(
                "/usr/bin/mosquitto_passwd",
                ["-c", "-b", identities.file("passwords"), "plant", "s3cret"])
            #expect(try await passwords.exit() == .code(0))
            let port = try ReservedPort()
            let own = "\(broker.directory)/certificates"
            let mosquitto = try await Mosquitto(
                port: port,
                settings: [
                    "listener \(port) 127.0.0.1", "cafile \(identities.file("ca.pem"))",
                    "certfile \(own)/server.pem", "keyfile \(own)/server-key.pem",
                    "require_certificate true", "allow_anonymous false",
                    "password_file \(identities.file("passwords"))",
                ])
            let bob = try await broker.client("bob")
            try identities.write(Array("s3cret\n".utf8), to: "password")
            let foreign = """
                user: "plant", passwordFile: "\(identities.file("password"))",
                caFile: "\(broker.authority)",
                certificateFile: "\(identities.file("plant-bridge.pem"))",
                keyFile: "\(identities.file("plant-bridge.key"))",
                """
            let bridge = try await TestBridge(
                broker, port: port.number,
                rules: """
                    toMqtt: [{ from: { inbox: "*" }, to: "loop" }],
                    toMartlet: [{ from: "loop", to: { user: "bob" } }],
                    """, server: "tls://localhost:\(port)", foreign: foreign)
            try await bridge.waitForSubscriptions("mqtt")
            func client(_ program: String, _ words: String...) throws -> ChildProcess {
                try ChildProcess(
                    "/usr/bin/stdbuf",
                    [
                        "-oL", "/usr/bin/mosquitto_\(program)", "-h", "localhost", "-p", "\(port)",
                        "--cafile", broker.authority, "--cert",
                        identities.file("plant-bridge.pem"), "--key",
                        identities.file("plant-bridge.key"), "-u", "plant", "-P", "s3cret", "-q",
                        "1", "-t", "loop",
                    ] + words)
            }
            let sub = try client("sub", "-d")
            defer { sub.signal(SIGKILL) }
            _ = try await sub.line(with: "Subscribed")
            try await bob.send(OutgoingMessage(to: .user("gate"), text: "flown", grade: .once))
            _ = try await sub.line(with: "flown")
            // The bridge's own publication is not returned to it: this is the first that comes.
            #expect(try await client("pub", "-m", "in").exit() == .code(0))
            #expect(try await bob.nextMessage().text == "in")
            let total = try await bridge.stop()
            #expect(total("to_mqtt") == 1)
            #expect(total("to_martlet") == 1)
            #expect(mosquitto.process.text.contains("as bridge-under-test"))
        }

        @Test func `an invalid file and a refused token end the bridge with a reason`()
            async throws
        {
            let broker = try await TestBroker()
            let mosquitto = try await Mosquitto()
            let bridge = try await TestBridge(
                broker, port: mosquitto.port, rules: #"toMqtt: [{from:{inbox:"*"},to:"x"}],"#)
            let config = "\(bridge.directory)/bridge.json5"
            // The state file has one user.
            let second = try ChildProcess("martlet-gateway", ["bridge", "--config", config])
            #expect(try await second.exit() == .code(4))
            #expect(second.text.contains("another bridge uses it"))
            _ = try await bridge.stop()
            let check = try ChildProcess(
                "martlet-gateway", ["bridge", "--config", config, "--check-config"])
            #expect(try await check.exit() == .code(0))
            try Data("mt1_wrong".utf8).write(to: URL(filePath: "\(bridge.directory)/token"))
            let stranger = try ChildProcess("martlet-gateway", ["bridge", "--config", config])
            #expect(try await stranger.exit() == .code(5))
            #expect(stranger.text.contains("bad-user-name-or-password"))
            try Data("{ mqt: {} }".utf8).write(to: URL(filePath: config))
            let broken = try ChildProcess("martlet-gateway", ["bridge", "--config", config])
            #expect(try await broken.exit() == .code(1))
            #expect(broken.text.contains("bridge.json5:1:3: mqt is unknown; did you mean mqtt?"))
        }
    }
}
