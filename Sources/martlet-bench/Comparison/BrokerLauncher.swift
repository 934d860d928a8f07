// Starts the brokers of a comparison in a temporary directory on free ports of 127.0.0.1, waits
// until they answer, and ends them with the harness.

import CLinuxShims
import Glibc

/// The command that starts a broker.
struct BrokerRecipe {
    var name: String
    /// A shell command with placeholders.
    var command: String
    var configuration = ""
    /// Whether it takes a certificate, from any source.
    var hasTLS = true
    /// Whether it has a listener for WebSocket without TLS.
    var hasWeb = false
}

/// A name in a comparison: a broker and the dialect of the load.
struct Subject {
    var name: String
    var broker: String
    var dialect: LoadDialect
    var isWebSocket = false
}

struct BrokerLauncher: ~Copyable {
    private struct Running {
        var name: String
        var process: pid_t
        var port: UInt16
        var tlsPort: UInt16
        var webPort: UInt16
    }

    private var running: [Running] = []
    private var starts = 0
    private var measurements = 0
    private let directory: String
    private let programs: String
    private var recipes: [BrokerRecipe]
    private(set) var subjects: [Subject]

    /// - Parameter programs: the directory of martletd.
    init(programs: String) throws(BenchFailure) {
        self.programs = programs
        var template = Array("/tmp/martlet-bench-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else {
            throw BenchFailure("no directory in /tmp: \(String(cString: strerror(errno)))")
        }
        directory = String(cString: made)
        recipes = BrokerLauncher.builtIn
        subjects = [
            Subject(name: "martlet", broker: "martlet", dialect: .mrt),
            Subject(name: "martlet-mqtt311", broker: "martlet", dialect: .mqtt311),
            Subject(name: "martlet-mqtt5", broker: "martlet", dialect: .mqtt5),
            Subject(
                name: "martlet-websocket", broker: "martlet", dialect: .mqtt311, isWebSocket: true),
            Subject(name: "mosquitto", broker: "mosquitto", dialect: .mqtt311),
            Subject(
                name: "mosquitto-websocket", broker: "mosquitto", dialect: .mqtt311,
                isWebSocket: true),
            Subject(name: "nats", broker: "nats", dialect: .mqtt311),
            Subject(name: "flashmq", broker: "flashmq", dialect: .mqtt311),
        ]
    }

    /// Ends all brokers and removes their files.
    mutating func close() {
        for broker in running { BrokerLauncher.end(broker.process) }
        running = []
        BrokerLauncher.wait(for: spawn("rm -rf '\(directory)'", log: "/dev/null"))
    }

    private static let builtIn = [
        BrokerRecipe(
            name: "martlet",
            // The other brokers do not log each client either.
            command: "{programs}/martletd --dev --data {directory}/data --set log.level=warning "
                + "--listen 'tcp://127.0.0.1:{port}?anonymous' "
                + "--listen 'tls://127.0.0.1:{tlsPort}?anonymous' "
                + "--listen 'ws://127.0.0.1:{webPort}?anonymous'",
            hasWeb: true),
        BrokerRecipe(
            name: "mosquitto", command: "mosquitto -c {configuration}",
            // Only root can read the files of root: it must not change its user.
            configuration: """
                user {user}
                allow_anonymous true
                log_type error
                set_tcp_nodelay true
                max_queued_messages 0
                listener {port} 127.0.0.1
                listener {webPort} 127.0.0.1
                protocol websockets
                listener {tlsPort} 127.0.0.1
                certfile {certificate}
                keyfile {key}
                ciphers_tls1.3 TLS_AES_128_GCM_SHA256
                """,
            hasWeb: true),
        BrokerRecipe(
            name: "nats", command: "nats-server -c {configuration}",
            configuration: """
                host: 127.0.0.1
                port: {tlsPort}
                server_name: bench
                jetstream { store_dir: "{directory}/store" }
                mqtt { host: 127.0.0.1, port: {port} }
                """,
            hasTLS: false),
        // Not in Debian: a build of it must be on the path. More than one thread costs more per
        // message than it gains.
        BrokerRecipe(
            name: "flashmq", command: "flashmq --config-file {configuration}",
            configuration: """
                allow_anonymous true
                thread_count 1
                quiet true
                log_level error
                storage_dir {directory}
                max_qos_msg_pending_per_client 65000
                max_qos_bytes_pending_per_client 100000000
                listen {
                  protocol mqtt
                  inet4_bind_address 127.0.0.1
                  inet_protocol ip4
                  port {port}
                }
                listen {
                  protocol mqtt
                  inet4_bind_address 127.0.0.1
                  inet_protocol ip4
                  port {tlsPort}
                  fullchain {certificate}
                  privkey {key}
                }
                """),
    ]

    /// Adds the brokers of a scenario file.
    mutating func add(_ brokers: [ScenarioFile.Broker]) {
        for broker in brokers where !recipes.contains(where: { $0.name == broker.name }) {
            recipes.append(
                BrokerRecipe(
                    name: broker.name, command: broker.command,
                    configuration: broker.configuration, hasTLS: broker.hasTLS))
            subjects.append(
                Subject(name: broker.name, broker: broker.name, dialect: broker.dialect))
        }
    }

    func isInstalled(_ subject: Subject) -> Bool {
        let recipe = recipe(of: subject.broker)
        let program = recipe.command.prefix { $0 != " " }
        return BrokerLauncher.wait(
            for: spawn(
                "command -v '\(fill(String(program), in: "", port: 0, tlsPort: 0, webPort: 0))'",
                log: "/dev/null"))
            == 0
    }

    /// The plan's values for this subject; nil if the broker has no such load.
    mutating func aim(_ plan: inout Plan, at subject: Subject) throws(BenchFailure) -> Bool {
        let recipe = recipe(of: subject.broker)
        guard plan.tls == nil || recipe.hasTLS else { return false }
        guard !plan.isWebSocket || (recipe.hasWeb && plan.tls == nil) else { return false }
        let broker = try started(recipe, probe: subject.dialect)
        BrokerLauncher.awaitQuiet(broker.process)
        plan.host = "127.0.0.1"
        plan.port = plan.tls == nil ? broker.port : broker.tlsPort
        if plan.isWebSocket { plan.port = broker.webPort }
        // A separate source address, because the ports of the previous load stay in TIME_WAIT for a
        // minute: a burst of connects would measure the kernel's search for free ports.
        measurements += 1
        plan.sourceAddresses = [
            "127.1.\(measurements / 250 % 250).\(measurements % 250 + 1)"
        ]
        plan.brokerProcess = Int(broker.process)
        return true
    }

    /// Makes the next measurement of the broker start a new process.
    mutating func forget(_ subject: Subject) {
        guard let index = running.firstIndex(where: { $0.name == subject.broker }) else { return }
        BrokerLauncher.end(running.remove(at: index).process)
    }

    /// Certificate and key of every server of the comparison: those of `martletd --dev`.
    mutating func certificate() throws(BenchFailure) -> (chain: String, key: String) {
        _ = try started(recipe(of: "martlet"), probe: .mrt)
        return certificateFiles
    }

    /// Copied to a place that remains when Martlet is started again.
    private var certificateFiles: (chain: String, key: String) {
        ("\(directory)/server.pem", "\(directory)/server-key.pem")
    }

    // MARK: - Starting

    private func recipe(of name: String) -> BrokerRecipe {
        guard let recipe = recipes.first(where: { $0.name == name }) else {
            preconditionFailure("no broker is called \(name)")
        }
        return recipe
    }

    private mutating func started(
        _ recipe: BrokerRecipe, probe dialect: LoadDialect
    ) throws(BenchFailure) -> Running {
        if let broker = running.first(where: { $0.name == recipe.name }) { return broker }
        // Other brokers need the certificate that Martlet creates.
        if recipe.name != "martlet", recipe.hasTLS { _ = try certificate() }
        let own = try makeDirectory(recipe.name)
        let port = try BrokerLauncher.freePort()
        let tlsPort = try BrokerLauncher.freePort()
        let webPort = try BrokerLauncher.freePort()
        try HarnessFile.write(
            fill(recipe.configuration, in: own, port: port, tlsPort: tlsPort, webPort: webPort),
            to: "\(own)/configuration")
        // An orphan would run forever: the broker ends with the harness, however that ends.
        let command = fill(recipe.command, in: own, port: port, tlsPort: tlsPort, webPort: webPort)
        let process = spawn(
            "command -v setpriv >/dev/null && exec setpriv --pdeathsig TERM \(command)\n"
                + "exec \(command)", log: "\(own)/log")
        guard process > 0 else { throw BenchFailure("cannot start \(recipe.name)") }
        let broker = Running(
            name: recipe.name, process: process, port: port, tlsPort: tlsPort, webPort: webPort)
        running.append(broker)
        try waitUntilUp(broker, dialect, log: "\(own)/log")
        if recipe.name == "martlet" {
            let files = certificateFiles
            BrokerLauncher.wait(
                for: spawn(
                    "cp \(own)/data/certificates/server.pem \(files.chain) && "
                        + "cp \(own)/data/certificates/server-key.pem \(files.key)",
                    log: "/dev/null"))
        }
        return broker
    }

    /// A new temporary directory, which is removed at the end.
    mutating func makeDirectory(_ name: String) throws(BenchFailure) -> String {
        starts += 1
        let own = "\(directory)/\(name)-\(starts)"
        guard mkdir(own, 0o700) == 0 else { throw BenchFailure("cannot make \(own)") }
        return own
    }

    private func fill(
        _ text: String, in own: String, port: UInt16, tlsPort: UInt16, webPort: UInt16
    ) -> String {
        let user = getpwuid(getuid()).map { String(cString: $0.pointee.pw_name) } ?? "nobody"
        let values = [
            "programs": programs, "directory": own, "port": "\(port)", "tlsPort": "\(tlsPort)",
            "webPort": "\(webPort)",
            "certificate": certificateFiles.chain, "key": certificateFiles.key, "user": user,
            "configuration": "\(own)/configuration",
        ]
        // A brace that begins no placeholder stays.
        var filled = ""
        var rest = text[...]
        while let open = rest.firstIndex(of: "{") {
            filled += rest[..<open]
            rest = rest[open...]
            if let end = rest.firstIndex(of: "}"),
                let value = values[String(rest[rest.index(after: open)..<end])]
            {
                filled += value
                rest = rest[rest.index(after: end)...]
            } else {
                filled += "{"
                rest = rest.dropFirst()
            }
        }
        return filled + rest
    }

    /// Connects until a client is accepted: 30 seconds, for a machine that is busy.
    private func waitUntilUp(
        _ broker: Running, _ dialect: LoadDialect, log: String
    ) throws(BenchFailure) {
        var plan = Plan(scenario: .connect)
        plan.dialect = dialect
        plan.host = "127.0.0.1"
        plan.port = broker.port
        plan.receiverCount = 1
        plan.publisherCount = 0
        plan.prefix = "probe"
        plan.seconds = 0
        plan.isQuiet = true
        for _ in 0..<300 {
            if let reason = Interruption.reason { throw BenchFailure(reason) }
            if let report = try? BenchProgram.measure(plan), report.isClean { return }
            var status: Int32 = 0
            guard waitpid(broker.process, &status, WNOHANG) == 0 else { break }
            usleep(100_000)
        }
        let text = (try? HarnessFile.read(log)).map {
            String(decoding: $0.suffix(1000), as: UTF8.self)
        }
        throw BenchFailure("\(broker.name) does not answer:\n\(text ?? "its log cannot be read")")
    }

    /// Waits until a broker has finished the previous load: it may still be closing ten thousand
    /// connections. At most five seconds, for a broker that is never idle.
    private static func awaitQuiet(_ process: pid_t) {
        let source = CostSource.process(Int(process))
        var before = source.read()?.cpuNanoseconds
        for _ in 0..<50 where !Interruption.hasCome {
            usleep(100_000)
            let now = source.read()?.cpuNanoseconds
            guard let spent = before, let now, now - spent > 5_000_000 else { return }
            before = now
        }
    }

    // MARK: - Processes

    /// Runs a shell command; returns its process id, or -1. The command is the process if it begins
    /// with exec. Signals of the terminal go only to the harness, which ends its brokers when their
    /// clients have disconnected; signals that the harness blocks are not blocked in the command.
    private func spawn(_ command: String, log: String) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var noSignals = sigset_t()
        sigemptyset(&noSignals)
        posix_spawnattr_setsigmask(&attributes, &noSignals)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        var words = ["/bin/sh", "-c", command].map { (word: String) in strdup(word) } + [nil]
        defer { for word in words { free(word) } }
        var process: pid_t = -1
        guard posix_spawn(&process, "/bin/sh", &actions, &attributes, &words, environ) == 0 else {
            return -1
        }
        return process
    }

    /// The exit status, or -1.
    @discardableResult
    private static func wait(for process: pid_t) -> Int32 {
        var status: Int32 = 0
        guard process > 0, waitpid(process, &status, 0) == process else { return -1 }
        return status
    }

    private static func end(_ process: pid_t) {
        kill(process, SIGTERM)
        // A broker that does not exit is killed: its data is no longer needed.
        for _ in 0..<100 {
            var status: Int32 = 0
            if waitpid(process, &status, WNOHANG) != 0 { return }
            usleep(50_000)
        }
        kill(process, SIGKILL)
        wait(for: process)
    }

    /// A port that is free now.
    private static func freePort() throws(BenchFailure) -> UInt16 {
        let descriptor = linux_stream_socket(AF_INET)
        defer { Glibc.close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let found = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
            }
        }
        guard found else { throw BenchFailure("no free port: \(String(cString: strerror(errno)))") }
        return UInt16(bigEndian: address.sin_port)
    }

    /// The directory of this program: martletd is built beside it.
    static func ownDirectory() -> String {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &path, path.count - 1)
        let text = String(
            decoding: path[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.split(separator: "/", omittingEmptySubsequences: false).dropLast()
            .joined(separator: "/")
    }
}
