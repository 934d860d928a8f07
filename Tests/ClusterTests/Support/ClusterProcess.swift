// A program of a test's cluster: its process identifier, its log, and its end. It ends with the
// test process, however that ends.

import Foundation
import TestSurroundings

/// A test cannot go on.
struct ClusterFailure: Error, CustomStringConvertible {
    let description: String
}

/// A process that a shell kills when the test process has ended.
final class ClusterProcess: @unchecked Sendable {
    let identifier: pid_t
    private let guardian = Process()
    private let guardianInput = Pipe()
    private let ending = Ending()

    /// What the waiting thread tells.
    private final class Ending: @unchecked Sendable {
        let condition = NSCondition()
        var exitCode: Int32?
    }

    /// - Parameters:
    ///   - log: the file that gets what the program writes.
    ///   - environment: variables beside the usual ones.
    ///   - lastSignal: what ends it with the test process. A script that has started programs needs
    ///     one that it can take.
    init(
        _ program: String, _ arguments: [String], log: String, environment: [String: String] = [:],
        lastSignal: Int32 = SIGKILL
    ) throws {
        identifier = try Self.spawn(program, arguments, log: log, environment)
        guardian.executableURL = URL(filePath: "/bin/sh")
        guardian.arguments = [
            "-c", "read end; kill -\(lastSignal) $0 2>/dev/null", "\(identifier)",
        ]
        guardian.standardInput = guardianInput
        _ = fcntl(guardianInput.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        try guardian.run()
        let (identifier, ending) = (identifier, ending)
        let guardianIdentifier = guardian.processIdentifier
        Thread {
            var status: Int32 = 0
            while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
            // The identifier may be another process's from now on.
            kill(guardianIdentifier, SIGKILL)
            let isSignal = status & 0x7F != 0
            ending.condition.withLock {
                ending.exitCode = isSignal ? 128 + (status & 0x7F) : (status >> 8) & 0xFF
                ending.condition.broadcast()
            }
        }.start()
    }

    private static func spawn(
        _ program: String, _ arguments: [String], log: String, _ environment: [String: String]
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Threads of the tests block signals; a program begins with nothing blocked.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) }
        words.append(nil)
        let variables = Sanitizer.environment.merging(environment) { $1 }
        var values: [UnsafeMutablePointer<CChar>?] =
            variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { (words + values).forEach { free($0) } }
        var process = pid_t()
        let code = posix_spawn(&process, program, &actions, &attributes, &words, &values)
        guard code == 0 else {
            throw ClusterFailure(description: "posix_spawn \(program): \(code)")
        }
        return process
    }

    deinit { signal(SIGKILL) }

    var hasEnded: Bool { ending.condition.withLock { ending.exitCode != nil } }

    func signal(_ number: Int32) {
        ending.condition.withLock { if ending.exitCode == nil { kill(identifier, number) } }
    }

    /// Waits for its end and returns the exit code: 128 and the number of a signal that ended it.
    func waitForEnd(seconds: Double = 60) throws -> Int32 {
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        return try ending.condition.withLock {
            while ending.exitCode == nil {
                guard ending.condition.wait(until: end) else {
                    throw ClusterFailure(description: "process \(identifier) does not end")
                }
            }
            return ending.exitCode ?? -1
        }
    }
}
