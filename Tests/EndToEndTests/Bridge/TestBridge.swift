// A bridge between a real Mosquitto and a real martletd, as a child process.

import Foundation
import MartletClient
import TestSurroundings

/// `martlet-gateway bridge` that can be killed and started again on the same state.
final class TestBridge {
    private let files: TemporaryDirectory
    var directory: String { files.path }
    private(set) var process: ChildProcess?
    /// The members of its file beside the rules.
    private let members: String

    /// Writes its file and starts it.
    ///
    /// - Parameters:
    ///   - port: where the other broker is.
    ///   - martletPort: where Martlet is; nil for its own port.
    ///   - martlet: the members of `martlet` beside the token; nil for that port with TLS.
    ///   - rules: the members of the file beside the brokers and the state file.
    ///   - foreign: further members of `mqtt`.
    init(
        _ broker: TestBroker, port: UInt16, martletPort: UInt16? = nil, martlet: String? = nil,
        rules: String,
        version: String = "5", server: String? = nil, foreign: String = "", rights: [String]? = nil
    ) async throws {
        files = try TemporaryDirectory("bridge")
        let directory = files.path
        try Data(try broker.token("gate", rights: rights).utf8)
            .write(to: URL(filePath: "\(directory)/token"))
        chmod("\(directory)/token", 0o600)
        members = """
              // A comment, as people write them.
              mqtt: {
                server: "\(server ?? "tcp://127.0.0.1:\(port)")",
                version: "\(version)",
                clientId: "bridge-under-test",
                \(foreign)
              },
              martlet: {
                \(martlet ?? """
                    server: "tls://localhost:\(martletPort ?? broker.tlsPort)",
                    caFile: "\(broker.authority)",
                    """)
                tokenFile: "\(directory)/token",
              },
              stateFile: "\(directory)/state",
            """
        try write(rules: rules)
        try await start()
    }

    /// Writes its file with other rules.
    func write(rules: String) throws {
        try Data("{\n\(members)\n\(rules)\n}\n".utf8)
            .write(to: URL(filePath: "\(directory)/bridge.json5"))
    }

    /// Sends SIGHUP; returns the line of the log about it.
    func reload() async throws -> String {
        let count = process!.lines.count
        process!.signal(SIGHUP)
        return try await process!.line(with: "event=reload", from: count)
    }

    deinit { process?.signal(SIGKILL) }

    /// Starts it; returns when it has both sides and what it asked of them.
    func start() async throws {
        let process = try ChildProcess(
            "martlet-gateway", ["bridge", "--config", "\(directory)/bridge.json5"])
        self.process = process
        _ = try await process.line(with: "event=mqtt_connected")
        let line = try await process.line(with: "event=martlet_connected")
        // Who reads the log sees when.
        guard line.hasPrefix("time=20") else { throw TestFailure("no time: \(line)") }
    }

    /// Waits until both sides have confirmed the subscriptions of a first start.
    func waitForSubscriptions(_ sides: String...) async throws {
        for side in sides {
            _ = try await process!.line(with: "event=subscribed", "side=\(side)")
        }
    }

    func kill() async throws {
        process!.signal(SIGKILL)
        _ = try await process!.exit()
    }

    /// Takes its record from it.
    func forget() throws { try FileManager.default.removeItem(atPath: "\(directory)/state") }

    /// Ends it in order; gives a number of its last line of totals.
    func stop() async throws -> (String) -> Int? {
        process!.signal(SIGTERM)
        let exit = try await process!.exit()
        guard exit == .code(0) else {
            throw TestFailure("the bridge ended with \(exit):\n\(process!.text)")
        }
        let totals = process!.lines.last { $0.contains("event=totals") } ?? ""
        return { name in
            totals.split(separator: " ").first { $0.hasPrefix("\(name)=") }
                .flatMap { Int($0.dropFirst(name.count + 1)) }
        }
    }
}
