// Settings of a single app, and clients that share a name.

import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct AppSettingTests {
        private func with(
            _ settings: String..., body: (TestBroker) async throws -> Void
        ) async throws {
            let broker = try await TestBroker(settings: settings)
            let shared = SharedBroker(port: broker.plainPort, directory: broker.directory)
            try await SharedBroker.$current.withValue(shared) { try await body(broker) }
            try await broker.stop()
        }

        @Test func `a refused publication is acknowledged if the app is configured so`()
            async throws
        {
            try await with("apps=[{app: 'demo', refusedPublish: 'count'}]") { broker in
                for version: MQTT.Version in [.v31, .v311] {
                    let peer = try MQTTPeer(version, "counted")
                    #expect(try peer.publish("$u/counted", "not JSON", qos: 1) == 0)
                    #expect(try peer.publish("$u/counted", "not JSON", qos: 2) == 0)
                    #expect(try peer.publish("$u/counted", "not JSON", qos: 0) == 0)
                    try peer.expectSilence()
                }
                // Where there is a word for it, it is said.
                let peer = try MQTTPeer(.v5, "counted")
                #expect(try peer.publish("$u/counted", "not JSON", qos: 1) == 0x99)
                #expect(try broker.counter("messages/refused") == 7)
            }
            try await with("mqtt.refusedPublish=count", "apps=[{app: 'other'}]") { _ in
                let peer = try MQTTPeer(.v311, "counted")
                #expect(try peer.publish("$u/counted", "not JSON", qos: 1) == 0)
            }
            try await with(
                "mqtt.refusedPublish=count", "apps=[{app: 'demo', refusedPublish: 'close'}]"
            ) { _ in
                let peer = try MQTTPeer(.v311, "closed")
                try peer.sendPublish("$u/closed", "not JSON", qos: 1, identifier: 1)
                try peer.expectClose()
            }
        }

        @Test func `a client that reconnects at once takes no session over`() async throws {
            try await with { broker in
                for round in 0..<100 {
                    let peer = try MQTTPeer(.v311, "hasty")
                    // The last that it says is not lost.
                    try peer.sendPublish("hasty", "\(round)", isRetained: true)
                    peer.drop()
                }
                #expect(try broker.counter("connects/takeovers") == 0)
                let reader = try MQTTPeer(.v311, "hasty-reader")
                try reader.subscribe(("hasty", 0))
                #expect(try reader.nextMessage().payload == "99")
            }
        }

        @Test func `clients that send everything at once and leave affect no others`() async throws
        {
            try await with { broker in
                let reader = try MQTTPeer(.v311, "brief-reader")
                try reader.subscribe(("brief", 0))
                for round in 0..<50 {
                    let peer = try MQTTPeer(.v311)
                    let publish =
                        MQTTBytes.text("brief") + MQTTBytes.number(1) + Array("\(round)".utf8)
                    try peer.wire.send(
                        MQTTPeer.connectBytes(.v311, "brief-\(round)", .init())
                            + MQTTBytes.packet(0x32, publish))
                    // Half of them do not even wait for their CONNACK.
                    if round % 2 == 0 { #expect(try peer.nextConnack().code == 0) }
                    peer.drop()
                }
                try reader.sendPublish("brief", "last")
                while try reader.nextMessage().payload != "last" {}
                #expect(try broker.counter("connects/accepted") >= 26)
            }
        }

        @Test func `clients that take each other's session over wait, and are admitted`()
            async throws
        {
            try await with("apps=[{app: 'demo', takeoversPerMinute: 2}]") { broker in
                var peers = [try MQTTPeer(.v5, "rival")]
                for _ in 0..<4 {
                    peers.append(try MQTTPeer(.v5, "rival"))
                    #expect(try peers.removeFirst().expectClose() == 0x8E)
                }
                try peers[0].expectSilence()
                #expect(try broker.counter("connects/held") == 2)
                #expect(try broker.counter("connects/takeovers") == 4)
                #expect(try broker.counter("connects/refused") == 0)
                let line = try await broker.process.line(with: "event=duplicate_login")
                #expect(line.contains("address=127.0.0.1:") && line.contains("other=127.0.0.1:"))
            }
        }
    }
}
