// What a node tells the others of itself, beside the log: where its clients connect, what it is,
// and how far its store is. Reports are lost, repeated and late; nothing that an acknowledgement
// promises depends on them.

import BrokerCore
import Primitives

/// A node as it describes itself.
public struct NodeReport: Hashable, Sendable {
    /// The part of a node in its cluster.
    public enum Part: UInt8, Hashable, Sendable {
        case standby = 0
        case primary = 1
        /// It was the primary, has emitted its last output, and appends nothing more.
        case resigned = 2
    }

    public var cluster: StoreIdentity
    public var node: NodeLife
    public var part: Part
    /// The term of the last record that it has accepted.
    public var term: Term
    /// Of a standby or a primary: the record through which its store has applied the log. Of a
    /// resigned one: the last record of the log that it knows.
    public var sequence: LogSequence
    /// HOST:PORT for MQTT and MRT; empty if none is known.
    public var address: [UInt8]
    /// The URL of its web listener without a path; empty if none is known.
    public var webAddress: [UInt8]
    /// The lease of the node's settings. It has to be the same on all nodes.
    public var leaseMilliseconds: UInt64
    /// The wall clock of the node.
    public var unixMilliseconds: UInt64
    /// The checksum of the shards of the node's settings. They have to be the same on all nodes.
    public var shards: UInt64

    public init(
        cluster: StoreIdentity, node: NodeLife, part: Part, term: Term, sequence: LogSequence,
        address: [UInt8], webAddress: [UInt8], leaseMilliseconds: UInt64, unixMilliseconds: UInt64,
        shards: UInt64
    ) {
        self.shards = shards
        self.leaseMilliseconds = leaseMilliseconds
        self.cluster = cluster
        self.node = node
        self.part = part
        self.term = term
        self.sequence = sequence
        self.address = address
        self.webAddress = webAddress
        self.unixMilliseconds = unixMilliseconds
    }

    /// "MNOD", little-endian.
    private static let magic: UInt32 = 0x444F_4E4D
    private static let version: UInt16 = 2

    /// The report's bytes.
    public var encoded: [UInt8] {
        var fields = FieldWriter()
        fields.write(Self.magic)
        fields.write(Self.version)
        fields.write(part.rawValue)
        fields.write(cluster.high)
        fields.write(cluster.low)
        fields.write(node.life)
        fields.write(node.name)
        fields.write(term.raw)
        fields.write(sequence.raw)
        fields.write(leaseMilliseconds)
        fields.write(unixMilliseconds)
        fields.write(shards)
        fields.write(address)
        fields.write(webAddress)
        return fields.bytes
    }

    /// Nil if the bytes are not a report of this version.
    public init?(decoding bytes: [UInt8]) {
        var fields = FieldReader(bytes)
        do throws(MalformedRecord) {
            guard try fields.read(UInt32.self) == Self.magic,
                try fields.read(UInt16.self) == Self.version,
                let part = Part(rawValue: try fields.read(UInt8.self))
            else { return nil }
            self.part = part
            cluster = StoreIdentity(
                high: try fields.read(UInt64.self), low: try fields.read(UInt64.self))
            let life = try fields.read(UInt64.self)
            node = NodeLife(
                name: try fields.readString(countMaximum: ReplicationLimits.nameByteCountMaximum),
                life: life)
            term = Term(raw: try fields.read(UInt64.self))
            sequence = LogSequence(raw: try fields.read(UInt64.self))
            leaseMilliseconds = try fields.read(UInt64.self)
            unixMilliseconds = try fields.read(UInt64.self)
            shards = try fields.read(UInt64.self)
            address = try fields.readString(
                countMaximum: ReplicationLimits.addressByteCountMaximum)
            webAddress = try fields.readString(
                countMaximum: ReplicationLimits.addressByteCountMaximum)
        } catch {
            return nil
        }
        guard fields.isAtEnd, !node.name.isEmpty else { return nil }
    }
}
