// Messages that operators send over the HTTP API, received by clients of both dialects.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct `Messages over HTTP` {
        private let path = "/api/v1/apps/demo/messages"

        private func post(_ api: APIBroker, _ bodies: [String]) async throws -> [APIAnswer] {
            try await APIScript.ask(
                bodies.map { APICall("POST", path, body: $0, token: api.tokens[.operate]) },
                port: api.http)
        }

        private func broker() async throws -> APIBroker {
            let api = try await APIBroker()
            try api.broker.addUsers("alice", "bob", "carol")
            return api
        }

        @Test func `reach devices, and wait for those that are away`() async throws {
            let api = try await broker()
            let device = try await api.broker.client("alice")
            try await device.subscribe(to: "site/#")
            let bodies = [
                #"{"from":"bob","users":["alice"],"b":"one","t":5}"#,
                #"{"from":"bob","users":["alice","carol","nobody"],"b":"two"}"#,
                #"{"from":"bob","everybody":true,"b":"three"}"#,
                #"{"from":"bob","topic":"site/7","payload":"four"}"#,
                #"{"from":"bob","topic":"site/7","base64":"AP8=","grade":"transient"}"#,
                #"{"from":"bob","topic":"empty","payload":"x","expirySeconds":5}"#,
            ]
            let answers = try await post(api, bodies)
            #expect(answers.map(\.status) == [200, 200, 200, 200, 200, 200])
            #expect(
                answers.map { $0.object["receiverCount"] as? Int ?? -1 } == [1, 2, 1, 1, 1, 0])
            #expect(
                answers[1].body.contains(
                    #""refused":[{"reason":144,"user":"nobody"}],"refusedCount":1"#),
                "\(answers[1].body)")
            var received: [String] = []
            for _ in 0..<5 {
                let message = try await device.nextMessage()
                #expect(message.from == "bob")
                switch message.content {
                case .text(let text, let type): received.append("\(type) \(text)")
                case .bytes(let bytes): received.append("\(bytes)")
                }
            }
            #expect(
                received == ["5 one", "0 two", "0 three", "[102, 111, 117, 114]", "[0, 255]"])
            await device.close()
        }

        /// What was answered is kept: the broker is killed right after the answer.
        @Test func `are kept when the broker dies after the answer`() async throws {
            let api = try await broker()
            let bodies = (0..<50).map { #"{"from":"bob","users":["alice"],"b":"m\#($0)"}"# }
            let answers = try await post(api, bodies)
            try await api.broker.killNow()
            #expect(answers.allSatisfy { $0.status == 200 })
            try await api.broker.start()
            let device = try await api.broker.client("alice")
            for number in 0..<50 {
                let message = try await device.nextMessage()
                #expect(message.content == .text("m\(number)", type: 0))
            }
            await device.close()
        }

        /// The broker is killed right after the answers, and the program repeats all of them.
        @Test func `with a key are sent once, also when the broker dies after the answer`()
            async throws
        {
            let api = try await broker()
            func calls(_ text: String = "m") -> [APICall] {
                (0..<50).map {
                    APICall(
                        "POST", path,
                        body: #"{"from":"bob","users":["alice","no"],"b":"\#(text)\#($0)"}"#,
                        token: api.own,
                        headers: ["Idempotency-Key": $0 % 2 == 0 ? "\"key \($0)\"" : "key-\($0)"])
                }
            }
            let first = try await APIScript.ask(calls(), port: api.http)
            try await api.broker.killNow()
            #expect(first.allSatisfy { $0.status == 200 })
            try await api.broker.start()
            let port = try await api.broker.port("http")
            let again = try await APIScript.ask(calls(), port: port)
            #expect(again.map(\.body) == first.map(\.body))
            let other = try await APIScript.ask(calls("other"), port: port)
            #expect(other.allSatisfy { $0.status == 422 && $0.code == 145 }, "\(other)")
            // Another credential has keys of its own.
            var call = calls()[0]
            call.headers["Authorization"] = "Bearer \(api.tokens[.operate, default: ""])"
            #expect(try await APIScript.ask([call], port: port).map(\.status) == [200])
            #expect(try api.broker.counter("messages/repeated") == 50)
            #expect(try api.broker.counter("messages/keys") == 51)
            let device = try await api.broker.client("alice")
            for number in Array(0..<50) + [0] {
                let message = try await device.nextMessage()
                #expect(message.content == .text("m\(number)", type: 0))
            }
            await device.close()
        }

        @Test func `with a key that is malformed or not theirs are refused`() async throws {
            let api = try await broker()
            let body = #"{"from":"bob","users":["alice"],"b":"x"}"#
            let keys = [
                "", "\"\"", "a b", "a,b", "\"a", "a\"", "\"a\\\"",
                String(repeating: "k", count: 129),
            ]
            let calls = keys.map {
                APICall("POST", path, body: body, token: api.own, headers: ["Idempotency-Key": $0])
            }
            for answer in try await APIScript.ask(calls, port: api.http) {
                #expect(answer.status == 400 && answer.detail.contains("1 to 128"), "\(answer)")
            }
            let others = try await APIScript.ask(
                [
                    APICall(
                        "POST", "/api/v1/apps", body: #"{"app":"x"}"#, token: api.own,
                        headers: ["Idempotency-Key": "k"])
                ], port: api.http)
            #expect(others.map(\.status) == [400])
            #expect(others[0].detail.contains("only messages"))
        }

        /// Ticks of the processor that the broker has used.
        private func ticks(of broker: TestBroker) throws -> Int {
            let stat = try String(
                contentsOfFile: "/proc/\(broker.process.identifier)/stat", encoding: .utf8)
            let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
            // utime and stime are the fields 14 and 15 [proc(5)]; the name ended with the second.
            return (Int(fields[11]) ?? 0) + (Int(fields[12]) ?? 0)
        }

        @Test func `leave a broker that sleeps`() async throws {
            let api = try await broker()
            let answers = try await post(
                api, Array(repeating: #"{"from":"bob","users":["alice"],"b":"x"}"#, count: 100))
            #expect(answers.allSatisfy { $0.status == 200 })
            let before = try ticks(of: api.broker)
            await Deadline(seconds: 1).wait()
            // A loop that does not sleep uses 100 in a second.
            #expect(try ticks(of: api.broker) - before < 30)
        }

        @Test func `are refused with the reason`() async throws {
            let api = try await broker()
            let long = String(repeating: "x", count: 2_000)
            let cases: [(String, Int, Int, String)] = [
                (#"{"users":["alice"],"b":"x"}"#, 400, 129, "/from is missing"),
                (#"{"from":"bob","b":"x"}"#, 400, 129, "one of users, group"),
                (#"{"from":"bob","users":["a"],"topic":"t","b":"x"}"#, 400, 129, "one of users"),
                (#"{"from":"bob","users":["alice"]}"#, 400, 129, "one of b, payload"),
                (#"{"from":"bob","users":["alice"],"payload":"x"}"#, 400, 129, "need a topic"),
                (#"{"from":"bob","topic":"t","base64":"?"}"#, 400, 129, "RFC 4648"),
                (#"{"from":"bob","topic":"t","payload":"x","t":1}"#, 400, 129, "the type of b"),
                (#"{"from":"bob","users":[],"b":"x"}"#, 400, 129, "0 users"),
                (#"{"from":"bob","users":["a/b"],"b":"x"}"#, 400, 133, "without /, +, #"),
                (#"{"from":"bob","topic":"a/+","payload":"x"}"#, 400, 129, "is not a topic"),
                (#"{"from":"bob","users":["alice"],"b":"x","isRetained":true}"#, 400, 129, "topic"),
                (#"{"from":"bob","users":["alice"],"b":"x","t":256}"#, 400, 129, "from 0 to 255"),
                (#"{"from":"bob","users":["alice"],"b":"\#(long)"}"#, 413, 149, "too long"),
                (#"{"from":"nobody","users":["alice"],"b":"x"}"#, 404, 144, "nobody knows nobody"),
                (#"{"from":"bob","users":["nobody"],"b":"x"}"#, 404, 144, "nobody knows nobody"),
                (#"{"from":"bob","group":"none","b":"x"}"#, 404, 144, "no group"),
                (#"{"from":"bob","topic":"$SYS/x","payload":"x"}"#, 404, 144, "begins with $"),
            ]
            let answers = try await post(api, cases.map(\.0))
            for (answer, (body, status, code, detail)) in zip(answers, cases) {
                #expect(answer.status == status && answer.code == code, "\(body): \(answer)")
                #expect(answer.detail.contains(detail), "\(answer.detail)")
            }
        }

        private func sendAsBob(
            _ words: String..., of api: APIBroker
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet",
                ["send", "--data", api.broker.directory, "--app", "demo", "--as", "bob"] + words)
            return (try await child.exit(), child.text)
        }

        @Test func `are sent by the command of an operator`() async throws {
            let api = try await broker()
            let device = try await api.broker.client("alice")
            let sent = try await sendAsBob("--to", "alice", "--type", "7", "hello", of: api)
            #expect(sent.exit == .code(0), "\(sent)")
            let message = try await device.nextMessage()
            #expect(message.content == .text("hello", type: 7) && message.from == "bob")
            let partly = try await sendAsBob("--to", "alice,nobody", "again", of: api)
            #expect(partly.exit == .code(6) && partly.text.contains("not sent to nobody"))
            await device.close()
        }
    }
}
