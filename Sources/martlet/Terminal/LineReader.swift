// Reads lines of standard input on a thread of its own: waiting for input blocks neither the tasks
// nor the keep-alive. Lines are bytes; the caller checks texts.

import CommandLineOptions
import Glibc
import Threads

/// Reads lines from a descriptor. Only one task may take them.
final class LineReader: Sendable {
    private struct State {
        var lines: [[UInt8]] = []
        var byteCount = 0
        var end: End?
        var waiter: CheckedContinuation<Void, Never>?
    }

    private enum End {
        case ended
        case cancelled
        case failed(CommandFailure)
    }

    /// Bytes that are read ahead: few, because bytes that were read and not sent are lost for the
    /// next reader of the input.
    private static let aheadByteCountMaximum = 64 * 1024
    /// The maximum of a line: twice the largest message that a client of this tool can send.
    private static let lineByteCountMaximum = 1 << 20

    private let descriptor: Int32
    private let state = Locked(State())
    private let room = WakeSignal()

    init(descriptor: Int32 = 0) {
        self.descriptor = descriptor
    }

    /// Starts reading.
    func start() throws(CommandFailure) {
        // The thread is never joined: a read may block forever, and ends with the process.
        guard Thread.detach(name: "input", { self.read() }) else {
            throw CommandFailure("cannot create a thread for standard input", .failure)
        }
    }

    /// The next line without its line feed; nil at the end, or when it was cancelled.
    func next() async throws(CommandFailure) -> [UInt8]? {
        while true {
            let outcome = try take()
            if let outcome { return outcome }
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if !state.lines.isEmpty || state.end != nil { return true }
                    state.waiter = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        }
    }

    /// Lines that were read and not taken.
    var untakenCount: Int { state.withLock { $0.lines.count } }

    /// Ends the wait for more; lines that were read are no longer returned.
    func cancel() { finish(.cancelled) }

    /// Nil to wait; otherwise the line, or the end.
    private func take() throws(CommandFailure) -> [UInt8]?? {
        let (line, end) = state.withLock { state -> ([UInt8]?, End?) in
            if case .cancelled = state.end { return (nil, state.end) }
            guard !state.lines.isEmpty else { return (nil, state.end) }
            let line = state.lines.removeFirst()
            state.byteCount -= line.count
            return (line, nil)
        }
        room.notify()
        if let line { return .some(line) }
        switch end {
        case nil: return nil
        case .ended, .cancelled: return .some(nil)
        case .failed(let failure): throw failure
        }
    }

    // MARK: - The thread

    private func read() {
        var rest: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                poll(&wait, 1, -1)
                continue
            }
            guard count >= 0 else {
                let reason = String(cString: strerror(errno))
                return finish(
                    .failed(CommandFailure("cannot read standard input: \(reason)", .failure)))
            }
            if count == 0 {
                // The last line may have no line feed.
                if !rest.isEmpty { append([rest]) }
                return finish(.ended)
            }
            var lines: [[UInt8]] = []
            for byte in chunk[..<count] {
                if byte == UInt8(ascii: "\n") {
                    lines.append(rest)
                    rest = []
                } else {
                    rest.append(byte)
                }
            }
            append(lines)
            guard rest.count <= Self.lineByteCountMaximum else {
                return finish(
                    .failed(
                        CommandFailure(
                            "a line has more than \(Self.lineByteCountMaximum) bytes", .failure)))
            }
            while isFull { _ = room.wait() }
        }
    }

    private var isFull: Bool {
        state.withLock { $0.end == nil && $0.byteCount > Self.aheadByteCountMaximum }
    }

    private func append(_ lines: [[UInt8]]) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !lines.isEmpty else { return nil }
            state.lines += lines
            state.byteCount += lines.reduce(0) { $0 + $1.count }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    private func finish(_ end: End) {
        let waiter = state.withLock { state in
            if case .cancelled = end { state.end = end } else { state.end = state.end ?? end }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
        room.notify()
    }
}
