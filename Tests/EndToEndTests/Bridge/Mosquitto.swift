// A Mosquitto for one test, on a port of its own, with its state on disk; and a TCP relay
// to it that can be stopped.

import Foundation
import TestSurroundings
import class Threads.Locked

/// A mosquitto that can be killed and started again on the same state and port.
final class Mosquitto {
    private let files: TemporaryDirectory
    var directory: String { files.path }
    private let reservedPort: ReservedPort
    var port: UInt16 { reservedPort.number }
    private let extra: [String]
    private(set) var process: ChildProcess

    /// - Parameters:
    ///   - settings: lines for its configuration, in place of a listener without TLS.
    ///   - more: lines beside those.
    init(
        port: ReservedPort? = nil, settings: [String]? = nil, extra more: [String]? = nil
    ) async throws {
        files = try TemporaryDirectory("mosquitto")
        reservedPort = try port ?? ReservedPort()
        extra = settings ?? ["listener \(reservedPort.number) 127.0.0.1", "allow_anonymous true"]
        let extra = extra + (more ?? [])
        // It writes its state when it is told to, and only then: see `save`.
        let lines =
            [
                "persistence true", "persistence_location \(files.path)/",
                "autosave_interval 0", "max_queued_messages 0", "log_dest stderr", "user root",
            ] + extra
        try Data(lines.joined(separator: "\n").appending("\n").utf8)
            .write(to: URL(filePath: files.file("mosquitto.conf")))
        process = try Self.spawn(files.path)
        try await becomeReady()
    }

    deinit { process.signal(SIGKILL) }

    private static func spawn(_ directory: String) throws -> ChildProcess {
        let path = "/usr/sbin/mosquitto"
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw TestFailure("\(path) is missing: install mosquitto, as `make test-deps` does")
        }
        return try ChildProcess(path, ["-c", "\(directory)/mosquitto.conf"])
    }

    private func becomeReady() async throws {
        _ = try await process.line(with: "mosquitto version", "running")
    }

    /// Makes it write its state now. It acknowledges before it writes, so that a kill alone would
    /// lose what it has acknowledged.
    func save() async throws {
        let count = process.lines.count
        process.signal(SIGUSR1)
        _ = try await process.line(with: "Saving in-memory database", from: count)
        // That is said before it is done, by the only thread: who is answered afterwards, is
        // answered by one that has saved. (A second signal would be lost while it saves.)
        try await publish("saved", "", qos: 1)
    }

    /// Kills it as one that acknowledges only what it has written would be killed: what it says
    /// from some moment on is heard by nobody.
    func kill(behind wire: Wire) async throws {
        wire.freeze()
        try await save()
        process.signal(SIGKILL)
        _ = try await process.exit()
        wire.cut()
    }

    func start() async throws {
        process = try Self.spawn(directory)
        try await becomeReady()
    }

    // MARK: - Its own clients

    /// Starts one of Mosquitto's clients; its lines come when they are written.
    func client(
        _ program: String, _ words: String..., input: String? = nil
    ) throws -> ChildProcess {
        try ChildProcess(
            "/usr/bin/stdbuf",
            ["-oL", "/usr/bin/mosquitto_\(program)", "-h", "127.0.0.1", "-p", "\(port)"] + words,
            input: input)
    }

    /// Publishes, and returns when it is acknowledged.
    func publish(_ topic: String, _ text: String, qos: Int, _ words: String...) async throws {
        try await succeed(
            ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-h", "127.0.0.1", "-p", "\(port)", "-q", "\(qos)", "-t", topic, "-m", text,
                ] + words))
    }

    /// Publishes one message for each line, in order; returns when all are acknowledged.
    func publish(_ topic: String, lines: [String], qos: Int) async throws {
        try await succeed(
            client(
                "pub", "-q", "\(qos)", "-t", topic, "-l",
                input: lines.joined(separator: "\n") + "\n"))
    }

    private func succeed(_ child: ChildProcess) async throws {
        guard try await child.exit() == .code(0) else {
            throw TestFailure("a client of Mosquitto's failed:\n\(child.text)")
        }
    }

    /// A subscriber that is there when this returns.
    func subscriber(_ words: String...) async throws -> ChildProcess {
        let child = try ChildProcess(
            "/usr/bin/stdbuf",
            [
                "-oL", "/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", "\(port)", "-d", "-q",
                "2",
                "-F", "%t %q %p",
            ] + words)
        _ = try await child.line(with: "Subscribed")
        return child
    }
}

private func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
}

/// Carries connections to a port of this machine.
final class Wire: Sendable {
    private struct State {
        /// What the far end says is thrown away.
        var isFrozen = false
        var ends: [Int32] = []
    }

    let port: UInt16
    private let target: UInt16
    private let isNarrow: Bool
    private let listener: Int32
    private let state = Locked(State())

    /// - Parameter isNarrow: it holds few bytes itself, so that whoever sends is held back soon.
    init(to target: UInt16, isNarrow: Bool = false) throws {
        self.target = target
        self.isNarrow = isNarrow
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        listener = descriptor
        if isNarrow {
            Self.narrow(listener, SO_RCVBUF)
            // As on Ethernet: with segments of 64 KiB the sender's own buffer has megabytes.
            var byteCount: Int32 = 1_460
            setsockopt(
                listener, Int32(IPPROTO_TCP), TCP_MAXSEG, &byteCount,
                socklen_t(MemoryLayout<Int32>.size))
        }
        var address = loopback(0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard isBound, listen(listener, 16) == 0 else {
            throw TestFailure("no listener: \(errno)")
        }
        Thread.detachNewThread { [weak self] in
            // This thread closes: after a close elsewhere the number could be another test's
            // listener, and it would accept there.
            defer { close(descriptor) }
            while case let near = accept(descriptor, nil, nil), near >= 0 {
                guard let wire = self else {
                    close(near)
                    return
                }
                wire.carry(near)
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    private static func narrow(_ descriptor: Int32, _ option: Int32) {
        var byteCount: Int32 = 16_384
        setsockopt(
            descriptor, SOL_SOCKET, option, &byteCount, socklen_t(MemoryLayout<Int32>.size))
    }

    func freeze() { state.withLock { $0.isFrozen = true } }

    /// Ends all connections; new ones are carried again.
    func cut() {
        state.withLock { state in
            for end in state.ends { shutdown(end, Int32(SHUT_RDWR)) }
            state = State()
        }
    }

    private func carry(_ near: Int32) {
        let far = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if isNarrow { Self.narrow(far, SO_SNDBUF) }
        var address = loopback(target)
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(far, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else {
            close(near)
            close(far)
            return
        }
        state.withLock { $0.ends += [near, far] }
        Thread.detachNewThread { self.copy(far, to: near, isFromTarget: true) }
        Thread.detachNewThread { self.copy(near, to: far, isFromTarget: false) }
    }

    /// Until either end is gone. The descriptors stay open for ``cut()``, which may still name
    /// them: a test has a few dozen.
    private func copy(_ source: Int32, to target: Int32, isFromTarget: Bool) {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while case let count = recv(source, &chunk, chunk.count, 0), count > 0 {
            // A target that stands still may hold this one: not with the lock, which `cut` needs.
            let isSent =
                isFromTarget
                ? state.withLock {
                    $0.isFrozen || send(target, chunk, count, Int32(MSG_NOSIGNAL)) == count
                } : send(target, chunk, count, Int32(MSG_NOSIGNAL)) == count
            if !isSent { break }
        }
        shutdown(target, Int32(SHUT_RDWR))
        shutdown(source, Int32(SHUT_RDWR))
    }
}
