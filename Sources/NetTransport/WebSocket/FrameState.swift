// The part of a connection with WebSocket frames that its slot does not contain. Other connections
// need none: the table is address space until an entry is used.
import Primitives
import WireFormat

/// The frames of one connection in both directions: 24 bytes.
struct FrameState {
    /// The reason for which the connection ends after the handler has read what came before.
    enum Ending: UInt8 {
        case none
        case fault
        /// The peer has sent a close frame.
        case peerClose
    }

    var decoder: WebSocketDecoder
    /// Unsent bytes, from the front, that have their frames.
    @NarrowCount var framedCount = 0
    /// Bytes of pongs since all bytes were sent last.
    var pongByteCount: UInt16 = 0
    /// Kept bytes, at the end, that are the start of a header or of a control frame.
    var rawCount: UInt8 = 0
    var ending = Ending.none
    /// The fault that ends the connection; valid if `ending` is ``Ending/fault``.
    var fault = WebSocketFault.tooLarge
    /// Whether room for a header follows the framed bytes. It does whenever there is an outgoing
    /// block to which the handler may append.
    var hasRoom = false

    init(_ form: WebSocketForm) {
        decoder = WebSocketDecoder(form)
    }

    static let roomByteCount = WebLimits.serverHeaderByteCountMaximum
}
