// Messages whose senders do not wait for the commit (wait=0), and messages whose content is the
// payload itself.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct `Messages with an early answer` {
        private let path = "/api/v1/apps/demo/messages"

        private func broker(faults: DiskFaults? = nil) async throws -> APIBroker {
            let api = try await APIBroker(faults: faults)
            try api.broker.addUsers("alice", "bob", "carol")
            return api
        }

        private func call(
            _ api: APIBroker, _ query: String, _ body: String, key: String? = nil
        ) -> APICall {
            APICall(
                "POST", path + query, body: body, token: api.own,
                headers: key.map { ["Idempotency-Key": $0] } ?? [:])
        }

        /// The disk syncs nothing until the answers are there.
        @Test func `are answered before the commit, and others after it`() async throws {
            let disk = try DiskFaults()
            let api = try await broker(faults: disk)
            let body = #"{"from":"bob","users":["alice"],"b":"x"}"#
            disk.setSlow(true)
            let early = try await APIScript.ask(
                (0..<20).map { _ in call(api, "?wait=0", body) }, port: api.http)
            #expect(early.map(\.status) == Array(repeating: 202, count: 20))
            #expect(early.allSatisfy { $0.body == "{}\n" && $0.type == "application/json" })
            // The broker dies before it has stored anything: 202 promises no more.
            try await api.broker.killNow()
            disk.setSlow(false)
            try await api.broker.start()
            let port = try await api.broker.port("http")
            let queue = "/api/v1/apps/demo/users/alice/queue"
            let lost = try await APIScript.ask(
                [APICall("GET", queue, token: api.own)], port: port)
            let count = try #require(lost.first?.object["messageCount"] as? Int)
            // The first batch may have been on its way.
            #expect(count < 20)
            // In an orderly stop all are stored that were answered.
            let again = try await APIScript.ask(
                (0..<20).map { _ in call(api, "?wait=0", body) }
                    + [call(api, "?wait=1", body)], port: port)
            #expect(again.map(\.status) == Array(repeating: 202, count: 20) + [200])
            _ = try await APIScript.ask([call(api, "?wait=0", body)], port: port)
            try await api.broker.stop()
            try await api.broker.start()
            let kept = try await APIScript.ask(
                [APICall("GET", queue, token: api.own)],
                port: try await api.broker.port("http"))
            #expect(kept.first?.object["messageCount"] as? Int == count + 22)
        }

        @Test func `are refused as others are, and have results for those who ask again`()
            async throws
        {
            let api = try await broker()
            let body = #"{"from":"bob","users":["alice","no"],"b":"x"}"#
            let calls = [
                call(api, "?wait=0", #"{"from":"nobody","users":["alice"],"b":"x"}"#),
                call(api, "?wait=0", #"{"from":"bob","users":["no"],"b":"x"}"#),
                call(api, "?wait=2", body), call(api, "?wait=", body),
                call(api, "?wait=0", #"{"from":"bob","b":"x"}"#),
                call(api, "?wait=0", body, key: "k"), call(api, "?wait=0", body, key: "k"),
                // Waits for the commit of those before it.
                call(api, "", #"{"from":"bob","users":["carol"],"b":"y"}"#),
                call(api, "", body, key: "k"),
                call(api, "?wait=0", body, key: "k"), call(api, "?wait=1", body, key: "k"),
                call(api, "?wait=0", #"{"from":"bob","everybody":true,"b":"x"}"#, key: "k"),
            ]
            let answers = try await APIScript.ask(calls, port: api.http)
            #expect(
                answers.map(\.status) == [
                    404, 404, 400, 400, 400, 202, 202, 200, 200, 202, 200, 422,
                ])
            #expect(answers[2].detail.contains("?wait must be a whole number from 0 to 1"))
            #expect(answers[8].body.contains(#""refused":[{"reason":144,"user":"no"}]"#))
            #expect(answers[10].body == answers[8].body)
            #expect(try api.broker.counter("messages/keys") == 1)
            let device = try await api.broker.client("alice")
            #expect(try await device.nextMessage().content == .text("x", type: 0))
            await device.close()
        }

        /// With a slow disk, nobody fills the memory with messages that are not stored.
        @Test func `wait when as many are not stored as may be`() async throws {
            let disk = try DiskFaults(isLogging: true)
            let api = try await broker(faults: disk)
            disk.setSlow(true)
            let body = #"{"from":"bob","users":["alice"],"b":"x"}"#
            // The writer has the first message alone; those of the client are in the next batch.
            let written = disk.logByteCount()
            let first = try await APIScript.ask([call(api, "?wait=0", body)], port: api.http)
            #expect(first.map(\.status) == [202])
            try await eventually("a batch that is being stored") { disk.logByteCount() > written }
            let client = try WireClient(port: api.http)
            let request =
                "POST \(path)?wait=0 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(api.own)\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                + body
            try client.send(Array(String(repeating: request, count: 2_000).utf8))
            func answeredCount() -> Int {
                String(decoding: client.untaken, as: UTF8.self)
                    .components(separatedBy: "HTTP/1.1 202").count - 1
            }
            func wait(seconds: Double, until isDone: () -> Bool) throws {
                let end = ContinuousClock.now + .seconds(seconds)
                while !isDone(), ContinuousClock.now < end { try client.wait(milliseconds: 100) }
            }
            try wait(seconds: 60) { answeredCount() >= 1_000 }
            // Time for more than there may be.
            try wait(seconds: 3) { answeredCount() == 2_000 }
            // The batch that is being stored, and the one after it.
            #expect((1_000...1_700).contains(answeredCount()), "\(answeredCount())")
            disk.setSlow(false)
            try wait(seconds: 60) { answeredCount() == 2_000 }
            #expect(answeredCount() == 2_000)
            // The statistics are read on the thread that has just waited for the last one.
            #expect(try api.broker.counter("messages/stored") == 2_001)
        }

        // MARK: - Payloads

        @Test func `that are the content itself reach topics and users`() async throws {
            let api = try await broker()
            let file = api.broker.directory + "-payload"
            try Data([0x00, 0xFF, 0x0A]).write(to: URL(filePath: file))
            let mosquitto = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-V", "5", "-h", "localhost", "-p",
                    "\(api.broker.plainPort)", "-i", "carol",
                    "-q", "1", "-t", "site/#", "-C", "4", "-F", "%t|%C|%x|%r", "-d",
                ])
            _ = try await mosquitto.line(with: "Subscribed")
            let device = try await api.broker.client("alice")
            func put(_ query: String, _ words: [String]) async throws -> String {
                let child = try ChildProcess(
                    "/usr/bin/curl",
                    [
                        "-sS", "--max-time", "50", "-w", " %{http_code}\\n",
                        "-H", "Authorization: Bearer \(api.own)",
                        "http://localhost:\(api.http)\(path)\(query)",
                    ] + words)
                _ = try await child.exit()
                return child.text
            }
            let binary = ["--data-binary", "@\(file)"]
            func typed(_ type: String) -> [String] { ["-H", "Content-Type: \(type)"] }
            let bob = ["-H", "Martlet-User: bob"]
            #expect(
                try await put("?from=bob&topic=site/1", typed("image/x; a=\"b\"") + binary)
                    .contains(" 200"))
            #expect(
                try await put("?topic=site/2&wait=0", bob + typed("text/csv") + ["-d", "1,2"])
                    .contains(" 202"))
            // Without a type there is no property; without content the payload is empty.
            #expect(
                try await put("?from=bob&topic=site/3&grade=once", typed("") + binary)
                    .contains(" 200"))
            #expect(
                try await put(
                    "?from=bob&topic=site/4&isRetained=true", typed("text/plain") + ["-X", "POST"]
                ).contains(" 200"))
            #expect(
                try await put("?from=bob&user=alice&t=7", typed("text/plain") + ["-d", "hällo"])
                    .contains(" 200"))
            let message = try await device.nextMessage()
            #expect(message.content == .text("hällo", type: 7) && message.from == "bob")
            #expect(try await mosquitto.exit() == .code(0))
            for line in [
                "site/1|image/x; a=\"b\"|00ff0a|0", "site/2|text/csv|312c32|0",
                "site/3||00ff0a|0", "site/4|text/plain||0",
            ] {
                #expect(mosquitto.lines.contains(line), "\(line): \(mosquitto.text)")
            }
            // What is refused.
            let long = "text/" + String(repeating: "x", count: 251)
            for (query, words, status) in [
                ("?from=bob&user=alice", typed("text/plain") + binary, "400"),
                ("?from=bob&topic=a&user=alice", typed("text/plain") + binary, "400"),
                ("?from=bob&topic=a", typed("application/json") + ["-d", "{}"], "400"),
                ("?from=bob&topic=a", typed(long) + binary, "400"),
                ("?from=bob&topic=a&x=1", typed("text/plain") + binary, "400"),
                ("?topic=a", typed("text/plain") + binary, "400"),
                ("?from=bob&topic=a&t=1", typed("text/plain") + binary, "400"),
                ("?from=bob", typed("text/plain") + binary, "415"),
                (
                    "?from=bob&topic=a",
                    typed("text/plain") + ["-H", "Content-Encoding: gzip"] + binary, "415"
                ),
            ] {
                let answer = try await put(query, words)
                #expect(answer.contains(" \(status)"), "\(query) \(words): \(answer)")
            }
            // In JSON there is a member for the type.
            let answers = try await APIScript.ask(
                [
                    call(
                        api, "",
                        #"{"from":"bob","topic":"j","payload":"x","contentType":"text/x"}"#),
                    call(
                        api, "", #"{"from":"bob","users":["alice"],"b":"x","contentType":"a/b"}"#),
                    call(api, "", #"{"from":"bob","topic":"j","payload":"x","contentType":""}"#),
                ], port: api.http)
            #expect(answers.map(\.status) == [200, 400, 400])
            try FileManager.default.removeItem(atPath: file)
            await device.close()
        }
    }
}
