// What a connection with WebSocket frames needs beside its slot. Other connections have none: the
// table is address space until a slot is used.
import Primitives
import WireFormat

/// The frames of one connection, both ways: 20 bytes.
struct FrameState {
    /// Why the connection ends as soon as the handler has read what came before.
    enum Ending: UInt8 {
        case none
        case fault
        /// The peer has sent a close frame.
        case peerClose
    }

    var decoder = WebSocketDecoder()
    /// Unsent bytes, from the front, that have their frames.
    @NarrowCount var framedCount = 0
    /// Kept bytes, at their end, that are the start of a header or of a control frame.
    var rawCount: UInt8 = 0
    var ending = Ending.none
    /// The fault that ends the connection; its meaning is in `ending`.
    var fault = WebSocketFault.tooLarge
    /// Whether room for a header stands behind the framed bytes. It does whenever there is an
    /// outgoing block and the handler may append to it.
    var hasRoom = false

    static let roomByteCount = WebLimits.serverHeaderByteCountMaximum
}
