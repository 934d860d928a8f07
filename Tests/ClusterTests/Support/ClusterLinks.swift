// The network of a cluster on loopback, of which a test cuts links: a program that passes bytes on,
// or keeps them (cluster_links.py).

import Foundation
import TestSurroundings

/// Links by name, that of two programs: `a/0` of the node a and the server 0, `0/1` of two servers.
final class ClusterLinks: @unchecked Sendable {
    private let process = Process()
    private let input = Pipe()
    private let lines: LineQueue

    init() throws {
        let script = SourceTree.root.appending(path: "Tests/ClusterTests/cluster_links.py").path
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = [script]
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        try process.run()
        lines = LineQueue(output.fileHandleForReading)
    }

    deinit { process.terminate() }

    private func ask(_ question: String) throws -> String {
        // A write to a program that has ended would end the tests.
        guard process.isRunning else { throw ClusterFailure(description: "the links have ended") }
        try input.fileHandleForWriting.write(contentsOf: Data("\(question)\n".utf8))
        return try lines.next()
    }

    /// A port that leads to another one over a link.
    func open(_ name: String, to port: UInt16) throws -> UInt16 {
        let answer = try ask("open \(name) \(port)")
        guard let port = UInt16(answer) else {
            throw ClusterFailure(description: "link \(name): \(answer)")
        }
        return port
    }

    func cut(_ names: [String]) throws { for name in names { _ = try ask("cut \(name)") } }
    func heal(_ names: [String]) throws { for name in names { _ = try ask("heal \(name)") } }

    /// The links of a node to all servers.
    static func ofNode(_ name: String) -> [String] { (0..<3).map { "\(name)/\($0)" } }

    /// The link of two servers.
    static func between(_ one: Int, _ other: Int) -> String {
        "\(min(one, other))/\(max(one, other))"
    }

    /// The links of a server to the others.
    static func ofServer(_ index: Int) -> [String] {
        (0..<3).filter { $0 != index }.map { between(index, $0) }
    }
}
