// The HTTP API as bytes: pipelined and slow requests, content that is cut or smuggled, clients that
// vanish; and curl.

import Administration
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct APIHostileTests {
        private func text(_ client: WireClient) -> String {
            String(decoding: client.untaken, as: UTF8.self)
        }

        private func statuses(_ text: String) -> [String] {
            text.components(separatedBy: "HTTP/1.1 ").dropFirst().map { String($0.prefix(3)) }
        }

        /// Sends bytes and waits for the end of the connection. Returns what the broker said.
        private func end(_ port: UInt16, _ request: String) throws -> String {
            let client = try WireClient(port: port)
            try client.send(Array(request.utf8))
            try client.waitForClose()
            return text(client)
        }

        /// Waits for so many answers, or for the end of the connection.
        private func wait(for count: Int, on client: WireClient) throws {
            for _ in 0..<(2_000 * Sanitizer.patience) where statuses(text(client)).count < count {
                try client.wait(milliseconds: 20)
            }
        }

        private func head(
            _ line: String, _ api: APIBroker, _ fields: String..., version: String = "1.1"
        ) -> String {
            "\(line) HTTP/\(version)\r\nHost: h\r\nAuthorization: Bearer \(api.own)\r\n"
                + fields.map { "\($0)\r\n" }.joined() + "\r\n"
        }

        private func post(_ api: APIBroker, _ path: String, _ body: String) -> String {
            head(
                "POST \(path)", api, "Content-Type: application/json",
                "Content-Length: \(body.utf8.count)") + body
        }

        @Test func `pipelined requests are answered in order, in any pieces`() async throws {
            let api = try await APIBroker()
            let requests =
                head("PUT /api/v1/apps/demo/users/u1", api)
                + post(api, "/api/v1/apps/demo/tokens", #"{"users":["u1"]}"#)
                + head("GET /healthz", api)
                + head(
                    "POST /api/v1/apps/demo/groups", api, "Content-Type: application/json",
                    "Transfer-Encoding: chunked")
                + "B\r\n{\"owner\":\"u\r\n10;x=y\r\n1\",\"title\":\"t\"}\n\r\n0\r\n\r\n"
                + head("GET /api/v1/nothing", api) + head("HEAD /api/v1/apps/demo", api)
            let expected = ["200", "201", "200", "201", "404", "200"]
            let whole = try WireClient(port: api.http)
            try whole.send(
                Array((requests + head("GET /api/v1/statistics", api, "Connection: close")).utf8))
            try whole.waitForClose()
            #expect(statuses(text(whole)) == expected + ["200"], "\(text(whole))")
            let pieces = try WireClient(port: api.http)
            for byte in requests.utf8 { try pieces.send([byte]) }
            try pieces.send(
                Array(head("GET /api/v1/statistics", api, "Connection: close").utf8))
            try pieces.waitForClose()
            #expect(statuses(text(pieces)) == expected + ["200"], "\(text(pieces))")
            #expect(try api.broker.counter("api/requests") == 10)
        }

        /// Who is removed while the content is on its way could otherwise make a new operator.
        @Test func `a request of an operator who is removed before its last byte is refused`()
            async throws
        {
            let api = try await APIBroker()
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            let body = #"{"operator":"backdoor","role":"own"}"#
            let slow = try WireClient(port: api.http)
            let request = post(api, "/api/v1/operators", body)
            try slow.send(Array(request.utf8.dropLast()))
            // The head has been read when a request behind it is answered, in the same loop.
            let other = try WireClient(port: api.http)
            try other.send(Array(head("GET /api/v1/apps", api, "Connection: close").utf8))
            try other.waitForClose()
            _ = try client.send(RevokeOperator(operator: "own"))
            try slow.send([request.utf8.last!])
            try slow.send(
                Array("GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".utf8))
            try slow.waitForClose()
            #expect(statuses(text(slow)) == ["401", "200"], "\(text(slow))")
            let names = try client.send(ListOperators()).operators.map(\.operator)
            #expect(!names.contains("backdoor"))
        }

        @Test func `content is read after the credential, and what it hides is no request`()
            async throws
        {
            let api = try await APIBroker()
            let stranger =
                "POST /api/v1/apps HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            let hidden = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
            let chunked = ["Content-Type: application/json", "Transfer-Encoding: chunked"]
            let start = head("POST /api/v1/apps", api, chunked[0], chunked[1])
            let cases: [(String, [String])] = [
                // The answer comes before any content.
                (stranger + "Content-Length: 100\r\n\r\n", ["401"]),
                (stranger + "Content-Length: \(hidden.utf8.count)\r\n\r\n" + hidden, ["401"]),
                (stranger + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, ["401"]),
                (
                    stranger + "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", ["401"]
                ),
                // A chunk whose end is not where its length says.
                (start + "2\r\n{}x\r\n0\r\n\r\n" + hidden, ["400"]),
                (start + "2\n{}\r\n0\r\n\r\n" + hidden, ["400"]),
                (start + "0x2\r\n{}\r\n0\r\n\r\n" + hidden, ["400"]),
                (start + "0\r\n" + hidden, ["400"]), (start + "10000000000000002\r\n{}", ["400"]),
                (start + "FFFFFFFF\r\n{}", ["413"]),
                (
                    head(
                        "POST /api/v1/apps", api, chunked[0], chunked[1], "Content-Length: 2")
                        + "{}" + hidden, ["400"]
                ),
                (head("GET /api/v1/apps", api, "Content-Length: 10") + hidden, ["413"]),
                (head("POST /api/v1/nothing", api, "Content-Length: 10") + hidden, ["404"]),
                (head("POST /api/v1/apps", api, "Content-Length: 10") + hidden, ["415"]),
                // HTTP/1.0 has a length, and its connection closes.
                (
                    head(
                        "POST /api/v1/apps", api, chunked[0], "Content-Length: 12", version: "1.0")
                        + #"{"app":"x1"}"# + hidden, ["201"]
                ),
                (
                    head("POST /api/v1/apps", api, chunked[0], chunked[1], version: "1.0")
                        + "0\r\n\r\n", ["400"]
                ),
            ]
            for (request, expected) in cases {
                let answer = try end(api.http, request)
                #expect(statuses(answer) == expected, "\(request): \(answer)")
                #expect(answer.contains("Connection: close"))
            }
            #expect(try api.broker.counter("api/requests") == 1)
        }

        @Test func `who waits for leave to send content gets it, and has time for the content`()
            async throws
        {
            let api = try await APIBroker("limits.authenticationSeconds=8")
            let client = try WireClient(port: api.http)
            let body = #"{"users":["u1"]}"#
            let request = head(
                "POST /api/v1/apps/demo/tokens", api, "Content-Type: application/json",
                "Content-Length: \(body.utf8.count)", "Expect: 100-continue")
            try client.send(Array(request.utf8))
            try wait(for: 1, on: client)
            #expect(text(client) == "HTTP/1.1 100 Continue\r\n\r\n")
            try client.send(Array(body.utf8))
            try wait(for: 2, on: client)
            #expect(statuses(text(client)) == ["100", "201"])
            // Slow content: the time is over before it is complete.
            try client.send(Array(request.replacing("Expect: 100-continue\r\n", with: "").utf8))
            for byte in body.utf8.prefix(8) {
                try client.send([byte])
                try client.wait(milliseconds: 100)
            }
            try client.waitForClose()
            #expect(statuses(text(client)) == ["100", "201", "408"])
            #expect(text(client).contains("the content is not complete"))
            try await eventually("nobody is waited for") {
                try api.broker.counter("sockets/pending") == 0
            }
        }

        @Test func `clients that vanish within content or before the answer cost nothing`()
            async throws
        {
            let api = try await APIBroker()
            let body = #"{"users":["u1"]}"#
            for index in 0..<200 {
                let client = try RawSocket(port: api.http)
                let request = Array(post(api, "/api/v1/apps/demo/tokens", body).utf8)
                // Cut within the content, or whole and gone before the answer.
                client.send(Array(request.dropLast(index % 2 == 0 ? 5 : 0)))
            }
            try await eventually("they are gone") {
                try api.broker.counter("sockets/pending") == 0
            }
            // Content is still read: no place of the bounded ones was lost.
            #expect(
                statuses(
                    try end(
                        api.http,
                        head(
                            "POST /api/v1/apps/demo/tokens", api, "Content-Type: application/json",
                            "Content-Length: \(body.utf8.count)", "Connection: close") + body))
                    == ["201"])
        }

        @Test func `more contents than a loop reads at a time are turned away`() async throws {
            let api = try await APIBroker("limits.authenticationSeconds=120")
            let start = head(
                "POST /api/v1/apps", api, "Content-Type: application/json", "Content-Length: 9")
            var clients: [WireClient] = []
            for _ in 0..<96 {
                let client = try WireClient(port: api.http)
                try client.send(Array((start + "{").utf8))
                clients.append(client)
            }
            for client in clients { try client.wait(milliseconds: 5) }
            let answer = try end(api.http, start + "{")
            #expect(statuses(answer) == ["503"] && answer.contains("Retry-After: 1"), "\(answer)")
            // The others go on.
            try clients[0].send(Array(#""app":1}"#.utf8))
            try wait(for: 1, on: clients[0])
            #expect(statuses(text(clients[0])) == ["400"])
        }

        /// Found with 64 requests of one device, after which operators got 503 until their time was
        /// over, again and again.
        @Test func `contents that users do not complete keep nobody else away`() async throws {
            // Longer than all that is stored meanwhile takes.
            let api = try await APIBroker("limits.authenticationSeconds=120")
            func start(_ token: String) -> [UInt8] {
                Array(
                    ("POST /api/v1/messages HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)"
                        + "\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{").utf8)
            }
            var clients: [WireClient] = []
            for user in ["u1", "u2", "u3"] {
                try api.broker.addUsers(user)
                let token = start(try api.broker.token(user))
                for _ in 0..<16 {
                    clients.append(try WireClient(port: api.http))
                    try clients[clients.count - 1].send(token)
                }
                try clients[clients.count - 1].wait(milliseconds: 100)
                // A user has a part of them only.
                let more = try end(api.http, String(decoding: token, as: UTF8.self))
                #expect(statuses(more) == ["503"] && more.contains("Retry-After: 1"), "\(more)")
            }
            for client in clients { try client.wait(milliseconds: 5) }
            #expect(clients.allSatisfy { text($0).isEmpty })
            // So have the users of an app, and of another app it takes nothing.
            let other = try api.broker.token("bob")
            let refused = try end(api.http, String(decoding: start(other), as: UTF8.self))
            #expect(statuses(refused) == ["503"], "\(refused)")
            let administration = try AdministrationClient(dataDirectory: api.broker.directory)
            let key = try administration.send(CreateApp(app: "other", rights: ["send:*"])).key
            let message = #"{"from":"a","users":["a"],"b":"x"}"#
            let served = try end(
                api.http,
                "POST /api/v1/apps/other/messages HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "
                    + "\(key)\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    + "Content-Length: \(message.utf8.count)\r\n\r\n\(message)")
            #expect(statuses(served) == ["404"], "\(served)")
            let body = #"{"app":"plant"}"#
            let answer = try end(
                api.http,
                head(
                    "POST /api/v1/apps", api, "Content-Type: application/json",
                    "Content-Length: \(body.utf8.count)", "Connection: close") + body)
            #expect(statuses(answer) == ["201"], "\(answer)")
        }

        @Test func `who pipelines large answers and reads late gets all of them`() async throws {
            // A client that does not read has so much time.
            let api = try await APIBroker("limits.authenticationSeconds=120")
            let request = head("GET /api/v1/openapi.json", api)
            let client = try RawSocket(port: api.http)
            let last = head("GET /api/v1/statistics", api, "Connection: close")
            let requests = Array((String(repeating: request, count: 999) + last).utf8)
            #expect(client.send(requests) == requests.count)
            // What is not read waits in the broker only as far as packets may.
            var before: UInt64 = 0
            let idle = try WireClient(port: api.broker.plainPort)
            try await eventually("the broker waits for the client") {
                let count = try api.broker.counter("web/requests")
                defer { before = count }
                try idle.wait(milliseconds: 300)
                return count == before
            }
            #expect(before < 1_000)
            let text = String(decoding: client.readToEnd(), as: UTF8.self)
            #expect(text.components(separatedBy: "HTTP/1.1 200 OK").count == 1_001)
        }

        @Test func `hundreds of operators at once are answered or told to come back`() async throws
        {
            let api = try await APIBroker("limits.connectionsPerAddress=2000")
            let request = Array(
                head("GET /api/v1/statistics", api, "Connection: close").utf8)
            var clients: [WireClient] = []
            for _ in 0..<200 { clients.append(try WireClient(port: api.http)) }
            for client in clients { try client.send(request) }
            var seen: [String: Int] = [:]
            for client in clients {
                try client.waitForClose()
                for status in statuses(text(client)) { seen[status, default: 0] += 1 }
            }
            #expect(seen["200", default: 0] + seen["503", default: 0] == 200, "\(seen)")
            #expect(seen["200", default: 0] >= 64)
            // A session is served meanwhile and after.
            let other = try await api.broker.client("alice")
            await other.close()
        }

        @Test func `a listener serves its parts alone`() async throws {
            let broker = try await TestBroker(
                listeners: ["http://localhost:0?serve=health", "ws://localhost:0?serve=api,mqtt"])
            let (http, ws) = (try await broker.port("http"), try await broker.port("ws"))
            func status(_ port: UInt16, _ path: String) throws -> String {
                let answer = try end(
                    port, "GET \(path) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                return statuses(answer).joined()
            }
            #expect(try status(http, "/healthz") == "200")
            for path in ["/metrics", "/mqtt", "/mrt", "/api/v1/apps"] {
                #expect(try status(http, path) == "404", "\(path)")
            }
            #expect(try status(ws, "/api/v1/apps") == "401")
            #expect(try status(ws, "/mqtt") == "426")
            for path in ["/metrics", "/healthz", "/mrt", "/api", "/apix"] {
                #expect(try status(ws, path) == "404", "\(path)")
            }
        }

        @Test func `curl sends content in every way it can`() async throws {
            let api = try await APIBroker()
            let url = "https://localhost:\(api.https)/api/v1/apps/demo/tokens"
            let ways = [
                [], ["--http1.0"], ["-H", "Transfer-Encoding: chunked"],
                ["-H", "Expect: 100-continue"],
                ["-H", "Content-Type: application/json;charset=utf-8"],
            ]
            for words in ways {
                let child = try ChildProcess(
                    "/usr/bin/curl",
                    [
                        "-sS", "--max-time", "50", "--cacert", api.broker.authority, "-w",
                        " %{http_code}\\n", "-H", "Authorization: Bearer \(api.own)", "--json",
                        #"{"users":["u1","u2"]}"#,
                    ] + words + [url])
                #expect(try await child.exit() == .code(0), "\(words): \(child.text)")
                #expect(child.text.contains("mt1_") && child.text.contains("201"), "\(child.text)")
            }
        }

        @Test func `martlet operator adds, lists and revokes`() async throws {
            let api = try await APIBroker()
            let environment = ["MARTLET_DATA": api.broker.directory]
            func martlet(_ words: String...) async throws -> (ChildExit, String) {
                let child = try ChildProcess(
                    "martlet", ["operator"] + words, environment: environment)
                return (try await child.exit(), child.text)
            }
            let added = try await martlet("add", "zoe", "--role", "operate", "--expires", "30d")
            #expect(added.0 == .code(0) && added.1.contains("zoe\tmo1_"), "\(added.1)")
            let token = try #require(added.1.firstMatch(of: #/mo1_\w+/#)).output
            let request =
                "GET /api/v1/apps HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
                + "Authorization: Bearer \(token)\r\n\r\n"
            #expect(statuses(try end(api.http, request)) == ["200"])
            let list = try await martlet("list", "--json")
            #expect(list.1.contains(#""operator":"zoe","role":"operate""#), "\(list.1)")
            #expect(try await martlet("add", "zoe", "--role", "own").0 == .code(151))
            #expect(try await martlet("add", "yan", "--role", "god").0 == .code(1))
            #expect(try await martlet("add", "yan").0 == .code(1))
            #expect(try await martlet("revoke", "zoe").0 == .code(0))
            #expect(statuses(try end(api.http, request)) == ["401"])
            #expect(try await martlet("revoke", "zoe").0 == .code(144))
        }
    }
}
