// The interfaces of other systems, with clients written as theirs are, against a real broker.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct SourceClientTests {
        private static let folder = URL(filePath: #filePath).deletingLastPathComponent().path

        private static func broker(_ interfaces: String...) async throws -> TestBroker {
            let list = interfaces.map { "\"\($0)\"" }.joined(separator: ", ")
            return try await TestBroker(
                "apps=[{app: \"demo\", interfaces: [\(list)]}]", listeners: ["http://localhost:0"])
        }

        /// Runs a client, which prints a line for each of its parts.
        private func run(_ script: String, _ words: [String], partCount: Int) async throws {
            let client = try ChildProcess(
                "/usr/bin/python3", ["-B", "\(Self.folder)/\(script).py"] + words)
            let exit = try await client.exit(within: 60)
            #expect(exit == .code(0), "are requests and websockets there? \(client.text)")
            #expect(
                client.lines.filter { $0.hasSuffix(" well") }.count == partCount,
                "\(client.text)")
        }

        @Test func `a client of the small REST server registers, logs in and has conversations`()
            async throws
        {
            let broker = try await Self.broker("rest", "registration")
            let port = try await broker.port("http")
            try await run(
                "rest_client", ["\(port)", try broker.token("alice")], partCount: 4)
            // A login is an ordinary token, which lists show with its interface.
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let tokens = try administration.send(
                ListTokens(TokenSelection(app: "demo", user: "rosa"))
            ).tokens
            #expect(tokens.map(\.batch) == ["interface:rest", "interface:rest"])
            #expect(tokens.allSatisfy { $0.expiresUnixSeconds != nil })
            // It is a password like any other, and survives a restart.
            let passwords = try administration.send(ListPasswords(app: "demo", user: "rosa"))
            #expect(passwords.passwords.map(\.kind) == ["argon2id"])
            try await broker.stop()
            try await broker.start()
            let again = try await Self.status(
                "POST", "/auth/login", #"{"username": "rosa", "password": "geheim"}"#,
                port: try await broker.port("http"))
            #expect(again == 200)
            // Whose token is lost is signed out by an operator.
            let token = try broker.token("alice")
            let id = try #require(token.split(separator: "_").dropFirst().first.map(String.init))
            _ = try AdministrationClient(dataDirectory: broker.directory).send(
                RevokeTokens(TokenSelection(app: "demo", id: id)))
            let refused = try await Self.answer(
                "GET", "/conversations", header: "Authorization: Bearer \(token)",
                port: try await broker.port("http"))
            #expect(refused.contains("error"), "\(refused)")
        }

        @Test func `a client of QuickBlox has dialogs, messages, filters and read marks`()
            async throws
        {
            let broker = try await Self.broker("quickblox")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            _ = try administration.send(CreateApp(app: "other"))
            let stranger = try administration.send(MintTokens(app: "other", users: ["298"]))
            try await run(
                "quickblox_client",
                ["\(try await broker.port("http"))"]
                    + ["298", "299", "carol"].map { try broker.token($0) }
                    + stranger.tokens.map(\.token),
                partCount: 7)
            // The client has renamed it.
            let groups = try administration.send(ListGroups(app: "demo")).groups
            #expect(groups.contains { $0.title == "Hawaii relax team" }, "\(groups)")
        }

        @Test func `a client of LeanMessage has conversations, receipts, tags and wills`()
            async throws
        {
            let broker = try await Self.broker("leanmessage")
            try broker.addUsers("alice", "bob", "carol")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            _ = try administration.send(CreateApp(app: "other"))
            let stranger = try administration.send(MintTokens(app: "other", users: ["298"]))
            try await run(
                "leanmessage_client",
                ["\(try await broker.port("http"))"]
                    + ["alice", "bob"].map { try broker.token($0) } + stranger.tokens.map(\.token)
                    + [try broker.variable("MARTLET_APP_KEY")],
                partCount: 6)
        }

        /// Open groups of others are found by their id alone, and members read what was kept after
        /// they joined.
        @Test func `lists of dialogs have nothing that the user may not see`() async throws {
            let broker = try await Self.broker("quickblox")
            let port = try await broker.port("http")
            try broker.addUsers("alice", "bob")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let open = try administration.send(
                CreateGroup(app: "demo", owner: "alice", title: "open"))
            let closed = try administration.send(
                CreateGroup(app: "demo", owner: "alice", title: "closed", allowed: ["bob"]))
            _ = try administration.send(
                SendMessage(
                    app: "demo", from: "alice", group: closed.groupid, b: "before bob",
                    isKept: true))
            _ = try administration.send(
                ChangeMember(app: "demo", groupid: closed.groupid, user: "bob", action: .join))
            let list = try await Self.answer(
                "GET", "/chat/Dialog.json", header: "QB-Token: \(try broker.token("bob"))",
                port: port)
            #expect(list.contains(closed.groupid), "\(list)")
            #expect(!list.contains(open.groupid) && !list.contains("before bob"), "\(list)")
            // What an operator has made is its owner's.
            let change = try await Self.answer(
                "PUT", "/chat/Dialog/\(closed.groupid).json", #"{"name": "bob's"}"#,
                header: "QB-Token: \(try broker.token("bob"))", port: port)
            #expect(change.contains("only the owner changes this dialog"), "\(change)")
        }

        @Test func `a login ends with its password`() async throws {
            let broker = try await Self.broker("rest", "registration")
            let port = try await broker.port("http")
            let rosa = #"{"username": "rosa", "password": "geheim"}"#
            #expect(try await Self.status("POST", "/auth/register", rosa, port: port) == 200)
            let login = try await Self.answer("POST", "/auth/login", rosa, port: port)
            let token = try #require(login.firstMatch(of: /"jwt":"([^"]+)"/)).output.1
            let header = "Authorization: Bearer \(token)"
            let before = try await Self.answer("GET", "/conversations", header: header, port: port)
            #expect(before == #"{"conversations":[]}"#)
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            _ = try administration.send(RevokePassword(app: "demo", name: "rosa"))
            let after = try await Self.answer("GET", "/conversations", header: header, port: port)
            #expect(after.contains("error"), "\(after)")
            #expect(try await Self.status("POST", "/auth/login", rosa, port: port) == 403)
        }

        @Test func `registrations of a name that is taken are limited as others`() async throws {
            let broker = try await Self.broker("rest", "registration")
            let port = try await broker.port("http")
            let body = #"{"username": "rosa", "password": "geheim"}"#
            var statuses: [Int] = []
            for _ in 1...11 {
                statuses.append(try await Self.status("POST", "/auth/register", body, port: port))
            }
            #expect(statuses == [200] + Array(repeating: 409, count: 9) + [429])
        }

        /// Who adds a name to a list means the person who has it, also before it is a user.
        @Test func `a name that a list or a right has cannot be registered`() async throws {
            let broker = try await Self.broker("rest", "registration")
            let port = try await broker.port("http")
            try broker.addUsers("alice")
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            _ = try administration.send(
                CreateGroup(app: "demo", owner: "alice", title: "board", allowed: ["bob"]))
            _ = try administration.send(
                MintTokens(app: "demo", users: ["alice"], rights: ["send:carol", "send:dave*"]))
            for (name, status) in [("bob", 409), ("carol", 409), ("dave1", 200), ("erin", 200)] {
                let body = #"{"username": "\#(name)", "password": "geheim"}"#
                #expect(
                    try await Self.status("POST", "/auth/register", body, port: port) == status,
                    "\(name)")
            }
        }

        @Test func `without an interface there is nothing at its paths`() async throws {
            let broker = try await TestBroker(listeners: ["http://localhost:0"])
            let port = try await broker.port("http")
            for (method, path) in [
                ("POST", "/auth/login"), ("GET", "/conversations"), ("GET", "/chat/Dialog.json"),
                ("GET", "/leanmessage"),
            ] {
                #expect(try await Self.status(method, path, port: port) == 404)
            }
            let restOnly = try await Self.broker("rest")
            let restPort = try await restOnly.port("http")
            #expect(try await Self.status("POST", "/auth/register", "{}", port: restPort) == 404)
            #expect(try await Self.status("GET", "/chat/Dialog.json", port: restPort) == 404)
        }

        @Test func `a method that a path does not have is answered with those that it has`()
            async throws
        {
            let broker = try await Self.broker("registration", "rest", "quickblox", "diuit")
            let port = try await broker.port("http")
            for (path, allowed) in [
                ("/auth/register", "POST"), ("/auth/login", "POST"),
                ("/conversations", "GET, HEAD"), ("/conversations/create", "POST"),
                ("/chat/Dialog.json", "GET, HEAD, POST"), ("/chat/Message.json", "GET, HEAD, POST"),
                ("/1/auth/nonce", "GET, HEAD"), ("/1/auth/login", "POST"),
            ] {
                let child = try ChildProcess(
                    "/usr/bin/curl",
                    [
                        "-sS", "-i", "-w", "\n", "-X", "PATCH", "http://localhost:\(port)\(path)",
                    ])
                #expect(try await child.exit() == .code(0))
                #expect(child.text.contains("405 Method Not Allowed"), "\(path): \(child.text)")
                #expect(child.text.contains("Allow: \(allowed)\r"), "\(path): \(child.text)")
            }
        }

        @Test func `pages of listed origins use the interfaces, and requests are counted`()
            async throws
        {
            let broker = try await TestBroker(
                "apps=[{app: \"demo\", interfaces: [\"rest\", \"quickblox\"]}]",
                #"web.allowedOrigins=["https://shop.example"]"#,
                listeners: ["http://localhost:0"])
            let port = try await broker.port("http")
            let token = try broker.token("298")
            func fields(_ origin: String, _ words: [String]) async throws -> String {
                let child = try ChildProcess(
                    "/usr/bin/curl",
                    ["-sS", "-i", "-w", "\n", "-H", "Origin: \(origin)"] + words
                        + ["http://localhost:\(port)/chat/Dialog.json"])
                #expect(try await child.exit() == .code(0))
                return child.text.lowercased()
            }
            let ask = ["-X", "OPTIONS", "-H", "Access-Control-Request-Method: POST"]
            let leave = try await fields("https://shop.example", ask)
            #expect(leave.contains(" 204 "), "\(leave)")
            #expect(leave.contains("access-control-allow-origin: https://shop.example"))
            #expect(leave.contains("access-control-allow-methods: get, post"), "\(leave)")
            #expect(
                leave.contains(
                    "access-control-allow-headers: authorization, content-type, qb-token"))
            let list = try await fields("https://shop.example", ["-H", "QB-Token: \(token)"])
            #expect(list.contains(" 200 "), "\(list)")
            #expect(list.contains("access-control-allow-origin: https://shop.example"))
            let other = try await fields("https://other.example", ["-H", "QB-Token: \(token)"])
            #expect(!other.contains("access-control-allow-origin"), "\(other)")
            let forbidden = try await fields("https://other.example", ask)
            #expect(forbidden.contains(" 403 "), "\(forbidden)")
            _ = try await fields("https://shop.example", [])
            #expect(try broker.counter("interfaces/quickblox/requests") == 3)
            #expect(try broker.counter("interfaces/quickblox/refused") == 1)
            #expect(try broker.counter("interfaces/rest/requests") == 0)
        }

        @Test func `a wrong password is counted, and ten more are refused for a minute`()
            async throws
        {
            let broker = try await Self.broker("rest")
            let port = try await broker.port("http")
            let wrong = #"{"username": "x", "password": "y"}"#
            var statuses: [Int] = []
            for number in 0..<12 {
                let start = ContinuousClock.now
                statuses.append(
                    try await Self.status("POST", "/auth/login", wrong, port: port))
                // The time tells nothing of the hash.
                #expect(number >= 10 || ContinuousClock.now - start >= .milliseconds(500))
            }
            #expect(statuses.prefix(10).allSatisfy { $0 == 403 }, "\(statuses)")
            #expect(statuses.last == 429, "\(statuses)")
            _ = try await broker.process.line(
                with: "event=auth_failed address=", "user=x", "interface rest: wrong password")
        }

        @Test func `a message through one interface arrives through all others`() async throws {
            let broker = try await Self.broker("rest", "registration", "quickblox")
            let port = try await broker.port("http")
            let (anna, bert) = (try broker.token("298"), try broker.token("299"))
            // Bert has a device of MRT, and one of MQTT.
            let mrt = try ChildProcess(
                "martlet", ["listen", "--json", "--device", "mrt"],
                environment: broker.environment("299"))
            let mqtt = try ChildProcess(
                "/usr/bin/stdbuf",
                ["-oL", "/usr/bin/mosquitto_sub", "-d", "-i", "mqtt", "-t", "$u/299"]
                    + Self.mosquitto(broker, "299", bert))
            // Without their broker they would try to connect for ever.
            defer { for child in [mrt, mqtt] { child.signal(SIGKILL) } }
            _ = try await mqtt.line(with: "Subscribed")
            _ = try await mrt.line(with: "connected as 299")
            let sent = try await Self.call(
                "POST", "/chat/Message.json", anna, port: port,
                #"{"recipient_id": 299, "message": "from QuickBlox", "send_to_chat": 1}"#)
            _ = try await mrt.line(with: #""b":"from QuickBlox""#)
            _ = try await mqtt.line(with: "from QuickBlox")
            // Bert answers through both, and Anna reads it where she began.
            let answer = try ChildProcess(
                "martlet", ["send", "--to", "298", "--history", "from MRT"],
                environment: broker.environment("299"))
            #expect(try await answer.exit() == .code(0), "\(answer.text)")
            let publisher = try ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-t", "$u/298", "-m", #"{"t":"0","b":"from MQTT"}"#, "-q", "1",
                    "-D", "publish", "user-property", "history", "1",
                ] + Self.mosquitto(broker, "299", bert))
            #expect(try await publisher.exit() == .code(0), "\(publisher.text)")
            let dialogs = try await Self.call(
                "GET", "/chat/Dialog.json?type=3", anna, port: port)
            #expect(dialogs.contains(#""unread_messages_count":2"#), "\(dialogs)")
            let dialog = sent.split(separator: #""chat_dialog_id":""#)[1].prefix { $0 != "\"" }
            let messages = try await Self.call(
                "GET", "/chat/Message.json?chat_dialog_id=\(dialog)", anna, port: port)
            for text in ["from QuickBlox", "from MRT", "from MQTT"] {
                #expect(messages.contains(#""message":"\#(text)""#), "\(messages)")
            }
            // What she has read there is read everywhere.
            let unread = try ChildProcess(
                "martlet", ["conversations", "--unread", "--json"],
                environment: broker.environment("298"))
            #expect(try await unread.exit() == .code(0), "\(unread.text)")
            #expect(!unread.text.contains("299"), "\(unread.text)")
            try await expectSessionOfREST(broker, port: port)
        }

        /// A user who registered and logged in with a password is one with the same token in
        /// QuickBlox and MRT.
        private func expectSessionOfREST(_ broker: TestBroker, port: UInt16) async throws {
            let rosa = #"{"username": "rosa", "password": "geheim"}"#
            _ = try await Self.call("POST", "/auth/register", nil, port: port, rosa)
            let login = try await Self.call("POST", "/auth/login", nil, port: port, rosa)
            let token = String(login.split(separator: "\"")[3])
            _ = try await Self.call(
                "POST", "/conversations/create", token, port: port, #"{"label": "Team"}"#)
            let dialogs = try await Self.call("GET", "/chat/Dialog.json", token, port: port)
            #expect(dialogs.contains(#""name":"Team""#), "\(dialogs)")
            var environment = try broker.environment("298")
            environment["MARTLET_TOKEN"] = token
            let groups = try ChildProcess(
                "martlet", ["conversations", "--json"], environment: environment)
            #expect(try await groups.exit() == .code(0), "\(groups.text)")
        }

        private static func mosquitto(
            _ broker: TestBroker, _ user: String, _ token: String
        ) -> [String] {
            [
                "-V", "5", "-h", "localhost", "-p", "\(broker.tlsPort)", "--cafile",
                broker.authority, "-u", "demo/\(user)", "-P", token,
            ]
        }

        /// Makes a request with a token in the fields of all interfaces. Returns the answer.
        private static func call(
            _ method: String, _ target: String, _ token: String?, port: UInt16,
            _ content: String? = nil
        ) async throws -> String {
            var words = ["-sS", "-w", "\n", "--fail-with-body", "-X", method]
            if let token {
                words += ["-H", "QB-Token: \(token)", "-H", "Authorization: Bearer \(token)"]
            }
            if let content { words += ["-H", "Content-Type: application/json", "-d", content] }
            let child = try ChildProcess(
                "/usr/bin/curl", words + ["http://localhost:\(port)\(target)"])
            let exit = try await child.exit()
            #expect(exit == .code(0), "\(method) \(target): \(child.text)")
            return child.text
        }

        private static func answer(
            _ method: String, _ path: String, _ content: String? = nil, header: String? = nil,
            port: UInt16
        ) async throws -> String {
            // A line has an end.
            var words = ["-s", "-w", "\n", "-X", method]
            if let header { words += ["-H", header] }
            if let content {
                words += ["-H", "Content-Type: application/json", "-d", content]
            }
            let child = try ChildProcess(
                "/usr/bin/curl", words + ["http://localhost:\(port)\(path)"])
            #expect(try await child.exit() == .code(0))
            return child.text
        }

        private static func status(
            _ method: String, _ path: String, _ content: String? = nil, port: UInt16
        ) async throws -> Int {
            var words = ["-s", "-o", "/dev/null", "-w", "%{http_code}\n", "-X", method]
            if let content {
                words += ["-H", "Content-Type: application/json", "-d", content]
            }
            let child = try ChildProcess(
                "/usr/bin/curl", words + ["http://localhost:\(port)\(path)"])
            #expect(try await child.exit() == .code(0))
            return Int(child.lines.first ?? "") ?? 0
        }
    }
}
