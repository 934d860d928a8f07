// What the load cares about in the packets that a broker sends, whatever the dialect. It knows no
// sockets.

import NetTransport
import Primitives
import WireFormat

/// One packet, as far as the load wants to know.
enum Incoming {
    case connected
    case refused(code: UInt8)
    /// The broker granted the subscription.
    case subscribed
    case delivery(payload: ByteRange, acknowledgement: UInt64)
    /// The broker has taken a send: its number, as ``LoadCodec/writeSend`` gave it.
    case confirmed(number: UInt64)
    /// The broker has refused a send.
    case sendRefused(number: UInt64, code: UInt8)
    case ignored
    /// The broker said good-bye.
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
    /// Whether the client numbers its sends.
    var isNumbered: Bool
}

extension EventLoop {
    /// Writes one packet of exactly `byteCount` bytes, to leave with this turn. A connection that
    /// is gone takes nothing.
    @inline(__always)
    mutating func write(
        _ byteCount: Int, to connection: ConnectionID, _ body: (inout PacketWriter) -> Void
    ) {
        guard let room = reserve(byteCount, for: connection, .required) else { return }
        var writer = PacketWriter(UnsafeMutableRawBufferPointer(start: room, count: byteCount))
        body(&writer)
        precondition(writer.byteCount == byteCount, "a packet of another size than announced")
        commit(byteCount, for: connection)
    }
}
