// Pages of other origins, by the fields that browsers send and obey (Fetch Standard, 3.2).

import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct `Pages of other origins` {
        private static let listed = "https://shop.example"
        private static let setting =
            #"web.allowedOrigins=["https://shop.example", "https://SHOP.example:8443", "*"]"#

        /// The status and the fields of an answer, with names in lower case.
        private struct Answer {
            var status = 0
            var fields: [String: String] = [:]
            /// The names of fields for pages of other origins.
            var shared: [String] {
                fields.keys.filter { $0.hasPrefix("access-control-") }.sorted()
            }
        }

        /// - Parameter last: words of an answer that does not end by itself, after which the client
        ///   goes away; nil for one that does.
        private func ask(
            _ api: APIBroker, _ method: String, _ path: String, _ fields: [String],
            words: [String] = [], until last: String? = nil
        ) async throws -> Answer {
            let child = try ChildProcess(
                "/usr/bin/curl",
                ["-sS", "-i", "-N", "--max-time", "50", "-X", method]
                    + fields.flatMap { ["-H", $0] } + words
                    + ["http://localhost:\(api.http)/api/v1\(path)"])
            if let last {
                _ = try await child.line(with: last)
                child.signal(SIGTERM)
            }
            _ = try await child.exit()
            var answer = Answer()
            for line in child.lines.map({ $0.trimmingCharacters(in: .whitespacesAndNewlines) }) {
                if answer.status == 0 {
                    answer.status = Int(line.split(separator: " ").dropFirst().first ?? "") ?? -1
                } else if line.isEmpty {
                    break
                } else {
                    let parts = line.split(separator: ":", maxSplits: 1).map(String.init)
                    answer.fields[parts[0].lowercased()] =
                        parts.last?.trimmingCharacters(in: .whitespaces)
                }
            }
            return answer
        }

        private func preflight(
            _ api: APIBroker, _ path: String, _ method: String, from origin: String
        ) async throws -> Answer {
            try await ask(
                api, "OPTIONS", path,
                [
                    "Origin: \(origin)", "Access-Control-Request-Method: \(method)",
                    "Access-Control-Request-Headers: authorization,content-type",
                ])
        }

        @Test func `use the API if they are listed`() async throws {
            let api = try await APIBroker(Self.setting)
            for origin in [Self.listed, "https://shop.example:8443"] {
                let leave = try await preflight(api, "/messages", "POST", from: origin)
                #expect(leave.status == 204)
                #expect(leave.fields["content-length"] == nil)
                #expect(leave.fields["vary"] == "Origin")
                #expect(leave.fields["access-control-allow-origin"] == origin)
                #expect(leave.fields["access-control-allow-methods"] == "POST")
                #expect(
                    leave.fields["access-control-allow-headers"]
                        == "authorization, content-type, idempotency-key, martlet-user")
                #expect(leave.fields["access-control-max-age"] == "600")
                #expect(leave.fields["access-control-allow-credentials"] == nil)
            }
            let places = [
                ("/apps/demo/groups/g/meta", "PUT", "authorization, content-type"),
                ("/apps/demo/groups/g/allowed", "PUT, DELETE", "authorization, content-type"),
                ("/apps/demo/sessions", "GET, POST, DELETE", "authorization, content-type"),
                ("/openapi.json", "GET", "authorization"),
                ("/events", "GET", "authorization, last-event-id, martlet-user"),
            ]
            for (path, methods, fields) in places {
                let leave = try await preflight(api, path, "GET", from: Self.listed)
                #expect(leave.status == 204, "\(path)")
                #expect(leave.fields["access-control-allow-methods"] == methods, "\(path)")
                #expect(leave.fields["access-control-allow-headers"] == fields, "\(path)")
            }
            let authorization = "Authorization: Bearer \(api.own)"
            let list = try await ask(
                api, "GET", "/apps", ["Origin: \(Self.listed)", authorization])
            #expect(list.status == 200)
            #expect(list.fields["access-control-allow-origin"] == Self.listed)
            #expect(list.fields["access-control-expose-headers"] == "Retry-After")
            #expect(list.fields["vary"] == "Origin")
            // A refusal can be read too, also one of content.
            let refused = try await ask(api, "GET", "/apps", ["Origin: \(Self.listed)"])
            #expect(refused.status == 401 && refused.shared.count == 2)
            let malformed = try await ask(
                api, "POST", "/apps",
                ["Origin: \(Self.listed)", authorization, "Content-Type: application/json"],
                words: ["-d", "{"])
            #expect(malformed.status == 400 && malformed.shared.count == 2)
        }

        @Test func `read event streams if they are listed`() async throws {
            let api = try await APIBroker(Self.setting)
            let authorization = "Authorization: Bearer \(try api.broker.token("alice"))"
            let stream = try await ask(
                api, "GET", "/events", ["Origin: \(Self.listed)", authorization],
                until: #""type":"connected""#)
            #expect(stream.status == 200)
            #expect(stream.fields["content-type"] == "text/event-stream")
            #expect(stream.fields["access-control-allow-origin"] == Self.listed)
            #expect(stream.fields["vary"] == "Origin")
            let unknown = try await ask(
                api, "GET", "/events",
                ["Origin: \(Self.listed)", "Authorization: Bearer mt1_unknown"])
            #expect(unknown.status == 401)
            #expect(unknown.fields["access-control-allow-origin"] == Self.listed)
            let program = try await ask(
                api, "GET", "/events", [authorization], until: #""type":"connected""#)
            #expect(program.status == 200 && program.shared.isEmpty)
            #expect(program.fields["vary"] == "Origin")
        }

        @Test func `are told nothing if they are not listed`() async throws {
            let api = try await APIBroker(Self.setting)
            let authorization = "Authorization: Bearer \(api.own)"
            let strangers = [
                "https://evil.example", "http://shop.example", "https://shop.example.evil",
                "https://shop.example:444", "null", "*", "https://shop.exampl",
            ]
            for origin in strangers {
                for path in ["/messages", "/events"] {
                    let leave = try await preflight(api, path, "POST", from: origin)
                    #expect(leave.status == 403 && leave.shared.isEmpty, "\(origin)")
                    #expect(leave.fields["vary"] == "Origin")
                }
                let list = try await ask(
                    api, "GET", "/apps", ["Origin: \(origin)", authorization])
                #expect(list.status == 200 && list.shared.isEmpty, "\(origin)")
                #expect(list.fields["vary"] == "Origin")
            }
            _ = try await api.broker.process.line(
                with: "event=web_request_refused", "status=403", "the origin is not allowed")
            // Preflights are no guesses of credentials.
            #expect(try api.broker.counter("api/credentials/refused") == 0)
            let nothing = try await preflight(api, "/nothing", "GET", from: Self.listed)
            #expect(nothing.status == 404)
            // A request that only looks like a preflight needs a credential.
            let plain = try await ask(api, "OPTIONS", "/apps", ["Origin: \(Self.listed)"])
            #expect(plain.status == 401)
        }

        @Test func `are told nothing without a list`() async throws {
            let api = try await APIBroker()
            let authorization = "Authorization: Bearer \(api.own)"
            let leave = try await preflight(api, "/messages", "POST", from: Self.listed)
            #expect(leave.status == 403 && leave.shared.isEmpty && leave.fields["vary"] == nil)
            let list = try await ask(
                api, "GET", "/apps", ["Origin: \(Self.listed)", authorization])
            #expect(list.status == 200 && list.shared.isEmpty && list.fields["vary"] == nil)
        }
    }
}
