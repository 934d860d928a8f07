// Lists over HTTP with conditions and counts, asked of a real broker.

@testable import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite("Conditions on lists", .timeLimit(.minutes(3 * Sanitizer.patience)))
    struct ListConditionTests {
        private let path = "/api/v1/apps/demo"
        private let users = (0..<1_500).map { "pump-\($0)" }

        private func broker() async throws -> APIBroker {
            let api = try await APIBroker(#"apps=[{app: "demo", historyTopics: ["site/#"]}]"#)
            for user in stride(from: 0, to: users.count, by: 500) {
                let client = try AdministrationClient(dataDirectory: api.broker.directory)
                _ = try client.send(
                    MintTokens(
                        app: "demo", users: Array(users[user..<user + 500]), batch: "lot-\(user)"))
            }
            return api
        }

        private func ask(_ queries: [String], of api: APIBroker) async throws -> [APIAnswer] {
            try await APIScript.ask(
                queries.map { APICall("GET", path + $0, token: api.tokens[.view]) }, port: api.http)
        }

        @Test func `select, count and page over all that an app has`() async throws {
            let api = try await broker()
            let answers = try await ask(
                [
                    "/users?user[prefix]=pump-1&count=true",
                    // As generators of clients write it.
                    "/users?user%5Bin%5D=pump-3%2Cpump-1499%2Cnobody",
                    "/users?user[prefix]=pump-149&limit=5", "/users?tokenCount[gt]=1&count=true",
                    "/users?connectionCount=0&user[ne]=pump-0&count=true",
                    "/tokens?batch[in]=lot-0,lot-1000&count=true",
                    "/tokens?user[prefix]=pump-149&limit=1000", "/users?user[eq]=nobody",
                ], of: api)
            #expect(answers.map(\.status) == Array(repeating: 200, count: 8), "\(answers)")
            let expected = users.filter { $0.hasPrefix("pump-1") }.count
            #expect(answers[0].body == "{\"count\":\(expected)}\n")
            func names(_ answer: APIAnswer, _ list: String) -> [String] {
                (answer.object[list] as? [[String: Any]] ?? []).compactMap { $0["user"] as? String }
            }
            #expect(Set(names(answers[1], "users")) == ["pump-3", "pump-1499"])
            #expect(answers[1].object["next"] == nil)
            #expect(names(answers[2], "users").count == 5)
            #expect(answers[3].body == "{\"count\":0}\n")
            let others = try #require(answers[4].object["count"] as? Int)
            #expect(others >= users.count - 1)
            #expect(answers[5].body == "{\"count\":1000}\n")
            let some = users.filter { $0.hasPrefix("pump-149") }
            #expect(names(answers[6], "tokens").sorted() == some.sorted())
            #expect(answers[7].body == "{\"users\":[]}\n")
            // The second page of a list of eleven goes on where the first ended.
            let next = try #require(answers[2].object["next"] as? Int)
            let rest = try await ask(
                ["/users?user[prefix]=pump-149&limit=6&after=\(next)"], of: api)
            #expect(
                (names(answers[2], "users") + names(rest[0], "users")).sorted() == some.sorted())
        }

        @Test func `every comparison of every list is taken`() async throws {
            let api = try await broker()
            let made = try await APIScript.ask(
                [
                    APICall(
                        "POST", path + "/groups", body: #"{"owner":"pump-1","title":"x"}"#,
                        token: api.own)
                ], port: api.http)
            let values = [
                "app": "demo", "user": "pump-1", "with": "pump-2",
                "groupid": try #require(made[0].object["groupid"] as? String),
            ]
            for operation in APIOperation.all {
                guard let list = operation.list, operation.serves.contains(.operator) else {
                    continue
                }
                var place = APIOperation.root + operation.path
                for (name, value) in values {
                    place = place.replacing("{\(name)}", with: value)
                }
                let conditions = list.fields.flatMap { field in
                    ListCondition.Comparison.allCases.filter { $0.fits(field.form) }.map {
                        "\(field.name)[\($0.rawValue)]=\(field.form == .boolean ? "true" : "1")"
                    }
                }
                let required =
                    operation.members.contains {
                        $0.isRequired && $0.place == .query
                    } ? "topic=site/7&" : ""
                let calls = (conditions + conditions.map { "\($0)&count=true" }).map {
                    APICall("GET", "\(place)?\(required)\($0)", token: api.own)
                }
                for (call, answer) in zip(calls, try await APIScript.ask(calls, port: api.http)) {
                    #expect(answer.status == 200, "\(call.path): \(answer.body)")
                    let name = call.path.hasSuffix("count=true") ? "count" : list.name
                    #expect(answer.object[name] != nil, "\(call.path): \(answer.body)")
                }
            }
        }

        @Test func `what is wrong is refused with a name`() async throws {
            let api = try await broker()
            let answers = try await ask(
                [
                    "/users?name[eq]=a", "/users?user[gt]=a", "/users?count=1",
                    "/users?limit[gt]=1",
                    "?userCount[gt]=1", "/sessions?isConnected=yes",
                ], of: api)
            #expect(answers.map(\.status) == Array(repeating: 400, count: 6), "\(answers)")
            #expect(answers[0].detail.contains("?name[eq] is not known"), "\(answers[0])")
            #expect(answers.allSatisfy { $0.code == 0x81 })
        }
    }
}
