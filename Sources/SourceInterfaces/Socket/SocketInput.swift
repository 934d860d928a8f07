// Reads the messages of clients on a WebSocket, as far as the event loop has to know them. What is
// in an event, `SocketEvent` reads.

/// What a message of a client is.
public enum SocketInput: Hashable, Sendable {
    /// - Parameter content: what the pong repeats.
    case ping([UInt8])
    case pong
    /// CONNECT of Socket.IO to the main namespace.
    case connect
    case connectElsewhere(namespace: String)
    case event
    /// It has no meaning here, and does no harm.
    case ignored
    /// The client is leaving.
    case close
    case fault(code: Int, String)
}

extension SocketForm {
    /// Reads a message.
    public func input(_ text: [UInt8]) -> SocketInput {
        switch self {
        case .socketIO: engineInput(text)
        case .plain: plainInput(text)
        }
    }

    private func plainInput(_ text: [UInt8]) -> SocketInput {
        guard text.count <= SocketLimits.pingByteCountMaximum,
            case .object(let members)? = try? SourceValue(text)
        else { return .event }
        switch members["event"] {
        case .text("pong"): return .pong
        case .text("ping"): return .ping([])
        default: return .event
        }
    }

    private func engineInput(_ text: [UInt8]) -> SocketInput {
        switch text.first {
        case UInt8(ascii: "1"): return .close
        case UInt8(ascii: "2"):
            // A probe before an upgrade has a few bytes.
            return text.count <= SocketLimits.pingByteCountMaximum
                ? .ping(Array(text.dropFirst())) : .fault(code: 400, "a ping that is too long")
        case UInt8(ascii: "3"): return .pong
        case UInt8(ascii: "4"): return packetInput(text.dropFirst())
        case UInt8(ascii: "6"): return .ignored
        default: return .fault(code: 400, "no packet of Engine.IO that a client sends")
        }
    }

    /// A packet of Socket.IO.
    private func packetInput(_ packet: ArraySlice<UInt8>) -> SocketInput {
        let rest = packet.dropFirst()
        switch packet.first {
        case UInt8(ascii: "0"):
            guard rest.first == UInt8(ascii: "/") else { return .connect }
            let name = rest.prefix { $0 != UInt8(ascii: ",") }
            guard name.count <= SocketLimits.pingByteCountMaximum,
                let namespace = String(validating: name, as: UTF8.self)
            else { return .fault(code: 400, "a malformed namespace") }
            return namespace == "/" ? .connect : .connectElsewhere(namespace: namespace)
        case UInt8(ascii: "1"): return .close
        case UInt8(ascii: "2"): return .event
        case UInt8(ascii: "3"): return .ignored
        case UInt8(ascii: "5"), UInt8(ascii: "6"):
            return .fault(code: 415, "binary parts are not read: send base64")
        default: return .fault(code: 400, "no packet of Socket.IO that a client sends")
        }
    }
}
