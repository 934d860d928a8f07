// One JSON message for a client, in the form of its connection: a frame of text on a WebSocket, or
// an event on an event stream.

import BrokerTerms
import WireFormat

/// How a JSON connection sends and receives.
public enum JSONForm: Sendable {
    /// Messages of both sides are text messages of a WebSocket.
    case socket
    /// The same, with the commands and events of LeanMessage.
    case leanMessage
    /// Messages of the broker are server-sent events in the response to a request. The broker reads
    /// nothing from the connection but the packets that the request stands for.
    case eventStream
    /// Messages of the broker are translated by the ``MessageRelay``. Its owner reads what the
    /// client sends, and gives the decoder packets that stand for it.
    case relayed

    /// Whether the decoder reads messages of the client.
    public var isSocket: Bool { self != .eventStream }
}

/// Translates messages of the broker for clients of other systems.
public protocol MessageRelay: AnyObject {
    /// The frames of WebSocket for a message; empty for none.
    ///
    /// - Parameters:
    ///   - message: a JSON object.
    ///   - number: the inbox number; 0 for none.
    ///   - user: the user of the connection; empty before the login is accepted.
    func frames(
        of message: [UInt8], number: UInt64, to connection: ConnectionID, user: [UInt8]
    ) -> [UInt8]
}

/// The state of an event stream.
struct EventStream {
    /// The epoch of the inbox; 0 until the login is accepted.
    var epoch: UInt64 = 0
    /// Numbered events that may follow. The next request acknowledges them.
    var remainingCount = 0
    /// Which pages of other origins may read the stream; nil for none.
    var cors: CORSHeaders?
}

/// The messages of the broker.
enum JSONMessage {
    /// Begins a message with its type.
    static func begin(_ type: StaticString) -> JSONWriter {
        var writer = JSONWriter()
        writer.write("type", type)
        return writer
    }

    /// Sends a message.
    ///
    /// - Parameters:
    ///   - number: the inbox number; 0 for none.
    @discardableResult
    static func send(
        _ writer: consuming JSONWriter, number: UInt64 = 0, to connection: ConnectionID,
        priority: PacketPriority = .required, in conversations: borrowing ConversationTable,
        through host: inout some ConnectionHost & ~Copyable
    ) -> ConversationTable.WriteOutcome {
        let text = writer.end()
        guard case .json(let form)? = conversations[connection]?.dialect else { return .noRoom }
        switch form {
        case .socket, .leanMessage:
            let byteCount =
                WebSocketFrame.headerByteCount(payloadByteCount: text.count) + text.count
            return conversations.write(
                byteCount, to: connection, priority: priority, through: &host
            ) { writer in
                WebSocketFrame.writeHeader(.text, payloadByteCount: text.count, to: &writer)
                writer.write(bytes: text.span.bytes)
            }
        case .relayed:
            guard let relay = conversations.relay else {
                preconditionFailure("\(connection) is relayed, and there is no relay")
            }
            let frames = relay.frames(
                of: text, number: number, to: connection, user: conversations.user(of: connection))
            guard !frames.isEmpty else { return .written }
            return send(
                frames, to: connection, priority: priority, in: conversations, through: &host)
        case .eventStream:
            let event = event(
                text, number: number, epoch: conversations.streams[connection]?.epoch ?? 0)
            return send(
                event, to: connection, priority: priority, in: conversations, through: &host)
        }
    }

    /// Sends bytes as they are.
    @discardableResult
    static func send(
        _ bytes: [UInt8], to connection: ConnectionID, priority: PacketPriority = .required,
        in conversations: borrowing ConversationTable,
        through host: inout some ConnectionHost & ~Copyable
    ) -> ConversationTable.WriteOutcome {
        conversations.write(
            bytes.count, to: connection, priority: priority, through: &host
        ) { $0.write(bytes: bytes.span.bytes) }
    }

    /// An event (HTML, 9.2.6): its text has no line end, because JSON escapes them. Only numbered
    /// ones have an id, so that the last id of a client is a position in its inbox.
    private static func event(_ text: [UInt8], number: UInt64, epoch: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count + 64)
        if number > 0 {
            bytes += "id: ".utf8
            bytes.append(hexadecimal: epoch)
            bytes.append(UInt8(ascii: "-"))
            bytes.append(decimal: number)
            bytes.append(UInt8(ascii: "\n"))
        }
        bytes += "data: ".utf8
        bytes += text
        bytes += "\n\n".utf8
        return bytes
    }
}
