// The broker under a service manager: its notifications for systemd, its reload after a signal, and
// the unit file.

import Foundation
import TestSurroundings
import Testing
import class Threads.Locked

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct SupervisionTests {
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
            try await manager.wait(for: "READY=1")
            // Twice: the loops have to turn in between.
            try await manager.wait(for: "WATCHDOG=1")
            try await manager.wait(for: "WATCHDOG=1")

            try write("{limits: {messageMaximum: 600}}", to: configuration)
            broker.signal(SIGHUP)
            try await manager.wait(for: "RELOADING=1") {
                $0.hasPrefix("RELOADING=1\nMONOTONIC_USEC=")
            }
            try await manager.wait(for: "READY=1")
            let line = try await broker.line(with: "configuration_reloaded")
            #expect(line.contains("changed=limits.messageMaximum"))

            try write("{limits: {\n  mesageMaximum: 1}}", to: configuration)
            broker.signal(SIGHUP)
            try await manager.wait(for: "READY=1")
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
            try await manager.wait(for: "STOPPING=1")
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

/// The other end of NOTIFY_SOCKET. Its thread takes every message at once: the system keeps ten,
/// and the broker drops further ones.
private final class ServiceManager: Sendable {
    let path: String
    private let messages = Locked<[String]>([])

    init(_ path: String) throws {
        self.path = path
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        guard bound == 0 else { throw TestFailure("bind: \(errno)") }
        // Its thread ends after a minute without a message.
        var timeout = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        let messages = messages
        Thread {
            var buffer = [UInt8](repeating: 0, count: 4096)
            while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
                let text = String(decoding: buffer[..<count], as: UTF8.self)
                messages.withLock { $0.append(text) }
            }
            close(descriptor)
        }.start()
    }

    /// Waits for a message for which `isWanted` holds; those before it are dropped.
    func wait(for what: String, where isWanted: (String) -> Bool) async throws {
        try await eventually("the message \(what)") {
            messages.withLock { messages in
                let place = messages.firstIndex(where: isWanted)
                messages.removeFirst(place.map { $0 + 1 } ?? messages.count)
                return place != nil
            }
        }
    }

    func wait(for message: String) async throws {
        try await wait(for: message) { $0 == message }
    }
}
