// The relays of martlet-gateway and their destination as child processes, for tests against a real
// martletd.

import Foundation
import MartletClient
import TestSurroundings

/// The receiver of the tests, which verifies every request.
final class WebhookReceiver: Sendable {
    static let secrets = [
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    ]

    let process: ChildProcess
    let port: UInt16

    /// The interpreter with the public library `standardwebhooks`; nil if it cannot be installed.
    private static let library = PythonLibraries.interpreter(
        "webhook-venv", importing: "standardwebhooks", packages: ["standardwebhooks==1.1.0"])

    static var hasLibrary: Bool { library != nil }

    /// - Parameters:
    ///   - plans: what it does with the first requests of a hook, as `HOOK=STEP,STEP`.
    ///   - chaos: the seed of random failures; nil for none.
    ///   - certificate: a file with certificate and key; nil without TLS.
    ///   - usesLibrary: whether the public library verifies too.
    ///   - slowMilliseconds: the longest time for a decision on a message.
    init(
        plans: [String] = [], port: UInt16 = 0, chaos: Int? = nil, certificate: String? = nil,
        usesLibrary: Bool = false, secretCount: Int = 1, slowMilliseconds: Int = 0
    ) async throws {
        var arguments = [
            "-B", "-u",
            SourceTree.root
                .appending(path: "Tests/EndToEndTests/RealClients/webhook_receiver.py").path,
            "--port", "\(port)", "--slow", "\(slowMilliseconds)",
        ]
        for plan in plans { arguments += ["--plan", plan] }
        if let chaos { arguments += ["--chaos", "\(chaos)"] }
        if let certificate { arguments += ["--certificate", certificate] }
        if usesLibrary { arguments.append("--library") }
        let python = usesLibrary ? Self.library ?? "" : "/usr/bin/python3"
        process = try ChildProcess(
            python, arguments + Self.secrets.prefix(secretCount).map { $0 })
        let line = try await process.line(with: "port=")
        guard let port = UInt16(line.dropFirst("port=".count).dropLast()) else {
            throw TestFailure("no port in: \(line)")
        }
        self.port = port
    }

    deinit { process.signal(SIGKILL) }

    /// The texts that a hook accepted, in order.
    func texts(_ hook: String) -> [String] {
        process.lines.filter { $0.hasPrefix("event hook=\(hook) ") }.map { line in
            String(line[line.firstRange(of: "text=")!.upperBound...].dropLast())
        }
    }

    /// Waits for a line about an event.
    func event(_ words: String) async throws -> String {
        try await process.line(with: "event ", words)
    }
}

/// `martlet-gateway webhook` or `martlet-gateway push`, which can be killed and started again on
/// the same record.
final class TestRelay {
    /// The command that it runs.
    private let command: String
    private let files: TemporaryDirectory
    var directory: String { files.path }
    let token: String
    private(set) var process: ChildProcess?
    private let fileByteCountMaximum: Int?
    /// What earlier processes have said.
    private var earlier = ""

    /// Writes the file of a relay of webhooks and starts it.
    ///
    /// - Parameters:
    ///   - hooks: the elements of `hooks`, in which `SECRETS` and `SECRET` stand for the files.
    ///   - settings: further keys of the file.
    ///   - stateDirectory: where the record is; nil for beside the file.
    ///   - fileByteCountMaximum: the limit of the system for the size of its files; nil for none.
    convenience init(
        _ broker: TestBroker, hooks: String, settings: String = "", isPrivateAllowed: Bool = true,
        stateDirectory: String? = nil, rights: [String]? = nil, fileByteCountMaximum: Int? = nil
    ) async throws {
        try await self.init(
            broker, command: "webhook", settings: "\(settings) hooks: [\(hooks)],",
            isPrivateAllowed: isPrivateAllowed, stateDirectory: stateDirectory, rights: rights,
            fileByteCountMaximum: fileByteCountMaximum)
    }

    /// Writes the file of a relay and starts it.
    ///
    /// - Parameters:
    ///   - command: `webhook` or `push`.
    ///   - settings: the keys of the file that are the command's own, with `SECRETS` and `SECRET`.
    init(
        _ broker: TestBroker, command: String, settings: String, isPrivateAllowed: Bool = true,
        stateDirectory: String? = nil, rights: [String]? = nil, fileByteCountMaximum: Int? = nil
    ) async throws {
        self.command = command
        self.fileByteCountMaximum = fileByteCountMaximum
        files = try TemporaryDirectory("relay")
        token = try broker.token("relay", rights: rights)
        let secrets = ["secret-1", "secret-2"].map { "\(files.path)/\($0)" }
        for (file, text) in [
            ("token", token), ("secret-1", WebhookReceiver.secrets[0]),
            ("secret-2", WebhookReceiver.secrets[1]),
        ] {
            try Data("\(text)\n".utf8).write(to: URL(filePath: "\(directory)/\(file)"))
            chmod("\(directory)/\(file)", 0o600)
        }
        let text = """
            {
              martlet: {
                server: "tls://localhost:\(broker.tlsPort)",
                caFile: "\(broker.authority)",
                tokenFile: "\(directory)/token",
              },
              stateFile: "\(stateDirectory ?? directory)/state",
              \(isPrivateAllowed ? "privateNetworks: [\"127.0.0.0/8\", \"::1\"]," : "")
              retry: { firstMilliseconds: 50, longestSeconds: 1 },
              \(settings
                  .replacingOccurrences(of: "SECRETS", with: "\"\(secrets[0])\", \"\(secrets[1])\"")
                  .replacingOccurrences(of: "SECRET", with: "\"\(secrets[0])\""))
            }
            """
        try Data(text.utf8).write(to: URL(filePath: "\(directory)/\(command).json5"))
        try await start()
    }

    deinit { process?.signal(SIGKILL) }

    /// All lines of all its lives.
    var text: String { earlier + (process?.text ?? "") }

    /// Starts it; returns when it is logged in.
    func start() async throws {
        earlier = text
        let arguments = [command, "--config", "\(directory)/\(command).json5"]
        let process =
            if let fileByteCountMaximum {
                try ChildProcess(
                    "/usr/bin/prlimit",
                    [
                        "--fsize=\(fileByteCountMaximum)",
                        ChildProcess.programs.appending(path: "martlet-gateway").path,
                    ] + arguments)
            } else {
                try ChildProcess("martlet-gateway", arguments)
            }
        self.process = process
        _ = try await process.line(with: "event=connected")
    }

    /// Waits until the broker has confirmed its subscriptions and groups.
    func waitForSubscriptions() async throws {
        _ = try await process!.line(with: "event=subscribed")
    }

    /// Waits until so many events wait, of which at least one is in the record. It has to write its
    /// totals every second.
    func waitForRecord(waiting count: Int) async throws {
        var start = 0
        while true {
            let line = try await process!.line(
                with: "event=totals", " waiting=\(count) ", from: start)
            if !line.contains(" record_writes=0 ") { return }
            start = (process!.lines.firstIndex(of: line) ?? start) + 1
        }
    }

    func kill() async throws {
        process!.signal(SIGKILL)
        _ = try await process!.exit()
    }

    /// Ends it in order; gives a number of its last line of totals.
    func stop() async throws -> (String) -> Int? {
        process!.signal(SIGTERM)
        let exit = try await process!.exit()
        guard exit == .code(0) else {
            throw TestFailure("the relay ended with \(exit):\n\(process!.text)")
        }
        let totals = process!.lines.last { $0.contains("event=totals") } ?? ""
        return { name in
            totals.split(separator: " ").first { $0.hasPrefix("\(name)=") }
                .flatMap { Int($0.dropFirst(name.count + 1)) }
        }
    }

    /// Runs `dead-letters`.
    func deadLetters(_ options: String...) async throws -> [String] {
        try await ask(["dead-letters"] + options)
    }

    /// Runs a command that reads the record; gives its lines.
    func ask(_ words: [String]) async throws -> [String] {
        let process = try ChildProcess(
            "martlet-gateway", [command] + words + ["--config", "\(directory)/\(command).json5"])
        guard try await process.exit() == .code(0) else { throw TestFailure(process.text) }
        return process.lines.filter { !$0.isEmpty }
    }

    /// Whether a secret or the token is in what it has said.
    var hasToldSecret: Bool {
        ([token] + WebhookReceiver.secrets).contains { secret in
            text.contains(secret) || text.contains(secret.dropFirst("whsec_".count))
        }
    }
}
