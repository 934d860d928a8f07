// `martlet trace` of real clients, over the admin socket and over the HTTP API.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct TraceCommandTests {
        /// Starts `martlet trace`, and waits until it is on.
        private func trace(
            _ words: [String], environment: [String: String]
        ) async throws -> ChildProcess {
            let child = try ChildProcess("martlet", ["trace"] + words, environment: environment)
            _ = try await child.line(with: "martlet: trace")
            return child
        }

        private func mosquittoPub(_ broker: TestBroker, password: String, _ words: [String])
            async throws -> ChildExit
        {
            let child = try ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-h", "localhost", "-p", "\(broker.tlsPort)", "--cafile", broker.authority,
                    "-u", "demo/alice", "-P", password, "-i", "sensor",
                ] + words)
            return try await child.exit()
        }

        @Test(arguments: ["311", "5"])
        func `shows what mosquitto_pub sends, and a login that is refused`(version: String)
            async throws
        {
            let broker = try await TestBroker()
            let token = try broker.token("alice")
            let trace = try await trace(
                ["--user=alice", "--payloads", "--seconds=60"],
                environment: broker.environment("operator"))
            let words = ["-V", version, "-q", "1", "-t", "site/7", "-m", "21 degrees"]
            #expect(try await mosquittoPub(broker, password: token, words) == .code(0))
            #expect(try await mosquittoPub(broker, password: "mt1_hidden", words) != .code(0))
            _ = try await trace.line(with: "> CONNECT", "device=sensor", "a credential")
            _ = try await trace.line(with: "< CONNACK", "reason=success")
            _ = try await trace.line(with: "> PUBLISH", "topic=site/7", "grade=1", "\"21 degrees\"")
            _ = try await trace.line(with: "< PUBACK", "id=1")
            _ = try await trace.line(with: "> DISCONNECT")
            _ = try await trace.line(with: "< CONNACK", "reason=bad-user-name-or-password")
            _ = try await trace.line(with: "* auth_failed")
            let listed = try ChildProcess(
                "martlet", ["trace", "list"], environment: broker.environment("operator"))
            #expect(try await listed.exit() == .code(0))
            #expect(listed.text.contains("admin socket") && listed.text.contains("alice"))
            trace.signal(SIGINT)
            #expect(try await trace.exit() == .code(130))
            #expect(!trace.text.contains(token) && !trace.text.contains("hidden\""))
            #expect(!trace.text.contains("mt1_"))
            let after = try ChildProcess(
                "martlet", ["trace", "list", "--json"], environment: broker.environment("operator"))
            #expect(try await after.exit() == .code(0))
            #expect(after.text.isEmpty, "the trace ended with its reader")
        }

        @Test func `shows a client of MRT over the HTTP API as JSON, without payloads`()
            async throws
        {
            let api = try await APIBroker()
            let environment = [
                "MARTLET_SERVER": "https://localhost:\(api.https)",
                "MARTLET_CA": api.broker.authority,
                "MARTLET_TOKEN": api.tokens[.operate, default: ""], "MARTLET_APP": "demo",
            ]
            let carol = try await api.broker.client("carol", device: "d1")
            let child = try ChildProcess(
                "martlet", ["trace", "--user=carol", "--device=d1", "--json", "--seconds=10"],
                environment: environment)
            _ = try await child.line(with: #""packet":"present""#, #""device":"d1""#)
            _ = try await carol.send(OutgoingMessage(to: .user("carol"), text: "quiet"))
            carol.acknowledge(try await carol.nextMessage())
            _ = try await child.line(with: #""packet":"SEND""#, #""receiver":"carol""#)
            _ = try await child.line(with: #""packet":"DELIVER""#, #""direction":"out""#)
            _ = try await child.line(with: #""packet":"ACK""#)
            await carol.close()
            _ = try await child.line(with: #""packet":"client_disconnected""#)
            let refused = try ChildProcess(
                "martlet", ["trace", "--user=carol"],
                environment: environment.merging(
                    ["MARTLET_TOKEN": api.tokens[.view, default: ""]]) { $1 })
            #expect(try await refused.exit() != .code(0))
            let listed = try ChildProcess(
                "martlet", ["trace", "list", "--json"], environment: environment)
            #expect(try await listed.exit() == .code(0))
            #expect(listed.text.contains(#""startedBy":"operate""#), "\(listed.text)")
            #expect(try await child.exit() == .code(0))
            #expect(!child.text.contains("quiet"))
            _ = try await api.broker.process.line(
                with: "request=trace.start", "operator=operate", "user=carol")
        }
    }
}
