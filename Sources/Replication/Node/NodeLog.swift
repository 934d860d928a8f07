// The log as a real node uses it: the requests of `ReplicatedLog`, reports that the nodes send each
// other beside the log, and the size of the log. NATSLog implements it.

/// The log of a node, with what its nodes tell each other.
public protocol NodeLog: ReplicatedLog, AnyObject, Sendable {
    /// Sends a report to the other nodes. It may be lost.
    func announce(_ report: [UInt8])

    /// The oldest report that was not taken, maybe an own one.
    func takeAnnouncement() -> [UInt8]?

    /// Asks for the log's state. Blocks for about a second at most.
    func readState() -> LogAnswer

    /// Answers the questions of nodes that need a copy of this node's store, on a thread of the log
    /// until ``stop()``. Called once at most.
    ///
    /// - Parameter life: the own one.
    func answerQuestions(
        to life: UInt64, _ answer: @escaping @Sendable (_ question: [UInt8]) -> [UInt8])

    /// Asks another node in one life of its process. Blocks.
    ///
    /// - Returns: nil without an answer within some seconds.
    func ask(_ life: UInt64, _ question: [UInt8]) -> [UInt8]?

    /// Ends the threads of the log. Requests that wait get no outcome.
    func stop()
}

/// What is known when a log was asked for its state.
public enum LogAnswer: Hashable, Sendable {
    case state(LogState)
    /// The log does not exist any more: it was deleted, and another one may have its name.
    case absent
    /// No server told it. It may be different in a second.
    case unanswered

    /// Nil unless it was told.
    public var state: LogState? {
        guard case .state(let state) = self else { return nil }
        return state
    }
}

/// The extent of a log.
public struct LogState: Hashable, Sendable {
    /// The first record that is kept. That after the last one if none is.
    public var first: LogSequence
    public var last: LogSequence
    public var byteCount: UInt64
    /// 0 without a limit.
    public var byteCountMaximum: UInt64
    /// The servers with a copy, where the log is on servers.
    public var servers: [Server]

    /// A server with a copy of the log.
    public struct Server: Hashable, Sendable {
        public var name: String
        public var isLeader: Bool
        /// Whether it is reachable and has what the leader has.
        public var isCurrent: Bool
        /// Operations that it lacks.
        public var lag: UInt64

        public init(name: String, isLeader: Bool, isCurrent: Bool, lag: UInt64) {
            self.name = name
            self.isLeader = isLeader
            self.isCurrent = isCurrent
            self.lag = lag
        }
    }

    public init(
        first: LogSequence, last: LogSequence, byteCount: UInt64, byteCountMaximum: UInt64,
        servers: [Server] = []
    ) {
        self.first = first
        self.last = last
        self.byteCount = byteCount
        self.byteCountMaximum = byteCountMaximum
        self.servers = servers
    }
}
