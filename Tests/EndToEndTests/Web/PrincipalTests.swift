// App keys and users' tokens over the HTTP API: what they may do, until they are revoked; and the
// keys of apps as clients of MRT and MQTT use them.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct `Keys and tokens over HTTP` {
        private let messages = "/api/v1/messages"

        private func broker() async throws -> (api: APIBroker, operate: String, view: String) {
            let api = try await APIBroker()
            try api.broker.addUsers("alice", "bob", "carol")
            return (api, try add("ci", .operate, to: api), try add("watch", .view, to: api))
        }

        private func add(
            _ name: String, _ role: OperatorRole, rights: [String]? = nil, expiry: UInt64? = nil,
            to api: APIBroker
        ) throws -> String {
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            return try client.send(
                AddAppKey(
                    app: "demo", name: name, role: role, rights: rights, expirySeconds: expiry)
            ).key
        }

        private func statuses(_ calls: [APICall], _ api: APIBroker) async throws -> [Int] {
            try await APIScript.ask(calls, port: api.http).map(\.status)
        }

        @Test func `a key does what its role says, within its app`() async throws {
            let (api, operate, view) = try await broker()
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            _ = try client.send(CreateApp(app: "other"))
            let calls: [(APICall, Int, String)] = [
                (APICall("GET", "/api/v1/apps/demo", token: view), 200, ""),
                (APICall("GET", "/api/v1/apps/demo/sessions", token: view), 200, ""),
                (APICall("GET", "/api/v1/apps/demo/keys", token: view), 200, ""),
                (APICall("GET", "/api/v1/openapi.json", token: view), 200, ""),
                (
                    APICall("PUT", "/api/v1/apps/demo/users/dave", token: view), 403,
                    "needs the role operate"
                ),
                (APICall("PUT", "/api/v1/apps/demo/users/dave", token: operate), 200, ""),
                (
                    APICall(
                        "POST", "/api/v1/apps/demo/tokens", body: #"{"users":["dave"]}"#,
                        token: operate), 201, ""
                ),
                (
                    APICall(
                        "POST", "/api/v1/apps/demo/keys", body: #"{"name":"x","role":"view"}"#,
                        token: operate), 403, "needs the role own"
                ),
                (
                    APICall("DELETE", "/api/v1/apps/demo/keys/watch", token: operate), 403,
                    "needs the role own"
                ),
                (
                    APICall("GET", "/api/v1/apps/other", token: operate), 403,
                    "the key is of another app"
                ),
                (
                    APICall("GET", "/api/v1/apps/nothing", token: operate), 403,
                    "the key is of another app"
                ),
                (APICall("GET", "/api/v1/apps", token: operate), 403, "for operators"),
                (APICall("GET", "/api/v1/statistics", token: operate), 403, "for operators"),
                (APICall("GET", "/api/v1/me", token: operate), 200, ""),
                (APICall("GET", "/api/v1/nothing", token: operate), 404, "nothing here"),
                (
                    APICall(
                        "POST", messages, body: #"{"from":"bob","users":["alice"],"b":"x"}"#,
                        token: api.own), 403, "operators name the app"
                ),
            ]
            let answers = try await APIScript.ask(calls.map(\.0), port: api.http)
            for (answer, (call, status, detail)) in zip(answers, calls) {
                #expect(answer.status == status, "\(call.method) \(call.path): \(answer)")
                if status >= 400 { #expect(answer.detail.contains(detail), "\(answer.detail)") }
            }
            _ = try await api.broker.process.line(
                with: "event=operator_request operator=\"app key ci of demo\"",
                "request=user.add", "target=/api/v1/apps/demo/users/dave", "status=200")
            _ = try await api.broker.process.line(
                with: "event=operator_refused", "user=\"app key watch of demo\"",
                "this operation needs the role operate")
            #expect(try api.broker.counter("api/credentials/refused") == 0)
            #expect(!api.broker.process.text.contains("mk1_"))
        }

        @Test func `a key sends as any user whom the content or the head names`() async throws {
            let (api, operate, view) = try await broker()
            let device = try await api.broker.client("alice")
            let plain = #"{"users":["alice"],"b":"x"}"#
            let named = #"{"from":"carol","users":["alice"],"b":"x"}"#
            func call(_ path: String, _ body: String, _ user: String?, token: String) -> APICall {
                APICall(
                    "POST", path, body: body, token: token,
                    headers: user.map { ["Martlet-User": $0] } ?? [:])
            }
            let inApp = "/api/v1/apps/demo/messages"
            let answers = try await APIScript.ask(
                [
                    call(messages, plain, "bob", token: operate),
                    call(messages, named, nil, token: operate),
                    call(messages, named, "bob", token: operate),
                    call(inApp, plain, "%62ob", token: operate),
                    call(inApp, plain, "bob", token: api.own),
                    call(messages, plain, "bob", token: view),
                    call(messages, plain, nil, token: operate),
                    call(messages, plain, "%zz", token: operate),
                    call(messages, plain, "nobody", token: operate),
                    call(inApp, plain, "bob", token: view),
                ], port: api.http)
            #expect(answers.map(\.status) == [200, 200, 200, 200, 200, 403, 400, 400, 404, 403])
            #expect(answers[5].detail == "this operation needs the role operate")
            #expect(answers[6].detail == "/from is missing")
            #expect(answers[7].detail.contains("Martlet-User"))
            #expect(answers[8].detail.contains("nobody knows nobody in demo"))
            var senders: [String] = []
            for _ in 0..<5 { senders.append(try await device.nextMessage().from) }
            #expect(senders == ["bob", "carol", "carol", "bob", "bob"])
            await device.close()
        }

        @Test func `a token sends as its user, with its rights`() async throws {
            let (api, _, _) = try await broker()
            let device = try await api.broker.client("alice")
            try await device.subscribe(to: "#")
            let token = try api.broker.token(
                "bob", rights: ["send:alice", "publish:site/%u/#"])
            func call(_ body: String, _ headers: [String: String] = [:]) -> APICall {
                APICall("POST", messages, body: body, token: token, headers: headers)
            }
            let answers = try await APIScript.ask(
                [
                    call(#"{"users":["alice"],"b":"one"}"#),
                    call(#"{"from":"bob","topic":"site/bob/t","payload":"two"}"#),
                    call(#"{"users":["alice","carol"],"b":"three"}"#),
                    call(#"{"users":["carol"],"b":"x"}"#),
                    call(#"{"topic":"site/carol/t","payload":"x"}"#),
                    call(#"{"everybody":true,"b":"x"}"#),
                    call(#"{"from":"carol","users":["alice"],"b":"x"}"#),
                    call(#"{"users":["alice"],"b":"x"}"#, ["Martlet-User": "carol"]),
                    APICall(
                        "POST", "/api/v1/apps/demo/messages",
                        body: #"{"users":["alice"],"b":"x"}"#, token: token),
                    APICall("GET", "/api/v1/apps/demo", token: token),
                ], port: api.http)
            #expect(
                answers.map(\.status) == [200, 200, 200, 403, 403, 403, 403, 403, 403, 403])
            #expect(
                answers[2].body.contains(#""refused":[{"reason":135,"user":"carol"}]"#),
                "\(answers[2].body)")
            for answer in answers[3...] { #expect(answer.code == 135, "\(answer)") }
            #expect(answers[3].detail.contains("no right of bob"), "\(answers[3].detail)")
            #expect(answers[6].detail.contains("the token is the one of bob"))
            #expect(answers[8].detail == "this operation is not for users")
            var texts: [String] = []
            for _ in 0..<3 {
                let message = try await device.nextMessage()
                #expect(message.from == "bob")
                if case .text(let text, _) = message.content { texts.append(text) }
            }
            #expect(texts == ["one", "three"])
            await device.close()
        }

        @Test func `a key with rights sends what they allow, and makes no tokens`() async throws {
            let (api, _, _) = try await broker()
            let limited = try add("limited", .operate, rights: ["send:alice"], to: api)
            func send(_ path: String, to user: String) -> APICall {
                APICall(
                    "POST", path, body: "{\"from\":\"bob\",\"users\":[\"\(user)\"],\"b\":\"x\"}",
                    token: limited)
            }
            let answers = try await APIScript.ask(
                [
                    send(messages, to: "alice"), send(messages, to: "carol"),
                    send("/api/v1/apps/demo/messages", to: "alice"),
                    send("/api/v1/apps/demo/messages", to: "carol"),
                    APICall(
                        "POST", "/api/v1/apps/demo/tokens", body: #"{"users":["bob"]}"#,
                        token: limited),
                ], port: api.http)
            #expect(answers.map(\.status) == [200, 403, 200, 403, 403])
            #expect(answers[4].detail.contains("makes no tokens"))
        }

        @Test func `an operator, a key and a user are told who they are`() async throws {
            let (api, operate, _) = try await broker()
            let limited = try add("few", .view, rights: ["send:alice"], expiry: 3_600, to: api)
            let device = try await api.broker.client("bob", device: "phone")
            let token = try api.broker.token("bob", rights: ["send:alice"])
            let answers = try await APIScript.ask(
                [
                    APICall("GET", "/api/v1/me", token: token),
                    APICall("GET", "/api/v1/me", token: api.own),
                    APICall("GET", "/api/v1/me", token: operate),
                    APICall("GET", "/api/v1/me", token: limited),
                    APICall("GET", "/api/v1/self", token: api.own),
                ], port: api.http)
            #expect(answers.map(\.status) == [200, 200, 200, 200, 404])
            #expect(answers[1].body == #"{"kind":"operator","operator":"own","role":"own"}"# + "\n")
            #expect(
                answers[2].body
                    == #"{"app":"demo","keyName":"ci","kind":"appKey","role":"operate"}"#
                    + "\n")
            let key = answers[3].object
            #expect(key["keyName"] as? String == "few" && key["role"] as? String == "view")
            #expect(key["rights"] as? [String] == ["send:alice"])
            #expect(key["expiresUnixSeconds"] as? UInt64 ?? 0 > 1_700_000_000)
            let me = answers[0].object
            #expect(me["kind"] as? String == "user" && me["role"] == nil)
            #expect(me["app"] as? String == "demo" && me["user"] as? String == "bob")
            #expect(me["rights"] as? [String] == ["send:alice"])
            let sessions = me["sessions"] as? [[String: Any]]
            #expect(sessions?.compactMap { $0["device"] as? String } == ["phone"])
            #expect(sessions?.first?["queue"] is [String: Any])
            await device.close()
        }

        @Test func `a web token is a token, until its time is over`() async throws {
            let identities = try Identities()
            try await identities.makeKey("k", "ES256")
            let key = identities.file("k.pub")
            let api = try await APIBroker(
                #"jwt.keys=[{app:"demo",kid:"k",algorithm:"ES256",file:"\#(key)"}]"#)
            try api.broker.addUsers("alice")
            func token(expiresIn seconds: Int) async throws -> String {
                let expiry = Int(Date().timeIntervalSince1970) + seconds
                return try await identities.token(
                    "k",
                    claims:
                        #"{"iss":"demo","sub":"poet","exp":\#(expiry),"rights":["send:alice"]}"#,
                    algorithm: "ES256")
            }
            let valid = try await token(expiresIn: 600)
            let body = #"{"users":["alice"],"b":"x"}"#
            let answers = try await APIScript.ask(
                [
                    // The user becomes known.
                    APICall("GET", "/api/v1/me", token: valid),
                    APICall("POST", messages, body: body, token: valid),
                    APICall("POST", messages, body: #"{"everybody":true,"b":"x"}"#, token: valid),
                    APICall("GET", "/api/v1/me", token: valid + "A"),
                    APICall("GET", "/api/v1/me", token: try await token(expiresIn: -600)),
                ], port: api.http)
            #expect(answers.map(\.status) == [200, 200, 403, 401, 401])
            #expect(answers[0].object["user"] as? String == "poet")
            #expect(answers[4].detail.contains("web token"), "\(answers[4].detail)")
        }

        /// Found: each message of a web token waited for the commit of the one before, although its
        /// user was known.
        @Test func `pipelined messages of a web token share commits`() async throws {
            let identities = try Identities()
            try await identities.makeKey("k", "ES256")
            let key = identities.file("k.pub")
            let disk = try DiskFaults()
            let api = try await APIBroker(
                #"jwt.keys=[{app:"demo",kid:"k",algorithm:"ES256",file:"\#(key)"}]"#, faults: disk)
            try api.broker.addUsers("alice", "poet")
            let expiry = Int(Date().timeIntervalSince1970) + 600
            let token = try await identities.token(
                "k", claims: #"{"iss":"demo","sub":"poet","exp":\#(expiry)}"#, algorithm: "ES256")
            let body = #"{"users":["alice"],"b":"x"}"#
            func request(_ connection: String) -> String {
                "POST \(messages) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)\r\n"
                    + "Content-Type: application/json\r\nConnection: \(connection)\r\n"
                    + "Content-Length: \(body.utf8.count)\r\n\r\n" + body
            }
            let requests =
                String(repeating: request("keep-alive"), count: 199) + request("close")
            let before = try api.broker.counter("store/batches")
            let client = try WireClient(port: api.http)
            // A fast disk might commit each message before the next one is read.
            disk.setSlow(true)
            try client.send(Array(requests.utf8))
            // A turn of the event loop reads 16 of a connection; each of these takes a turn.
            _ = try await APIScript.ask(
                (0..<30).map { _ in APICall("GET", "/healthz") }, port: api.http)
            disk.setSlow(false)
            try client.waitForClose()
            let text = String(decoding: client.untaken, as: UTF8.self)
            #expect(text.components(separatedBy: "HTTP/1.1 200").count == 201)
            let commitCount = try api.broker.counter("store/batches") - before
            #expect(commitCount < 100, "\(commitCount) commits of 200 messages")
        }

        @Test func `what is revoked, expired or unknown is refused and counted`() async throws {
            let (api, operate, view) = try await broker()
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            let short = try add("short", .view, expiry: 1, to: api)
            let token = try api.broker.token("bob")
            let path = "/api/v1/apps/demo"
            #expect(
                try await statuses(
                    [
                        APICall("GET", path, token: operate),
                        APICall("GET", "/api/v1/me", token: token),
                    ], api) == [200, 200])
            _ = try client.send(RevokeAppKey(app: "demo", name: "ci"))
            _ = try client.send(RevokeTokens(TokenSelection(app: "demo", user: "bob")))
            let wrong = "mk1_" + String(repeating: "a", count: 26)
            let answers = try await APIScript.ask(
                [
                    APICall("GET", path, token: operate), APICall("GET", path, token: wrong),
                    APICall("GET", path, token: "mk1_short"),
                    APICall("GET", "/api/v1/me", token: token),
                    APICall("GET", path, token: view),
                ], port: api.http)
            #expect(answers.map(\.status) == [401, 401, 401, 401, 200])
            #expect(answers[0].detail == "no app has this key")
            #expect(answers[3].detail == "no user has this token")
            #expect(answers[0].authenticate.contains("invalid_token"))
            _ = try await api.broker.process.line(
                with: "event=auth_failed address=127.0.0.1:", "no app has this key")
            #expect(try api.broker.counter("api/credentials/refused") == 4)
            var status = 200
            for _ in 0..<1_000 where status == 200 {
                status = try await statuses([APICall("GET", path, token: short)], api)[0]
            }
            #expect(status == 401)
        }

        @Test func `guesses at event streams count towards the limit of an address`() async throws {
            let (api, _, view) = try await broker()
            let token = try api.broker.token("bob")
            let wrong =
                "mt1_" + String(repeating: "c", count: 12) + "_"
                + String(repeating: "c", count: 26)
            // A refused stream ends its connection. Fifteen programs might take longer than the
            // minute in which guesses are counted.
            func status(ofStream token: String) throws -> String {
                let stream = try WireClient(port: api.http)
                try stream.send(
                    Array(
                        ("GET /api/v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)"
                            + "\r\n\r\n").utf8))
                try stream.waitForAnswer()
                return String(decoding: stream.untaken.prefix(13), as: UTF8.self)
            }
            let found = try (0..<15).map { _ in try status(ofStream: wrong) }
            #expect(
                found == [String](repeating: "HTTP/1.1 401 ", count: 10)
                    + [String](repeating: "HTTP/1.1 429 ", count: 5))
            #expect(try api.broker.counter("api/credentials/refused") == 15)
            // Those that are allowed are served meanwhile.
            #expect(try await statuses([APICall("GET", "/api/v1/me", token: view)], api) == [200])
            #expect(try status(ofStream: token) == "HTTP/1.1 200 ")
        }

        @Test func `a stream of an operator is told that a listener has no API`() async throws {
            let broker = try await TestBroker(listeners: ["http://localhost:0?serve=json,health"])
            let own = try AdministrationClient(dataDirectory: broker.directory).send(
                AddOperator(operator: "root", role: .own)
            ).token
            let answers = try await APIScript.ask(
                [APICall("GET", "/api/v1/events", token: own)], port: try await broker.port("http"))
            #expect(answers.map(\.status) == [404])
            #expect(answers[0].detail.contains("does not serve the API"))
        }

        /// The content may take seconds, in which the key or token is revoked.
        @Test(arguments: [false, true])
        func `a request whose credential is revoked before its last byte is refused`(
            isToken: Bool
        ) async throws {
            let (api, operate, _) = try await broker()
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            let credential = isToken ? try api.broker.token("bob") : operate
            let body = #"{"from":"bob","users":["alice"],"b":"late"}"#
            let head =
                "POST /api/v1/messages HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
                + "Authorization: Bearer \(credential)\r\nContent-Type: application/json\r\n"
                + "Content-Length: \(body.utf8.count)\r\nExpect: 100-continue\r\n\r\n"
            let slow = try WireClient(port: api.http)
            try slow.send(Array((head + body.dropLast()).utf8))
            // The head has been read when the leave to send the content has come.
            try slow.waitForAnswer()
            #expect(String(decoding: slow.untaken, as: UTF8.self).contains("100 Continue"))
            if isToken {
                _ = try client.send(RevokeTokens(TokenSelection(app: "demo", user: "bob")))
            } else {
                _ = try client.send(RevokeAppKey(app: "demo", name: "ci"))
            }
            try slow.send(Array("}".utf8))
            try slow.waitForClose()
            let text = String(decoding: slow.untaken, as: UTF8.self)
            #expect(text.contains("HTTP/1.1 401 "), "\(text)")
            #expect(text.contains("the token or key is not valid any more"), "\(text)")
        }

        // MARK: - Clients

        private func settings(
            _ api: APIBroker, key: String, user: String
        ) throws -> ClientSettings {
            var settings = try api.broker.settings(user, device: "main")
            settings.credential = .appKey(app: "demo", key: key, user: user)
            return settings
        }

        @Test func `a key that is revoked ends its clients, and no others`() async throws {
            let (api, operate, _) = try await broker()
            let other = try add("shop", .operate, to: api)
            let first = try await connected(
                Client(settings(api, key: operate, user: "dave")))
            let second = try await connected(
                Client(settings(api, key: other, user: "erin")))
            let revoked = try await APIScript.ask(
                [
                    APICall("DELETE", "/api/v1/apps/demo/keys/ci", token: api.own),
                    APICall("DELETE", "/api/v1/apps/demo/keys/ci", token: api.own),
                    APICall("GET", "/api/v1/apps/demo/keys", token: api.own),
                ], port: api.http)
            #expect(revoked.map(\.status) == [200, 404, 200])
            #expect(revoked[0].body == "{\"connectionCount\":1}\n")
            #expect(!revoked[2].body.contains(#""name":"ci""#))
            _ = try await api.broker.process.line(
                with: "event=client_disconnected", "user=dave", "code=135")
            let late = try Client(settings(api, key: operate, user: "dave"))
            let error = await #expect(throws: MartletError.self) { _ = try await late.connect() }
            #expect(error == .stopped(.badUserNameOrPassword))
            try await second.subscribe(to: "still/here")
            await first.close()
            await second.close()
        }

        @Test func `a key logs in as the users whom its role and its rights allow`() async throws {
            let (api, operate, view) = try await broker()
            let few = try add("few", .operate, rights: ["attach:bo*", "send:alice"], to: api)
            let bare = try add("bare", .operate, rights: [], to: api)
            for (key, user, isAllowed) in [
                (operate, "alice", true), (view, "alice", false), (few, "bob", true),
                (few, "alice", false), (bare, "bob", false),
            ] {
                let client = try Client(settings(api, key: key, user: user))
                if isAllowed {
                    await (try await connected(client)).close()
                } else {
                    let error = await #expect(throws: MartletError.self) {
                        _ = try await client.connect()
                    }
                    #expect(error == .stopped(.notAuthorized), "\(user)")
                }
            }
            func why(_ query: String) -> APICall {
                APICall("GET", "/api/v1/apps/demo/explain?\(query)", token: view)
            }
            let answers = try await APIScript.ask(
                [
                    why("key=few&action=attach&target=bob"),
                    why("key=few&action=attach&target=alice"),
                    why("key=watch&action=attach&target=bob"),
                    why("key=ci&action=attach&target=bob"),
                    why("user=bob&action=group:create"), why("user=bob&action=create-group"),
                    why("key=few&action=send&target=alice"), why("action=attach&target=bob"),
                    why("key=few&user=bob&action=attach&target=bob"),
                    why("key=none&action=attach&target=bob"), why("user=bob&action=create"),
                ], port: api.http)
            #expect(
                answers.map(\.status) == [
                    200, 200, 200, 200, 200, 200, 400, 400, 400, 404, 400,
                ])
            #expect(
                answers[..<4].map { $0.object["grounds"] as? String } == [
                    "right", "refused", "refused", "key",
                ])
            #expect(answers[0].object["right"] as? String == "attach:bo*")
            #expect(answers[2].body.contains("app key watch, whose role is view"))
            #expect(answers[4].body == answers[5].body)
        }

        @Test func `the command makes, lists and revokes keys`() async throws {
            let api = try await APIBroker()
            func martlet(_ words: String...) async throws -> (exit: ChildExit, text: String) {
                let child = try ChildProcess(
                    "martlet", words, environment: api.broker.environment("operator"))
                return (try await child.exit(), child.text)
            }
            let added = try await martlet(
                "app", "key", "add", "ci", "--role=view", "--right=send:alice",
                "--right=publish:a/%u", "--expires=30d")
            #expect(added.exit == .code(0), "\(added)")
            let secret = try #require(added.text.firstMatch(of: #/ci\t(mk1_\w{26})/#)).1
            #expect(
                try await statuses(
                    [APICall("GET", "/api/v1/apps/demo", token: String(secret))], api) == [200])
            let again = try await martlet("app", "key", "add", "ci", "--role=view")
            #expect(again.exit == .code(0x97) && again.text.contains("already"))
            for wrong in ["a b", "..", "a/b", ""] {
                let refused = try await martlet("app", "key", "add", wrong, "--role=view")
                #expect(refused.exit == .code(0x85), "\(refused)")
            }
            let owner = try await martlet("app", "key", "add", "x", "--role=own")
            #expect(owner.exit == .code(1) && owner.text.contains("one of view, operate"))
            let listed = try await martlet("app", "key", "list")
            #expect(listed.text.contains("send:alice publish:a/%u"), "\(listed.text)")
            #expect(listed.text.contains("the app's") && listed.text.contains("LAST USE"))
            let lines = try await martlet("app", "key", "list", "--json")
            #expect(lines.text.split(separator: "\n").count == 2)
            let remote = try ChildProcess(
                "martlet",
                [
                    "app", "key", "revoke", "ci", "--json", "--app=demo",
                    "--server=http://localhost:\(api.http)", "--token=\(api.own)",
                ])
            #expect(try await remote.exit() == .code(0), "\(remote.text)")
            #expect(remote.text.contains(#"{"app":"demo","connectionCount":0,"name":"ci"}"#))
            let gone = try await martlet("app", "key", "revoke", "ci")
            #expect(gone.exit == .code(0x90) && gone.text.contains("has no key"), "\(gone)")
        }
    }
}
