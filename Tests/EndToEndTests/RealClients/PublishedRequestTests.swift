// Requests over MQTT with a real broker: the commands of the page that describes them, Paho for
// Python, and clients that say exactly what is on the wire.

import Foundation
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct PublishedRequestTests {
        @Test func `the commands of the page print what it says`() async throws {
            let broker = try await TestBroker()
            let page = try PrintedCommands(page: "requests-over-mqtt")
            #expect(page.steps.count > 20)
            let directory = try TemporaryDirectory()
            let program = try #require(page.programs("python").first)
            try program.replacing("8883", with: "\(broker.tlsPort)").write(
                toFile: directory.file("asker.py"), atomically: true, encoding: .utf8)
            // The page's program speaks 5.0 as well.
            var again = try #require(page.steps.last)
            again.command = "python3 asker.py 5"
            try await page.run(
                in: directory.path,
                replacing: [
                    ("dev-data/dev.env", "\(broker.directory)/dev.env"),
                    ("-p 8883", "-p \(broker.tlsPort)"),
                ], then: [again])
        }

        @Test func `a change is replied to when kill -9 of the broker does not undo it`()
            async throws
        {
            let broker = try await TestBroker()
            func ask(_ operation: String, _ payload: String) async throws -> String {
                let client = try ChildProcess(
                    "/usr/bin/mosquitto_rr",
                    [
                        "-h", "localhost", "-p", "\(broker.plainPort)", "-i", "ann", "-q", "2",
                        "-W", "50", "-e", "$api/reply/x", "-t", "$api/\(operation)", "-m", payload,
                    ])
                #expect(try await client.exit() == .code(0), "\(client.text)")
                return client.text
            }
            for round in 0..<4 {
                let create = #"{"key":"00000000000000a\#(round)","title":"T\#(round)"}"#
                let created = try await ask("createGroup", create)
                #expect(created.contains(#""name":"success","group":""#), "\(created)")
                try await broker.killNow()
                try await broker.start()
                #expect(try await ask("createGroup", create) == created)
                let groups = try await ask("listGroups", "{}")
                #expect(groups.components(separatedBy: #""title":"#).count == round + 2)
            }
        }

        // MARK: - On the wire

        /// A client without credentials, whose name is its user.
        private func peer(
            _ version: MQTT.Version, _ name: String, of broker: TestBroker,
            _ options: MQTTPeer.ConnectOptions = .init()
        ) throws -> MQTTPeer {
            let peer = try MQTTPeer(version, port: broker.plainPort)
            guard try peer.connect(name, options).code == 0 else {
                throw TestFailure("\(name) is not let in")
            }
            return peer
        }

        @Test(arguments: [MQTT.Version.v31, .v311, .v5])
        func `nobody but its client receives a reply`(version: MQTT.Version) async throws {
            let broker = try await TestBroker()
            let asker = try peer(version, "asker", of: broker)
            let other = try peer(.v5, "other", of: broker)
            #expect(try other.subscribe(("#", 2), ("$api/reply", 1), ("mine", 1)) == [2, 0, 1])
            try asker.sendPublish("$api/presence", #"{"user":"other"}"#)
            let reply = try asker.nextMessage()
            #expect(reply.topic == "$api/reply" && reply.qos == 0)
            #expect(reply.payload.hasPrefix(#"{"type":"response","reason":0,"#))
            if version == .v5 {
                let properties: [MQTTProperty] = [.responseTopic("mine"), .correlation([1, 0, 2])]
                try asker.sendPublish("$api/presence", #"{"user":"other"}"#, properties)
                let own = try asker.nextMessage()
                #expect(own.topic == "mine" && own.properties == [.correlation([1, 0, 2])])
            }
            try asker.expectSilence()
            try other.expectSilence()
        }

        @Test(arguments: [MQTT.Version.v311, .v5])
        func `a publication is answered and its request replied to, in every QoS`(
            version: MQTT.Version
        ) async throws {
            let broker = try await TestBroker()
            let asker = try peer(version, "asker", of: broker)
            for (qos, answer) in [(UInt8(1), UInt8(0x40)), (2, 0x50)] {
                try asker.sendPublish("$api/presence", "{", qos: qos, identifier: 9)
                #expect(try asker.next(answer, identifier: 9) == 0)
                #expect(try asker.nextMessage().payload.contains(#""reason":129"#))
                try asker.sendPublish(
                    "$api/presence", "{", qos: qos, isDuplicate: true, identifier: 9)
                #expect(try asker.next(answer, identifier: 9) == 0)
                if qos == 1 {
                    #expect(try asker.nextMessage().payload.contains(#""reason":129"#))
                }
                try asker.expectSilence()
            }
            try asker.send(0x62, [0, 9])
            #expect(try asker.next(0x70, identifier: 9) == 0)
            #expect(try broker.counter("requests/published") == 4)
            #expect(try broker.counter("requests/refused") == 3)
        }

        @Test func `thousands of requests at once are replied to or refused, and end nothing`()
            async throws
        {
            let broker = try await TestBroker()
            let asker = try peer(.v5, "asker", of: broker)
            let count = 5_000
            var bytes: [UInt8] = []
            for number in 1...count {
                // Half of them wait for a commit.
                bytes += asker.publishBytes(
                    number % 2 == 0 ? "$api/clearWill" : "$api/conversations",
                    #"{"request":\#(number)}"#)
            }
            try asker.wire.send(bytes)
            var numbers = Set<Int>()
            var refused = 0
            for _ in 0..<count {
                let payload = try asker.nextMessage().payload
                let number = try #require(payload.firstMatch(of: /"request":([0-9]+)/)).output.1
                numbers.insert(Int(number)!)
                if payload.contains(#""reason":151"#) {
                    refused += 1
                } else {
                    #expect(payload.contains(#""reason":0"#), "\(payload)")
                }
            }
            #expect(numbers.count == count)
            #expect(refused < count / 2, "\(refused)")
            try asker.expectSilence()
        }
    }
}
