// An operator follows the log of a running broker, as an event stream and with the command.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct LogStreamTests {
        private func follow(_ api: APIBroker, token: String, from id: String = "") throws
            -> ChildProcess
        {
            try ChildProcess(
                "/usr/bin/curl",
                [
                    "-sSN", "--max-time", "300", "-H", "Authorization: Bearer \(token)",
                    "-H", "Last-Event-ID: \(id)", "http://localhost:\(api.http)/api/v1/events",
                ])
        }

        @Test func `shows logins, refusals and what operators do, whatever the level is`()
            async throws
        {
            let api = try await APIBroker()
            try api.broker.addUsers("carol")
            _ = try AdministrationClient(dataDirectory: api.broker.directory)
                .send(SetLogLevel(level: "error"))
            let view = try #require(api.tokens[.view])
            let stream = try follow(api, token: view)
            _ = try await stream.line(with: "retry:")
            let carol = try await api.broker.client("carol")
            let connected = try await stream.line(with: #""event":"client_connected""#)
            #expect(
                connected.hasPrefix(#"data: {"time":""#) && connected.contains(#""user":"carol""#))
            await carol.close()
            _ = try await stream.line(with: #""event":"client_disconnected""#)
            let wrong = try ChildProcess(
                "/usr/bin/curl",
                [
                    "-s", "-H", "Authorization: Bearer mo1_x",
                    "http://localhost:\(api.http)/api/v1/apps",
                ])
            _ = try await wrong.exit()
            _ = try await stream.line(with: #""event":"auth_failed""#)
            // The one who comes back gets what it has not seen.
            let id = try #require(
                stream.lines.last { $0.hasPrefix("id: ") }.map { String($0.dropFirst(4)) })
            let again = try follow(api, token: view, from: "\(try #require(UInt64(id)) - 1)")
            _ = try await again.line(with: "id: \(id)")
            let oldest = try follow(api, token: view, from: "999999999")
            _ = try await oldest.line(with: "client_connected")
            for child in [stream, again, oldest] { child.signal(SIGTERM) }
        }

        @Test func `ends when the token is revoked, and is for operators alone`() async throws {
            let api = try await APIBroker()
            let stream = try follow(api, token: try #require(api.tokens[.view]))
            _ = try await stream.line(with: "retry:")
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            _ = try client.send(RevokeOperator(operator: "view"))
            // A stream that has just shown a line looks at its token a second later.
            try await api.broker.waitForBrokerTime(seconds: 1)
            try api.broker.addUsers("carol")
            let carol = try await api.broker.client("carol")
            _ = try await stream.line(with: "event: closed")
            #expect(try await stream.exit() == .code(0))
            #expect(!stream.text.contains("client_connected"))
            await carol.close()
            let unknown = try follow(api, token: "mo1_nobody")
            #expect(try await unknown.exit() == .code(0))
            #expect(unknown.text.contains("no operator has this token"))
            let wrongID = try follow(api, token: api.own, from: "1f-2")
            #expect(try await wrongID.exit() == .code(0))
            #expect(wrongID.text.contains("Last-Event-ID is not the id of an event"))
        }

        @Test func `has a limit of streams, each of which leaves its place`() async throws {
            let api = try await APIBroker()
            var streams: [ChildProcess] = []
            for _ in 0..<16 {
                streams.append(try follow(api, token: api.own))
                _ = try await streams.last?.line(with: "retry:")
            }
            let refused = try follow(api, token: api.own)
            #expect(try await refused.exit() == .code(0))
            #expect(refused.text.contains("16 streams of operators"))
            let last = streams.removeLast()
            last.signal(SIGTERM)
            _ = try await last.exit()
            var taken: ChildProcess?
            let end = ContinuousClock.now + .seconds(60)
            while taken == nil, ContinuousClock.now < end {
                let next = try follow(api, token: api.own)
                let answer = try await next.line(with: ":")
                if answer.contains("retry") { taken = next }
            }
            #expect(taken != nil)
            for child in streams { child.signal(SIGTERM) }
            taken?.signal(SIGTERM)
        }

        @Test func `martlet log follows over the socket and over HTTP`() async throws {
            let api = try await APIBroker()
            try api.broker.addUsers("carol")
            let local = try ChildProcess(
                "martlet", ["log", "--follow"],
                environment: ["MARTLET_DATA": api.broker.directory])
            _ = try await local.line(with: "broker_started")
            let carol = try await api.broker.client("carol")
            _ = try await local.line(with: "client_connected", "user=carol")
            local.signal(SIGTERM)
            let remote = try ChildProcess(
                "martlet",
                [
                    "log", "--json", "-n", "1000", "--server", "https://localhost:\(api.https)",
                    "--ca", api.broker.authority, "--token", api.own,
                ])
            #expect(try await remote.exit() == .code(0))
            #expect(remote.text.contains(#""event":"client_connected""#), "\(remote.text)")
            await carol.close()
        }
    }
}
