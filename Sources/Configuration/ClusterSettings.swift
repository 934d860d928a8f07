// The settings of a node of a cluster (docs/operating/cluster.md): its values, its keys, and what
// they need beside each other.

/// How a node reaches the log of its cluster. Without servers there is no cluster.
public struct ClusterSettings: Hashable, Sendable {
    public var servers: [String] = []
    public var stream = "martlet"
    public var streamBytes = 8 << 30
    public var node: String?
    public var address: String?
    public var webAddress: String?
    public var leaseMilliseconds = 2_000
    public var durability = ClusterDurability.strict
    public var user: String?
    public var passwordFile: String?
    public var credentialsFile: String?
    public var systemUser: String?
    public var systemPasswordFile: String?
    public var authorityFile: String?
    public var certificateFile: String?
    public var keyFile: String?

    public init() {}

    /// That of other ids, and that of a host name [RFC 1123] with a scheme and a port.
    private static let nodeByteCountMaximum = 64
    private static let addressByteCountMaximum = 300

    /// Bytes of a packet on a node. What it changes has to fit into a record of the log (8 MiB)
    /// beside the other changes of its batch (4 MiB), with some hundred KiB for their rows.
    static let packetMaximum = 4_000_000

    /// Whether the broker is a node of a cluster.
    public var isUsed: Bool { !servers.isEmpty }

    /// What is missing or does not fit together, by key.
    var faults: [(key: String, message: String)] {
        var faults: [(key: String, message: String)] = []
        func need(_ value: String?, _ key: String, beside other: String) {
            if value == nil { faults.append((key, "is needed beside \(other)")) }
        }
        guard isUsed else {
            for (value, key) in [(node, "cluster.node"), (address, "cluster.address")]
            where value != nil {
                faults.append((key, "has no effect without cluster.servers"))
            }
            return faults
        }
        need(node, "cluster.node", beside: "cluster.servers")
        need(address, "cluster.address", beside: "cluster.servers")
        if let node, node.utf8.count > Self.nodeByteCountMaximum {
            faults.append(("cluster.node", "has more than \(Self.nodeByteCountMaximum) bytes"))
        }
        let addresses = [("cluster.address", address), ("cluster.webAddress", webAddress)]
        for (key, text) in addresses {
            guard let text else { continue }
            let isPlain = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
            let isWeb = text.hasPrefix("https://") || text.hasPrefix("http://")
            if !isPlain || text.utf8.count > Self.addressByteCountMaximum
                || isWeb != (key == "cluster.webAddress") || text.hasSuffix("/")
            {
                faults.append(
                    (
                        key,
                        key == "cluster.address"
                            ? "must be HOST:PORT" : "must be https://HOST:PORT without a path"
                    ))
            }
        }
        if user != nil { need(passwordFile, "cluster.passwordFile", beside: "cluster.user") }
        if user != nil, credentialsFile != nil {
            faults.append(("cluster.credentialsFile", "does not go with cluster.user"))
        }
        if systemUser != nil {
            need(systemPasswordFile, "cluster.systemPasswordFile", beside: "cluster.systemUser")
        }
        if certificateFile != nil {
            need(keyFile, "cluster.keyFile", beside: "cluster.certificateFile")
        }
        return faults
    }
}

/// What an acknowledgement has to survive.
public enum ClusterDurability: String, CaseIterable, Sendable {
    case strict, relaxed
}

extension SettingTable {
    static let cluster: [Setting] = [
        .texts(
            "cluster.servers", at: \.cluster.servers, domain: "list of URLs",
            check: { (text) throws(SettingFault) in
                guard text.hasPrefix("nats://") || text.hasPrefix("tls://") else {
                    throw SettingFault("\"\(text)\" is not nats://HOST:PORT or tls://HOST:PORT")
                }
            }, reload: .restart,
            "The NATS servers with the log of the cluster ([cluster.md](cluster.md)), as "
                + "`nats://HOST:PORT` or `tls://HOST:PORT`. Without servers the broker is a "
                + "single one."),
        .name(
            "cluster.stream", at: \.cluster.stream, reload: .restart,
            "The stream with the log: letters, digits, `-` and `_`, the same on all nodes. "
                + "`martletd --found-cluster` creates it."),
        .integer(
            "cluster.streamBytes", at: \.cluster.streamBytes, in: 67_108_864...17_592_186_044_416,
            unit: "bytes", reload: .restart,
            "The size of the stream that `--found-cluster` creates. The primary removes the "
                + "older half of the records above half of it, if two nodes have them."),
        .optionalText(
            "cluster.node", at: \.cluster.node, domain: "name or null", reload: .restart,
            "The name of this node, of up to 64 bytes. Each node has another one."),
        .optionalText(
            "cluster.address", at: \.cluster.address, domain: "HOST:PORT or null",
            reload: .restart,
            "Where clients of MQTT and MRT reach this node. The other nodes tell it to clients "
                + "while this one is the primary."),
        .optionalText(
            "cluster.webAddress", at: \.cluster.webAddress, domain: "URL or null",
            reload: .restart,
            "The same for HTTP, such as `https://a.example:8443`. The other nodes redirect "
                + "requests there."),
        .integer(
            "cluster.leaseMilliseconds", at: \.cluster.leaseMilliseconds, in: 500...60_000,
            unit: "milliseconds", reload: .restart,
            "How long the primary serves clients after its last entry in the log; the same on "
                + "all nodes. A standby takes over a quarter later. Every pause that is longer "
                + "than the lease, such as a slow disk's, costs a takeover."),
        .choice(
            "cluster.durability", at: \.cluster.durability, reload: .restart,
            "`strict` refuses a stream and servers that could lose what was acknowledged when "
                + "one server dies or all lose power. `relaxed` starts with a warning: for "
                + "demonstrations."),
        .optionalText(
            "cluster.user", at: \.cluster.user, domain: "name or null", reload: .restart,
            "The user at the servers."),
        .optionalText(
            "cluster.passwordFile", at: \.cluster.passwordFile, reload: .restart,
            "The password of that user: the first line of the file."),
        .optionalText(
            "cluster.credentialsFile", at: \.cluster.credentialsFile, reload: .restart,
            "A file with a JWT and its seed, as `nsc` writes it, in place of user and password."),
        .optionalText(
            "cluster.systemUser", at: \.cluster.systemUser, domain: "name or null",
            reload: .restart,
            "A user of the system account, with which the start asks each server whether it "
                + "syncs every write. Without one the start warns that this is not known."),
        .optionalText(
            "cluster.systemPasswordFile", at: \.cluster.systemPasswordFile, reload: .restart,
            "The password of that user: the first line of the file."),
        .optionalText(
            "cluster.authorityFile", at: \.cluster.authorityFile, reload: .restart,
            "The authorities that sign the servers' certificates, as PEM; those of the system "
                + "without it."),
        .optionalText(
            "cluster.certificateFile", at: \.cluster.certificateFile, reload: .restart,
            "The node's certificate for servers that ask for one, as PEM."),
        .optionalText(
            "cluster.keyFile", at: \.cluster.keyFile, reload: .restart,
            "The private key of that certificate, as PEM."),
    ]
}

extension Setting {
    /// A name with a default.
    fileprivate static func name(
        _ key: String, at path: Path<String>, reload: ReloadEffect, _ reason: String
    ) -> Setting {
        let plain = text(key, at: path, reload: reload, reason)
        return Setting(
            key: key, domain: "name", reload: reload, reason: reason, written: plain.written,
            assign: plain.assign)
    }
}
