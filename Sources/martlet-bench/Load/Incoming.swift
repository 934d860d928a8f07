// The parts of a broker's packets that the load uses, for all dialects, and the identity of a
// client. Only the function that writes a packet uses sockets.

import BrokerTerms
import NetTransport
import Primitives
import WireFormat

/// One packet, as far as the load uses it.
enum Incoming {
    /// The login is accepted; the value is the maximum of unconfirmed sends.
    case connected(sendsMaximum: UInt16)
    case refused(code: UInt8)
    /// A subscription or another request was granted; the content is the result of the request.
    case granted(content: ByteRange)
    /// The acknowledgement is 0 if none is required.
    case delivery(payload: ByteRange, acknowledgement: UInt64, qos: UInt8)
    /// An event other than a message, which is acknowledged like one.
    case notice(acknowledgement: UInt64)
    /// MQTT, QoS 2: the broker releases the identifier of a delivery.
    case released(identifier: UInt16)
    /// MQTT, QoS 2: the broker has received a send and waits for its release.
    case releaseWanted(identifier: UInt16)
    /// The broker has acknowledged a send: its number, as assigned by the codec.
    case confirmed(number: UInt64)
    /// The broker has refused a send.
    case sendRefused(number: UInt64, code: UInt8)
    case ignored
    /// The broker sent a DISCONNECT.
    case disconnected(code: UInt8)
    case malformed
}

/// The identity of a client.
struct ClientIdentity {
    var name: [UInt8]
    var user: [UInt8]?
    var password: [UInt8]?
    var expirySeconds: UInt32
    /// The window of deliveries, if the dialect has one.
    var inboxWindow: UInt16
    /// The number of numbered sends of this client so far; nil for a client that makes none.
    var numbersUsed: UInt64?
    /// The will.
    var will: OutgoingSource?
    var willQoS: UInt8
}

extension EventLoop {
    /// Writes one packet of exactly `byteCount` bytes, which is sent with this turn. Nothing is
    /// written to a closed connection.
    @inline(__always)
    mutating func write(
        _ byteCount: Int, to connection: ConnectionID, _ body: (inout PacketWriter) -> Void
    ) {
        guard let room = reserve(byteCount, for: connection, .required) else { return }
        var writer = PacketWriter(
            UnsafeMutableRawBufferPointer(start: room, count: byteCount).mutableBytes)
        body(&writer)
        precondition(
            writer.byteCount == byteCount,
            "a packet announced with \(byteCount) bytes has \(writer.byteCount)")
        commit(byteCount, for: connection)
    }

    /// Writes a packet of WireFormat, whose ranges refer to `source`.
    mutating func write(
        _ packet: some WirePacket, from source: [UInt8] = [], to connection: ConnectionID
    ) {
        source.withUnsafeBytes { source in
            write(packet.encodedByteCount, to: connection) {
                packet.write(to: &$0, from: source.bytes)
            }
        }
    }
}
