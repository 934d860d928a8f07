// A broker for one test: a new directory, ports of its own, certificates, and tokens
// for the users of the test.

import Administration
import Foundation
import MartletClient
import TestSurroundings

/// A martletd that can be stopped, killed and started again on the same directory and ports.
final class TestBroker {
    let directory: String
    private let settings: [String]
    private let tlsOptions: String
    private let plainOptions: String
    private let faults: DiskFaults?
    private let environment: [String: String]
    /// What it lies on, while it is there; nil for the disk of the machine.
    private let disk: SmallDisk?
    private(set) var process: ChildProcess
    private let reservedPorts: (tls: ReservedPort, plain: ReservedPort)
    /// Those of its listeners for WebSocket; nil without.
    private let reservedWebPorts: (wss: ReservedPort, ws: ReservedPort)?
    private let furtherListeners: [String]

    var tlsPort: UInt16 { reservedPorts.tls.number }
    var plainPort: UInt16 { reservedPorts.plain.number }
    var wssPort: UInt16 { reservedWebPorts?.wss.number ?? 0 }
    var wsPort: UInt16 { reservedWebPorts?.ws.number ?? 0 }
    private var webPorts: (wss: UInt16, ws: UInt16)? {
        reservedWebPorts.map { ($0.wss.number, $0.ws.number) }
    }

    var authority: String { "\(directory)/certificates/ca.pem" }

    /// Starts a broker and waits until it is ready.
    ///
    /// - Parameter settings: `KEY=VALUE` pairs of the configuration.
    convenience init(
        _ settings: String..., faults: DiskFaults? = nil, web: Bool = false,
        listeners: [String] = []
    ) async throws {
        try await self.init(settings: settings, faults: faults, web: web, listeners: listeners)
    }

    /// - Parameters:
    ///   - tlsOptions: what follows the port of the TLS listener, such as
    ///     `?clientCertificates=optional`.
    ///   - plainOptions: the same of the TCP listener.
    ///   - faults: what its disk does, in every life that is not told otherwise.
    ///   - fatal: a disk that kills it in a life before that, its first.
    ///   - environment: what else its process is told.
    ///   - disk: where its directory is; nil for the disk of the machine.
    ///   - web: whether it has listeners for WebSocket too.
    ///   - listeners: further ones; ``port(_:)`` has their ports.
    init(
        settings: [String], tlsOptions: String = "", plainOptions: String = "?anonymous",
        faults: DiskFaults? = nil,
        afterLifeWith fatal: DiskFaults? = nil, environment: [String: String] = [:],
        on disk: SmallDisk? = nil, web: Bool = false, listeners: [String] = []
    ) async throws {
        self.disk = disk
        furtherListeners = listeners
        reservedPorts = (try ReservedPort(), try ReservedPort())
        reservedWebPorts = web ? (try ReservedPort(), try ReservedPort()) : nil
        directory = try TemporaryDirectory.make("e2e", in: disk?.path ?? "/tmp") + "/data"
        self.settings = settings
        self.tlsOptions = tlsOptions
        self.plainOptions = plainOptions
        self.faults = faults
        self.environment = environment
        process = try Self.spawn(
            directory, settings, tlsOptions, plainOptions,
            tlsPort: reservedPorts.tls.number, plainPort: reservedPorts.plain.number,
            fatal ?? faults, environment,
            webPorts: reservedWebPorts.map { ($0.wss.number, $0.ws.number) }, listeners: listeners)
        if fatal == nil {
            try await becomeReady()
        } else {
            try await waitForKill()
            try await start()
        }
    }

    deinit {
        process.signal(SIGKILL)
        try? FileManager.default.removeItem(
            at: URL(filePath: directory).deletingLastPathComponent())
    }

    static func spawn(
        _ directory: String, _ settings: [String], _ tlsOptions: String = "",
        _ plainOptions: String = "?anonymous", tlsPort: UInt16, plainPort: UInt16,
        _ faults: DiskFaults? = nil, _ environment: [String: String] = [:],
        webPorts: (wss: UInt16, ws: UInt16)? = nil, listeners further: [String] = []
    ) throws -> ChildProcess {
        var listeners = [
            "--listen", "tls://localhost:\(tlsPort)\(tlsOptions)",
            "--listen", "tcp://localhost:\(plainPort)\(plainOptions)",
        ]
        if let webPorts {
            listeners += [
                "--listen", "wss://localhost:\(webPorts.wss)",
                "--listen", "ws://localhost:\(webPorts.ws)?anonymous",
            ]
        }
        listeners += further.flatMap { ["--listen", $0] }
        return try ChildProcess(
            "martletd",
            ["--dev", "--data", directory] + listeners
                + (shard + settings).flatMap { ["--set", $0] },
            environment: environment.merging(faults?.environment ?? [:]) { $1 })
    }

    /// With `MARTLET_TEST_SHARD=1` the app of the tests is in a second shard, so that all tests
    /// show that clients notice none.
    private static let shard =
        ProcessInfo.processInfo.environment["MARTLET_TEST_SHARD"] == "1"
        ? [#"shards=[{name: "second", apps: ["demo"]}]"#] : []

    private func becomeReady() async throws {
        _ = try await process.line(with: "event=broker_started", "state=ready")
    }

    /// The port of the listener with this scheme.
    func port(_ scheme: String) async throws -> UInt16 {
        try await port(scheme, tls: ["tls", "wss", "https"].contains(scheme) ? 1 : 0)
    }

    private func port(_ scheme: String, tls: Int) async throws -> UInt16 {
        let line = try await process.line(
            with: "event=listening address=127.0.0.1", " tls=\(tls) scheme=\(scheme)")
        let words = line.split(separator: " ")
        guard let address = words.first(where: { $0.hasPrefix("address=") }),
            let digits = address.split(separator: ":").last, let port = UInt16(digits)
        else { throw TestFailure("no port in: \(line)") }
        return port
    }

    // MARK: - Life

    /// Stops it in order and insists on exit code 0.
    func stop() async throws {
        process.signal(SIGTERM)
        let exit = try await process.exit()
        guard exit == .code(0) else {
            throw TestFailure("the broker ended with \(exit):\n\(process.text)")
        }
    }

    /// Kills it without warning.
    func killNow() async throws {
        process.signal(SIGKILL)
        _ = try await process.exit()
    }

    /// Starts it again where it was.
    func start() async throws {
        process = try Self.spawn(
            directory, settings, tlsOptions, plainOptions, tlsPort: tlsPort, plainPort: plainPort,
            faults, environment, webPorts: webPorts,
            listeners: furtherListeners)
        try await becomeReady()
    }

    /// Starts it again on a disk that kills it, and waits for that.
    ///
    /// - Parameter use: called when it is ready, if it comes to that.
    func live(with faults: DiskFaults, use: () -> Void) async throws {
        process = try Self.spawn(
            directory, settings, tlsPort: tlsPort, plainPort: plainPort, faults)
        if (try? await process.line(with: "event=broker_started", "state=ready")) != nil { use() }
        try await waitForKill()
    }

    private func waitForKill() async throws {
        let exit = try await process.exit()
        guard exit == .signal(SIGKILL) else {
            throw TestFailure("the broker ended with \(exit):\n\(process.text)")
        }
    }

    /// Puts another store in the place of the one there is; the broker must not run.
    func replaceStore(with content: DiskContent) throws { try content.write(to: directory) }

    /// Checks every record of the store; the broker must not run.
    func verifyStore() async throws -> ChildExit {
        let check = try ChildProcess(
            "martletd",
            ["--verify-store", "--data", directory] + Self.shard.flatMap { ["--set", $0] })
        let exit = try await check.exit()
        if exit != .code(0) { throw TestFailure("the store is not sound:\n\(check.text)") }
        return exit
    }

    // MARK: - Clients

    /// A variable of dev.env.
    func variable(_ name: String) throws -> String {
        let text = try String(contentsOfFile: "\(directory)/dev.env", encoding: .utf8)
        for line in text.split(separator: "\n") where line.hasPrefix("export \(name)=") {
            return String(line.dropFirst("export \(name)=".count))
        }
        throw TestFailure("dev.env has no \(name)")
    }

    /// A fresh token for a user of the demo app.
    ///
    /// - Parameter rights: nil for those of the app.
    func token(_ user: String, rights: [String]? = nil) throws -> String {
        let client = try AdministrationClient(dataDirectory: directory)
        let request = MintTokens(app: "demo", users: [user], rights: rights)
        return try client.send(request).tokens[0].token
    }

    /// Makes users known without a token.
    func addUsers(_ users: String...) throws {
        let client = try AdministrationClient(dataDirectory: directory)
        for user in users { _ = try client.send(AddUser(app: "demo", user: user)) }
    }

    /// The settings of a client over TLS.
    func settings(_ user: String, device: String = "") throws -> ClientSettings {
        var settings = ClientSettings(
            server: ServerAddress(host: "localhost", port: tlsPort),
            credential: .token(try token(user)))
        settings.trust = .authorityFile(authority)
        settings.device = device
        return settings
    }

    /// A client that is connected.
    func client(_ user: String, device: String = "") async throws -> Client {
        try await connected(Client(settings(user, device: device)))
    }

    /// The environment of the command line.
    func environment(_ user: String) throws -> [String: String] {
        [
            "MARTLET_SERVER": try variable("MARTLET_SERVER"),
            "MARTLET_CA": try variable("MARTLET_CA"),
            "MARTLET_DATA": try variable("MARTLET_DATA"),
            "MARTLET_APP": try variable("MARTLET_APP"),
            "MARTLET_TOKEN": try token(user),
        ]
    }
}

/// Connects a client, within a time that nothing local needs.
func connected(_ client: Client) async throws -> Client {
    _ = try await within(seconds: 20, "a connection") { try await client.connect() }
    return client
}

extension Client {
    /// The next message; other events are passed over.
    func nextMessage() async throws -> IncomingMessage {
        try await within(seconds: 60, "a message") { [self] in
            for await event in events {
                if case .message(let message) = event { return message }
            }
            throw TestFailure("the events ended without a message")
        }
    }

    /// The next messages' texts; all are acknowledged.
    func nextTexts(_ count: Int) async throws -> [String] {
        var texts: [String] = []
        for _ in 0..<count {
            let message = try await nextMessage()
            acknowledge(message)
            texts.append(message.text)
        }
        return texts
    }
}

extension IncomingMessage {
    /// The text; empty for bytes.
    var text: String {
        if case .text(let text, _) = content { return text }
        return ""
    }
}

extension TestBroker {
    /// One of the broker's counters.
    func counter(_ name: String) throws -> UInt64 {
        let client = try AdministrationClient(dataDirectory: directory)
        let counters = try client.send(ReadStatistics()).counters
        guard let counter = counters.first(where: { $0.name == name }) else {
            throw TestFailure("there is no counter \(name)")
        }
        return counter.value
    }

    /// Asks the broker how long it is up until so many seconds have passed for it.
    func waitForBrokerTime(seconds: UInt64) async throws {
        let client = try AdministrationClient(dataDirectory: directory)
        let start = try client.send(ReadStatistics()).uptimeSeconds
        // Whole seconds are told: one more, so that all of them have passed.
        while try client.send(ReadStatistics()).uptimeSeconds <= start + seconds {
            await Deadline(seconds: 0.05).wait()
        }
    }
}
