// The configuration of a client: its identity, its memory, and its stored record.

import Primitives
import WireFormat

/// Who the client is and what it asks of the broker.
public struct ClientIdentity {
    /// Device, credential, information, keep-alive, inbox window, session expiry and clean start
    /// are the caller's; the machine fills in the rest for each connection. A clean start is asked
    /// for by the first connection only.
    public var connect: MRT.Connect
    /// What the ranges in `connect` point into. Stays valid and unchanged while the machine lives,
    /// or until ``ClientMachine/replaceCredential(_:)``.
    public var bytes: UnsafeRawBufferPointer

    public init(connect: MRT.Connect, bytes: UnsafeRawBufferPointer) {
        self.connect = connect
        self.bytes = bytes
    }
}

/// The memory of one client. It belongs to the machine from `init` on and outlives it.
///
/// On a microcontroller these are two static arrays: 1,400 bytes to receive and 2,048 for the
/// outbox serve messages of 1,024 bytes; 256 and 512 serve short readings.
public struct ClientMemory {
    /// One packet from the broker at a time, at least 128 bytes; its size is the packet maximum
    /// that the broker is told. More than that lets one read take in many packets.
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

/// What a client knew before it was started: read from flash, or ``init(outboxEpoch:)`` for the
/// first time. PROTOCOL.md section 8 says what to store when.
public struct ClientRecord: Hashable, Sendable {
    /// The session epoch and the last number that was processed; nil where none is known.
    public var inbox: MRT.Resume?
    /// The client's own numbering.
    public var outbox: MRT.Outbox
    /// Numbers up to this one may have been sent before, beyond the record's highest used: set by a
    /// program that keeps its sends itself and hands them in anew, in their order.
    public var highestSent: UInt64 = 0
    /// From the last CONNACK; nil where none is known.
    public var cookie: UInt64?

    /// The record of a new client. The epoch is eight bytes from a cryptographic source, not all
    /// zero; a client that does not store its sends takes a new one at each start.
    public init(outboxEpoch: UInt64) {
        precondition(outboxEpoch != 0, "outbox epoch 0")
        outbox = MRT.Outbox(epoch: outboxEpoch, resultsSeen: 0, highestUsed: 0)
    }
}

/// How a client behaves.
public struct ClientOptions: Hashable, Sendable {
    /// How long an acknowledgement may wait for others to join it, in milliseconds; 0 sends it with
    /// the next ``ClientMachine/transmit(into:now:)``. It never waits beyond half the inbox window.
    public var acknowledgementDelayMilliseconds: UInt64 = 0
    /// Seeds the jitter of reconnects; must differ from device to device.
    public var jitterSeed: UInt64

    public init(jitterSeed: UInt64) {
        self.jitterSeed = jitterSeed
    }
}
