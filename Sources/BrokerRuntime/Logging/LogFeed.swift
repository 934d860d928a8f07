// The latest lines of the log as values, for operators who follow the broker over the admin socket
// or the HTTP API, and the event streams that wait for the next one.
//
// Invariants: numbers rise by one with each line that could be kept; the lines are in the order of
// their numbers; a loop without a stream is not woken.

import Administration
import Configuration
import NetTransport
import Primitives
import Synchronization
import Threads

/// The lines that operators follow. Any thread may add one.
final class LogFeed: Sendable {
    /// One line of the log.
    struct Line: Sendable {
        let number: UInt64
        let unixMilliseconds: UInt64
        let record: LogRecord
    }

    /// Lines after a number.
    struct Page {
        /// The oldest first.
        var lines: [Line]
        /// The number of the latest line, also of those that were left out.
        var last: UInt64
    }

    /// Lines that are kept: with ``valueByteCountMaximum`` at most 3 MB, in most cases 300 KB.
    static let countMaximum = 1_000
    /// A value is cut after this many bytes.
    static let valueByteCountMaximum = 256
    /// Event streams of operators. Each costs a loop about as much as a client with 50 messages a
    /// second, and more only delay the broker that they watch.
    static let streamCountMaximum = 16
    /// How long after a request the lines of level info are kept for the next one, whatever the
    /// level of the log is.
    static let followMilliseconds: UInt64 = 10_000

    private struct State {
        var latest = LatestEvents<Line>(countMaximum: LogFeed.countMaximum)
        var streamCount = 0
        /// The loops that have streams, and how many each has.
        var loops: [UInt8: (handle: LoopHandle, count: Int)] = [:]

        func page(after: UInt64?, limit: Int) -> Page {
            Page(lines: latest.list(after: after, limit: limit), last: latest.last)
        }
    }

    private let state = Locked(State())
    /// Until when somebody follows, in Unix milliseconds; the maximum while there is a stream.
    private let followEnd = Atomic<UInt64>(0)

    /// Whether somebody follows: then lines of level info are kept that the log itself leaves out.
    func isFollowed(at unixMilliseconds: UInt64) -> Bool {
        unixMilliseconds < followEnd.load(ordering: .relaxed)
    }

    /// Takes a line. It is counted and left out if there were too many of its event in this second.
    func take(_ record: LogRecord, of principal: String? = nil, unixMilliseconds: UInt64) {
        state.withLock { state in
            let isKept = state.latest.take(
                record.event, of: principal, unixMilliseconds: unixMilliseconds
            ) {
                Line(
                    number: $0, unixMilliseconds: unixMilliseconds,
                    record: record.cut(to: Self.valueByteCountMaximum))
            }
            guard isKept else { return }
            for loop in state.loops.values { loop.handle.wake() }
        }
    }

    /// Lines after a number, for somebody who asks again soon.
    ///
    /// - Parameters:
    ///   - after: nil for the latest ones.
    ///   - limit: how many at most.
    func page(after: UInt64?, limit: Int, unixMilliseconds: UInt64) -> Page {
        state.withLock { state in
            if state.streamCount == 0 {
                followEnd.store(unixMilliseconds + Self.followMilliseconds, ordering: .relaxed)
            }
            return state.page(after: after, limit: limit)
        }
    }

    // MARK: - Streams

    /// Notes a stream of a loop, which is woken when there is a line. Returns the number of the
    /// latest line; nil if there are too many streams.
    func beginStream(of loop: UInt8, _ handle: LoopHandle) -> UInt64? {
        state.withLock { state in
            guard state.streamCount < Self.streamCountMaximum else { return nil }
            state.streamCount += 1
            state.loops[loop, default: (handle, 0)].count += 1
            followEnd.store(.max, ordering: .relaxed)
            return state.latest.last
        }
    }

    /// - Parameter unixMilliseconds: a reader that lost its connection has some time to come back.
    func endStream(of loop: UInt8, unixMilliseconds: UInt64) {
        state.withLock { state in
            state.streamCount -= 1
            state.loops[loop]?.count -= 1
            if state.loops[loop]?.count == 0 { state.loops[loop] = nil }
            if state.streamCount == 0 {
                followEnd.store(unixMilliseconds + Self.followMilliseconds, ordering: .relaxed)
            }
        }
    }

    /// Lines for a stream.
    func page(after number: UInt64, limit: Int) -> Page {
        state.withLock { $0.page(after: number, limit: limit) }
    }
}

extension LogRecord {
    /// The same with shorter values.
    fileprivate func cut(to byteCountMaximum: Int) -> LogRecord {
        var record = self
        for index in record.fields.indices {
            guard case .text(let text) = record.fields[index].value else { continue }
            record.fields[index].value = .text(text.cut(to: byteCountMaximum))
        }
        return record
    }
}

extension ListLogLines.Line {
    init(_ line: LogFeed.Line) {
        self.init(
            number: line.number, unixMilliseconds: line.unixMilliseconds,
            level: line.record.level.rawValue, event: line.record.event.rawValue,
            fields: line.record.fields.compactMap { field in
                switch field.value {
                case .text(let text): ListLogLines.Field(name: field.key, value: text)
                case .number(let number): ListLogLines.Field(name: field.key, value: "\(number)")
                case .absent: nil
                }
            })
    }
}
