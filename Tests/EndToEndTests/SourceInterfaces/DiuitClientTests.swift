// The interface of Diuit, with public clients of Socket.IO and WebSocket, against a real broker.

import Administration
import Foundation
import TestSurroundings
import Testing

/// The public clients of Socket.IO, WebSocket and HTTP.
enum SocketLibraries {
    static let python = PythonLibraries.interpreter(
        "diuit-venv", importing: "socketio, requests, websocket",
        packages: ["python-socketio[client]==5.11.4", "requests==2.32.3"])
}

extension EndToEndWebTests {
    @Suite(
        .timeLimit(.minutes(3 * Sanitizer.patience)),
        .enabled(if: SocketLibraries.python != nil, "there is no python-socketio"))
    struct DiuitClientTests {
        private static let folder = URL(filePath: #filePath).deletingLastPathComponent().path

        private static func client(_ script: String, _ words: [String]) throws -> ChildProcess {
            try ChildProcess(
                SocketLibraries.python ?? "", ["-B", "-u", "\(folder)/\(script).py"] + words)
        }

        private static func run(
            _ script: String, _ words: [String], partCount: Int
        ) async throws {
            let client = try client(script, words)
            let exit = try await client.exit(within: 60)
            #expect(exit == .code(0), "\(client.text)")
            #expect(
                client.lines.filter { $0.hasSuffix(" well") }.count == partCount,
                "\(client.text)")
        }

        @Test func `a client of Diuit logs in, has chats and messages, and comes back`()
            async throws
        {
            let identities = try Identities()
            try await identities.makeKey("k1", "RS256")
            try await identities.makeKey("k2", "RS256")
            func key(_ app: String, _ name: String) -> String {
                #"{app:"\#(app)",kid:"\#(name)",algorithm:"RS256","#
                    + #"file:"\#(identities.file("\(name).pub"))"}"#
            }
            let broker = try await TestBroker(
                #"apps=[{app:"demo",interfaces:["diuit","quickblox"],wake:{relay:"relay"}}]"#,
                "jwt.keys=[\(key("demo", "k1")),\(key("other", "k2"))]",
                listeners: ["http://localhost:0"])
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            _ = try administration.send(CreateApp(app: "other"))
            try await Self.run(
                "diuit_client",
                [
                    "\(try await broker.port("http"))", identities.file("k1.key"),
                    identities.file("k2.key"),
                ], partCount: 5)
            // A session is an ordinary token, for the device of its login.
            let tokens = try administration.send(
                ListTokens(TokenSelection(app: "demo", user: "carol"))
            ).tokens
            #expect(tokens.map(\.batch).allSatisfy { $0 == "interface:diuit" } && !tokens.isEmpty)
            #expect(tokens.map(\.device).allSatisfy { $0 == "web-3" })
            let targets = try administration.send(ListWakeTargets(app: "demo", user: "alice"))
                .targets
            #expect(targets.map(\.kind) == [.fcm] && targets.map(\.address) == ["push-1"])
            #expect(targets.map(\.device) == ["web-1"])
            let now = UInt64(Date().timeIntervalSince1970)
            #expect(tokens.allSatisfy { ($0.expiresUnixSeconds ?? 0) <= now + 3_601 })
        }

        @Test func `frames out of order, too long and before the login are refused`()
            async throws
        {
            let interface = #"apps=[{app:"demo",interfaces:["diuit"]}]"#
            let broker = try await TestBroker(
                interface, "limits.authenticationSeconds=300", listeners: ["http://localhost:0"])
            // The one connection that waits for the end of this time has a broker of its own.
            let hasty = try await TestBroker(
                interface, "limits.authenticationSeconds=5", listeners: ["http://localhost:0"])
            try await Self.run(
                "diuit_frames",
                [
                    "\(try await broker.port("http"))", try broker.token("alice"),
                    try broker.token("bob"), "\(try await hasty.port("http"))",
                ], partCount: 5)
            _ = try await broker.process.line(
                with: "event=auth_failed address=", "interface diuit: no valid session")
            withExtendedLifetime(hasty) {}
        }

        @Test func `files of messages have addresses, and survive kill -9`() async throws {
            let files = try TemporaryDirectory("files")
            let port = try ReservedPort()
            let broker = try await TestBroker(
                #"apps=[{app:"demo",interfaces:["diuit"]},{app:"other",interfaces:["diuit"]}]"#,
                #"web.allowedOrigins=["https://app.example"]"#,
                #"files.directory="\#(files.path)""#, "files.bytesPerApp=11534336",
                "files.userPercent=100",
                #"files.address="http://localhost:\#(port)""#,
                "limits.packetMaximum=8388608",
                listeners: ["http://localhost:\(port)"])
            let client = try Self.client(
                "diuit_files", ["\(port)", try broker.token("alice"), try broker.token("bob")])
            #expect(try await client.exit(within: 100) == .code(0), "\(client.text)")
            #expect(client.lines.filter { $0.hasSuffix(" well") }.count == 3, "\(client.text)")
            let address = try #require(client.lines.last { $0.hasPrefix("http") })
            // What was not renamed when the broker ended is no file.
            let folder = "\(files.path)/\("demo".utf8.map { String($0, radix: 16) }.joined())"
            let unfinished = "\(folder)/\(String(repeating: "0", count: 64)).png.new"
            try Data("half".utf8).write(to: URL(filePath: unfinished))
            try await broker.killNow()
            try await broker.start()
            let child = try ChildProcess(
                "/usr/bin/curl",
                ["-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download}\n", address])
            #expect(try await child.exit() == .code(0))
            #expect(child.lines.first == "200 \(5 << 20)")
            #expect(!FileManager.default.fileExists(atPath: unfinished))
        }

        @Test(.enabled(if: SmallDisk.canBeMounted, "mounting a small disk needs a privilege"))
        func `a full disk refuses a file, and leaves no half of it`() async throws {
            let disk = try #require(SmallDisk(byteCount: 2 << 20))
            let port = try ReservedPort()
            let broker = try await TestBroker(
                #"apps=[{app:"demo",interfaces:["diuit"]}]"#,
                #"files.directory="\#(disk.path)""#, "files.bytesPerApp=11534336",
                "files.userPercent=100",
                #"files.address="http://localhost:\#(port)""#, "limits.packetMaximum=8388608",
                listeners: ["http://localhost:\(port)"])
            let client = try Self.client(
                "diuit_files",
                ["\(port)", try broker.token("alice"), try broker.token("bob"), "full"])
            #expect(try await client.exit(within: 100) == .code(0), "\(client.text)")
            let names = try FileManager.default.subpathsOfDirectory(atPath: disk.path)
            #expect(names.filter { $0.contains(".png.") }.count == 1, "\(names)")
            #expect(!names.contains { $0.hasSuffix(".new") }, "\(names)")
        }

        @Test func `without the interface there is no login and no socket`() async throws {
            let broker = try await TestBroker(
                #"apps=[{app:"demo",interfaces:["quickblox"]}]"#, listeners: ["http://localhost:0"])
            let port = try await broker.port("http")
            for path in ["1/auth/nonce", "socket.io/?EIO=4&transport=websocket", "1/socket"] {
                let child = try ChildProcess(
                    "/usr/bin/curl",
                    [
                        "-s", "-o", "/dev/null", "-w", "%{http_code}\n",
                        "http://localhost:\(port)/\(path)",
                    ])
                #expect(try await child.exit() == .code(0))
                #expect(child.lines.first == "404", "\(path)")
            }
        }

        /// One user, who registered with a password, over Diuit; another one over MRT, MQTT and
        /// QuickBlox.
        @Test func `what is sent around Diuit, QuickBlox, MQTT and MRT is read everywhere`()
            async throws
        {
            let broker = try await TestBroker(
                #"apps=[{app:"demo",interfaces:["diuit","quickblox","rest","registration"]}]"#,
                listeners: ["http://localhost:0"])
            let port = try await broker.port("http")
            let rosa = #"{"username": "rosa", "password": "geheim"}"#
            _ = try await Self.post("/auth/register", rosa, port: port)
            let login = try await Self.post("/auth/login", rosa, port: port)
            let session = String(login.split(separator: "\"")[3])
            let answerer = try Self.client("diuit_answerer", ["\(port)", session])
            defer { answerer.signal(SIGKILL) }
            _ = try await answerer.line(with: "ready as rosa")
            let bert = try broker.token("299")
            let mqtt = Self.mosquitto(broker, bert)
            let subscriber = try ChildProcess(
                "/usr/bin/stdbuf",
                ["-oL", "/usr/bin/mosquitto_sub", "-d", "-i", "mqtt", "-t", "$u/299"] + mqtt)
            // Without their broker they would try to connect for ever.
            defer { subscriber.signal(SIGKILL) }
            _ = try await subscriber.line(with: "Subscribed")
            let listener = try ChildProcess(
                "martlet", ["listen", "--json", "--device", "mrt"],
                environment: broker.environment("299"))
            defer { listener.signal(SIGKILL) }
            _ = try await listener.line(with: "connected as 299")
            // The receipt comes from the socket, which has acknowledged the message by a pong.
            let sender = try ChildProcess(
                "martlet",
                ["send", "--to", "rosa", "--history", "--wait", "delivered", "from MRT"],
                environment: broker.environment("299"))
            #expect(try await sender.exit() == .code(0), "\(sender.text)")
            let publisher = try ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-t", "$u/rosa", "-m", #"{"t":"0","b":"from MQTT"}"#, "-q", "1",
                    "-D", "publish", "user-property", "history", "1",
                ] + mqtt)
            #expect(try await publisher.exit() == .code(0), "\(publisher.text)")
            // Her answer to the last message is the newest one.
            for text in ["from MRT", "from MQTT"] {
                _ = try await answerer.line(with: "read \(text)")
            }
            let message = #"{"recipient_id": "rosa", "message": "from QuickBlox", "#
            _ = try await Self.post(
                "/chat/Message.json", message + #""send_to_chat": 1}"#, token: bert, port: port)
            for text in ["from MRT", "from MQTT", "from QuickBlox"] {
                _ = try await answerer.line(with: "read \(text)")
                _ = try await listener.line(with: #""b":"Diuit has read \#(text)""#)
                _ = try await subscriber.line(with: "Diuit has read \(text)")
            }
            // What she has read there is read everywhere, and he finds her answers in QuickBlox.
            var environment = try broker.environment("299")
            environment["MARTLET_TOKEN"] = session
            let unread = try ChildProcess(
                "martlet", ["conversations", "--unread", "--json"], environment: environment)
            #expect(try await unread.exit() == .code(0), "\(unread.text)")
            #expect(!unread.text.contains("299"), "\(unread.text)")
            let dialogs = try await Self.post(
                "/chat/Dialog.json", nil, token: bert, port: port)
            #expect(dialogs.contains("Diuit has read from QuickBlox"), "\(dialogs)")
            #expect(dialogs.contains(#""unread_messages_count":3"#), "\(dialogs)")
        }

        private static func mosquitto(_ broker: TestBroker, _ token: String) -> [String] {
            [
                "-V", "5", "-h", "localhost", "-p", "\(broker.tlsPort)", "--cafile",
                broker.authority, "-u", "demo/299", "-P", token,
            ]
        }

        /// Makes a request, with content POST. Returns the answer.
        private static func post(
            _ path: String, _ content: String?, token: String? = nil, port: UInt16
        ) async throws -> String {
            var words = ["-sS", "-w", "\n", "--fail-with-body"]
            if let token { words += ["-H", "QB-Token: \(token)"] }
            if let content { words += ["-H", "Content-Type: application/json", "-d", content] }
            let child = try ChildProcess(
                "/usr/bin/curl", words + ["http://localhost:\(port)\(path)"])
            #expect(try await child.exit() == .code(0), "\(path): \(child.text)")
            return child.text
        }
    }
}
