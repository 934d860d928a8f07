// HTTP and WebSocket by h11 and wsproto, libraries without sockets that refuse what breaks a rule.
// `make test` installs them.

import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct WebCodecTests {
        private static let folder =
            URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().path + "/RealClients"

        private func run(_ script: String, _ words: [String]) async throws -> ChildProcess {
            let child = try ChildProcess(
                "/usr/bin/python3", ["-B", "\(Self.folder)/\(script)"] + words)
            let exit = try await child.exit(within: 100)
            #expect(
                exit == .code(0), "are python3-h11 and python3-wsproto there? \(child.text)")
            return child
        }

        @Test func `h11 accepts every answer: pages, pipelines, continuations, chunks, streams`()
            async throws
        {
            let api = try await APIBroker()
            try api.broker.addUsers("alice")
            let script = try await run(
                "http_exchange.py",
                ["\(api.http)", api.own, try api.broker.variable("MARTLET_APP_KEY")])
            #expect(script.lines.filter { $0.hasSuffix(" well") }.count == 7, "\(script.text)")
        }

        @Test func `wsproto accepts every frame: fragments with pings inside, and close codes`()
            async throws
        {
            let broker = try await TestBroker(web: true)
            let script = try await run(
                "frames.py", ["\(broker.wsPort)", try broker.token("alice")])
            #expect(script.lines.filter { $0.hasSuffix(" well") }.count == 4, "\(script.text)")
        }
    }
}
