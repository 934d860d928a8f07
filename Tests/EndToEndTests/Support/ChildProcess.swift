// A program of this package as a child process: its output line by line, its exit code, its end.

import Foundation
import TestSurroundings
import class Threads.Locked

/// How a child ended.
enum ChildExit: Hashable, Sendable {
    case code(Int32)
    case signal(Int32)
}

/// A running child. Its lines are kept, and can be waited for.
final class ChildProcess: Sendable {
    private struct State {
        var lines: [String] = []
        var exit: ChildExit?
        var waiters: [UInt64: (@Sendable (State) -> Bool, CheckedContinuation<Void, Never>)] = [:]
        var lastWaiter: UInt64 = 0
    }

    let identifier: pid_t
    private let state = Locked(State())

    /// Where the programs of the same build are; or, for measurements, those that
    /// `MARTLET_PROGRAMS` names.
    static let programs: URL = {
        if let path = ProcessInfo.processInfo.environment["MARTLET_PROGRAMS"] {
            return URL(filePath: path)
        }
        let own = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent()
        if FileManager.default.isExecutableFile(atPath: own.appending(path: "martletd").path) {
            return own
        }
        return SourceTree.root.appending(path: ".build/debug")
    }()

    /// Starts a program of this package, or one that is named by its path.
    init(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        input: String? = nil
    ) throws {
        let path =
            program.hasPrefix("/") ? program : Self.programs.appending(path: program).path
        let output = try Self.makePipe()
        let source = try Self.makePipe()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, source.read, 0)
        posix_spawn_file_actions_adddup2(&actions, output.write, 1)
        posix_spawn_file_actions_adddup2(&actions, output.write, 2)
        Self.addCloseOfOthers(&actions)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The event loops of this process block SIGPIPE; a child begins with nothing blocked.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var variables = ["PATH": "/usr/bin:/bin", "HOME": "/proc/nonexistent"]
        variables.merge(Sanitizer.environment) { $1 }
        variables.merge(environment) { $1 }
        var arguments: [UnsafeMutablePointer<CChar>?] =
            ([path] + arguments).map { strdup($0) } + [nil]
        var values: [UnsafeMutablePointer<CChar>?] =
            variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { (arguments + values).forEach { free($0) } }
        var process = pid_t()
        let code = posix_spawn(&process, path, &actions, &attributes, &arguments, &values)
        close(output.write)
        // While this process still has the reading end: a child may end before it reads, and a
        // write to a pipe without a reader would end this process (SIGPIPE).
        if code == 0, let input { Self.write(input, to: source.write) }
        close(source.read)
        guard code == 0 else { throw TestFailure("posix_spawn \(path): \(code)") }
        identifier = process
        close(source.write)
        let reader = Thread { [self] in follow(output.read) }
        reader.start()
    }

    /// Everything the child has said, on both streams.
    var lines: [String] { state.withLock { $0.lines.unshared } }
    var text: String { lines.joined(separator: "\n") }

    /// Does nothing where the child has ended: its number may be somebody else's by then.
    func signal(_ number: Int32) {
        state.withLock { if $0.exit == nil { kill(identifier, number) } }
    }

    /// The first line that contains all of `words`, among those from `start` on.
    func line(with words: String..., from start: Int = 0) async throws -> String {
        // Each line is read once: some children say thousands.
        let search = Locked((next: start, line: String?.none))
        try await wait("a line with \(words)") { state in
            search.withLock { search in
                while search.line == nil, search.next < state.lines.count {
                    let line = state.lines[search.next]
                    if words.allSatisfy(line.contains) { search.line = line }
                    search.next += 1
                }
                return state.exit != nil || search.line != nil
            }
        }
        guard let line = search.withLock({ $0.line }) else {
            throw TestFailure("the child ended without a line with \(words):\n\(text)")
        }
        return line
    }

    /// Waits until the child has ended.
    ///
    /// - Parameter seconds: only a failure lasts so long.
    func exit(within seconds: Double = 20) async throws -> ChildExit {
        try await wait("the end of the child", seconds: seconds) { $0.exit != nil }
        // A wait that was cancelled ends without one.
        guard let exit = state.withLock({ $0.exit }) else { throw CancellationError() }
        return exit
    }

    private func wait(
        _ what: String, seconds: Double = 20, _ isDone: @escaping @Sendable (State) -> Bool
    ) async throws {
        do {
            try await within(seconds: seconds, what) { [self] in await waitForever(isDone) }
        } catch {
            throw TestFailure("\(error); it has said:\n\(text)")
        }
    }

    private func waitForever(_ isDone: @escaping @Sendable (State) -> Bool) async {
        let waiter = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if isDone(state) || Task.isCancelled { return true }
                    state.waiters[waiter] = (isDone, continuation)
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: waiter) }?.1.resume()
        }
    }

    // MARK: - The reader's thread

    private func follow(_ descriptor: Int32) {
        var rest: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            rest += chunk[..<count]
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: rest[..<end], as: UTF8.self)
                rest.removeFirst(end + 1)
                change { $0.lines.append(line) }
            }
        }
        close(descriptor)
        // Its number is free as soon as it is reaped, so that happens under the lock.
        var ended = siginfo_t()
        let process = id_t(identifier)
        while waitid(P_PID, process, &ended, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        change { state in
            var status: Int32 = 0
            while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
            let signal = status & 0x7F
            state.exit = signal == 0 ? .code(status >> 8 & 0xFF) : .signal(signal)
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let woken = state.withLock { state in
            body(&state)
            let ready = state.waiters.filter { $0.value.0(state) }
            for (waiter, _) in ready { state.waiters[waiter] = nil }
            return ready.values.map(\.1)
        }
        for continuation in woken { continuation.resume() }
    }

    /// Closes the descriptors of this process in the child. Sockets of tests that run at the same
    /// time would stay open in it after their close, and count towards its limit of descriptors.
    private static func addCloseOfOthers(_ actions: inout posix_spawn_file_actions_t) {
        // Declared where _GNU_SOURCE is defined, and the Glibc module does not define it.
        typealias AddCloseFrom =
            @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        let symbol = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np")
        let code = unsafeBitCast(symbol!, to: AddCloseFrom.self)(&actions, 3)
        precondition(code == 0, "posix_spawn_file_actions_addclosefrom_np: \(code)")
    }

    private static func makePipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw TestFailure("pipe: \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// What fits into a pipe: tests hand in little.
    private static func write(_ text: String, to descriptor: Int32) {
        let bytes = Array(text.utf8)
        precondition(bytes.count <= 65_536, "more than a pipe holds")
        _ = Glibc.write(descriptor, bytes, bytes.count)
    }
}

/// A test cannot go on.
struct TestFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Runs `body`, and gives up after some time: `body` is cancelled then, and must end.
func within<Value: Sendable>(
    seconds: Double, _ what: String, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await body() }
        group.addTask {
            await Deadline(seconds: seconds * Double(Sanitizer.patience)).wait()
            return nil
        }
        defer { group.cancelAll() }
        guard let first = try await group.next(), let value = first else {
            throw TestFailure("\(seconds) s passed without \(what)")
        }
        return value
    }
}

/// A moment that can be waited for, and given up.
final class Deadline: Sendable {
    private let state = Locked<(isOver: Bool, waiter: CheckedContinuation<Void, Never>?)>(
        (false, nil))
    private let seconds: Double

    init(seconds: Double) { self.seconds = seconds }

    func wait() async {
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { self.end() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if !state.isOver { state.waiter = continuation }
                    return state.isOver
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            end()
        }
    }

    private func end() {
        let waiter = state.withLock { state in
            state.isOver = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
