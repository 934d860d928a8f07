// A stream as its leader describes it: configuration, contents, servers.

import Replication

/// The configuration and the state of a stream at one moment.
public struct StreamDescription: Sendable {
    /// When it was created, as the server writes it. A stream that was deleted and created again
    /// has another one.
    public let created: String
    public let first: LogSequence
    public let last: LogSequence
    public let messageCount: UInt64
    public let byteCount: UInt64
    /// 0 without a limit.
    public let byteCountMaximum: UInt64
    public let replicas: Int
    /// Nil if the stream has no leader, or one server only.
    public let leader: String?
    /// The servers that have a copy, with the leader, and whether each is up to date.
    public let peers: [Peer]
    /// The version of the leader, where it tells it.
    public let leaderVersion: ServerVersion?
    let configuration: ServerAnswer

    /// A server with a copy of the stream.
    public struct Peer: Hashable, Sendable {
        public let name: String
        public let isCurrent: Bool
        /// Operations that it has to catch up with.
        public let lag: UInt64
    }

    /// Nil if the answer lacks what every server tells.
    init?(_ answer: ServerAnswer) {
        guard let configuration = answer["config"], let state = answer["state"],
            let created = answer["created"]?.text,
            let first = state["first_seq"]?.position, let last = state["last_seq"]?.position
        else { return nil }
        self.configuration = configuration
        self.created = created
        self.first = LogSequence(raw: first)
        self.last = LogSequence(raw: last)
        messageCount = state["messages"]?.position ?? 0
        byteCount = state["bytes"]?.position ?? 0
        byteCountMaximum = configuration["max_bytes"]?.position ?? 0
        replicas = Int(configuration["num_replicas"]?.number ?? 1)
        let cluster = answer["cluster"]
        leader = cluster?["leader"]?.text
        let followers = (cluster?["replicas"]?.items ?? []).map { peer in
            Peer(
                name: peer["name"]?.text ?? "",
                isCurrent: (peer["current"]?.isTrue ?? false)
                    && !(peer["offline"]?.isTrue ?? false),
                lag: peer["lag"]?.position ?? 0)
        }
        peers = (leader.map { [Peer(name: $0, isCurrent: true, lag: 0)] } ?? []) + followers
        leaderVersion = configuration["metadata"]?["_nats.ver"]?.text.flatMap(ServerVersion.init)
    }
}
