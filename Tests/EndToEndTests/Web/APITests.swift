// The HTTP API by Python's http.client: every operation once, and every refusal.

import Administration
import Foundation
import TestSurroundings
import Testing

/// A request as the script reads it.
struct APICall: Encodable {
    var method: String
    var path: String
    var body: String?
    var headers: [String: String] = [:]
    var chunked = false
    /// Spaces behind the body.
    var spaceCount = 0

    init(
        _ method: String, _ path: String, body: String? = nil, token: String? = nil,
        headers: [String: String] = [:], chunked: Bool = false
    ) {
        (self.method, self.path, self.body, self.chunked) = (method, path, body, chunked)
        if body != nil { self.headers["Content-Type"] = "application/json" }
        if let token { self.headers["Authorization"] = "Bearer \(token)" }
        self.headers.merge(headers) { $1 }
    }
}

/// An answer as the script prints it.
struct APIAnswer: Decodable {
    let status: Int
    let type: String
    let allow: String
    let authenticate: String
    let retryAfter: String
    let body: String
    /// Connections that were made so far.
    let connections: Int

    /// The members of the body.
    var object: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body.utf8))) as? [String: Any] ?? [:]
    }

    var detail: String { object["detail"] as? String ?? "" }
    var code: Int? { (object["code"] as? [String: Any])?["number"] as? Int }
}

/// Requests by Python's http.client.
enum APIScript {
    private static let path =
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .path + "/RealClients/requests.py"

    /// Makes requests over one connection.
    static func ask(
        _ calls: [APICall], port: UInt16, authority: String? = nil
    ) async throws -> [APIAnswer] {
        let encoder = JSONEncoder()
        let lines = try calls.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
        let child = try ChildProcess(
            "/usr/bin/python3", ["-B", path, "\(port)"] + (authority.map { [$0] } ?? []),
            input: lines.joined(separator: "\n"))
        // Some scripts make a hundred requests, each with a commit of its own.
        let exit = try await child.exit(within: 100)
        guard exit == .code(0) else { throw TestFailure("\(exit): \(child.text)") }
        return try child.lines.filter { !$0.isEmpty }.map {
            try JSONDecoder().decode(APIAnswer.self, from: Data($0.utf8))
        }
    }
}

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct APITests {
        @Test func `Python makes every operation over TLS, on one connection`() async throws {
            let api = try await APIBroker(
                #"apps=[{app: "demo", historyTopics: ["site/#"], wake: {relay: "carol"}}]"#)
            let device = try await api.broker.client("carol")
            let administration = try AdministrationClient(dataDirectory: api.broker.directory)
            _ = try administration.send(
                SendMessage(
                    app: "demo", from: "carol", topic: "site/7/limit", payload: "40",
                    isRetained: true))
            let tracked = try administration.send(
                SendMessage(
                    app: "demo", from: "carol", users: ["carol"], b: "open", receipts: ["applied"]))
            let steps = APIStep.all(
                backup: api.broker.directory + "-copy",
                reference: try #require(tracked.reference))
            // Those of a cluster are 404 without one.
            let table = APIOperation.all
                .filter { $0.serves.contains(.operator) && !$0.path.hasPrefix("/cluster") }
                .map { "\($0.method.rawValue) \($0.path)" }.sorted()
            #expect(Set(steps.map { "\($0.method) \($0.template)" }).sorted() == table)

            // The group's id is known when the group is made.
            let index = try #require(steps.firstIndex { $0.template == "/apps/{app}/groups" })
            func calls(_ steps: some Sequence<APIStep>, group: String) -> [APICall] {
                steps.map { step in
                    let path = step.path.replacing(APIStep.group, with: group)
                    return APICall(
                        step.method, APIOperation.root + path + step.query,
                        body: step.body?.replacing(APIStep.group, with: group),
                        token: api.own, chunked: step.body != nil && step.method == "PUT")
                }
            }
            var answers = try await APIScript.ask(
                calls(steps[...index], group: ""), port: api.https, authority: api.broker.authority)
            let group = try #require(answers.last?.object["groupid"] as? String)
            answers += try await APIScript.ask(
                calls(steps[(index + 1)...], group: group), port: api.https,
                authority: api.broker.authority)
            #expect(answers.count == steps.count)
            for (step, answer) in zip(steps, answers) {
                let operation = try #require(
                    APIOperation.all.first {
                        $0.method.rawValue == step.method && $0.path == step.template
                    })
                #expect(answer.status == Int(operation.status), "\(step): \(answer)")
                #expect(answer.type == "application/json")
                #expect(answer.body.contains(step.answer), "\(step): \(answer.body)")
                #expect(answer.connections == 1)
                Self.compare(answer.object, with: operation.answer, "\(step.method) \(step.path)")
            }
            // Who changed what is in the log, and who read what users have written.
            let changes = steps.filter {
                $0.method != "GET" && !$0.template.hasSuffix("/messages")
                    && !$0.template.hasSuffix("/applied")
                    || $0.template.hasSuffix("/contents")
                    || $0.template.hasSuffix("/retained/message")
                    || $0.template.contains("/history") || $0.template.hasSuffix("/newest")
            }.count
            _ = try await api.broker.process.line(
                with: "event=operator_request operator=own", "request=operator.revoke",
                "target=/api/v1/operators/dave", "status=200")
            // The lines of the last requests may be read after their answers.
            func audited() -> Int {
                api.broker.process.lines.count { $0.contains("operator_request") }
            }
            try await eventually("all lines") { audited() >= changes }
            #expect(audited() == changes)
            #expect(!api.broker.process.text.contains("mo1_"))
            let codes = api.broker.process.lines.filter { $0.contains("ml1_") }
            // Only the one that the start prints.
            #expect(codes.count == 1 && codes[0].contains("/#login="), "\(codes)")
            await device.close()
        }

        /// The members of an answer are those that the document says.
        private static func compare(
            _ object: [String: Any], with members: [APIAnswerMember], _ place: String
        ) {
            let names = Set(members.map(\.name))
            let required = Set(members.filter { !$0.isOptional }.map(\.name))
            let found = Set(object.keys)
            #expect(found.isSubset(of: names) && required.isSubset(of: found), "\(place): \(found)")
            for member in members {
                guard let value = object[member.name] else { continue }
                switch member.form {
                case .text: #expect(value is String, "\(place): \(member.name)")
                case .texts: #expect(value is [String], "\(place): \(member.name)")
                case .boolean: #expect(value is Bool, "\(place): \(member.name)")
                case .number: #expect(value is UInt64, "\(place): \(member.name)")
                case .object(let members):
                    compare(value as? [String: Any] ?? [:], with: members, place)
                case .objects(let members):
                    #expect(value is [[String: Any]], "\(place): \(member.name)")
                    for object in value as? [[String: Any]] ?? [] {
                        compare(object, with: members, place)
                    }
                }
            }
        }

        @Test func `operators read the document of all operations`() async throws {
            let api = try await APIBroker()
            let path = APIOperation.root + OpenAPIDocument.path
            let answers = try await APIScript.ask(
                [
                    APICall("GET", path, token: api.tokens[.view]), APICall("GET", path),
                    APICall("POST", path, token: api.own),
                ], port: api.http)
            #expect(answers.map(\.status) == [200, 401, 404])
            #expect(answers[0].type == "application/json")
            #expect(answers[0].body == String(decoding: OpenAPIDocument.json, as: UTF8.self))
            #expect((answers[0].object["paths"] as? [String: Any])?.count ?? 0 > 15)
        }

        @Test func `operators do what their role may, and no more`() async throws {
            let api = try await APIBroker()
            var calls: [APICall] = []
            var expected: [(Int, String)] = []
            for role in OperatorRole.allCases {
                for operation in APIOperation.all
                where operation.role > role && operation.serves.contains(.operator) {
                    let path = operation.path.replacing(#/{\w+}/#, with: "x")
                    calls.append(
                        APICall(
                            operation.method.rawValue, APIOperation.root + path,
                            token: api.tokens[role]))
                    expected.append((403, "needs the role \(operation.role.rawValue)"))
                }
                calls.append(APICall("GET", "/api/v1/statistics", token: api.tokens[role]))
                expected.append((200, ""))
            }
            let answers = try await APIScript.ask(calls, port: api.http)
            var refusedCount = 0
            for (answer, (status, detail)) in zip(answers, expected) {
                if status == 403 { refusedCount += 1 }
                #expect(answer.status == status)
                if answer.status == 403 {
                    #expect(answer.detail.contains(detail) && answer.code == 135)
                }
            }
            #expect(refusedCount > 20)
            _ = try await api.broker.process.line(
                with: "event=operator_refused address=127.0.0.1:",
                "user=view device=\"\" reason=not-authorized code=135 subject=\"\"",
                "this operation needs the role operate")
            // The tokens are valid: nobody guesses.
            #expect(!api.broker.process.lines.contains { $0.contains("event=auth_failed") })
            #expect(try api.broker.counter("api/credentials/refused") == 0)
        }

        @Test func `who has no token, a wrong or a revoked one is refused and slowed down`()
            async throws
        {
            let api = try await APIBroker()
            let path = "/api/v1/apps"
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            let revoked = try client.send(AddOperator(operator: "eve", role: .own)).token
            _ = try client.send(RevokeOperator(operator: "eve"))
            let wrong = ["Bearer \(revoked)", "Bearer x", "Bearer ", "Basic YTpi", "bearer"]
            var calls = [APICall("GET", path)]
            calls += wrong.map { APICall("GET", path, headers: ["Authorization": $0]) }
            // What is there is told to operators only.
            calls.append(APICall("GET", "/api/v1/nothing"))
            calls.append(APICall("PATCH", path))
            calls.append(APICall("POST", path, body: "{", headers: ["Content-Type": "text/plain"]))
            calls.append(APICall("GET", path))
            let answers = try await APIScript.ask(calls, port: api.http)
            for (index, answer) in answers.enumerated() {
                #expect(answer.status == 401, "\(calls[index])")
                #expect(answer.type == "application/problem+json" && answer.code == 134)
                #expect(answer.authenticate.hasPrefix("Bearer realm=\"martlet\""))
                let hasToken = (1...wrong.count).contains(index)
                #expect(answer.authenticate.contains("invalid_token") == hasToken)
            }
            _ = try await api.broker.process.line(
                with: "event=auth_failed address=127.0.0.1:",
                "user=\"\" device=\"\" reason=bad-user-name-or-password code=134 subject=\"\"",
                "no operator has this token")
            let late = try await APIScript.ask(
                [APICall("GET", path), APICall("GET", path, token: api.own)], port: api.http)
            #expect(late.map(\.status) == [429, 200])
            #expect(UInt64(late[0].retryAfter).map { (1...60).contains($0) } == true)
            #expect(late[0].code == 159)
            func logged() -> Int {
                api.broker.process.lines.count { $0.contains("event=auth_failed") }
            }
            try await eventually("ten lines") { logged() >= 10 }
            #expect(logged() == 10)
        }

        @Test func `the token of an operator outlives the broker, until it expires`() async throws {
            let api = try await APIBroker()
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            // Python, which asks with it first, may need some seconds to start.
            let short = try client.send(
                AddOperator(operator: "short", role: .view, expirySeconds: 8)
            ).token
            let path = "/api/v1/apps"
            let before = try await APIScript.ask(
                [APICall("GET", path, token: short)], port: api.http)
            #expect(before.map(\.status) == [200])
            try await api.broker.killNow()
            try await api.broker.start()
            let port = try await api.broker.port("http")
            let kept = try await APIScript.ask([APICall("GET", path, token: api.own)], port: port)
            #expect(kept.map(\.status) == [200])
            var status = 200
            for _ in 0..<1_000 where status == 200 {
                let late = try await APIScript.ask([APICall("GET", path, token: short)], port: port)
                status = late[0].status
            }
            #expect(status == 401)
            // A damaged file prevents the start.
            try await api.broker.stop()
            let file = api.broker.directory + "/operators"
            let text = try String(contentsOfFile: file, encoding: .utf8)
            try text.replacing("own own", with: "own god").write(
                toFile: file, atomically: false, encoding: .utf8)
            let broken = try ChildProcess(
                "martletd", ["--data", api.broker.directory, "--listen", "tcp://localhost:0"])
            #expect(try await broken.exit() == .code(2))
            #expect(broken.text.contains("\(file): line 3 is damaged"), "\(broken.text)")
        }

        @Test func `requests that an operation cannot be made of are explained`() async throws {
            let api = try await APIBroker()
            func call(
                _ method: String, _ path: String, _ body: String? = nil,
                _ headers: [String: String] = [:], chunked: Bool = false
            ) -> APICall {
                APICall(
                    method, path, body: body, token: api.own, headers: headers, chunked: chunked)
            }
            var large = call("POST", "/api/v1/apps", "")
            large.spaceCount = 70_000
            var chunked = large
            chunked.chunked = true
            var full = call("POST", "/api/v1/apps", #"{"app":"full"}"#)
            full.spaceCount = 65_536 - 14
            let cases: [(APICall, Int, Int, String)] = [
                (call("GET", "/api/v1/nothing"), 404, 144, "nothing here"),
                (call("GET", "/api/v1/apps/"), 404, 144, "nothing here"),
                (call("GET", "/api/v2/apps"), 404, 144, "nothing here"),
                (call("GET", "/api/v1/apps/%zz"), 404, 144, "nothing here"),
                (call("PATCH", "/api/v1/apps"), 405, 131, "see Allow"),
                (call("DELETE", "/api/v1/statistics"), 405, 131, "see Allow"),
                (call("GET", "/api/v1/apps/none"), 404, 144, "no app \"none\""),
                (call("DELETE", "/api/v1/apps/demo/groups/none"), 404, 144, "no group"),
                (
                    call(
                        "POST", "/api/v1/apps/demo/messages",
                        #"{"from":"alice","users":["alice"],"b":"x","mid":""}"#), 400, 153,
                    "mid has"
                ),
                (call("DELETE", "/api/v1/operators/none"), 404, 144, "no operator"),
                (call("GET", "/api/v1/apps/demo/users/none/queue"), 404, 144, "nobody knows"),
                (call("POST", "/api/v1/apps", #"{"app":"demo"}"#), 409, 151, "already"),
                (
                    call("POST", "/api/v1/operators", #"{"operator":"own","role":"view"}"#), 409,
                    151, "already"
                ),
                (
                    call("POST", "/api/v1/operators", #"{"operator":"a b","role":"view"}"#), 400,
                    133, "letters"
                ),
                (
                    call("POST", "/api/v1/operators", #"{"operator":"..","role":"view"}"#), 400,
                    133, "letters"
                ),
                (call("POST", "/api/v1/apps", #"{"app":"a/b"}"#), 400, 133, "without /, +, #"),
                (
                    call("POST", "/api/v1/apps", #"{"app":"x","rights":["x"]}"#), 400, 153,
                    "is not a right"
                ),
                (call("POST", "/api/v1/backups", #"{"directory":"x"}"#), 400, 153, "absolute"),
                (call("DELETE", "/api/v1/apps/demo/sessions"), 400, 135, "everything"),
                (call("POST", "/api/v1/apps", #"{"ap":"x"}"#), 400, 129, "/ap is not known"),
                (call("GET", "/api/v1/apps?x=y"), 400, 129, "?x is not known"),
                (call("GET", "/api/v1/apps?x"), 400, 129, "query is malformed"),
                (call("POST", "/api/v1/apps"), 400, 129, "/app is missing"),
                (call("POST", "/api/v1/apps", ""), 400, 129, "/app is missing"),
                (call("POST", "/api/v1/apps", "{\u{FEFF}"), 400, 129, "not JSON"),
                (
                    call("POST", "/api/v1/apps", #"{"app":"x","app":"y"}"#), 400, 129,
                    "/app is repeated"
                ),
                (
                    call("POST", "/api/v1/apps", "{}", ["Content-Type": "text/json"]), 415, 153,
                    "application/json"
                ),
                (
                    call("POST", "/api/v1/apps", "{}", ["Content-Encoding": "gzip"]), 415, 153,
                    "application/json"
                ),
                (call("POST", "/api/v1/apps", "{}", ["Expect": "x"]), 417, 129, "100-continue"),
                (call("GET", "/api/v1/apps", "{}"), 413, 149, "takes no content"),
                (large, 413, 149, "too large"), (chunked, 413, 149, "too large"),
            ]
            #expect(try await APIScript.ask([full], port: api.http).map(\.status) == [201])
            for (call, status, code, detail) in cases {
                // One connection each: some of them are closed.
                let answer = try #require(try await APIScript.ask([call], port: api.http).first)
                #expect(answer.status == status, "\(call.method) \(call.path): \(answer)")
                #expect(answer.code == code && answer.type == "application/problem+json")
                #expect(answer.detail.contains(detail), "\(answer.detail)")
                #expect(answer.object["status"] as? Int == status)
                if status == 405 { #expect(answer.allow.hasPrefix("GET, HEAD")) }
            }
            #expect(try api.broker.counter("api/credentials/refused") == 0)
        }
    }
}
