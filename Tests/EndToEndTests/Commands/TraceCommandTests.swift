// `martlet trace` of real clients, over the admin socket and over the HTTP API.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct TraceCommandTests {
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
                ["--user=alice", "--payloads", "--seconds=600"],
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
            var left = "unknown"
            // The broker hears of the reader's end after the reader has ended.
            for _ in 0..<50 where !left.isEmpty {
                let after = try ChildProcess(
                    "martlet", ["trace", "list", "--json"],
                    environment: broker.environment("operator"))
                #expect(try await after.exit() == .code(0))
                left = after.text
            }
            #expect(left.isEmpty, "the trace ended with its reader")
        }

        @Test func `shows the messages of JSON clients, on a socket and on an event stream`()
            async throws
        {
            let broker = try await TestBroker(web: true)
            try broker.addUsers("carol")
            let trace = try ChildProcess(
                "martlet", ["trace", "--user=carol", "--payloads", "--seconds=600"],
                environment: broker.environment("operator"))
            _ = try await trace.line(with: "trace 1")
            let token = try broker.token("carol")
            let script = """
                import asyncio, json, websockets
                async def main():
                    w = await websockets.connect('ws://localhost:\(broker.wsPort)/api/v1/socket')
                    async def send(**members): await w.send(json.dumps(members))
                    await send(type='connect', token='\(token)', device='tab')
                    await w.recv()
                    await send(type='send', number=1, users=['carol'], b='21 °C')
                    await w.recv(); await w.recv()
                    await send(type='history', request=7, user='carol')
                    await w.recv(); await w.close()
                asyncio.run(main())
                """
            let client = try ChildProcess(
                "/usr/bin/python3", ["-c", script])
            #expect(try await client.exit() == .code(0), "\(client.text)")
            _ = try await trace.line(with: "> connect", "device=tab", "JSON")
            _ = try await trace.line(with: "< connected", "carol")
            _ = try await trace.line(with: "> send", "id=1", "\"21 °C\"")
            _ = try await trace.line(with: "< message", "from carol", "\"21 °C\"")
            _ = try await trace.line(with: "> history")
            _ = try await trace.line(with: "< response", "id=7", "success")
            let stream = try ChildProcess(
                "/usr/bin/curl",
                [
                    "-sSN", "--max-time", "100", "-H", "Authorization: Bearer \(token)",
                    "http://localhost:\(broker.wsPort)/api/v1/events?device=log&subscribe=site/%23",
                ])
            _ = try await trace.line(with: "> connect", "device=log", "JSON")
            _ = try await trace.line(with: "> subscribe")
            _ = try await trace.line(with: "< response", "id=1", "success")
            stream.signal(SIGTERM)
            _ = try await trace.line(with: "* client_disconnected")
            trace.signal(SIGINT)
            _ = try await trace.exit()
            #expect(!trace.text.contains(token) && !trace.text.contains("mt1_"))
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
                "martlet", ["trace", "--user=carol", "--device=d1", "--json", "--seconds=30"],
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
