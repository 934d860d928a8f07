// Three brokers on three NATS servers, on loopback: started, killed, stopped and asked for their
// health as an operator does.

import Administration
import BrokerTerms
import Foundation
import TestSurroundings

/// A cluster of the programs of this build.
final class TestCluster: @unchecked Sendable {
    /// A broker with its place.
    final class Node: @unchecked Sendable {
        let name: String
        private let reservedPort: ReservedPort
        private let reservedWebPort: ReservedPort
        let configuration: String
        let data: String
        let log: String
        /// The disk has no space left as long as this file exists, where faults of disks are made.
        let fullDisk: String
        var process: ClusterProcess?

        var port: UInt16 { reservedPort.number }
        var webPort: UInt16 { reservedWebPort.number }

        init(_ name: String, in directory: TemporaryDirectory) throws {
            self.name = name
            reservedPort = try ReservedPort()
            reservedWebPort = try ReservedPort()
            configuration = directory.file("\(name).json5")
            data = directory.file(name)
            log = directory.file("\(name).log")
            fullDisk = directory.file("\(name).full")
        }
    }

    let servers: NATSServers
    let nodes: [Node]
    let directory: TemporaryDirectory
    /// The network between the programs; nil if they reach each other without one.
    let links: ClusterLinks?
    /// The servers' disks; nil without ones of their own.
    let disks: ClusterDisks?
    private let preloaded: String?
    private let settings: String
    let leaseMilliseconds: Int

    /// The lease of nodes of a test that measures no takeover. A busy machine pauses a program for
    /// seconds, and a sync of its disk takes as long: with the usual lease of 2 s, another node
    /// would take over in the middle of a test.
    static let longLeaseMilliseconds = Sanitizer.isThere ? 30_000 : 10_000

    static var program: String {
        let own = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent()
        for place in [own, SourceTree.root.appending(path: ".build/debug")] {
            let path = place.appending(path: "martletd").path
            if FileManager.default.isExecutableFile(atPath: path) { return path }
        }
        return SourceTree.root.appending(path: ".build/debug/martletd").path
    }

    /// Founds a cluster, and starts its nodes.
    ///
    /// - Parameters:
    ///   - settings: members of each node's configuration beside the usual ones.
    ///   - hasFaults: whether links can be cut and disks can be full.
    init(
        settings: String = "", hasFaults: Bool = false,
        leaseMilliseconds: Int = TestCluster.longLeaseMilliseconds
    ) throws {
        self.settings = settings
        self.leaseMilliseconds = leaseMilliseconds
        let directory = try TemporaryDirectory("cluster")
        self.directory = directory
        let links = hasFaults ? try ClusterLinks() : nil
        let disks = hasFaults ? try ClusterDisks(in: directory) : nil
        (self.links, self.disks) = (links, disks)
        preloaded =
            hasFaults && !Sanitizer.isThere
            ? Self.besides("libDiskFaults.so") : nil
        var options = NATSServers.Options()
        if let links {
            options.routePort = { one, other, port in
                try links.open(ClusterLinks.between(one, other), to: port)
            }
        }
        if let disks { options.storeDirectory = { disks.directory(of: $0) } }
        servers = try NATSServers(options)
        nodes = try ["a", "b", "c"].map { try Node($0, in: directory) }
        try write(NATSServers.user.password, to: directory.file("password"))
        try write(NATSServers.systemUser.password, to: directory.file("system-password"))
        for node in nodes { try write(try configuration(of: node), to: node.configuration) }
        try found()
        for node in nodes { try start(node) }
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
        chmod(path, 0o600)
    }

    /// A program beside this one, or a library.
    static func besides(_ name: String) -> String? {
        let path = URL(filePath: program).deletingLastPathComponent().appending(path: name).path
        return FileManager.default.fileExists(atPath: path) ? path : nil
    }

    /// The servers as a node reaches them.
    private func urls(for node: Node) throws -> [String] {
        guard let links else { return servers.urls }
        return try servers.ports.enumerated().map { index, port in
            "nats://127.0.0.1:\(try links.open("\(node.name)/\(index)", to: port))"
        }
    }

    private func configuration(of node: Node) throws -> String {
        let urls = try urls(for: node).map { "\"\($0)\"" }.joined(separator: ", ")
        return """
            {
                dataDirectory: "\(node.data)",
                listeners: [
                    "tcp://127.0.0.1:\(node.port)?anonymous", "http://127.0.0.1:\(node.webPort)",
                ],
                \(settings)
                cluster: {
                    servers: [\(urls)],
                    node: "\(node.name)",
                    address: "127.0.0.1:\(node.port)",
                    webAddress: "http://127.0.0.1:\(node.webPort)",
                    leaseMilliseconds: \(leaseMilliseconds),
                    streamBytes: 268435456,
                    user: "\(NATSServers.user.name)",
                    passwordFile: "\(directory.file("password"))",
                    systemUser: "\(NATSServers.systemUser.name)",
                    systemPasswordFile: "\(directory.file("system-password"))",
                },
            }
            """
    }

    /// The servers may still elect their leaders.
    private func found() throws {
        try wait("a founded cluster") {
            let process = try ClusterProcess(
                Self.program, ["--config", nodes[0].configuration, "--found-cluster"],
                log: nodes[0].log)
            return try process.waitForEnd() == 0 ? () : nil
        }
    }

    func start(_ node: Node) throws {
        var environment: [String: String] = [:]
        if let preloaded {
            environment = ["LD_PRELOAD": preloaded, "DISK_FAULTS_FULL": node.fullDisk]
        }
        node.process = try ClusterProcess(
            Self.program, ["--config", node.configuration], log: node.log,
            environment: environment)
    }

    /// Whether the disk of a node can be full.
    var hasNodeDisks: Bool { preloaded != nil }

    /// A node without a store, which is none of the usual ones: it gets everything from the log.
    func makeWitness() throws -> Node {
        let node = try Node("witness", in: directory)
        try write(try configuration(of: node), to: node.configuration)
        return node
    }

    /// Starts the nodes that have ended again, as a service manager does.
    func startEnded() throws {
        for node in nodes where node.process?.hasEnded != false { try start(node) }
    }

    /// Waits until `find` finds something.
    @discardableResult
    func wait<Value>(
        _ what: String, seconds: Double = 60, _ find: () throws -> Value?
    ) throws -> Value {
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        while Date() < end {
            if let value = try find() { return value }
            // A health check is a question: nothing tells when its answer changes.
            _ = poll(nil, 0, 20)
        }
        throw ClusterFailure(description: "no \(what):\n\(logs)")
    }

    /// The last lines of all nodes.
    var logs: String {
        nodes.map { node in
            let text = (try? String(contentsOfFile: node.log, encoding: .utf8)) ?? ""
            let lines = text.split(separator: "\n").filter { !$0.contains("client_") }
            let state = node.process?.hasEnded == false ? "runs" : "has ended"
            let health = Self.get(node.webPort, "/readyz", seconds: 1).status
            return "\(node.name), \(state), \(health):\n"
                + lines.suffix(12).joined(separator: "\n")
        }.joined(separator: "\n")
    }

    /// The primary that is ready, if there is one.
    var primary: Node? {
        nodes.first { node in
            node.process?.hasEnded == false
                && Self.get(node.webPort, "/readyz", seconds: 1).status == 200
        }
    }

    func primary(otherThan former: Node? = nil) throws -> Node {
        try wait("primary") { primary.flatMap { $0 === former ? nil : $0 } }
    }

    /// Makes a request of an operator to a node. The node is not available before the stores of all
    /// its shards are open, nor without a lease, which it may miss for a moment on a busy machine.
    ///
    /// - Parameter directory: the data directory, where it is not the usual one of the node.
    @discardableResult
    func administer<Request: AdministrationRequest>(
        _ node: Node, in directory: String? = nil, _ request: Request
    ) throws -> Request.Reply {
        try wait("reply of \(node.name) to \(request)") {
            do throws(AdministrationError) {
                return try AdministrationClient(dataDirectory: directory ?? node.data)
                    .send(request)
            } catch {
                guard case .refused(let refusal) = error,
                    refusal.reason == ReasonCode.serverUnavailable.rawValue
                else { throw error }
                return nil
            }
        }
    }

    /// The app of clients without credentials.
    func createApp(on node: Node) throws {
        try administer(node, CreateApp(app: "demo"))
    }

    /// Tokens of users of that app.
    func mintTokens(_ users: String..., on node: Node) throws -> [String] {
        try administer(node, MintTokens(app: "demo", users: users)).tokens.map(\.token)
    }

    /// A group that every user may join. Returns its id.
    func createGroup(owner: String, on node: Node) throws -> String {
        try administer(node, AddUser(app: "demo", user: owner))
        return try administer(node, CreateGroup(app: "demo", owner: owner, title: "all")).groupid
    }

    /// The status and the head of a response; 0 without one in time.
    static func get(
        _ port: UInt16, _ path: String, token: String? = nil, seconds: Int = 30
    ) -> (status: Int, text: String) {
        let field = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        let answer = exchange(
            port, Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n".utf8),
            seconds: seconds)
        let text = String(decoding: answer, as: UTF8.self)
        return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0, text)
    }

    /// The metrics of a node.
    static func metrics(_ port: UInt16) -> String {
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let answer = exchange(port, Array(request.utf8), untilEnd: true)
        return String(decoding: answer, as: UTF8.self)
    }

    /// Makes a request about the stream, and repeats it until the servers' leader has answered.
    ///
    /// - Parameter done: the number of the error that says that an earlier attempt has succeeded,
    ///   whose answer came too late.
    func administerStream(
        _ request: String, _ question: String = "", done: String? = nil
    ) throws {
        let user = NATSServers.user
        let text =
            "CONNECT {\"verbose\": false, \"user\": \"\(user.name)\", "
            + "\"pass\": \"\(user.password)\"}\r\nSUB answer 1\r\n"
            + "PUB $JS.API.STREAM.\(request).martlet answer "
            + "\(question.utf8.count)\r\n\(question)\r\n"
        var attempts = 0
        try wait("answer to \(request)") {
            attempts += 1
            // The server keeps the connection: the end is a silence.
            let answer = Self.exchange(
                servers.ports[0], Array(text.utf8), seconds: 1, untilEnd: true)
            let words = String(decoding: answer, as: UTF8.self).replacing(" ", with: "")
            let isDone =
                attempts > 1 && done.map { words.contains("\"err_code\":\($0)") } ?? false
            return isDone || words.contains("\"success\":true") ? () : nil
        }
    }

    /// What a server answers in time: the head, or all until it closes the connection.
    static func exchange(
        _ port: UInt16, _ bytes: [UInt8], seconds: Int = 30, untilEnd: Bool = false
    ) -> [UInt8] {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var patience = timeval(tv_sec: seconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, size)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected, send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 else {
            return []
        }
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while answer.count < 1 << 20 {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { break }
            answer += chunk.prefix(count)
            // A connection may stay open after the head.
            if !untilEnd, String(decoding: answer, as: UTF8.self).contains("\r\n\r\n") { break }
        }
        return answer
    }
}
