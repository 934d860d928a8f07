// What receivers tell over the HTTP API about messages and conversations, and what the refusals of
// messages say there.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct `Receipts over HTTP` {
        private let users = "/api/v1/apps/demo/users"

        private func ask(_ api: APIBroker, _ calls: [APICall]) async throws -> [APIAnswer] {
            try await APIScript.ask(calls, port: api.http)
        }

        @Test func `are given by a token of the receiver, or in its name`() async throws {
            let api = try await APIBroker()
            let alice = try await api.broker.client("alice")
            let bob = try await api.broker.client("bob")
            var references: [String] = []
            for _ in 1...2 {
                var message = OutgoingMessage(to: .user("bob"), text: "open")
                message.receipts = .applied
                let sent = try await alice.send(message)
                references.append(try #require(sent.reference).description)
            }
            let token = api.tokens[.operate]
            let answers = try await ask(
                api,
                [
                    APICall(
                        "POST", "\(users)/bob/applied",
                        body: #"{"reference":"\#(references[0])","code":131,"text":"too hot"}"#,
                        token: token),
                    APICall(
                        "POST", "/api/v1/applied", body: #"{"reference":"\#(references[1])"}"#,
                        token: try api.broker.token("bob")),
                    APICall(
                        "POST", "\(users)/bob/applied",
                        body: #"{"reference":"00000000000000a1"}"#, token: token),
                    APICall(
                        "POST", "\(users)/bob/applied", body: #"{"reference":"a1"}"#, token: token),
                    APICall(
                        "POST", "\(users)/nobody/applied",
                        body: #"{"reference":"\#(references[0])"}"#, token: token),
                ])
            #expect(answers.map(\.status) == [200, 200, 404, 400, 404])
            #expect(answers[2].detail.contains("no message with this reference"))
            var told: [String] = []
            while told.count < 2 {
                let receipt = try await alice.nextMessage()
                alice.acknowledge(receipt)
                guard case .receipt(let receipt?) = receipt.kind,
                    case .applied(let device, let code, let text) = receipt.event
                else { continue }
                told.append("\(device) \(code) \(text)")
            }
            #expect(Set(told) == [" 131 too hot", " 0 "])
            await alice.close()
            await bob.close()
        }

        @Test func `are shown with who has the message and who applied it`() async throws {
            let api = try await APIBroker()
            let alice = try await api.broker.client("alice")
            let bob = try await api.broker.client("bob")
            try api.broker.addUsers("carol")
            var message = OutgoingMessage(to: .users(["bob", "carol"]), text: "open")
            message.receipts = [.delivered, .applied]
            let reference = try #require(try await alice.send(message).reference)
            bob.acknowledge(try await bob.nextMessage())
            try await bob.reportApplied(reference)
            let path = "/api/v1/apps/demo/receipts/"
            let token = api.tokens[.view]
            let answers = try await ask(
                api,
                [
                    APICall("GET", "\(path)\(reference)", token: token),
                    APICall("GET", "\(path)\(reference)?limit=1", token: token),
                    APICall("GET", "\(path)\(reference)?after=bob", token: token),
                    APICall("GET", "\(path)00000000000000a1", token: token),
                    APICall("GET", "\(path)a1", token: token),
                    APICall(
                        "GET", "/api/v1/apps/nobody/receipts/\(reference)", token: token),
                ])
            #expect(answers.map(\.status) == [200, 200, 200, 404, 400, 404])
            let told = answers[0].object
            #expect(told["receiverCount"] as? Int == 2 && told["appliedCount"] as? Int == 1)
            #expect(told["from"] as? String == "alice" && told["isExpired"] as? Bool == false)
            func users(_ answer: APIAnswer) -> [String] {
                (answer.object["receivers"] as? [[String: Any]] ?? []).compactMap {
                    $0["user"] as? String
                }
            }
            #expect(users(answers[0]) == ["bob", "carol"])
            #expect(users(answers[1]) == ["bob"] && answers[1].object["next"] as? String == "bob")
            #expect(users(answers[2]) == ["carol"])
            await alice.close()
            await bob.close()
        }

        @Test func `read marks are set for a user, own messages counted`() async throws {
            let api = try await APIBroker()
            let alice = try await api.broker.client("alice")
            let bob = try await api.broker.client("bob")
            let turns = [(alice, "bob"), (bob, "alice")]
            for (client, user) in turns + turns {
                var message = OutgoingMessage(to: .user(user), text: "x")
                message.isKept = true
                _ = try await client.send(message)
            }
            let token = api.tokens[.operate]
            func mark(_ path: String, _ body: String) -> APICall {
                APICall("PUT", "\(users)/\(path)/read", body: body, token: token)
            }
            let answers = try await ask(
                api,
                [
                    mark("bob/conversations/alice", #"{"number":1}"#),
                    mark("bob/conversations/alice", #"{"number":5}"#),
                    mark("bob/conversations/nobody", #"{"number":1}"#),
                    mark("bob/groups/nothing", #"{"number":1}"#),
                    APICall("GET", "\(users)/bob/conversations", token: token),
                    mark("bob/conversations/alice", #"{"number":3,"isHidden":true}"#),
                    APICall("GET", "\(users)/bob/conversations", token: token),
                ])
            #expect(answers.map(\.status) == [200, 404, 404, 404, 200, 200, 200])
            #expect(answers[1].detail.contains("no message of this number yet"))
            #expect(answers[4].body.contains(#""readThrough":1,"unreadCount":1"#), "\(answers[4])")
            #expect(answers[6].body.contains(#""readThrough":3,"unreadCount":0"#), "\(answers[6])")
            await alice.close()
            let page = try await bob.history(with: .user("alice"))
            #expect(page.messages.map(\.number) == [4])
            await bob.close()
        }

        @Test func `messages that break a rule are refused with it`() async throws {
            let api = try await APIBroker()
            try api.broker.addUsers("alice", "bob")
            let cases: [(body: String, detail: String)] = [
                (
                    #""users":["bob"],"isKept":true,"isDelivered":false,"receipts":["delivered"]"#,
                    "a message that nobody gets has no receipts"
                ),
                (#""users":["bob"],"mentions":["bob"]"#, "only messages to a group mention"),
                (
                    #""topic":"a/b","receipts":["delivered"]"#,
                    "only messages to users or a group have receipts"
                ),
                (
                    #""users":["bob"],"isLate":true,"unixMilliseconds":7"#,
                    "the time of a late reading"
                ),
                (
                    #""users":["bob"],"grade":"transient","receipts":["delivered"]"#,
                    "a transient message has no reference and no receipts"
                ),
                (
                    #""users":["bob"],"grade":"transient","isKept":true"#,
                    "transient is not kept"
                ),
            ]
            let answers = try await ask(
                api,
                cases.map {
                    APICall(
                        "POST", "/api/v1/apps/demo/messages",
                        body: #"{"from":"alice","b":"x",\#($0.body)}"#,
                        token: api.tokens[.operate])
                })
            for (answer, expected) in zip(answers, cases) {
                #expect(answer.status == 400, "\(answer)")
                #expect(answer.detail.contains(expected.detail), "\(answer)")
            }
        }
    }
}
