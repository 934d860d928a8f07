// Messages that one connection sends over the HTTP API without waiting for the answers.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct `Pipelined messages over HTTP` {
        private func broker() async throws -> APIBroker {
            let api = try await APIBroker()
            try api.broker.addUsers("alice", "bob", "carol")
            return api
        }

        private func head(_ api: APIBroker, _ line: String, _ fields: String...) -> String {
            "\(line) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(api.own)\r\n"
                + fields.map { "\($0)\r\n" }.joined() + "\r\n"
        }

        private func message(
            _ api: APIBroker, _ body: String, closes: Bool = false
        ) -> String {
            head(
                api, "POST /api/v1/apps/demo/messages", "Content-Type: application/json",
                "Connection: \(closes ? "close" : "keep-alive")",
                "Content-Length: \(body.utf8.count)") + body
        }

        /// Status and content of each answer.
        private func answers(_ text: String) -> [(status: String, content: String)] {
            text.components(separatedBy: "HTTP/1.1 ").dropFirst().map { answer in
                let parts = answer.components(separatedBy: "\r\n\r\n")
                return (String(answer.prefix(3)), parts.dropFirst().joined())
            }
        }

        /// A receiver whom nobody knows is named in the answer, which tells whose answer it is.
        @Test func `are answered and received in their order, and others wait for them`()
            async throws
        {
            let api = try await broker()
            var requests = ""
            for number in 0..<2_000 {
                let body =
                    switch number {
                    case let number where number % 10 == 3: #"{"users":["alice"],"b":"x"}"#
                    default: #"{"from":"bob","users":["alice","n\#(number)"],"b":"\#(number)"}"#
                    }
                requests += message(api, body)
                if number % 100 == 50 {
                    requests += head(api, "GET /api/v1/apps/demo/users/alice/queue")
                }
                if number % 100 == 60 { requests += head(api, "GET /api/v1/nothing") }
            }
            requests += message(api, #"{"from":"bob","users":["carol"],"b":"z"}"#, closes: true)
            let client = try WireClient(port: api.http)
            try client.send(Array(requests.utf8))
            try client.waitForClose()
            var given = answers(String(decoding: client.untaken, as: UTF8.self)).makeIterator()
            var sentCount = 0
            for number in 0..<2_000 {
                let next = given.next()
                let answer = try #require(next)
                if number % 10 == 3 {
                    #expect(answer.status == "400" && answer.content.contains("/from is missing"))
                } else {
                    sentCount += 1
                    #expect(answer.status == "200", "\(answer)")
                    #expect(answer.content.contains("\"n\(number)\""), "\(number): \(answer)")
                }
                if number % 100 == 50 {
                    // Exactly the messages before it are stored.
                    let queue = given.next()?.content ?? ""
                    #expect(queue.contains("\"messageCount\":\(sentCount),"), "\(queue)")
                }
                if number % 100 == 60 { #expect(given.next()?.status == "404") }
            }
            #expect(given.next()?.status == "200" && given.next() == nil)
            let device = try await api.broker.client("alice")
            for number in 0..<2_000 where number % 10 != 3 {
                let message = try await device.nextMessage()
                #expect(message.content == .text("\(number)", type: 0))
            }
            await device.close()
        }

        @Test func `are answered before 100 Continue for a later one`() async throws {
            let api = try await broker()
            let body = #"{"from":"bob","users":["alice"],"b":"x"}"#
            let last = head(
                api, "POST /api/v1/apps/demo/messages", "Content-Type: application/json",
                "Connection: close", "Expect: 100-continue", "Content-Length: \(body.utf8.count)")
            let client = try WireClient(port: api.http)
            try client.send(Array((message(api, body) + message(api, body) + last).utf8))
            func statuses() -> [String] {
                answers(String(decoding: client.untaken, as: UTF8.self)).map(\.status)
            }
            while !statuses().contains("100") { try client.wait(milliseconds: 20) }
            #expect(statuses() == ["200", "200", "100"])
            try client.send(Array(body.utf8))
            try client.waitForClose()
            #expect(statuses() == ["200", "200", "100", "200"])
        }

        @Test func `of a connection that closes arrive in order, without a gap`() async throws {
            let api = try await broker()
            for round in 0..<20 {
                let socket = try RawSocket(port: api.http)
                let requests = (0..<200).map { number in
                    message(api, #"{"from":"bob","users":["alice"],"b":"\#(round) \#(number)"}"#)
                }
                socket.send(Array(requests.joined().utf8))
            }
            try await eventually("they are gone") {
                try api.broker.counter("sockets/pending") == 0
            }
            _ = try await APIScript.ask(
                [
                    APICall(
                        "POST", "/api/v1/apps/demo/messages",
                        body: #"{"from":"bob","users":["alice"],"b":"end 0"}"#, token: api.own)
                ], port: api.http)
            let device = try await api.broker.client("alice")
            var next: [String: Int] = [:]
            while case .text(let text, _) = try await device.nextMessage().content {
                let words = text.split(separator: " ")
                if words[0] == "end" { break }
                #expect(Int(words[1]) == next[String(words[0]), default: 0], "\(text)")
                next[String(words[0]), default: 0] += 1
            }
            await device.close()
        }

        @Test func `wait in their connection while its client does not read`() async throws {
            // A client that does not read has so much time.
            let api = try await APIBroker("limits.authenticationSeconds=120")
            try api.broker.addUsers("alice", "bob", "carol")
            // Each answer names the 250 users that nobody knows, and has 7 KiB.
            let names = (0..<250).map { "\"u\($0)\"" }
            let users = (names + ["\"alice\""]).joined(separator: ",")
            let request = message(api, #"{"from":"bob","users":[\#(users)],"b":"x"}"#)
            let count = 800
            let client = try WireClient(port: api.http)
            client.pause()
            try client.send(Array(String(repeating: request, count: count).utf8))
            // It sends, and reads nothing.
            let before = try await steadyCount(of: api.broker, client)
            #expect(before > 0 && before < count, "\(before)")
            // Others are served meanwhile.
            let other = try await APIScript.ask(
                [
                    APICall(
                        "POST", "/api/v1/apps/demo/messages",
                        body: #"{"from":"bob","users":["carol"],"b":"z"}"#, token: api.own)
                ], port: api.http)
            #expect(other.map(\.status) == [200])
            client.resume()
            try client.send(
                Array(head(api, "GET /api/v1/statistics", "Connection: close").utf8))
            try client.waitForClose()
            let text = String(decoding: client.untaken, as: UTF8.self)
            #expect(answers(text).count { $0.status == "200" } == count + 1)
        }

        /// The requests that the broker has executed when it executes no more.
        private func steadyCount(
            of broker: TestBroker, _ client: WireClient
        ) async throws -> Int {
            var count: UInt64 = 0
            try await eventually("the broker waits for the client") {
                try client.wait(milliseconds: 300)
                let now = try broker.counter("api/requests")
                defer { count = now }
                return now > 0 && now == count
            }
            return Int(count)
        }
    }
}
