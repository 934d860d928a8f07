// Following: a standby accepts the records in order and passes them to its store. Whatever delivers
// them may repeat some, leave some out, or end.

import BrokerCore
import Primitives

/// The state of following.
struct Following: Sendable {
    /// The read of a record that delivery left out.
    var gap: LogRequest?
    /// When following begins again.
    var retryAt: Instant?
    /// Failures at the next position: reads that found nothing, and unreadable records.
    var failureCount = 0
}

extension Replica {
    mutating func follow(_ commands: inout [ReplicaCommand]) {
        guard role != .joining else { return }
        following.gap = nil
        commands.append(.follow(from: received.sequence.next))
    }

    /// Delivery brings a record.
    mutating func followed(
        _ sequence: LogSequence, _ bytes: [UInt8], at time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        guard role != .joining, sequence > received.sequence else { return }
        guard sequence == received.sequence.next else {
            return readMissing(&commands)
        }
        if pending != nil {
            return found(bytes, at: sequence, time: time, commands: &commands)
        }
        if role == .primary { return fence(.deposed(at: sequence), &commands) }
        accept(bytes, at: sequence, time: time, commands: &commands)
    }

    /// Delivery has ended before the next record.
    mutating func recordsMissing(
        before first: LogSequence, at time: ReplicaTime, commands: inout [ReplicaCommand]
    ) {
        guard role != .joining else { return }
        // Another append of this node may have been committed meanwhile.
        guard first > received.sequence.next else { return followLater(at: time) }
        readMissing(&commands)
    }

    /// Reads the next record, which delivery left out. An own append may be there, or nothing: then
    /// the log has forgotten it.
    private mutating func readMissing(_ commands: inout [ReplicaCommand]) {
        guard following.gap == nil, following.retryAt == nil else { return }
        let request = nextRequest()
        following.gap = request
        commands.append(.read(received.sequence.next, request))
    }

    /// The outcome of a read.
    mutating func read(
        _ request: LogRequest, _ outcome: ReadOutcome, at time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        if request == pending?.check {
            return checked(outcome, at: time, commands: &commands)
        }
        guard request == following.gap else { return }
        following.gap = nil
        switch outcome {
        case .record(let bytes):
            followed(received.sequence.next, bytes, at: time, commands: &commands)
            if role != .fenced { follow(&commands) }
        case .nothing:
            following.failureCount += 1
            guard following.failureCount >= ReplicationLimits.emptyReadMaximum else {
                return followLater(at: time)
            }
            // Later records are another node's.
            if role == .primary {
                return fence(.deposed(at: received.sequence.next), &commands)
            }
            role = .joining
            pending = nil
            commands.append(.copyStore)
        case .unknown: followLater(at: time)
        }
    }

    private mutating func followLater(at time: ReplicaTime) {
        following.retryAt = time.now.advanced(
            byMilliseconds: ReplicationLimits.retryMilliseconds.upperBound)
    }

    /// Accepts the next record, if it continues those before.
    mutating func accept(
        _ bytes: [UInt8], at sequence: LogSequence, time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        let record: LogRecord
        var batch: DecidedBatch?
        do throws(LogRecordError) {
            record = try LogRecord(decoding: bytes, cluster: received.cluster)
            if case .batch(let bytes) = record.content { batch = try DecidedBatch(decoding: bytes) }
        } catch {
            return refuse(error, at: sequence, time: time, commands: &commands)
        }
        var position = received
        position.sequence = sequence
        if case .takeover = record.content {
            position.term = Term(raw: sequence.raw)
            position.number = 0
        } else {
            position.number += 1
        }
        guard record.term == received.term, record.number == position.number else {
            return fence(.brokenHistory(sequence), &commands)
        }
        received = position
        lastHeard = time.now
        following.failureCount = 0
        commands.append(.apply(position, record.moment, batch))
    }

    /// A record that cannot be read may be damaged on one server only.
    private mutating func refuse(
        _ error: LogRecordError, at sequence: LogSequence, time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        following.failureCount += 1
        switch error {
        case .damaged where following.failureCount < ReplicationLimits.emptyReadMaximum:
            followLater(at: time)
        default: fence(.unreadable(sequence, error), &commands)
        }
    }

    /// The store is another node's copy now.
    mutating func copied(
        _ position: ReplicaPosition, at time: ReplicaTime, commands: inout [ReplicaCommand]
    ) {
        guard role == .joining else { return }
        role = .standby
        received = position
        applied = position.sequence
        lastHeard = time.now
        following = Following()
        follow(&commands)
    }
}
