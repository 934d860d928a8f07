// Brokers behind load balancers and reverse proxies: a real haproxy before every kind of listener,
// what strangers forge, and whose address counts in the log, in limits and for the metrics.

import Administration
import Foundation
import MartletClient
import NetTransport
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct ProxyTests {
        private static let line = Array("PROXY TCP4 192.0.2.7 198.51.100.1 4711 8883\r\n".utf8)
        private static let localHeader: [UInt8] = [
            0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A, 0x20, 0, 0, 0,
        ]

        /// The lines of the broker about something that was refused or failed.
        private func warnings(_ broker: TestBroker) -> [String] {
            broker.process.lines.filter { $0.contains("level=warning") }
        }

        private func run(_ program: String, _ words: [String]) async throws -> String {
            let child = try ChildProcess(program, words)
            let exit = try await child.exit()
            guard exit == .code(0) else { throw TestFailure("\(exit): \(child.text)") }
            return child.text
        }

        /// Logs in with Paho over WebSocket, stays until it has an answer, and leaves.
        private func logInWithPaho(
            _ user: String, token: String, port: UInt16, authority: String?
        ) async throws {
            let script = """
                import queue, sys
                import paho.mqtt.client as mqtt
                port, user, token, authority = sys.argv[1:5]
                form = {"client_id": "page", "transport": "websockets"}
                old = hasattr(mqtt, "CallbackAPIVersion")
                client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, **form) if old \\
                    else mqtt.Client(**form)
                client.ws_set_options(path="/mqtt")
                if authority: client.tls_set(ca_certs=authority)
                client.username_pw_set("demo/" + user, token)
                answers = queue.Queue()
                client.on_connect = lambda c, u, f, reason, p=None: answers.put(reason)
                client.connect("localhost", int(port))
                client.loop_start()
                assert answers.get(timeout=50) == 0, "refused"
                client.disconnect()
                """
            _ = try await run(
                "/usr/bin/python3", ["-c", script, "\(port)", user, token, authority ?? ""])
        }

        @Test(arguments: ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c"])
        func `haproxy names the clients of TLS, TCP, WebSocket and HTTP`(
            option: String
        ) async throws {
            let broker = try await TestBroker(
                settings: [], tlsOptions: "?proxy=127.0.0.1", plainOptions: "?proxy=127.0.0.0/8",
                listeners: [
                    "wss://localhost:0?proxy=10.0.0.0/8,127.0.0.1",
                    "http://localhost:0?proxy=127.0.0.1",
                ])
            func way(_ port: UInt16, _ client: String) -> HAProxy.Way {
                HAProxy.Way(server: "\(port) \(option)", client: client)
            }
            let proxy = try await HAProxy([
                way(broker.tlsPort, "192.0.2.1"), way(broker.plainPort, "192.0.2.2"),
                way(broker.port("wss"), "192.0.2.3"), way(broker.port("http"), "192.0.2.4"),
                way(broker.tlsPort, "2001:db8::5"),
            ])
            // The SDK over TLS, which haproxy passes on as it is.
            for (index, host, address) in [
                (0, "127.0.0.1", "192.0.2.1:4711"), (4, "::1", "[2001:db8::5]:4711"),
            ] {
                var settings = try broker.settings("alice", device: "\(index)")
                settings.servers[0].host = host
                settings.servers[0].port = proxy.ports[index]
                let alice = try await connected(Client(settings))
                try await alice.send(OutgoingMessage(to: .user("alice"), text: "through"))
                #expect(try await alice.nextMessage().text == "through")
                await alice.close()
                for event in ["client_connected", "client_disconnected"] {
                    _ = try await broker.process.line(
                        with: "event=\(event) address=\(address) user=alice device=\(index)")
                }
            }
            // A login that is refused.
            let wire = try WireClient(port: proxy.ports[1])
            #expect(try wire.login(token: "mt1_x").refusal == .badUserNameOrPassword)
            _ = try await broker.process.line(with: "event=auth_failed address=192.0.2.2:4711")
            try await logInWithPaho(
                "carol", token: broker.token("carol"), port: proxy.ports[2],
                authority: broker.authority)
            _ = try await broker.process.line(
                with: "event=client_connected address=192.0.2.3:4711 user=carol")
            let answer = try await run(
                "/usr/bin/curl",
                ["-sS", "-w", "%{http_code}\\n", "http://127.0.0.1:\(proxy.ports[3])/api/v1/users"])
            #expect(answer.hasSuffix("401"))
            _ = try await broker.process.line(with: "event=auth_failed address=192.0.2.4:4711")
            // The client is not on this machine, although the proxy is.
            let metrics = try await run(
                "/usr/bin/curl",
                [
                    "-sS", "-o", "/dev/null", "-w", "%{http_code}\\n",
                    "http://127.0.0.1:\(proxy.ports[3])/metrics",
                ])
            #expect(metrics == "404")
            // A loop publishes its counts at the end of a turn, when the answer is sent.
            try await eventually("the headers") { try broker.counter("proxy/headers") >= 6 }
            #expect(try broker.counter("proxy/headers") == 6)
            #expect(try broker.counter("proxy/headers/refused") == 0)
            #expect(!broker.process.text.contains("address=127.0.0.1:\(proxy.ports[0])"))
        }

        @Test(arguments: ["send-proxy", "send-proxy-v2"])
        func `a load balancer's checks make no warning`(option: String) async throws {
            let broker = try await TestBroker(
                settings: [], tlsOptions: "?proxy=127.0.0.1", plainOptions: "?proxy=127.0.0.1",
                listeners: ["wss://localhost:0?proxy=127.0.0.1"])
            let ports = [broker.tlsPort, broker.plainPort, try await broker.port("wss")]
            let proxy = try await HAProxy(
                ports.flatMap { port in
                    // The interval is the time limit of a check too: one that haproxy itself
                    // delays does not count as a fault, ten in a row do.
                    ["check check-send-proxy", "check"].map {
                        HAProxy.Way(server: "\(port) \(option) \($0) inter 200ms fall 10")
                    }
                })
            // Twenty checks of each.
            try await eventually("checks") { try broker.counter("sockets/accepted") > 120 }
            for port in ports {
                // Those of others: nothing, and LOCAL, each with an end and with a reset.
                for header in [[], Self.localHeader] {
                    let socket = try RawSocket(port: port, from: 0x7F00_0001)
                    socket.send(header)
                    let other = try RawSocket(port: port, from: 0x7F00_0001)
                    other.send(header)
                    other.resetsAtEnd()
                }
            }
            try await eventually("no check is open") {
                try broker.counter("sockets/pending") <= 6
            }
            #expect(warnings(broker).isEmpty, "\(warnings(broker))")
            #expect(!proxy.process.text.contains("DOWN"), "\(proxy.process.text)")
            #expect(try broker.counter("proxy/headers") > 40)
            #expect(try broker.counter("proxy/headers/refused") == 0)
            #expect(try broker.counter("tls/handshakes/failed") == 0)
        }

        @Test func `a stranger forges no address`() async throws {
            let broker = try await TestBroker(
                settings: [], tlsOptions: "?proxy=127.0.0.1,10.0.0.0/8",
                plainOptions: "?proxy=127.0.0.1",
                listeners: ["http://localhost:0?proxy=127.0.0.1&forwarded=127.0.0.1"])
            let http = try await broker.port("http")
            // From 127.0.0.2, in no network: the header is read as what the listener speaks.
            let line = String(decoding: Self.line, as: UTF8.self)
            for port in [broker.tlsPort, broker.plainPort, http] {
                let socket = try RawSocket(port: port)
                socket.send(Array((line + "GET / HTTP/1.1\r\nHost: h\r\n\r\n").utf8))
                _ = socket.readToEnd()
            }
            _ = try await broker.process.line(
                with: "event=connection_failed address=127.0.0.2:", "cause=tlsFailure")
            _ = try await broker.process.line(
                with: "event=web_request_refused address=127.0.0.2:", "status=400")
            let request = RequestText.wrongToken(forwardedFor: "192.0.2.7")
            let socket = try RawSocket(port: http)
            socket.send(request)
            #expect(String(decoding: socket.readToEnd(), as: UTF8.self).hasPrefix("HTTP/1.1 401"))
            _ = try await broker.process.line(with: "event=auth_failed address=127.0.0.2:")
            #expect(!broker.process.text.contains("192.0.2.7"), "\(broker.process.text)")
            #expect(try broker.counter("proxy/headers") == 0)
            #expect(try broker.counter("proxy/headers/refused") == 0)
        }

        @Test func `a missing, malformed or slow header ends the connection with one line`()
            async throws
        {
            let broker = try await TestBroker(
                settings: ["limits.authenticationSeconds=5"], tlsOptions: "?proxy=127.0.0.1",
                plainOptions: "?proxy=127.0.0.1")
            let cases: [(UInt16, [UInt8], String)] = [
                (broker.tlsPort, [0x16, 3, 1, 2], "a TLS handshake without a PROXY header"),
                (broker.plainPort, [0x10, 12, 0, 4], "an MQTT or MRT packet without a PROXY"),
                (broker.plainPort, Array("GET / HTTP/1.1\r\n".utf8), "no PROXY header"),
                (broker.tlsPort, Array("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n".utf8), "malformed"),
                (
                    broker.plainPort,
                    Array("PROXY TCP4 \(String(repeating: "1", count: 120))".utf8), "107"
                ),
                (broker.tlsPort, Self.localHeader.dropLast(2) + [0x10, 0], "4096"),
                (broker.plainPort, Self.line.dropLast(), "not complete in time"),
                (broker.tlsPort, [], "not complete in time"),
            ]
            for (number, (port, bytes, detail)) in cases.enumerated() {
                let start = broker.process.lines.count
                let client = try WireClient(port: port)
                if !bytes.isEmpty { try client.send(bytes) }
                nonisolated(unsafe) let waiting = client
                try await onThread { try waiting.waitForClose() }
                #expect(client.untaken.isEmpty)
                _ = try await broker.process.line(
                    with: "event=connection_failed address=127.0.0.1:", "cause=proxyHeaderFault",
                    detail, from: start)
                // The loop shows its counters at the end of the turn that wrote the line.
                try await eventually("the count of the connection") {
                    try broker.counter("proxy/headers/refused") == UInt64(number + 1)
                }
            }
            #expect(warnings(broker).count == cases.count, "\(warnings(broker))")
            // They are among the refusals that operators see.
            let refusals = try await run(
                ChildProcess.programs.appending(path: "martlet").path,
                ["refusals", "--data", broker.directory])
            #expect(refusals.contains("proxyHeaderFault"), "\(refusals)")
        }

        @Test func `the limit of connections per address counts clients, not the proxy`()
            async throws
        {
            let broker = try await TestBroker(
                settings: ["limits.connectionsPerAddress=2"], tlsOptions: "?proxy=127.0.0.1",
                plainOptions: "?proxy=127.0.0.1")
            let proxy = try await HAProxy(
                ["192.0.2.1", "192.0.2.2"].flatMap { client in
                    [broker.tlsPort, broker.plainPort].map {
                        HAProxy.Way(server: "\($0) send-proxy-v2", client: client)
                    }
                })
            let token = try broker.token("alice")
            func logIn(_ port: UInt16, _ device: String) throws -> WireClient {
                let client = try WireClient(port: port)
                #expect(try client.login(token: token, device: Array(device.utf8)).refusal == nil)
                return client
            }
            var clients = [
                try logIn(proxy.ports[1], "a"), try logIn(proxy.ports[1], "b"),
                try logIn(proxy.ports[3], "c"), try logIn(proxy.ports[3], "d"),
            ]
            // The limit is that of all listeners together.
            for port in proxy.ports {
                let client = try WireClient(port: port)
                try client.waitForClose()
            }
            for host in ["192.0.2.1", "192.0.2.2"] {
                _ = try await broker.process.line(
                    with: "event=connection_refused address=\(host):4711 cause=address")
            }
            // A loop publishes its counts at the end of a turn, when the connections are closed.
            try await eventually("the count of refused connections") {
                try broker.counter("sockets/refused/address") == 4
            }
            clients.removeFirst().close()
            try await eventually("a free place") {
                try broker.counter("clients/connected") == 3
            }
            clients.append(try logIn(proxy.ports[1], "e"))
            withExtendedLifetime(clients) {}
        }

        // MARK: - X-Forwarded-For

        @Test func `X-Forwarded-For of a named network is the client of requests`() async throws {
            let broker = try await TestBroker(
                settings: ["limits.connectionsPerAddress=3"],
                listeners: ["http://localhost:0?forwarded=127.0.0.1,10.0.0.0/8"])
            let port = try await broker.port("http")
            /// The answer to a request on a connection of its own.
            func answer(_ request: [UInt8]) throws -> String {
                let socket = try RawSocket(port: port, from: 0x7F00_0001)
                socket.send(request)
                return String(decoding: socket.readToEnd(), as: UTF8.self)
            }
            let cases = [
                ("192.0.2.1", "192.0.2.1:0"), ("127.0.0.1, 192.0.2.2, 10.0.0.1", "192.0.2.2:0"),
                ("192.0.2.3:4711", "192.0.2.3:4711"), ("[2001:db8::4]:80", "[2001:db8::4]:80"),
                ("10.0.0.3, 10.0.0.2", "10.0.0.3:0"), ("192.0.2.9, unknown", "127.0.0.1:"),
                ("192.0.2.9, ,x, 10.0.0.7", "10.0.0.7:0"),
            ]
            for (value, address) in cases {
                let start = broker.process.lines.count
                let text = try answer(RequestText.wrongToken(forwardedFor: value))
                #expect(text.hasPrefix("HTTP/1.1 401"), "\(value): \(text)")
                _ = try await broker.process.line(
                    with: "event=auth_failed address=\(address)", from: start)
            }
            try await eventually("malformed fields") {
                try broker.counter("web/forwarded/malformed") == 2
            }
            // Ten refusals of one client are answered; then only others are.
            for number in 0..<15 {
                let text = try answer(RequestText.wrongToken(forwardedFor: "192.0.2.50"))
                #expect(text.hasPrefix("HTTP/1.1 \(number < 10 ? 401 : 429) "), "\(number)")
            }
            #expect(
                try answer(RequestText.wrongToken(forwardedFor: "192.0.2.51"))
                    .hasPrefix("HTTP/1.1 401 "))
            // One connection of the proxy carries requests of several clients.
            let shared = try RawSocket(port: port, from: 0x7F00_0001)
            let start = broker.process.lines.count
            shared.send(
                RequestText.wrongToken(forwardedFor: "192.0.2.61", closes: false)
                    + RequestText.wrongToken(forwardedFor: "192.0.2.62"))
            _ = shared.readToEnd()
            for host in ["192.0.2.61", "192.0.2.62"] {
                _ = try await broker.process.line(
                    with: "event=auth_failed address=\(host):0", from: start)
            }
            // Whoever is named is not on this machine, even as 127.0.0.1.
            let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            #expect(try answer(Array((metrics + "\r\n").utf8)).hasPrefix("HTTP/1.1 200 "))
            #expect(
                try answer(Array((metrics + "X-Forwarded-For: 127.0.0.1\r\n\r\n").utf8))
                    .hasPrefix("HTTP/1.1 404 "))
        }

        @Test func `haproxy names the clients of WebSocket by X-Forwarded-For`() async throws {
            let broker = try await TestBroker(
                settings: ["limits.connectionsPerAddress=1"],
                listeners: ["ws://localhost:0?forwarded=127.0.0.1"])
            let port = try await broker.port("ws")
            let proxy = try await HAProxy(
                ["192.0.2.1", "192.0.2.2"].map {
                    HAProxy.Way(
                        mode: "http", server: "\(port)", client: $0, lines: ["option forwardfor"])
                })
            let token = try broker.token("alice")
            for (port, host) in zip(proxy.ports, ["192.0.2.1", "192.0.2.2"]) {
                try await logInWithPaho("alice", token: token, port: port, authority: nil)
                for event in ["client_connected", "client_disconnected"] {
                    _ = try await broker.process.line(
                        with: "event=\(event) address=\(host):0 user=alice")
                }
            }
            // Requests count for no address; a WebSocket counts for its client's until it closes.
            try await eventually("no connections") {
                try broker.counter("sockets/closed") >= 2
            }
            func open(_ port: UInt16) throws -> (WireClient, String) {
                let client = try WireClient(port: port)
                // What the client writes itself is to the left of what haproxy writes.
                try client.send(RequestText.handshake(forwardedFor: "198.51.100.9"))
                try client.waitForAnswer()
                return (client, String(decoding: client.untaken, as: UTF8.self))
            }
            let (first, switched) = try open(proxy.ports[0])
            #expect(switched.hasPrefix("HTTP/1.1 101 "), "\(switched)")
            let (_, refused) = try open(proxy.ports[0])
            #expect(refused.hasPrefix("HTTP/1.1 429 "), "\(refused)")
            _ = try await broker.process.line(
                with: "event=connection_refused address=192.0.2.1:0 cause=address")
            let (_, other) = try open(proxy.ports[1])
            #expect(other.hasPrefix("HTTP/1.1 101 "), "\(other)")
            try await eventually("the count of the refused connection") {
                try broker.counter("sockets/refused/address") == 1
            }
            #expect(!broker.process.text.contains("198.51.100.9"))
            withExtendedLifetime(first) {}
        }

        @Test func `haproxy passes on the API, event streams and JSON sockets`() async throws {
            let broker = try await TestBroker(
                listeners: ["http://localhost:0?serve=mqtt,mrt,json,api&forwarded=127.0.0.1"])
            let port = try await broker.port("http")
            let proxy = try await HAProxy([
                HAProxy.Way(
                    mode: "http", server: "\(port)", client: "192.0.2.9",
                    lines: [
                        "option forwardfor",
                        "http-request deny deny_status 404 unless { path /mqtt /mrt } or "
                            + "{ path_beg /api/v1/ }",
                    ])
            ])
            let front = proxy.ports[0]
            let operatorToken = try AdministrationClient(dataDirectory: broker.directory)
                .send(AddOperator(operator: "ci", role: .operate)).token
            func curl(_ words: String...) async throws -> String {
                try await run("/usr/bin/curl", ["-sS", "-g", "-w", " %{http_code}\n"] + words)
            }
            let user = "http://127.0.0.1:\(front)/api/v1/apps/demo/users/carol"
            let known = try await curl(
                "-X", "PUT", "-H", "Authorization: Bearer \(operatorToken)", user)
            #expect(known.contains(#"{"isNew":true}"#) && known.contains(" 200"), "\(known)")
            _ = try await broker.process.line(
                with: "event=operator_request operator=ci address=192.0.2.9:0")
            #expect(try await curl("http://127.0.0.1:\(front)/metrics").contains(" 404"))
            // Sockets with everything that there is, and streams that come event by event and are
            // taken up again.
            let folder =
                URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().path + "/RealClients"
            for part in ["exchange", "resumed"] {
                _ = try await run(
                    "/usr/bin/python3",
                    [
                        "-B", "\(folder)/json_clients.py", "\(front)", try broker.token("alice"),
                        try broker.token("bob"), try broker.variable("MARTLET_APP_KEY"), part,
                    ])
            }
            _ = try await broker.process.line(
                with: "event=client_connected address=192.0.2.9:0 user=bob device=slow")
        }
    }
}

/// Requests as bytes.
private enum RequestText {
    static func wrongToken(forwardedFor value: String, closes: Bool = true) -> [UInt8] {
        Array(
            ("GET /api/v1/users HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer mo1_x\r\n"
                + (closes ? "Connection: close\r\n" : "") + "X-Forwarded-For: \(value)\r\n\r\n")
                .utf8)
    }

    static func handshake(forwardedFor value: String) -> [UInt8] {
        Array(
            ("GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Sec-WebSocket-Protocol: mqtt\r\nX-Forwarded-For: \(value)\r\n\r\n").utf8)
    }
}
