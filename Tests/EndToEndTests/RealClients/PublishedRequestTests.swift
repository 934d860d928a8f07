// Requests over MQTT with a real broker: the commands of the page that describes them, Paho for
// Python, and clients that say exactly what is on the wire.

import Foundation
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct PublishedRequestTests {
        /// A command of the page, and what the page prints below it.
        private struct Step {
            var command: String
            var output: [String] = []
        }

        private static func page() throws -> String {
            try String(
                contentsOf: SourceTree.root.appending(
                    path: "docs/operating/requests-over-mqtt.md"), encoding: .utf8)
        }

        /// The blocks of the page in a language, or in none.
        private static func blocks(_ language: String) throws -> [String] {
            let parts = try page().split(separator: "```", omittingEmptySubsequences: false)
            return parts.enumerated().compactMap { index, part in
                guard index % 2 == 1 else { return nil }
                let lines = part.split(
                    separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
                return lines[0] == language ? String(lines[1]) : nil
            }
        }

        private static func steps() throws -> [Step] {
            var steps: [Step] = []
            for block in try blocks("") {
                for line in block.split(separator: "\n") {
                    if line.hasPrefix("$ ") {
                        steps.append(Step(command: String(line.dropFirst(2))))
                    } else if steps.last?.command.hasSuffix("\\") == true {
                        steps[steps.count - 1].command += "\n" + line
                    } else {
                        steps[steps.count - 1].output.append(String(line))
                    }
                }
            }
            return steps
        }

        /// Whether a line is what the page prints, where `…` stands for anything.
        private static func matches(_ line: String, _ printed: String) -> Bool {
            let parts = printed.split(separator: "…", omittingEmptySubsequences: false)
            guard parts.count > 1 else { return line == printed }
            guard line.hasPrefix(parts[0]), line.hasSuffix(parts[parts.count - 1]) else {
                return false
            }
            var rest = line.dropFirst(parts[0].count)
            for part in parts.dropFirst().dropLast() {
                guard let place = rest.range(of: part) else { return false }
                rest = rest[place.upperBound...]
            }
            return true
        }

        @Test func `the commands of the page print what it says`() async throws {
            let broker = try await TestBroker()
            let steps = try Self.steps()
            #expect(steps.count > 20)
            let directory = try TemporaryDirectory()
            let program = try #require(try Self.blocks("python").first)
            try program.replacing("8883", with: "\(broker.tlsPort)").write(
                toFile: directory.file("asker.py"), atomically: true, encoding: .utf8)
            var script = "cd \(directory.path)\n"
            for (index, step) in steps.enumerated() {
                script += "echo '@@\(index)'\n"
                script +=
                    step.command.replacing("dev-data/dev.env", with: "\(broker.directory)/dev.env")
                    .replacing("-p 8883", with: "-p \(broker.tlsPort)") + "\n"
            }
            // The page's program speaks 5.0 as well.
            script += "echo '@@\(steps.count)'\npython3 asker.py 5\n"
            let shell = try ChildProcess(
                "/bin/bash", ["-ec", script], environment: ["PATH": "/usr/sbin:/usr/bin:/bin"])
            #expect(try await shell.exit() == .code(0), "\(shell.text)")
            var printed = [[String]](repeating: [], count: steps.count + 1)
            var current = 0
            for line in shell.lines {
                if line.hasPrefix("@@"), let number = Int(line.dropFirst(2)) {
                    current = number
                } else {
                    printed[current].append(line)
                }
            }
            for (index, step) in steps.enumerated() {
                #expect(
                    printed[index].count == step.output.count
                        && zip(printed[index], step.output).allSatisfy(Self.matches),
                    "\(step.command)\nprinted\n\(printed[index].joined(separator: "\n"))")
            }
            #expect(printed[steps.count].sorted() == steps.last?.output.sorted())
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
                        "-W", "20", "-e", "$api/reply/x", "-t", "$api/\(operation)", "-m", payload,
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
