// What the load cares about in the packets that a broker sends, whatever the dialect, and who a
// client is when it connects. It knows no sockets but for the one function that writes a packet.

import NetTransport
import Primitives
import WireFormat

/// One packet, as far as the load wants to know.
enum Incoming {
    /// The broker let the client in, and takes so many unconfirmed sends at a time.
    case connected(sendsMaximum: UInt16)
    case refused(code: UInt8)
    /// A subscription or another request was granted; the content is the request's result.
    case granted(content: ByteRange)
    /// The acknowledgement is 0 where none is due.
    case delivery(payload: ByteRange, acknowledgement: UInt64, qos: UInt8)
    /// Something besides messages, to be acknowledged like one.
    case notice(acknowledgement: UInt64)
    /// MQTT, QoS 2: the broker releases the identifier of a delivery.
    case released(identifier: UInt16)
    /// MQTT, QoS 2: the broker has a send and wants it released.
    case releaseWanted(identifier: UInt16)
    /// The broker has taken a send: its number, as the codec gave it.
    case confirmed(number: UInt64)
    /// The broker has refused a send.
    case sendRefused(number: UInt64, code: UInt8)
    case ignored
    /// The broker sent a DISCONNECT.
    case disconnected(code: UInt8)
    case malformed
}

/// Who a client is when it connects.
struct ClientIdentity {
    var name: [UInt8]
    var user: [UInt8]?
    var password: [UInt8]?
    var expirySeconds: UInt32
    /// Deliveries unacknowledged at a time, where the dialect asks for it.
    var inboxWindow: UInt16
    /// Numbered sends that this client has made so far; nil for one that makes none.
    var numbersUsed: UInt64?
    /// What is to be sent when the connection is lost.
    var will: OutgoingSource?
    var willQoS: UInt8
}

extension EventLoop {
    /// Writes one packet of exactly `byteCount` bytes, to leave with this turn. A connection that
    /// is gone takes nothing.
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

    /// Writes a packet of WireFormat, whose ranges are within `source`.
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
