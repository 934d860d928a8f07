// The log that the nodes of a cluster share, as a machine sees it: requests out, outcomes in as
// events. It has no thread and no clock. NATSLog carries the requests out on JetStream, the
// simulation in memory.

/// A position in the log. The first record has 1; 0 is the position before it.
public struct LogSequence: Hashable, Comparable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }

    /// Before the first record.
    @inlinable
    public static var start: LogSequence { LogSequence(raw: 0) }

    @inlinable
    public var next: LogSequence { LogSequence(raw: raw + 1) }

    @inlinable
    public static func < (left: LogSequence, right: LogSequence) -> Bool { left.raw < right.raw }
}

/// The name of one request, with which its outcome comes back. A node never uses one twice.
public struct LogRequest: Hashable, Sendable {
    public var raw: UInt64

    @inlinable
    public init(raw: UInt64) { self.raw = raw }
}

/// A log with one order for all nodes. A record that is committed is never changed, moved or lost.
///
/// A call begins a request and returns at once. Each outcome becomes a ``ReplicatedLogEvent`` that
/// ``takeEvent()`` returns; who owns the log is woken when there is one. Every append and every
/// read gets at least one outcome, at the latest after the log's own time limit. A late outcome may
/// follow one that was ``AppendOutcome/unknown(_:)``.
public protocol ReplicatedLog: ~Copyable {
    /// Appends a record if the last sequence of the log is `last`. 0 means an empty log, never
    /// "no check".
    ///
    /// - Parameter record: at most ``ReplicationLimits/recordByteCountMaximum`` bytes.
    mutating func append(_ record: [UInt8], expecting last: LogSequence, as request: LogRequest)

    /// Reads one committed record.
    mutating func read(at sequence: LogSequence, as request: LogRequest)

    /// Delivers the committed records from `sequence` on, in order, until the next call. It
    /// replaces an earlier one. A log whose first records are trimmed begins later, or tells
    /// ``ReplicatedLogEvent/recordsMissing(before:)``: the follower compares the sequences.
    mutating func follow(from sequence: LogSequence)

    /// Allows the log to forget the records up to `sequence`. It has no outcome: the next call
    /// repeats it.
    mutating func trim(through sequence: LogSequence)

    /// The oldest event that was not taken.
    mutating func takeEvent() -> ReplicatedLogEvent?
}

/// What a log tells its node.
public enum ReplicatedLogEvent: Hashable, Sendable {
    case appended(LogRequest, AppendOutcome)
    case read(LogRequest, ReadOutcome)
    /// The next record of ``ReplicatedLog/follow(from:)``.
    case followed(LogSequence, record: [UInt8])
    /// The delivery of records has ended: the follower begins again.
    case followingEnded(LogUncertainty)
    /// The delivery has ended, because the next record is missing, as one that was trimmed is. The
    /// log has the one at `first`.
    case recordsMissing(before: LogSequence)
}

/// The outcome of one try to append.
public enum AppendOutcome: Hashable, Sendable {
    /// The record is in the log, synced by a majority.
    case committed(LogSequence)
    /// The log says that its last sequence is another (JetStream: 10071). It proves nothing by
    /// itself: an earlier try may have been committed, and an isolated leader may be wrong.
    case wrongLast
    /// The record may be in the log or may still come into it.
    case unknown(LogUncertainty)
    /// The log has no room, and this try is not in it (JetStream: 10077). It says nothing about
    /// earlier tries.
    case full
    /// The log refuses the request, and this try is not in it.
    case refused(LogRefusal)
}

/// The outcome of a read.
public enum ReadOutcome: Hashable, Sendable {
    case record([UInt8])
    /// The server has no such record. It may have been trimmed, or the server may lag behind.
    case nothing
    case unknown(LogUncertainty)
}

/// Why an outcome is not known.
public enum LogUncertainty: Hashable, Sendable {
    case timeout
    /// No connection to a server, or no responder (503).
    case unreachable
    /// The log has no leader (JetStream: 10008).
    case leaderless
    /// Another error of the log, by its number.
    case failed(code: Int)
}

/// Why a log refuses a request.
public enum LogRefusal: Hashable, Sendable {
    /// There is no such log.
    case absent
    /// The credentials do not permit it.
    case notPermitted
    /// The record is larger than the log accepts.
    case tooLarge
    /// Another error of the log, by its number.
    case failed(code: Int)
}
