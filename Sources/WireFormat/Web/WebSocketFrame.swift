// WebSocket frames (RFC 6455, 5.2). A server's frames have no mask, a client's must have one.
//
//     bit  7     6-4    3-0        7      6-0
//         +-----+------+--------+ +------+--------+-----------------+----------+---------+
//         | FIN | 0    | opcode | | MASK | length | length, 0, 2, 8 | mask, 4  | payload |
//         +-----+------+--------+ +------+--------+-----------------+----------+---------+

import Primitives

/// The opcode of a frame.
public enum WebSocketOpcode: UInt8, Sendable {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    /// Control frames are short and not divided, and may come between the frames of a message.
    public var isControl: Bool { rawValue & 8 != 0 }
}

/// The codes of close frames (RFC 6455, 7.4.1).
public enum WebSocketCloseCode: UInt16, Sendable {
    case normal = 1000
    case goingAway = 1001
    case protocolError = 1002
    case unsupportedData = 1003
    case policyViolation = 1008
    case tooLarge = 1009
    /// Of LeanMessage: another client has logged in with the same tag.
    case conflict = 4111
}

/// A fault of a client that ends its connection.
public enum WebSocketFault: UInt8, Error, CaseIterable, Sendable {
    /// A reserved bit is set. Reserved bits belong to extensions, and none was negotiated.
    case reservedBit
    case unknownOpcode
    /// A client's frame without a mask (RFC 6455, 5.1).
    case unmasked
    /// A length that is encoded in more bytes than it needs.
    case lengthNotMinimal
    /// A control frame of more than 125 bytes.
    case longControl
    /// A control frame without FIN.
    case fragmentedControl
    /// A continuation frame outside a message.
    case continuationWithoutMessage
    /// A message that begins within another one.
    case messageWithinMessage
    /// A close frame of one byte, with a code that must not be sent, or with a reason that is not
    /// UTF-8.
    case closePayload
    /// A text frame where messages are binary, as those of MQTT [MQTT-6.0.0-1], or the other way
    /// round.
    case otherForm
    /// A frame that exceeds the maximum packet size.
    case tooLarge
    /// More than ``WebLimits/emptyFrameCountMaximum`` frames without data at once.
    case emptyFrames

    /// The code of the close frame that answers it.
    public var closeCode: WebSocketCloseCode {
        switch self {
        case .otherForm: .unsupportedData
        case .tooLarge: .tooLarge
        case .emptyFrames: .policyViolation
        case .reservedBit, .unknownOpcode, .unmasked, .lengthNotMinimal, .longControl,
            .fragmentedControl, .continuationWithoutMessage, .messageWithinMessage, .closePayload:
            .protocolError
        }
    }

    /// A description for the log.
    public var text: StaticString {
        switch self {
        case .reservedBit: "a reserved bit is set"
        case .unknownOpcode: "an unknown opcode"
        case .unmasked: "a frame without a mask"
        case .lengthNotMinimal: "a length that is not minimal"
        case .longControl: "a control frame of more than 125 bytes"
        case .fragmentedControl: "a fragment of a control frame"
        case .continuationWithoutMessage: "a continuation without a message"
        case .messageWithinMessage: "a message within a message"
        case .closePayload: "a malformed close frame"
        case .otherForm: "a text frame instead of a binary one, or the other way round"
        case .tooLarge: "a frame that is too large"
        case .emptyFrames: "too many frames without data at once"
        }
    }
}

/// What the messages of a connection are.
public enum WebSocketForm: UInt8, Sendable {
    /// Binary messages, whose frames form one stream [MQTT-6.0.0-3].
    case binary
    /// Text messages, of which each has a meaning of its own.
    case text
}

/// Encodes frames to clients.
public enum WebSocketFrame {
    /// In the length of a frame of text, as readers are shown it: the frame ends its message.
    public static let lastFrameMark: UInt32 = 1 << 31

    /// Bytes of the header of a frame to a client.
    public static func headerByteCount(payloadByteCount: Int) -> Int {
        payloadByteCount <= 125 ? 2 : payloadByteCount <= 0xFFFF ? 4 : 10
    }

    /// Encodes the header of an undivided message or of a control frame to a client.
    public static func writeHeader(
        _ opcode: WebSocketOpcode, payloadByteCount: Int, to writer: inout PacketWriter
    ) {
        writer.write(byte: 0x80 | opcode.rawValue)
        switch headerByteCount(payloadByteCount: payloadByteCount) {
        case 2:
            writer.write(byte: UInt8(payloadByteCount))
        case 4:
            writer.write(byte: 126)
            writer.write(uint16: UInt16(payloadByteCount))
        default:
            writer.write(byte: 127)
            writer.write(fixed8: UInt64(payloadByteCount))
        }
    }

    /// Bytes of a close frame to a client.
    public static func closeByteCount() -> Int { 4 }

    /// Encodes a close frame with a code and without a reason.
    public static func writeClose(_ code: WebSocketCloseCode, to writer: inout PacketWriter) {
        writeHeader(.close, payloadByteCount: 2, to: &writer)
        writer.write(uint16: code.rawValue)
    }
}
