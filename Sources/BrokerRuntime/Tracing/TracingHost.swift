// The connections of an event loop, as decoders and encoders see them while there is a trace: each
// packet that they write passes the tracer on its way. Without a trace they write to the loop
// itself.

import BrokerTerms
import Dialects
import Primitives
import WireFormat

/// Owns the event loop during one call.
struct TracingHost<Loop: BrokerLoop & ~Copyable>: ConnectionHost, ~Copyable {
    private var loop: Loop
    private let tracer: LoopTracer
    /// Where the packet begins that was reserved last.
    private var room: UnsafeMutableRawPointer?

    init(_ loop: consuming Loop, _ tracer: LoopTracer) {
        self.loop = loop
        self.tracer = tracer
    }

    /// Gives the loop back.
    consuming func finish() -> Loop { loop }

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        room = loop.reservePacket(byteCount, for: connection, priority)
        return room
    }

    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        if let room {
            tracer.sent(RawSpan(_unsafeStart: room, byteCount: byteCount), to: connection)
        }
        loop.commitPacket(byteCount, for: connection)
    }

    mutating func closeConnection(_ connection: ConnectionID) { loop.closeConnection(connection) }

    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {
        loop.acceptConnection(connection, silenceMilliseconds: silenceMilliseconds)
    }

    mutating func holdConnection(_ connection: ConnectionID) { loop.holdConnection(connection) }

    mutating func holdForAnswers(_ connection: ConnectionID) { loop.holdForAnswers(connection) }

    mutating func releaseAfterAnswers(_ connection: ConnectionID) {
        loop.releaseAfterAnswers(connection)
    }

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        loop.appendIncoming(bytes)
    }
}
