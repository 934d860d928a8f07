// How far the record of a relay for wake-ups is: what is to be written and when, and what the
// broker may forget after that.

import MartletClient
import Primitives
import Relay

struct RecordProgress {
    /// The broker's last event.
    private var received: InboxRecord?
    private var written: InboxRecord?
    private var acknowledged: InboxRecord?
    /// What is not in the record yet, in order.
    private(set) var changes: [PushEntry] = []
    /// When it must be; nil if nothing must.
    private var syncDeadline: Instant?
    /// The end of the wait after a write to a full disk.
    private var pause = Instant(milliseconds: 0)
    private var isDiskFull = false
    /// The first number of which no wake-up is in the record.
    private(set) var firstUnwritten: UInt64
    /// A dead letter is a wake-up again, and the record does not say so yet.
    private(set) var isResendUnwritten = false

    /// - Parameters:
    ///   - position: that of the record; nil for none.
    ///   - sequence: the number of the next wake-up.
    init(position: InboxRecord?, nextSequence sequence: UInt64) {
        received = position
        written = position
        acknowledged = position
        firstUnwritten = sequence
    }

    /// The position of what is received, and of what the record has, as entries.
    var receivedPosition: [PushEntry] { received.map { [.position($0)] } ?? [] }
    var writtenPosition: [PushEntry] { written.map { [.position($0)] } ?? [] }

    var hasUnwritten: Bool { !changes.isEmpty || syncDeadline != nil }

    /// When the next write is due.
    var deadline: Instant { syncDeadline.map { max($0, pause) } ?? .never }

    /// An event of the broker has come.
    mutating func receive(_ record: InboxRecord, now: Instant) {
        received = record
        needSync(now)
    }

    mutating func add(_ change: PushEntry) { changes.append(change) }

    /// A dead letter is to be a wake-up again.
    mutating func addResent(sequence: UInt64) {
        isResendUnwritten = true
        changes.append(.deadLetterRemoved(sequence: sequence))
    }

    mutating func needSync(
        _ now: Instant, within milliseconds: UInt64 = PushLimits.syncMilliseconds
    ) {
        let deadline = now.advanced(byMilliseconds: milliseconds)
        syncDeadline = min(syncDeadline ?? .never, deadline)
    }

    /// What to write now; nil for nothing.
    ///
    /// - Parameter isForced: whether all that is not written is, and not only what is due.
    func nextWrite(now: Instant, isForced: Bool) -> [PushEntry]? {
        guard now >= pause else { return nil }
        let isDue = syncDeadline.map { now >= $0 } ?? false
        guard isDue || isForced && hasUnwritten else { return nil }
        return received == written ? changes : changes + receivedPosition
    }

    /// The record has all, and is synced.
    ///
    /// - Parameter sequence: the number of the next wake-up.
    mutating func recordWritten(nextSequence sequence: UInt64) {
        isDiskFull = false
        changes = []
        written = received
        firstUnwritten = sequence
        isResendUnwritten = false
        syncDeadline = nil
    }

    /// The disk is full.
    ///
    /// - Returns: whether it had room at the last write.
    mutating func notWritten(now: Instant) -> Bool {
        defer { isDiskFull = true }
        pause = now.advanced(byMilliseconds: RelayLimits.fullDiskMilliseconds)
        return !isDiskFull
    }

    /// The record has no more than what a full disk leaves it.
    ///
    /// - Parameter missing: what the next write gives it, beside the position.
    mutating func emptied(missing: [PushEntry]) {
        changes = writtenPosition + missing
        syncDeadline = pause
    }

    /// What the broker may forget; nil for nothing new.
    mutating func takeAcknowledgement() -> InboxRecord? {
        guard let written, written != acknowledged else { return nil }
        acknowledged = written
        return written
    }
}
