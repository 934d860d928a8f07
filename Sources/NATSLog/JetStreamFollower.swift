// Reads a stream from a position on, through an ordered consumer. The library makes a new consumer
// after each gap and each silence. The sequences are compared here all the same: a consumer that
// begins before the trimmed part begins later in silence, and one that is made again before its
// first record begins at the first of the stream.

import CNATS
import Glibc
import Replication

/// A reader of a stream. One thread uses it.
final class JetStreamFollower {
    private let log: JetStreamLog
    private var subscription: nats_subscription?
    private var expected: LogSequence
    /// The monotonic time of the last record, or of the last look at the stream.
    private var lastMilliseconds = JetStreamFollower.nowMilliseconds
    /// Whether the last look has found a record that was not delivered since.
    private var isOverdue = false

    init(_ log: JetStreamLog, from start: LogSequence) {
        self.log = log
        expected = max(start, LogSequence.start.next)
    }

    deinit { close() }

    /// The next event, or nil if there is none within a short time. After
    /// ``ReplicatedLogEvent/followingEnded(_:)`` and ``ReplicatedLogEvent/recordsMissing(before:)``
    /// the follower is not used again.
    func next() -> ReplicatedLogEvent? {
        guard let subscription else { return begin() }
        var message: nats_message?
        let status = natsSubscription_NextMsg(
            &message, subscription, JetStreamLimits.followMilliseconds)
        defer { natsMsg_Destroy(message) }
        switch status {
        case NATS_OK:
            guard let message else { return nil }
            return take(message)
        // The library repairs these by itself: the next looks tell whether it has.
        case NATS_TIMEOUT, NATS_MISSED_HEARTBEAT, NATS_MISMATCH, NATS_SLOW_CONSUMER,
            NATS_CONNECTION_DISCONNECTED:
            return lookIfSilent()
        default:
            return .followingEnded(uncertainty(status, 0))
        }
    }

    private func take(_ message: nats_message) -> ReplicatedLogEvent? {
        let sequence = LogSequence(raw: nats_stream_sequence(message))
        if sequence < expected { return nil }
        lastMilliseconds = Self.nowMilliseconds
        isOverdue = false
        if sequence > expected { return .recordsMissing(before: sequence) }
        expected = sequence.next
        return .followed(sequence, record: JetStreamConnection.bytes(of: message))
    }

    /// Makes the consumer, if the stream has the first record or waits for it.
    private func begin() -> ReplicatedLogEvent? {
        let stream: StreamDescription
        do throws(JetStreamError) {
            stream = try log.connection.describe(
                stream: log.settings.stream, milliseconds: JetStreamLimits.tryMilliseconds)
        } catch {
            return .followingEnded(Self.uncertainty(error))
        }
        if let end = Self.end(of: stream, created: log.created, expected: expected) { return end }
        var error: Int32 = 0
        let status = nats_follow(
            &subscription, log.connection.jetstream, log.settings.stream, log.settings.subject,
            expected.raw, JetStreamLimits.heartbeatMilliseconds * 1_000_000,
            JetStreamLimits.questionMilliseconds, &error)
        guard status == NATS_OK, let subscription else {
            self.subscription = nil
            return .followingEnded(uncertainty(status, error))
        }
        _ = natsSubscription_SetPendingLimits(
            subscription, JetStreamLimits.pendingRecordMaximum,
            JetStreamLimits.pendingByteCountMaximum)
        lastMilliseconds = Self.nowMilliseconds
        return nil
    }

    /// Why a stream cannot be followed from a record on; nil if it can.
    static func end(
        of stream: StreamDescription, created: String, expected: LogSequence
    ) -> ReplicatedLogEvent? {
        if stream.created != created { return .followingEnded(.failed(code: absent)) }
        // An empty stream that was trimmed says that its first record is the next one.
        if stream.first > expected { return .recordsMissing(before: stream.first) }
        return nil
    }

    /// JSStreamNotFoundErr of the server.
    static let absent = 10_059

    /// After a silence: a stream that is gone, and a consumer that delivers nothing although there
    /// are records.
    private func lookIfSilent() -> ReplicatedLogEvent? {
        let now = Self.nowMilliseconds
        guard now - lastMilliseconds >= JetStreamLimits.silenceMilliseconds else { return nil }
        lastMilliseconds = now
        guard log.connection.isConnected else {
            return log.connection.isClosed ? .followingEnded(.unreachable) : nil
        }
        do throws(JetStreamError) {
            let stream = try log.connection.describe(
                stream: log.settings.stream, milliseconds: JetStreamLimits.tryMilliseconds)
            if let end = Self.end(of: stream, created: log.created, expected: expected) {
                return end
            }
            guard stream.last >= expected else {
                isOverdue = false
                return nil
            }
            // Twice in a row: between the look and the record there may be a moment.
            if isOverdue { close() }
            isOverdue.toggle()
            return nil
        } catch {
            return error.isTemporary ? nil : .followingEnded(Self.uncertainty(error))
        }
    }

    private func close() {
        natsSubscription_Destroy(subscription)
        subscription = nil
    }

    private func uncertainty(_ status: natsStatus, _ error: Int32) -> LogUncertainty {
        JetStreamOutcome(status: status, error: Int(error), text: "").uncertainty
    }

    private static func uncertainty(_ error: JetStreamError) -> LogUncertainty {
        switch error {
        case .absent: .failed(code: absent)
        case .refused(let code, _): .failed(code: code)
        default: .unreachable
        }
    }

    private static var nowMilliseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000
    }
}
