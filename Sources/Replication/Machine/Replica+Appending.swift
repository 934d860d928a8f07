// Appends: the primary's batches and heartbeats, and a standby's takeover. One is under way at a
// time. The bytes for a position stay the same until their outcome is known, because an earlier try
// may still come into the log.

import BrokerCore
import Primitives

/// A record whose outcome is not known.
struct PendingAppend: Sendable {
    enum Kind: Hashable, Sendable {
        case takeover
        case heartbeat
        case batch(hasSends: Bool)
    }

    let kind: Kind
    let position: ReplicaPosition
    let moment: Moment
    let bytes: [UInt8]
    let expected: LogSequence
    let firstTry: Instant
    /// Its place among the appends of this node.
    let ordinal: UInt64
    /// The last tries, of which each may have been the one that was committed.
    var tries: [LogRequest] = []
    /// Whether an earlier try may be in the log.
    var isUncertain = false
    /// Whether the log had no room for the latest try whose outcome is known.
    var isRefusedAsFull = false
    /// The read of the record at its position.
    var check: LogRequest?
    var retryAt: Instant?
    var pauseMilliseconds = ReplicationLimits.retryMilliseconds.lowerBound
}

extension Replica {
    /// A batch that the primary's store has decided.
    mutating func decided(
        _ bytes: [UInt8], hasSends: Bool, at time: ReplicaTime, commands: inout [ReplicaCommand]
    ) {
        precondition(
            role == .primary && !isDeciding, "a batch of \(bytes.count) bytes as \(role)")
        waiting = (bytes, hasSends)
    }

    /// Begins an append behind the last record.
    mutating func begin(
        _ content: LogContent, _ kind: PendingAppend.Kind, at time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        var position = received
        position.sequence = received.sequence.next
        if kind == .takeover {
            position.term = Term(raw: position.sequence.raw)
            position.number = 0
        } else {
            position.number += 1
        }
        // A takeover says which term it ends.
        let record = LogRecord(
            cluster: received.cluster, term: received.term, number: position.number,
            moment: time.moment, content: content)
        begunCount += 1
        lastBegun = time.now
        wantsConfirmation = false
        pending = PendingAppend(
            kind: kind, position: position, moment: time.moment, bytes: record.encoded,
            expected: received.sequence, firstTry: time.now, ordinal: begunCount)
        tryAgain(&commands)
    }

    /// Tries the same bytes at the same position.
    mutating func tryAgain(_ commands: inout [ReplicaCommand]) {
        guard var append = pending else { return }
        let request = nextRequest()
        if append.tries.count == ReplicationLimits.rememberedTryMaximum {
            append.tries.removeFirst()
        }
        append.tries.append(request)
        append.retryAt = nil
        append.check = nil
        pending = append
        commands.append(.append(append.bytes, expecting: append.expected, request))
    }

    /// The outcome of a try.
    mutating func appended(
        _ request: LogRequest, _ outcome: AppendOutcome, at time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        guard let append = pending, append.tries.contains(request) else { return }
        let isLatest = append.tries.last == request
        pending?.isRefusedAsFull = outcome == .full
        switch outcome {
        case .committed(let sequence):
            guard sequence == append.position.sequence else {
                return fence(.misplaced(sequence), &commands)
            }
            settle(at: time, commands: &commands)
        case .wrongLast:
            guard append.check == nil else { return }
            let check = nextRequest()
            pending?.check = check
            pending?.retryAt = nil
            commands.append(.read(append.position.sequence, check))
        case .unknown:
            pending?.isUncertain = true
            if isLatest { pause(at: time) }
        case .full:
            guard case .batch(hasSends: true) = append.kind, isLatest, !append.isUncertain,
                append.tries.count == 1
            else { return pauseIfLatest(isLatest, at: time) }
            pending = nil
            commands.append(.refuseSends)
        case .refused(.tooLarge): fence(.refused(.tooLarge), &commands)
        case .refused: pauseIfLatest(isLatest, at: time)
        }
    }

    private mutating func pauseIfLatest(_ isLatest: Bool, at time: ReplicaTime) {
        if isLatest { pause(at: time) }
    }

    /// The next try is later, unless a read will say what is at its position.
    private mutating func pause(at time: ReplicaTime) {
        guard var append = pending, append.check == nil else { return }
        append.retryAt = time.now.advanced(byMilliseconds: append.pauseMilliseconds)
        append.pauseMilliseconds = min(
            2 * append.pauseMilliseconds, ReplicationLimits.retryMilliseconds.upperBound)
        pending = append
    }

    /// What is at the position of the append that was told a wrong last sequence.
    mutating func checked(
        _ outcome: ReadOutcome, at time: ReplicaTime, commands: inout [ReplicaCommand]
    ) {
        guard let append = pending else { return }
        pending?.check = nil
        switch outcome {
        case .record(let bytes):
            found(bytes, at: append.position.sequence, time: time, commands: &commands)
        case .nothing, .unknown: pause(at: time)
        }
    }

    /// A record is at the position of the append: its own, or another's.
    mutating func found(
        _ bytes: [UInt8], at sequence: LogSequence, time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        guard let append = pending else { return }
        if bytes == append.bytes { return settle(at: time, commands: &commands) }
        if role == .primary { return fence(.deposed(at: sequence), &commands) }
        pending = nil
        accept(bytes, at: sequence, time: time, commands: &commands)
    }

    /// The append is in the log.
    private mutating func settle(at time: ReplicaTime, commands: inout [ReplicaCommand]) {
        guard let append = pending else { return }
        pending = nil
        received = append.position
        lastHeard = time.now
        confirmedCount = append.ordinal
        leaseEnd = max(
            leaseEnd, append.firstTry.advanced(byMilliseconds: settings.leaseMilliseconds))
        switch append.kind {
        case .takeover:
            role = .primary
            applied = received.sequence
            commands.append(.apply(received, append.moment, nil))
            commands.append(.lead(received.term))
        case .heartbeat: commands.append(.apply(received, append.moment, nil))
        case .batch: commands.append(.commit(received))
        }
    }
}
