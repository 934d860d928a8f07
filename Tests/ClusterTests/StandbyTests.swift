// What clients and operators see of a standby, and how a node starts.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct StandbyTests {
        @Test func `a standby names the primary in every protocol`() async throws {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                let standby = try #require(cluster.nodes.first { $0 !== primary })
                let address = Array("127.0.0.1:\(primary.port)".utf8)
                func connect(_ name: String, level: UInt8) -> [UInt8] {
                    let body =
                        [0, UInt8(name.utf8.count)] + Array(name.utf8) + [
                            level, 2, 0, 60, 0, 1, 0x61,
                        ]
                    return TestCluster.exchange(standby.port, [0x10, UInt8(body.count)] + body)
                }
                // It has heard of the primary when it can redirect.
                try cluster.wait("redirection") {
                    TestCluster.get(standby.webPort, "/api/v1/me?x=1").status == 307 ? () : nil
                }
                let redirection = TestCluster.get(standby.webPort, "/api/v1/me?x=1").text
                #expect(
                    redirection.contains(
                        "Location: http://127.0.0.1:\(primary.webPort)/api/v1/me?x=1\r\n"))
                let health = TestCluster.get(standby.webPort, "/readyz")
                #expect(health.status == 503)
                #expect(TestCluster.get(standby.webPort, "/healthz").status == 200)
                #expect(connect("MQTT", level: 4) == [0x20, 2, 0, 3])
                #expect(connect("MQIsdp", level: 3) == [0x20, 2, 0, 3])
                let count = UInt8(address.count)
                #expect(
                    connect("MQTT", level: 5) == [
                        0x20, count + 6, 0, 0x9C, count + 3, 0x1C, 0, count,
                    ]
                        + address)
                #expect(connect("MRT", level: 1) == [0x20, count + 2, 0x9C, 0] + address)
                #expect(connect("HTTP", level: 1) == [])
                #expect(TestCluster.exchange(standby.port, [0x30, 0]) == [])
            }
        }

        @Test func `a store of a cluster and a store of none are not mixed up`() async throws {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: primary)
                // Twice the first node.
                #expect(
                    try run(cluster, ["--config", primary.configuration, "--found-cluster"]) != 0)
                let standby = try #require(cluster.nodes.first { $0 !== primary })
                try cluster.wait("standby that follows") {
                    TestCluster.get(standby.webPort, "/api").status == 307 ? () : nil
                }
                standby.process?.signal(SIGUSR1)
                try cluster.wait("line about the signal") {
                    try text(standby).contains("event=signal_ignored signal=SIGUSR1") ? () : nil
                }
                standby.process?.signal(SIGTERM)
                #expect(try standby.process?.waitForEnd() == 0)
                let lines = try text(standby).split(separator: "\n")
                #expect(
                    lines.contains {
                        $0.contains("event=listening address=127.0.0.1:\(standby.port) tls=0")
                            && $0.hasSuffix("scheme=tcp state=standby")
                    })
                // The client of the log may say that it is disconnected in between.
                let end = lines.drop { !$0.contains("event=broker_stopping") }
                #expect(!end.isEmpty, "\(lines.suffix(12))")
                #expect(end.contains { $0.contains("event=broker_stopped") }, "\(end)")
                // Without a cluster.
                let listen = "tcp://127.0.0.1:0"
                #expect(try run(cluster, ["--data", standby.data, "--listen", listen]) == 4)
                #expect(try text(cluster.nodes[0]).contains("set cluster.servers"))
                // A copy of a running node begins where it is.
                let copy = cluster.directory.file("copy")
                #expect(
                    try run(cluster, ["--config", primary.configuration, "--copy-node", copy]) == 0)
                let files = FileManager.default
                try files.removeItem(atPath: standby.data)
                try files.moveItem(atPath: copy, toPath: standby.data)
                try cluster.start(standby)
                try cluster.wait("standby") {
                    TestCluster.get(standby.webPort, "/readyz").status == 503 ? () : nil
                }
                primary.process?.signal(SIGKILL)
                _ = try cluster.primary(otherThan: primary)
            }
        }

        @Test func `a primary that is told to stop with its servers ends`() async throws {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                for index in 0..<3 { cluster.servers.kill(index) }
                primary.process?.signal(SIGTERM)
                // Within the bound, or in order, if its last append had come before.
                let code = try primary.process?.waitForEnd()
                #expect(code == 8 || code == 0, "\(String(describing: code)): \(cluster.logs)")
            }
        }

        @Test func `a primary whose change waits tells its metrics and refuses other requests`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster(
                    settings: #"apps: [{ app: "demo", interfaces: ["rest"] }],"#)
                let primary = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: primary)
                let token = try cluster.administer(
                    primary, AddOperator(operator: "anna", role: .own, expirySeconds: nil)
                ).token
                let user = try cluster.mintTokens("alice", on: primary)[0]
                func status(_ path: String, _ token: String) -> Int {
                    TestCluster.get(primary.webPort, path, token: token).status
                }
                #expect(status("/api/v1/apps", token) == 200)
                #expect(status("/conversations", user) == 200)
                for index in 0..<3 { cluster.servers.signal(index, SIGSTOP) }
                defer { for index in 0..<3 { cluster.servers.signal(index, SIGCONT) } }
                try cluster.wait("end of the lease") {
                    TestCluster.get(primary.webPort, "/readyz").status == 503 ? () : nil
                }
                let data = primary.data
                Thread {
                    // It ends with the cluster.
                    let client = try? AdministrationClient(dataDirectory: data)
                    _ = try? client?.send(CreateApp(app: "waits"))
                }.start()
                // A text lasts for a second.
                let begin = Date()
                try cluster.wait("new metrics") {
                    let isThere = TestCluster.get(primary.webPort, "/metrics").status == 200
                    return isThere && Date().timeIntervalSince(begin) > 3 ? () : nil
                }
                // An old list would be wrong, and nobody waits behind the change. What the node
                // sees of its cluster is told.
                #expect(status("/api/v1/apps", token) == 503)
                for (path, token) in [("/api/v1/apps", token), ("/conversations", user)] {
                    let refused = TestCluster.get(primary.webPort, path, token: token).text
                    #expect(refused.contains("Retry-After: 1\r\n"), "\(refused)")
                }
                #expect(status("/conversations", user) == 503)
                #expect(status("/api/v1/cluster", token) == 200)
            }
        }

        @Test func `a primary without a lease holds pings of WebSocket`() async throws {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                // Before the connection, which has some seconds to log in.
                try cluster.createApp(on: primary)
                let token = try cluster.mintTokens("alice", on: primary)[0]
                let connection = try RawConnection(primary.webPort)
                let head =
                    "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                    + "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    + "Sec-WebSocket-Protocol: mqtt\r\n"
                    + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                try connection.send(Array(head.utf8))
                var answer: [UInt8] = []
                while !answer.suffix(4).elementsEqual([13, 10, 13, 10]) {
                    let next = connection.receive(1)
                    guard !next.isEmpty else {
                        throw ClusterFailure(description: String(decoding: answer, as: UTF8.self))
                    }
                    answer += next
                }
                // Frames with the mask 0.
                func ping(_ byte: UInt8) throws {
                    try connection.send([0x89, 0x81, 0, 0, 0, 0, byte])
                }
                let body =
                    [0, 4] + Array("MQTT".utf8) + [4, 0xC2, 0, 0, 0, 1, 0x77, 0, 1, 0x78, 0]
                    + [UInt8(token.utf8.count)] + Array(token.utf8)
                let packet = [0x10, UInt8(body.count)] + body
                try connection.send([0x82, 0x80 | UInt8(packet.count), 0, 0, 0, 0] + packet)
                #expect(connection.receive(6) == [0x82, 4, 0x20, 2, 0, 0])
                try ping(1)
                #expect(connection.receive(3) == [0x8A, 1, 1])
                for index in 0..<3 { cluster.servers.signal(index, SIGSTOP) }
                defer { for index in 0..<3 { cluster.servers.signal(index, SIGCONT) } }
                try cluster.wait("end of the lease") {
                    TestCluster.get(primary.webPort, "/readyz").status == 503 ? () : nil
                }
                try ping(2)
                try ping(3)
                connection.setPatience(seconds: 2)
                #expect(connection.receive(3) == [])
                for index in 0..<3 { cluster.servers.signal(index, SIGCONT) }
                connection.setPatience(seconds: 30)
                let pong = connection.receive(3)
                // A standby may have taken over meanwhile: the connection has ended then.
                #expect(pong == [0x8A, 1, 3] || pong == [], "\(pong): \(cluster.logs)")
            }
        }

        /// The log of a node.
        private func text(_ node: TestCluster.Node) throws -> String {
            try String(contentsOfFile: node.log, encoding: .utf8)
        }

        private func run(_ cluster: TestCluster, _ arguments: [String]) throws -> Int32 {
            try ClusterProcess(TestCluster.program, arguments, log: cluster.nodes[0].log)
                .waitForEnd()
        }
    }
}
