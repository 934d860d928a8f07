// The broker under a service manager: its notifications for systemd, its reload after a signal, and
// the unit file.

import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite struct SupervisionTests {
        @Test func `the service manager is notified of start, watchdog, reload and end`()
            async throws
        {
            let directory = try TemporaryDirectory()
            let manager = try ServiceManager(directory.file("notify"))
            let configuration = directory.file("martlet.json5")
            try write("{limits: {messageMaximum: 512}}", to: configuration)
            let broker = try ChildProcess(
                "martletd",
                [
                    "--dev", "--data", directory.file("data"), "--config", configuration,
                    "--listen", "tcp://localhost:0",
                ],
                environment: [
                    "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "2000000",
                ])
            defer { broker.signal(SIGKILL) }
            #expect(manager.message { $0 == "READY=1" })
            // Twice: the loops have to turn in between.
            #expect(manager.message { $0 == "WATCHDOG=1" })
            #expect(manager.message { $0 == "WATCHDOG=1" })

            try write("{limits: {messageMaximum: 600}}", to: configuration)
            broker.signal(SIGHUP)
            #expect(manager.message { $0.hasPrefix("RELOADING=1\nMONOTONIC_USEC=") })
            #expect(manager.message { $0 == "READY=1" })
            let line = try await broker.line(with: "configuration_reloaded")
            #expect(line.contains("changed=limits.messageMaximum"))

            try write("{limits: {\n  mesageMaximum: 1}}", to: configuration)
            broker.signal(SIGHUP)
            #expect(manager.message { $0 == "READY=1" })
            let refusal = try await broker.line(with: "configuration_refused")
            #expect(refusal.contains("martlet.json5:2:3"), "\(refusal)")
            #expect(refusal.contains("did you mean limits.messageMaximum"), "\(refusal)")

            // Scripts that rotate the logs of other brokers send them.
            for (signal, name) in [(SIGUSR1, "SIGUSR1"), (SIGUSR2, "SIGUSR2")] {
                broker.signal(signal)
                let line = try await broker.line(with: "event=signal_ignored signal=\(name)")
                #expect(line.contains("level=info"))
            }

            broker.signal(SIGTERM)
            #expect(manager.message { $0 == "STOPPING=1" })
            #expect(try await broker.exit() == .code(0))
        }

        @Test(arguments: [
            ("martletd", "martletd"), ("martlet-gateway", "martlet-gateway"),
            ("martlet-webhook", "martlet-gateway"), ("martlet-push", "martlet-gateway"),
        ])
        func `systemd accepts the unit`(name: String, program: String) async throws {
            let analyze = "/usr/bin/systemd-analyze"
            // Where there is no systemd, there is nobody to take it either.
            guard FileManager.default.isExecutableFile(atPath: analyze) else { return }
            let directory = try TemporaryDirectory()
            let unit = SourceTree.root.appending(path: "docs/operating/\(name).service")
            let text = try String(contentsOf: unit, encoding: .utf8)
            let path = ChildProcess.programs.appending(path: program).path
            let installed = text.replacing("/usr/local/bin/\(program)", with: path)
            #expect(installed != text)
            try write(installed, to: directory.file("\(name).service"))
            let verdict = try ChildProcess(
                analyze, ["verify", directory.file("\(name).service")])
            #expect(try await verdict.exit() == .code(0), "\(verdict.text)")
            #expect(verdict.lines.isEmpty, "\(verdict.text)")
        }

        private func write(_ text: String, to path: String) throws {
            try text.write(toFile: path, atomically: true, encoding: .utf8)
        }
    }
}

/// The other end of NOTIFY_SOCKET.
private final class ServiceManager {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let (descriptor, size) = (descriptor, socklen_t(MemoryLayout<sockaddr_un>.size))
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        guard bound == 0 else { throw TestFailure("bind: \(errno)") }
        var timeout = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// Whether a message comes for which `isWanted` holds; those before it are dropped.
    func message(where isWanted: (String) -> Bool) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
            if isWanted(String(decoding: buffer[..<count], as: UTF8.self)) { return true }
        }
        return false
    }
}
