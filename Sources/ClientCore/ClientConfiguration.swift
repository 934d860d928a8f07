// The configuration of a client: its identity, its memory, and its stored record.

import Primitives
import WireFormat

/// The client's identity, and what it requests from the broker.
public struct ClientIdentity {
    /// The caller sets device, credential, information, keep-alive, inbox window, session expiry
    /// and clean start; the machine fills in the rest for each connection. Only the first
    /// connection requests a clean start.
    public var connect: MRT.Connect
    /// The bytes that the ranges in `connect` refer to. They must stay valid and unchanged while
    /// the machine exists, or until ``ClientMachine/replaceCredential(_:)``.
    public var bytes: UnsafeRawBufferPointer
    /// The addresses of the broker, 1 to ``ClientLimits/serversMaximum``, those of all nodes of a
    /// cluster: HOST:PORT of each, joined by commas. Empty for one without a name, which no refusal
    /// can name. The same for each identity of a machine.
    public var servers: ByteRange

    public init(
        connect: MRT.Connect, servers: ByteRange = .empty, bytes: UnsafeRawBufferPointer
    ) {
        self.connect = connect
        self.servers = servers
        self.bytes = bytes
    }
}

/// The memory of one client. The machine uses it from `init` on; it must outlive the machine.
///
/// On a microcontroller these are two static arrays: 1,400 bytes for received packets and 2,048 for
/// the outbox suffice for messages of 1,024 bytes; 256 and 512 suffice for short readings.
public struct ClientMemory {
    /// Received bytes, at least 128: one packet must fit. The size is the packet maximum that the
    /// broker is told. With more than that, one read can receive several packets.
    public var receive: UnsafeMutableRawBufferPointer
    /// Sends and requests that have no answer yet, each with 16 bytes of bookkeeping.
    public var outbox: UnsafeMutableRawBufferPointer

    public init(receive: UnsafeMutableRawBufferPointer, outbox: UnsafeMutableRawBufferPointer) {
        precondition(
            receive.count >= WireLimits.packetMaximumMinimum,
            "\(receive.count) bytes of receive memory")
        self.receive = receive
        self.outbox = outbox
    }
}

/// The state of a client before its start: read from flash, or ``init(outboxEpoch:)`` for the first
/// time. PROTOCOL.md section 8 specifies when to store what.
public struct ClientRecord: Hashable, Sendable {
    /// The session epoch and the last number that was processed; nil if none is known.
    public var inbox: MRT.Resume?
    /// The outbox epoch and numbers.
    public var outbox: MRT.Outbox
    /// Numbers up to this one may have been sent before, beyond the record's highest used: set by a
    /// program that stores its sends itself and passes them in again, in their order.
    public var highestSent: UInt64 = 0
    /// The cookie of the last CONNACK; nil if none is known.
    public var cookie: UInt64?

    /// The record of a new client. The epoch is eight bytes from a cryptographic source, not all
    /// zero; a client that does not store its sends uses a new one at each start.
    public init(outboxEpoch: UInt64) {
        precondition(outboxEpoch != 0, "outbox epoch \(outboxEpoch)")
        outbox = MRT.Outbox(epoch: outboxEpoch, resultsSeen: 0, highestUsed: 0)
    }
}

/// How a client behaves.
public struct ClientOptions: Hashable, Sendable {
    /// How long an acknowledgement may wait for others to join it, in milliseconds; 0 sends it with
    /// the next ``ClientMachine/transmit(into:now:)``. It never waits beyond half of the inbox
    /// window.
    public var acknowledgementDelayMilliseconds: UInt64 = 0
    /// The seed of the jitter of reconnects; it must differ from device to device.
    public var jitterSeed: UInt64

    public init(jitterSeed: UInt64) {
        self.jitterSeed = jitterSeed
    }
}
