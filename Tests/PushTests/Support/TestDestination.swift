// The destinations of the tests as child processes, and a relay on a thread of this one, whose
// events come from the test.

import Files
import Foundation
import MartletClient
import TestSurroundings
import Testing
import Threads

@testable import Push
@testable import Relay

/// A test cannot go on.
struct TestFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Lines that arrive, and tests that wait for them.
final class Lines: @unchecked Sendable {
    private let condition = NSCondition()
    private var lines: [String] = []
    private var rest = ""
    private var hasEnded = false

    func take(_ data: Data) {
        condition.withLock {
            if data.isEmpty { hasEnded = true }
            rest += String(decoding: data, as: UTF8.self)
            var parts = rest.split(separator: "\n", omittingEmptySubsequences: false)
            rest = String(parts.removeLast())
            lines += parts.map(String.init)
            condition.broadcast()
        }
    }

    var all: [String] { condition.withLock { lines } }
    var text: String { all.joined(separator: "\n") }

    /// The `count`-th line that has all words.
    func line(_ words: String..., count: Int = 1, seconds: Double = 20) throws -> String {
        let deadline = Date() + seconds * Double(Sanitizer.patience)
        return try condition.withLock {
            while true {
                let found = lines.filter { line in words.allSatisfy(line.contains) }
                if found.count >= count { return found[count - 1] }
                guard !hasEnded, condition.wait(until: deadline) else {
                    throw TestFailure(
                        "no line \(count) with \(words) in:\n"
                            + lines.joined(separator: "\n"))
                }
            }
        }
    }
}

final class TestDestination: Sendable {
    let lines = Lines()
    let port: Int
    private let process: Process

    /// The interpreter with the libraries of PyPI; nil if they cannot be installed.
    private static let python: String? = {
        let path = SourceTree.root.appending(path: ".build/push-venv").path
        let python = "\(path)/bin/python3"
        let check = "'\(python)' -c 'import h2.connection, cryptography, standardwebhooks'"
        if runShell("\(check) 2>/dev/null") == 0 { return python }
        _ = runShell(
            "(flock 9; python3 -m venv '\(path)' && '\(path)/bin/pip' install --quiet h2==4.1.0 "
                + "cryptography standardwebhooks==1.0.0) 9>'\(path).lock' >/dev/null 2>&1")
        return runShell("\(check) 2>/dev/null") == 0 ? python : nil
    }()

    /// Whether the destinations can run.
    static var isThere: Bool { python != nil }
    static let reasonOfAbsence: Comment =
        "h2, cryptography and standardwebhooks cannot be installed from PyPI"

    init(_ name: String, _ arguments: [String]) throws {
        let file = SourceTree.root.appending(path: "Tests/PushTests/Destinations/\(name).py").path
        process = Process()
        process.executableURL = URL(filePath: Self.python ?? "/usr/bin/python3")
        process.arguments = ["-B", "-u", file] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        let lines = lines
        pipe.fileHandleForReading.readabilityHandler = { handle in
            let data = handle.availableData
            if data.isEmpty { handle.readabilityHandler = nil }
            lines.take(data)
        }
        try process.run()
        let line = try lines.line("port=")
        port = Int(line.dropFirst("port=".count).dropLast()) ?? 0
    }

    deinit {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}

/// Keys and certificates of the tests.
struct TestKeys {
    let directory = CertificateDirectory("push")

    init() {
        directory.makeAuthority("ca", subject: "/CN=ca")
        directory.issue("localhost", subject: "/CN=localhost", names: "DNS:localhost")
        directory.issue("client", subject: "/CN=client")
        directory.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.p8")
        directory.openssl("pkey -in key.p8 -pubout -out key.pub")
        directory.openssl("genpkey -algorithm RSA -out rsa.key")
        directory.openssl("pkey -in rsa.key -pubout -out rsa.pub")
        directory.openssl(
            "pkcs12 -export -inkey client.key -in client.pem -passout pass:word -out client.p12")
        for (name, text) in [
            ("secret", Fixture.secretText), ("password", "word"), ("wrong", "another"),
            ("udp.key", String(repeating: "0b", count: 32)), ("token", "t"),
        ] { write(name, text) }
        _ = runShell("cd '\(directory.path)' && cat localhost.pem localhost.key > server.pem")
    }

    func write(_ name: String, _ text: String) {
        FileManager.default.createFile(
            atPath: directory.file(name), contents: Data("\(text)\n".utf8),
            attributes: [.posixPermissions: 0o600])
    }

    /// Writes a service account whose token comes from a port of this machine.
    func writeAccount(port: Int) throws {
        let key = try String(contentsOfFile: directory.file("rsa.key"), encoding: .utf8)
        let account = [
            "type": "service_account", "project_id": "project-1", "private_key": key,
            "client_email": "push@example", "token_uri": "https://localhost:\(port)/token",
        ]
        FileManager.default.createFile(
            atPath: directory.file("account.json"), contents: try JSONEncoder().encode(account),
            attributes: [.posixPermissions: 0o600])
    }

    /// The configuration with these sections; `DIR` stands for the directory.
    func settings(
        _ sections: String, privateNetworks: String = #""127.0.0.0/8", "::1""#
    ) throws -> PushSettings {
        let text = """
            {
              martlet: { server: "tcp://127.0.0.1:1", tokenFile: "DIR/token" },
              stateFile: "DIR/state",
              privateNetworks: [\(privateNetworks)],
              retry: { firstMilliseconds: 20, longestSeconds: 1 },
              \(sections)
            }
            """.replacing("DIR", with: directory.path)
        return try PushFile.settings(text: Array(text.utf8), path: "push.json5", token: nil)
    }
}

/// A relay without a broker.
final class TestRelay: @unchecked Sendable {
    let settings: PushSettings
    private let control = RelayControl()
    private let ended = DispatchSemaphore(value: 0)
    private var number: UInt64 = 0
    private var hasStopped = false

    init(_ settings: PushSettings) {
        self.settings = settings
        let (control, ended) = (control, ended)
        let isStarted = Threads.Thread.detach(name: "relay") {
            _ = try? PushProcess.run(settings, control, hasBroker: false)
            ended.signal()
        }
        precondition(isStarted, "no thread for \(settings.relay.stateFile)")
    }

    /// A thread that outlives its test would sign requests while the process takes OpenSSL down.
    deinit {
        control.drain()
        if !hasStopped { _ = ended.wait(timeout: .now() + 30) }
    }

    func accept(_ json: String) {
        number += 1
        control.inputs.put(.message(Fixture.message(json, number: number)))
    }

    /// Stops it, and gives the steps of its log with their details.
    func stop() throws -> [String] {
        control.drain()
        guard ended.wait(timeout: .now() + 30 * Double(Sanitizer.patience)) == .success else {
            throw TestFailure("the relay does not stop")
        }
        hasStopped = true
        let record = try RecordFile<PushRecord>.content(of: settings.relay.stateFile)
        return record.log.map { $0.step.name + ($0.detail.isEmpty ? "" : " \($0.detail)") }
    }

    /// The record of a relay that runs or has run.
    func record() throws -> PushRecord {
        try RecordFile<PushRecord>.content(of: settings.relay.stateFile)
    }
}

/// The time of a request that is due now.
var unixNow: UInt64 { UInt64(Date().timeIntervalSince1970 * 1_000) }
