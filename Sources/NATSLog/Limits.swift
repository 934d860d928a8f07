// The limits of the client of JetStream, each with its reason.

import Replication

/// Sizes, times and versions.
public enum JetStreamLimits {
    /// The oldest server that is accepted for the strict promise: the one that was measured. Those
    /// before 2.10 do not know `sync_interval: always`.
    public static let serverVersionMinimum = ServerVersion(major: 2, minor: 15, patch: 1)
    /// A record is in the stores of two of three servers before it is acknowledged, so that the
    /// loss of one server loses nothing.
    public static let replicasMinimum = 3
    /// Servers that are tried in turn. More lengthen the search for one that answers.
    public static let serversMaximum = 16
    /// Bytes of a server's URL [RFC 1123: a host name has at most 255].
    public static let urlByteCountMaximum = 512
    /// Bytes of a stream's name: with "$JS.API.STREAM.MSG.GET." it fits into a subject.
    public static let streamNameByteCountMaximum = 64
    /// Bytes of the header of an append: two fields, with a name and a number.
    public static let headerByteCountMaximum = 512
    /// Milliseconds that one try of an append or a read waits for its answer. A commit with a slow
    /// disk takes up to 100; a leader that is gone never answers, and the next try finds its
    /// successor.
    public static let tryMilliseconds: Int64 = 1_000
    /// Milliseconds that a question about the stream or the servers waits. A busy server creates a
    /// stream with three replicas in less than two seconds.
    public static let questionMilliseconds: Int64 = 5_000
    /// Milliseconds until a connection attempt is given up and the next server is tried.
    public static let connectMilliseconds: Int64 = 2_000
    /// Milliseconds between two attempts to connect to the same server.
    public static let reconnectMilliseconds: Int64 = 100
    /// Milliseconds between pings: a server that has stopped is left after three of them.
    public static let pingMilliseconds: Int64 = 1_000
    /// Pings without an answer until the connection is given up.
    public static let pingsMaximum: Int32 = 2
    /// Milliseconds between the heartbeats of the stream to a follower. After two that are missing
    /// the follower asks for the records again.
    public static let heartbeatMilliseconds: Int64 = 1_000
    /// Milliseconds of silence after which a follower asks whether the stream has more.
    public static let silenceMilliseconds: UInt64 = 3_000
    /// Milliseconds that a follower waits for a record before it looks whether it is stopped.
    static let followMilliseconds: Int64 = 100
    /// Records and bytes that wait for their node, in memory: a follower reads no further. The
    /// bytes are several records of the maximum.
    static let waitingRecordMaximum = 4_096
    static let waitingByteCountMaximum = 4 * ReplicationLimits.recordByteCountMaximum
    /// The same in the library, before the follower reads. The server sends at most 32 MiB ahead.
    static let pendingRecordMaximum: Int32 = 65_536
    static let pendingByteCountMaximum: Int32 = 128 << 20
    /// Appends without a responder, of which one asks whether the stream still exists. While the
    /// servers elect a leader the question has no answer, and delays the next try.
    static let appendsPerQuestion: UInt64 = 8
    /// Reports of nodes that wait for their node. Each node sends one a second.
    static let waitingAnnouncementMaximum = 64
    /// Bytes of a report; a longer message on its subject is none.
    static let announcementByteCountMaximum = 2_048
    /// Milliseconds that a question of one node to another waits: a part of a copy is read from the
    /// other one's disk and crosses the servers.
    static let copyMilliseconds: Int64 = 5_000
    /// Bytes of such a question; a longer message is none.
    static let copyQuestionByteCountMaximum = 256
    /// Requests that wait. A node has one append and a few reads under way; its retries wait for
    /// outcomes.
    static let waitingRequestMaximum = 64
}
