// Requests and frames of those who mean harm, as bytes: each gets its status or its close code, is
// counted, and ends alone.

import MartletClient
import NetTransport
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct WebHostileTests {
        private func text(_ client: WireClient) -> String {
            String(decoding: client.untaken, as: UTF8.self)
        }

        /// Sends bytes and waits for the end of the connection. Returns what the broker said.
        private func end(_ port: UInt16, _ request: String) throws -> String {
            let client = try WireClient(port: port)
            try client.send(Array(request.utf8))
            try client.waitForClose()
            return text(client)
        }

        @Test func `requests that two readers could understand differently are refused`()
            async throws
        {
            let broker = try await TestBroker(web: true)
            let start = "POST /healthz HTTP/1.1\r\nHost: h\r\n"
            let cases: [(String, Int)] = [
                (start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
                (start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                (start + "Transfer-Encoding: chunked, gzip\r\n\r\n", 501),
                ("GET /healthz HTTP/1.1\nHost: h\n\n", 400),
                (start + "X: a\r\n b\r\n\r\n", 400), (start + "X: \u{0}\r\n\r\n", 400),
                ("GET /healthz HTTP/1.1\r\n\r\n", 400), ("GET /healthz HTTP/2.0\r\n\r\n", 505),
                ("GET healthz HTTP/1.1\r\n", 400),
                (start + String(repeating: "A: b\r\n", count: 10_000), 431),
                // Content is not read, so that what follows it is no request.
                (
                    "GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n"
                        + "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", 404
                ),
            ]
            for (request, status) in cases {
                let answer = try end(broker.wsPort, request)
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(request.prefix(80)): \(answer)")
                #expect(answer.contains("Connection: close"))
                #expect(answer.components(separatedBy: "HTTP/1.1 ").count == 2, "\(answer)")
            }
            #expect(try broker.counter("web/requests/refused") == UInt64(cases.count))
        }

        @Test func `pipelined requests are answered in order, in any pieces`() async throws {
            let broker = try await TestBroker(web: true)
            let request =
                "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n"
            let last = "HEAD /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            let client = try WireClient(port: broker.wsPort)
            for byte in request.utf8 { try client.send([byte]) }
            try client.send(Array((request + last).utf8))
            try client.waitForClose()
            let statuses = text(client).components(separatedBy: "HTTP/1.1 ").dropFirst().map {
                String($0.prefix(3))
            }
            #expect(statuses == ["200", "404", "200", "404", "200"])
        }

        @Test func `more requests than one turn answers are all answered`() async throws {
            let broker = try await TestBroker(web: true)
            let client = try WireClient(port: broker.wsPort)
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            let last = "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            try client.send(Array((String(repeating: request, count: 900) + last).utf8))
            try client.waitForClose()
            let statuses = text(client).components(separatedBy: "HTTP/1.1 ").dropFirst().map {
                String($0.prefix(3))
            }
            #expect(statuses == [String](repeating: "200", count: 900) + ["404"])
        }

        @Test func `metrics are only for pages of this machine`() async throws {
            let broker = try await TestBroker(web: true)
            for (host, status) in [
                ("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1:8083", 200),
                ("[::1]:8083", 200), ("attacker.example", 404), ("127.0.0.1.example:80", 404),
            ] {
                let answer = try end(
                    broker.wsPort,
                    "GET /metrics HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(host): \(answer.prefix(40))")
            }
            // Other answers would tell that there are metrics.
            for request in [
                "POST /metrics HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\nContent-Length: 1\r\n",
            ] {
                let answer = try end(
                    broker.wsPort, request + "Host: attacker.example\r\nConnection: close\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 404 "), "\(request): \(answer)")
                #expect(!answer.contains("Allow"), "\(answer)")
            }
        }

        @Test func `a page whose name was made to lead here cannot use a login for this machine`()
            async throws
        {
            let broker = try await TestBroker(
                #"web.allowedOrigins=["http://listed.example"]"#, web: true)
            for (host, origin, status) in [
                ("localhost:8084", "http://localhost:8084", 101),
                ("127.0.0.1:8084", "http://127.0.0.1:8084", 101),
                ("evil.example:8084", "http://evil.example:8084", 403),
                ("evil.example:8084", "http://listed.example", 101),
                ("localhost:8084", "http://evil.example:8084", 403),
            ] {
                let client = try WireClient(port: broker.wsPort)
                let request = Self.handshake("/mqtt", "mqtt").replacing(
                    "Host: h\r\n", with: "Host: \(host)\r\nOrigin: \(origin)\r\n")
                try client.send(Array(request.utf8))
                try client.waitForAnswer()
                #expect(text(client).hasPrefix("HTTP/1.1 \(status) "), "\(host) \(origin)")
            }
        }

        @Test func `requests keep no place from a login`() async throws {
            let broker = try await TestBroker("limits.pendingLogins=4", web: true)
            let clients = try (0..<4).map { _ in try WireClient(port: broker.wsPort) }
            let request = Array("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
            // The last one that is answered is told that the connection closes.
            for client in clients { try client.send(request) }
            for client in clients { try client.waitForClose() }
            let other = try await broker.client("alice")
            await other.close()
        }

        @Test func `who does not finish a request is told, who says nothing is closed`()
            async throws
        {
            let broker = try await TestBroker("limits.authenticationSeconds=8", web: true)
            // All at once: each lasts as long as the limit.
            let clients = try [
                "GET /healthz HT", "",
                // The same time holds for a login after the handshake, and between two requests.
                Self.handshake("/mqtt", "mqtt"), "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
            ].map { request in
                let client = try WireClient(port: broker.wsPort)
                try client.send(Array(request.utf8))
                return client
            }
            for client in clients { try client.waitForClose() }
            #expect(text(clients[0]).hasPrefix("HTTP/1.1 408 "))
            #expect(text(clients[1]).isEmpty)
            #expect(text(clients[2]).hasPrefix("HTTP/1.1 101 "))
            #expect(text(clients[3]).hasPrefix("HTTP/1.1 200 "))
            try await eventually("nobody is waited for") {
                try broker.counter("sockets/pending") == 0
            }
        }

        private static func handshake(_ path: String, _ subprotocol: String) -> String {
            "GET \(path) HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Sec-WebSocket-Protocol: \(subprotocol)\r\n\r\n"
        }

        @Test(
            arguments: [
                ([0x82, 0x02, 0x10, 0x00], 1002), ([0xF2, 0x80, 1, 2, 3, 4], 1002),
                ([0x09, 0x81, 1, 2, 3, 4, 5], 1002), ([0x89, 0xFE, 0, 126, 1, 2, 3, 4], 1002),
                ([0x80, 0x80, 1, 2, 3, 4], 1002), ([0x81, 0x80, 1, 2, 3, 4], 1003),
                ([0x82, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4], 1009),
                ([0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 1009),
            ] as [([UInt8], UInt16)])
        func `frames that break a rule get a close code`(frame: [UInt8], code: UInt16) async throws
        {
            let broker = try await TestBroker(web: true)
            let client = try WireClient(port: broker.wsPort)
            try client.send(Array(Self.handshake("/mqtt", "mqtt").utf8))
            try client.waitForAnswer()
            try client.send(frame)
            try client.waitForClose()
            #expect(
                Array(client.untaken.suffix(4))
                    == [0x88, 0x02, UInt8(code >> 8), UInt8(code & 0xFF)])
            try await eventually("the fault is counted") {
                try broker.counter("websockets/faults") == 1
            }
        }

        @Test func `a stop of the broker says 1001`() async throws {
            let broker = try await TestBroker(web: true)
            let client = try WireClient(port: broker.wsPort)
            try client.send(Array(Self.handshake("/mrt", "mrt").utf8))
            try client.waitForAnswer()
            try await broker.stop()
            try client.waitForClose()
            #expect(Array(client.untaken.suffix(4)) == [0x88, 0x02, 0x03, 0xE9])
        }

        @Test func `a frame before the answer to the handshake is refused`() async throws {
            let broker = try await TestBroker(web: true)
            let answer = try end(
                broker.wsPort, Self.handshake("/mqtt", "mqtt") + "\u{2}\u{3}")
            #expect(answer.hasPrefix("HTTP/1.1 400 "))
        }

        @Test func `protocols on the wrong port are named in one line`() async throws {
            let broker = try await TestBroker(web: true)
            _ = try end(broker.plainPort, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            _ = try await broker.process.line(
                with: "event=login_refused",
                "an HTTP request; http(s):// and ws(s):// listeners take them"
            )
            let answer = try end(broker.wsPort, "\u{10}\u{10}\u{0}\u{4}MQTT")
            #expect(answer.hasPrefix("HTTP/1.1 400 "))
            _ = try await broker.process.line(
                with: "event=web_request_refused", "an MQTT or MRT packet")
            _ = try end(broker.wsPort, "\u{16}\u{3}\u{1}")
            _ = try await broker.process.line(with: "event=web_request_refused", "a TLS handshake")
        }

        @Test func `thousands of requests and pings cost bounded memory`() async throws {
            let broker = try await TestBroker(web: true)
            let before = try broker.residentBytes()
            var sockets: [RawSocket] = []
            let requests = [UInt8](
                String(repeating: "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", count: 2_000).utf8)
            let pings = (0..<8_000).flatMap { _ in [0x89, 0x81, 1, 2, 3, 4, 5] as [UInt8] }
            for index in 0..<100 {
                let socket = try RawSocket(port: broker.wsPort)
                if index % 2 == 0 {
                    while let count = socket.send(requests), count == requests.count {}
                } else {
                    socket.send(Array(Self.handshake("/mqtt", "mqtt").utf8))
                    sockets.append(socket)
                    continue
                }
                sockets.append(socket)
            }
            for (index, socket) in sockets.enumerated() where index % 2 == 1 {
                while let count = socket.send(pings), count == pings.count {}
            }
            // Others are served meanwhile.
            let other = try await broker.client("alice")
            await other.close()
            let after = try broker.residentBytes()
            print("hostile, web: memory +\((Int(after) - Int(before)) >> 20) MiB")
            if !Sanitizer.isThere { #expect(after < before + 48 << 20) }
            withExtendedLifetime(sockets) {}
        }
    }
}
