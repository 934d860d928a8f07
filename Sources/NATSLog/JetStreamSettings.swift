// What a node knows of its servers and its stream before it connects.

/// How a client proves to a server who it is.
public enum JetStreamCredentials: Hashable, Sendable {
    case none
    case user(String, password: String)
    case token(String)
    /// A file with a JWT and its seed, as `nsc` writes it.
    case file(String)
}

/// The files of TLS.
public struct JetStreamTLS: Hashable, Sendable {
    /// The certificates that sign those of the servers. Nil for those of the system.
    public var authorityFile: String?
    /// The client's own certificate and its key, where servers ask for one.
    public var certificateFile: String?
    public var keyFile: String?

    public init(
        authorityFile: String? = nil, certificateFile: String? = nil, keyFile: String? = nil
    ) {
        self.authorityFile = authorityFile
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }
}

/// What an acknowledgement has to survive.
public enum JetStreamDurability: String, Hashable, Sendable {
    /// The loss of one server, and the loss of power of all.
    case strict
    /// What the stream happens to survive.
    case relaxed
}

/// A stream on several servers.
public struct JetStreamSettings: Hashable, Sendable {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, tried in an order that differs between nodes.
    public var servers: [String]
    /// The name of the stream. Its only subject is `NAME.log`.
    public var stream: String
    /// The name of the connection in the servers' lists.
    public var node: String
    public var credentials: JetStreamCredentials
    /// A user of the servers' system account, who may ask for the sync setting. Nil if it cannot be
    /// asked.
    public var systemCredentials: JetStreamCredentials?
    /// Nil for connections without TLS.
    public var tls: JetStreamTLS?
    public var durability: JetStreamDurability

    public init(
        servers: [String], stream: String, node: String,
        credentials: JetStreamCredentials = .none,
        systemCredentials: JetStreamCredentials? = nil, tls: JetStreamTLS? = nil,
        durability: JetStreamDurability = .strict
    ) {
        self.servers = servers
        self.stream = stream
        self.node = node
        self.credentials = credentials
        self.systemCredentials = systemCredentials
        self.tls = tls
        self.durability = durability
    }

    /// The subject to which records are published.
    public var subject: String { "\(stream).log" }

    /// The subject of reports of nodes, which no stream keeps.
    public var nodesSubject: String { "\(stream).nodes" }

    /// The subject of questions to a node in one life of its process.
    func copiesSubject(of life: UInt64) -> String {
        "\(stream).copies.\(String(life, radix: 16))"
    }

    /// What is wrong with the settings, in words for an operator; nil if nothing is.
    public var fault: String? {
        guard (1...JetStreamLimits.serversMaximum).contains(servers.count) else {
            return "\(servers.count) servers, of 1 to \(JetStreamLimits.serversMaximum)"
        }
        for server in servers {
            guard server.hasPrefix("nats://") || server.hasPrefix("tls://"),
                server.utf8.count <= JetStreamLimits.urlByteCountMaximum,
                server.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ",") })
            else { return "\"\(server)\" is not nats://HOST:PORT or tls://HOST:PORT" }
        }
        // Letters, digits, - and _ only: the name is a part of subjects and of file names of the
        // servers.
        let isName = stream.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isName, !stream.isEmpty,
            stream.utf8.count <= JetStreamLimits.streamNameByteCountMaximum
        else {
            return "\"\(stream)\" is not the name of a stream: 1 to "
                + "\(JetStreamLimits.streamNameByteCountMaximum) letters, digits, - and _"
        }
        return nil
    }
}
