// One connection of a client of another system on a WebSocket: what its event loop knows of it
// beside the session of the core.

import BrokerCore
import BrokerTerms
import Credentials
import Dialects
import SourceInterfaces
import WireFormat

/// The state of one socket: less than 100 bytes, because thousands may be idle.
struct SourceSocket {
    /// What the client may send.
    ///
    ///     opening ─CONNECT─► stranger ─authenticate─► authenticating ─accepted─► established
    ///     (Socket.IO only)      │                          │                        │
    ///                           └──────── refused ─────────┴────── any fault ───────┴─► ended
    enum Phase: UInt8 {
        /// A packet of Socket.IO that opens the main namespace.
        case opening
        /// The event `authenticate`; others are refused.
        case stranger
        /// Nothing is read: the core decides on the login.
        case authenticating
        case established
        /// The last message is written.
        case ended
    }

    /// The generation of the connection's slot.
    let generation: UInt32
    let form: SocketForm
    var phase: Phase
    /// Events before the login.
    var refusedCount: UInt8 = 0
    /// Whether a ping has no pong yet.
    var isPinging = false
    /// Whether an event has no answer yet. Nothing is read meanwhile.
    var isWaiting = false
    /// Whether the client wants an answer to `authenticate`.
    var wantsAnswer = false
    /// The highest number of the inbox that is written; before the login is accepted, the client's
    /// number of `authenticate`.
    var writtenNumber: UInt64 = 0
    /// The highest number that was written before the ping without a pong.
    var pingedNumber: UInt64 = 0
    /// The session's token, as it was presented.
    var token = TokenID(raw: 0)
    var digest = Digest(words: (0, 0, 0, 0))

    init(generation: UInt32, form: SocketForm) {
        self.generation = generation
        self.form = form
        phase = form == .socketIO ? .opening : .stranger
    }

    /// The client's number of `authenticate`, until the login is accepted; nil if it wants no
    /// answer.
    var loginNumber: UInt64? { wantsAnswer ? writtenNumber : nil }

    var credential: PresentedCredential {
        .token(identifier: Array(token.description.utf8), digest)
    }
}

/// The messages in the bytes of a socket, which the transport shows in frames with their lengths
/// (``FramedText``).
enum SocketText {
    /// A whole message, and where the next one begins.
    case text([UInt8], end: Int)
    /// So many bytes are needed.
    case incomplete(Int)
    case tooLarge

    /// Finds the message at the start of `bytes`.
    static func next(in bytes: RawSpan, byteCountMaximum: Int) -> SocketText {
        var text: [UInt8] = []
        var offset = 0
        var fragmentCount = 0
        while true {
            let content = offset + FramedText.headerByteCount
            guard bytes.byteCount >= content else { return .incomplete(content) }
            var word: UInt32 = 0
            for index in 0..<FramedText.headerByteCount {
                word |= UInt32(bytes[offset + index]) << UInt32(index * 8)
            }
            let header = FramedText(word)
            fragmentCount += 1
            guard text.count + header.byteCount <= byteCountMaximum,
                fragmentCount <= SocketLimits.fragmentCountMaximum
            else { return .tooLarge }
            offset = content + header.byteCount
            guard bytes.byteCount >= offset else { return .incomplete(offset) }
            bytes.extracting(content..<offset).withUnsafeBytes { text.append(contentsOf: $0) }
            if header.isLast { return .text(text, end: offset) }
        }
    }

    /// A frame with a message for a client.
    static func frame(_ text: [UInt8]) -> [UInt8] {
        let headerByteCount = WebSocketFrame.headerByteCount(payloadByteCount: text.count)
        var frame = [UInt8](repeating: 0, count: headerByteCount)
        frame.withUnsafeMutableBytes {
            var writer = PacketWriter($0.mutableBytes)
            WebSocketFrame.writeHeader(.text, payloadByteCount: text.count, to: &writer)
        }
        return frame + text
    }
}
