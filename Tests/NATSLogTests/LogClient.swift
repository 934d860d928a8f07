// A node's half of a log for tests: blocks until an outcome is there, with a bound.

import Foundation
import NATSLog
import Replication
import TestSurroundings
import class Threads.WakeSignal

/// A test cannot go on.
struct LogFailure: Error, CustomStringConvertible {
    let description: String
}

/// One user of a log. A test uses it on a thread of its own (``onThread(_:)``).
final class LogClient: @unchecked Sendable {
    let log: JetStreamLog
    let report: JetStreamReport
    private let signal: WakeSignal
    private var lastRequest: UInt64 = 0
    private var events: [ReplicatedLogEvent] = []

    /// Opens the log, and tries again while the servers elect their leaders.
    init(
        _ settings: JetStreamSettings, byteCountMaximum: Int64? = 256 << 20,
        seconds: Double = 60
    ) throws {
        let signal = WakeSignal()
        self.signal = signal
        let creation: JetStreamCreation =
            byteCountMaximum.map { .ifAbsent(byteCountMaximum: $0) } ?? .never
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        while true {
            do {
                let opened = try JetStreamLog.open(settings, creation: creation) {
                    signal.notify()
                }
                (log, report) = (opened.log, opened.report)
                return
            } catch {
                guard Self.mayPass(error), Date() < end else { throw error }
                _ = signal.wait(milliseconds: 100)
            }
        }
    }

    /// Opens the log of servers that tell whether they sync. One that is paused does not in time,
    /// and the log opens without its answer.
    static func asking(_ settings: JetStreamSettings) throws -> LogClient {
        for _ in 0..<60 {
            let client = try LogClient(settings)
            if client.report.isSyncKnown { return client }
            client.wait(milliseconds: 100)
        }
        throw LogFailure(description: "60 starts without the answer of each server")
    }

    private static func mayPass(_ error: JetStreamError) -> Bool {
        error.isTemporary || error.isOfStart
    }

    deinit { log.stop() }

    /// Waits for an event, at most so long.
    func wait(milliseconds: Int32) { _ = signal.wait(milliseconds: milliseconds) }

    /// The first event that `pick` takes; others wait for a later call.
    func event<Value>(
        seconds: Double = 30, _ pick: (ReplicatedLogEvent) -> Value?
    ) throws -> Value {
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        while true {
            while let event = log.takeEvent() { events.append(event) }
            for (index, event) in events.enumerated() {
                guard let value = pick(event) else { continue }
                events.remove(at: index)
                return value
            }
            guard Date() < end else {
                throw LogFailure(description: "\(seconds) s without the event; have \(events)")
            }
            _ = signal.wait(milliseconds: 100)
        }
    }

    /// One try.
    private func tryAppend(_ record: [UInt8], after last: UInt64) throws -> AppendOutcome {
        lastRequest += 1
        let request = LogRequest(raw: lastRequest)
        log.append(record, expecting: LogSequence(raw: last), as: request)
        return try event { event in
            guard case .appended(request, let outcome) = event else { return nil }
            return outcome
        }
    }

    /// Appends, and tries again while the outcome is unknown: a server that is paused for a second
    /// answers too late. A record that an earlier try has brought to its place is committed.
    func append(_ record: [UInt8], after last: UInt64) throws -> AppendOutcome {
        let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
        var isUncertain = false
        while true {
            let outcome = try tryAppend(record, after: last)
            switch outcome {
            case .unknown where Date() < end: isUncertain = true
            case .wrongLast where isUncertain, .full where isUncertain:
                if case .record(let found) = try read(at: last + 1) {
                    return found == record ? .committed(LogSequence(raw: last + 1)) : outcome
                }
                // A leader that was just elected may still apply it.
                if outcome == .full || Date() >= end { return outcome }
            default: return outcome
            }
            _ = signal.wait(milliseconds: 100)
        }
    }

    /// Reads, and tries again while no server answers.
    func read(at sequence: UInt64) throws -> ReadOutcome {
        let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
        while true {
            let outcome = try tryRead(at: sequence)
            guard case .unknown = outcome, Date() < end else { return outcome }
            _ = signal.wait(milliseconds: 100)
        }
    }

    /// Reads a record that was committed, which a leader that was just elected may still apply.
    func readRecord(at sequence: UInt64) throws -> ReadOutcome {
        let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
        while true {
            let outcome = try read(at: sequence)
            guard outcome == .nothing, Date() < end else { return outcome }
            _ = signal.wait(milliseconds: 100)
        }
    }

    /// One try.
    private func tryRead(at sequence: UInt64) throws -> ReadOutcome {
        lastRequest += 1
        let request = LogRequest(raw: lastRequest)
        log.read(at: LogSequence(raw: sequence), as: request)
        return try event { event in
            guard case .read(request, let outcome) = event else { return nil }
            return outcome
        }
    }

    /// The record `next` of a follower, or what comes instead. Follows again where delivery ends
    /// while servers are paused or elect a leader; that the stream is absent is final.
    func followed(_ next: UInt64) throws -> ReplicatedLogEvent {
        for _ in 0..<100 {
            let event = try followed()
            guard case .followingEnded(let cause) = event, cause != .failed(code: 10_059) else {
                return event
            }
            _ = signal.wait(milliseconds: 100)
            log.follow(from: LogSequence(raw: next))
        }
        throw LogFailure(description: "100 endings of delivery before record \(next)")
    }

    /// The next record of a follower, or the end.
    private func followed() throws -> ReplicatedLogEvent {
        try event { event in
            switch event {
            case .followed, .followingEnded, .recordsMissing: event
            case .appended, .read: nil
            }
        }
    }

    /// Follows from the first record, and requires those of `record` in their order. Begins again
    /// at the next one where delivery ends while servers elect a leader.
    func requireRecords(_ numbers: ClosedRange<UInt64>, _ record: (UInt64) -> [UInt8]) throws {
        var next = numbers.lowerBound
        var endings = 0
        log.follow(from: LogSequence(raw: next))
        while next <= numbers.upperBound {
            switch try followed() {
            case .followed(LogSequence(raw: next), record: record(next)): next += 1
            case .followingEnded where endings < 100:
                endings += 1
                _ = signal.wait(milliseconds: 100)
                log.follow(from: LogSequence(raw: next))
            case let event:
                throw LogFailure(description: "\(event) in the place of record \(next)")
            }
        }
    }

    /// Trims, and waits until the stream begins with the next record. A trim has no outcome, and
    /// its next call repeats it.
    func trim(through sequence: UInt64) throws {
        let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
        while Date() < end {
            log.trim(through: LogSequence(raw: sequence))
            for _ in 0..<20 {
                if (try? log.describe().first) == LogSequence(raw: sequence + 1) { return }
                wait(milliseconds: 50)
            }
        }
        throw LogFailure(description: "the stream does not begin with \(sequence + 1)")
    }

    /// Appends a record that must be refused, until the servers say so for certain. What they say
    /// of the last record proves nothing.
    func appendInVain(_ record: [UInt8], after last: UInt64) throws -> AppendOutcome {
        let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
        while Date() < end {
            let outcome = try tryAppend(record, after: last)
            switch outcome {
            case .unknown, .wrongLast: wait(milliseconds: 100)
            case .committed, .full, .refused: return outcome
            }
        }
        throw LogFailure(description: "no known outcome after \(last)")
    }

    /// Appends until the record is known to be at its place, as a primary does.
    ///
    /// - Returns: the number of tries.
    func appendSurely(_ record: [UInt8], after last: UInt64, seconds: Double = 60) throws -> Int {
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        var tries = 0
        while Date() < end {
            tries += 1
            switch try tryAppend(record, after: last) {
            case .committed(let sequence):
                guard sequence.raw == last + 1 else {
                    throw LogFailure(description: "appended at \(sequence) after \(last)")
                }
                return tries
            case .wrongLast:
                if case .record(let found) = try read(at: last + 1) {
                    guard found == record else {
                        throw LogFailure(description: "another record is at \(last + 1)")
                    }
                    return tries
                }
            case .unknown: break
            case .full, .refused: throw LogFailure(description: "the append was refused")
            }
            _ = signal.wait(milliseconds: 20)
        }
        throw LogFailure(description: "\(seconds) s without a known outcome after \(last)")
    }
}
