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

    func append(_ record: [UInt8], after last: UInt64) throws -> AppendOutcome {
        lastRequest += 1
        let request = LogRequest(raw: lastRequest)
        log.append(record, expecting: LogSequence(raw: last), as: request)
        return try event { event in
            guard case .appended(request, let outcome) = event else { return nil }
            return outcome
        }
    }

    func read(at sequence: UInt64) throws -> ReadOutcome {
        lastRequest += 1
        let request = LogRequest(raw: lastRequest)
        log.read(at: LogSequence(raw: sequence), as: request)
        return try event { event in
            guard case .read(request, let outcome) = event else { return nil }
            return outcome
        }
    }

    /// The next record of a follower, or the end.
    func followed() throws -> ReplicatedLogEvent {
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

    /// Waits until the stream begins with a record.
    func awaitFirst(_ sequence: UInt64) throws {
        for _ in 0..<1_000 {
            if try log.describe().first == LogSequence(raw: sequence) { return }
            wait(milliseconds: 10)
        }
        throw LogFailure(description: "the stream does not begin with \(sequence)")
    }

    /// Appends a record that must be refused, until the servers say so for certain.
    func appendInVain(_ record: [UInt8], after last: UInt64) throws -> AppendOutcome {
        for _ in 0..<30 {
            let outcome = try append(record, after: last)
            if case .unknown = outcome { continue }
            return outcome
        }
        throw LogFailure(description: "30 tries without a known outcome after \(last)")
    }

    /// Appends until the record is known to be at its place, as a primary does.
    ///
    /// - Returns: the number of tries.
    func appendSurely(_ record: [UInt8], after last: UInt64, seconds: Double = 60) throws -> Int {
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        var tries = 0
        while Date() < end {
            tries += 1
            switch try append(record, after: last) {
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
