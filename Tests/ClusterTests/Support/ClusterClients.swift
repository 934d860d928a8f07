// The clients of a campaign: publishers and a subscriber of MQTT with Paho, in a program of Python
// that counts (cluster_clients.py).

import Foundation
import TestSurroundings

/// Clients that publish until they are told to stop.
final class ClusterClients {
    /// What the clients have found at their end.
    struct Result: Decodable {
        var acknowledged: Int
        /// Acknowledged, and never delivered.
        var lost: Int
        /// Of QoS 2, delivered more than once.
        var doubledOnce: Int
        /// Of clients whose connection ended without a word, and that did not come back.
        var lostWills: Int
        /// Topics whose retained message is older than one that was acknowledged.
        var lostRetained: Int
    }

    private struct Pause: Decodable { var pause: Int }
    private struct Progress: Decodable { var acknowledged: Int }
    private struct Mortal: Decodable { var isConnected: Bool }

    private let process = Process()
    private let input = Pipe()
    private let lines: LineQueue

    /// Whether the tests' Python has Paho.
    static let isInstalled: Bool = {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", "import paho.mqtt.client"]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()

    /// - Parameter group: one that every user may join.
    init(_ cluster: TestCluster, group: String) throws {
        let script = SourceTree.root.appending(path: "Tests/ClusterTests/cluster_clients.py").path
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = [
            script, cluster.nodes.map { "127.0.0.1:\($0.port)" }.joined(separator: ","),
            group,
        ]
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        try process.run()
        lines = LineQueue(output.fileHandleForReading)
        let first = try lines.next()
        guard first == "ready" else { throw ClusterFailure(description: "clients: \(first)") }
    }

    deinit { process.terminate() }

    private func ask<Answer: Decodable>(_ question: String) throws -> Answer {
        // A write to a program that has ended would end the tests.
        guard process.isRunning else { throw ClusterFailure(description: "the clients have ended") }
        try input.fileHandleForWriting.write(contentsOf: Data("\(question)\n".utf8))
        return try JSONDecoder().decode(Answer.self, from: Data(try lines.next().utf8))
    }

    /// The longest time without an acknowledgement since the last call, in milliseconds.
    func takePause() throws -> Int { try (ask("pause") as Pause).pause }

    /// Waits for acknowledgements from now on.
    func waitForProgress(_ cluster: TestCluster) throws {
        let before = try (ask("progress") as Progress).acknowledged
        try cluster.wait("acknowledgements") {
            try (ask("progress") as Progress).acknowledged > before + 50 ? () : nil
        }
    }

    /// Connects a client with a will, which does not come back.
    func connectMortal(_ name: String) throws {
        guard try (ask("will \(name)") as Mortal).isConnected else {
            throw ClusterFailure(description: "\(name) finds no primary")
        }
    }

    /// Ends the connection of a client with a will without a word.
    func cut(_ name: String) throws { _ = try ask("cut \(name)") as Mortal }

    /// Their connections have ended then.
    func stop() throws -> Result {
        let result: Result = try ask("stop")
        process.waitUntilExit()
        return result
    }
}
