// An haproxy for one test, between clients and a broker, as the documents configure it.

import Foundation
import TestSurroundings

/// A running haproxy that passes on what comes to its ports.
final class HAProxy {
    /// One port, and where it leads.
    struct Way {
        /// `tcp`, or `http` for a proxy of requests.
        var mode = "tcp"
        /// The port of the broker, and what follows it, such as `send-proxy-v2`.
        let server: String
        /// The client of every connection, in place of the one that there is.
        var client: String?
        /// Further lines.
        var lines: [String] = []
    }

    private let files: TemporaryDirectory
    let process: ChildProcess
    /// The ports of the ways, in their order.
    var ports: [UInt16] { reservedPorts.map(\.number) }
    private let reservedPorts: [ReservedPort]

    init(_ ways: [Way]) async throws {
        let path = "/usr/sbin/haproxy"
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw TestFailure("\(path) is missing: install haproxy, as `make test-deps` does")
        }
        files = try TemporaryDirectory("haproxy")
        let reserved = try ways.map { _ in try ReservedPort() }
        reservedPorts = reserved
        let ready = try ReservedPort()
        var lines = [
            "defaults", "  timeout connect 5s", "  timeout client 60s", "  timeout server 60s",
            "  timeout tunnel 60s",
            "frontend ready", "  mode http", "  bind 127.0.0.1:\(ready)",
            "  http-request return status 204",
        ]
        for (index, (way, port)) in zip(ways, reserved.map(\.number)).enumerated() {
            // A header of version 1 names no client whose family is not that of the socket.
            let isVersion6 = way.client?.contains(":") ?? false
            lines += [
                "listen way\(index)", "  mode \(way.mode)",
                "  bind \(isVersion6 ? "::1" : "127.0.0.1"):\(port)",
            ]
            if let client = way.client {
                let kind = isVersion6 ? "ipv6" : "ipv4"
                lines += [
                    "  tcp-request connection set-src \(kind)(\(client))",
                    "  tcp-request connection set-src-port int(4711)",
                ]
            }
            lines += way.lines.map { "  \($0)" }
            lines.append("  server broker 127.0.0.1:\(way.server)")
        }
        let file = files.file("haproxy.cfg")
        try Data(lines.joined(separator: "\n").appending("\n").utf8).write(to: URL(filePath: file))
        process = try ChildProcess(path, ["-db", "-f", file])
        try await eventually(within: 20, "an haproxy that listens") {
            try !WireClient(port: ready.number).isClosed
        }
    }

    deinit { process.signal(SIGKILL) }
}
