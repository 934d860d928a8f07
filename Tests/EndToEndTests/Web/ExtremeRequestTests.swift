// Requests of operators whose members are as large as they can be: each is answered, and the broker
// goes on. An operator may make mistakes, and a token may be stolen.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct `Extreme requests` {
        /// The largest value of a member as JSON, or as text of a query or a path.
        private static func extreme(_ member: APIMember) -> [Any] {
            let long = String(repeating: "€", count: member.place == .body ? 15_000 : 1_000)
            return switch member.form {
            case .text: [long, "", "\u{0}"]
            case .texts: [[long], [], Array(repeating: "", count: 10_000)]
            case .textsByName: [["x": long], [String: String](), ["": "\u{0}"]]
            case .boolean: [true]
            case .number(let maximum): [maximum, 0]
            case .count(let maximum): [maximum, 1]
            case .choice(let words): words
            }
        }

        /// A value that is no reason for a refusal.
        private static func usual(_ member: APIMember) -> Any {
            switch member.form {
            case .text: ["action": "publish", "app": "demo", "user": "alice"][member.name] ?? "x"
            case .texts: ["alice"]
            case .textsByName: ["site": "7"]
            case .boolean: false
            case .number, .count: 1
            case .choice(let words): words[0]
            }
        }

        private static func call(
            _ operation: APIOperation, _ values: [String: Any], token: String
        ) throws -> APICall {
            func escaped(_ value: Any) -> String {
                "\(value)".addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            }
            var path = operation.path
            var query: [String] = []
            var body: [String: Any] = [:]
            for member in operation.members {
                guard let value = values[member.name] else { continue }
                switch member.place {
                case .path: path = path.replacing("{\(member.name)}", with: escaped(value))
                case .query: query.append("\(member.name)=\(escaped(value))")
                case .body: body[member.name] = value
                }
            }
            if !query.isEmpty { path += "?" + query.joined(separator: "&") }
            let content =
                operation.takesContent
                ? String(
                    decoding: try JSONSerialization.data(withJSONObject: body), as: UTF8.self)
                : nil
            return APICall(
                operation.method.rawValue, APIOperation.root + path, body: content, token: token)
        }

        @Test func `are answered, member by member`() async throws {
            let api = try await APIBroker()
            try api.broker.addUsers("alice")
            var calls: [APICall] = []
            for operation in APIOperation.all {
                let usual = Dictionary(
                    uniqueKeysWithValues: operation.members.filter(\.isRequired).map {
                        ($0.name, Self.usual($0))
                    })
                for member in operation.members {
                    for value in Self.extreme(member) {
                        var values = usual
                        values[member.name] = value
                        // The only operation that ends what the others need.
                        if operation.kind == .revokeOperator { values["operator"] = "none" }
                        calls.append(try Self.call(operation, values, token: api.own))
                    }
                }
            }
            #expect(calls.count > 150)
            // A few at a time: the script reads them from a pipe, and many wait for a commit each.
            var rest = calls[...]
            var answers: [APIAnswer] = []
            while !rest.isEmpty {
                var byteCount = 0
                let batch = rest.prefix { call in
                    byteCount += (call.body?.utf8.count ?? 0) * 5 / 3 + call.path.utf8.count + 300
                    return byteCount < 20_000
                }
                let chosen = batch.isEmpty ? rest.prefix(1) : batch
                answers += try await APIScript.ask(Array(chosen), port: api.http)
                rest = rest.dropFirst(chosen.count)
            }
            #expect(answers.count == calls.count)
            for (call, answer) in zip(calls, answers) {
                #expect(
                    (200..<500).contains(answer.status) || answer.status == 507,
                    "\(call.method) \(call.path.prefix(80)): \(answer.status)")
            }
            try await api.broker.stop()
        }

        /// In these encodings a text becomes longer than its bytes, and brackets are hidden.
        @Test func `in UTF-16 and UTF-32 are refused`() async throws {
            let api = try await APIBroker()
            for encoding in ["utf-16-le", "utf-16-be", "utf-16", "utf-32"] {
                let script = """
                    import http.client, json, sys
                    c = http.client.HTTPConnection("localhost", \(api.http))
                    body = json.dumps({"users": ["a"], "batch": chr(8364) * 10000},
                                      ensure_ascii=False).encode("\(encoding)")
                    c.request("POST", "/api/v1/apps/demo/tokens", body,
                              {"Authorization": "Bearer \(api.own)",
                               "Content-Type": "application/json"})
                    answer = c.getresponse()
                    print(answer.status, answer.read().decode())
                    """
                let python = try ChildProcess("/usr/bin/python3", ["-c", script])
                #expect(try await python.exit() == .code(0))
                #expect(python.text.hasPrefix("400") && python.text.contains("UTF-8"))
            }
        }

        /// A line of the admin socket may have 2 MiB.
        @Test func `over the admin socket are answered`() async throws {
            let api = try await APIBroker()
            try api.broker.addUsers("alice")
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            let long = String(repeating: "x", count: 100_000)
            func isRefused(_ request: some AdministrationRequest) -> Bool {
                do {
                    _ = try client.send(request)
                    return false
                } catch {
                    if case .refused = error { return true }
                    return false
                }
            }
            #expect(isRefused(MintTokens(app: "demo", users: ["alice"], batch: long)))
            #expect(isRefused(MintTokens(app: "demo", users: ["alice"], device: long)))
            #expect(isRefused(MintTokens(app: "demo", users: ["alice"], rights: [long])))
            #expect(isRefused(CreateApp(app: long)))
            #expect(
                isRefused(CreateApp(app: "x", rights: Array(repeating: "send:*", count: 9_999))))
            #expect(isRefused(AddUser(app: "demo", user: long)))
            #expect(isRefused(CreateGroup(app: "demo", owner: "alice", title: long, meta: "")))
            #expect(isRefused(CreateGroup(app: "demo", owner: "alice", title: "t", meta: long)))
            #expect(isRefused(SendMessage(app: "demo", from: "alice", topic: long, payload: "x")))
            #expect(isRefused(SendMessage(app: "demo", from: "alice", users: ["alice"], b: long)))
            #expect(isRefused(AddOperator(operator: long, role: .view)))
            #expect(!isRefused(ListSessions(SessionSelection(app: "demo"), after: .max)))
            #expect(!isRefused(ListGroups(app: "demo", after: .max)))
            try await api.broker.stop()
        }
    }
}
