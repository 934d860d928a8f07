// How clients of an interface write their messages on a WebSocket: as packets of Engine.IO 4 with
// Socket.IO 5 in them, or as plain JSON.
//
//     Engine.IO:   0 open  1 close  2 ping  3 pong  4 message  6 noop
//     in 4:        0 connect  1 disconnect  2 event  3 acknowledgement  5, 6 with binary parts
//
//     42["message",{…}]     an event            {"event":"message","data":{…}}
//     427["chats/list"]     with a number 7     {"event":"chats/list","id":7}
//     437[{…}]              its answer          {"id":7,"data":{…}}

/// The form of a client's messages.
public enum SocketForm: Hashable, Sendable {
    case socketIO
    case plain

    /// The form at a path of a handshake; nil for other paths.
    ///
    /// - Parameter path: its segments, without escapes.
    public init?(path: [String]) {
        switch path {
        case ["socket.io", ""], ["socket.io"]: self = .socketIO
        case ["1", "socket"]: self = .plain
        default: return nil
        }
    }

    // MARK: - Messages of the broker

    /// What a client gets first; nil for nothing.
    ///
    /// - Parameter identifier: of the connection, which nothing else refers to.
    public func greeting(identifier: String) -> [UInt8]? {
        guard self == .socketIO else { return nil }
        let open: SourceValue = .object([
            "sid": .text(identifier), "upgrades": .array([]),
            "pingInterval": .count(SocketLimits.pingMilliseconds),
            "pingTimeout": .count(SocketLimits.pongMilliseconds),
            "maxPayload": .count(SocketLimits.messageByteCountMaximum),
        ])
        return [UInt8(ascii: "0")] + open.bytes
    }

    /// The answer to a CONNECT of Socket.IO.
    public static func accepted(identifier: String) -> [UInt8] {
        Array("40".utf8) + SourceValue.object(["sid": .text(identifier)]).bytes
    }

    /// The refusal of a CONNECT to another namespace than the main one.
    public static func refused(namespace: String) -> [UInt8] {
        Array("44\(namespace),".utf8)
            + SourceValue.object(["message": .text("Invalid namespace")]).bytes
    }

    /// A question whether the client has read what came before.
    public var ping: [UInt8] {
        self == .socketIO ? [UInt8(ascii: "2")] : Array(#"{"event":"ping"}"#.utf8)
    }

    /// The answer to a client's ping.
    public func pong(_ content: [UInt8]) -> [UInt8] {
        self == .socketIO ? [UInt8(ascii: "3")] + content : Array(#"{"event":"pong"}"#.utf8)
    }

    /// Ends after which a client may come back: it was silent (408), such as a telephone that
    /// slept, comes too often (429), the broker stops (503), or the store is full (507).
    private static let temporaryCodes: Set = [408, 429, 503, 507]

    /// The last message of a connection; nil for none. Clients of Socket.IO do not come back after
    /// it, so that a temporary end has none.
    public func farewell(after code: Int) -> [UInt8]? {
        self == .socketIO && !Self.temporaryCodes.contains(code) ? Array("41".utf8) : nil
    }

    public func event(_ name: String, _ data: SourceValue) -> [UInt8] {
        self == .socketIO
            ? Array("42".utf8) + SourceValue.array([.text(name), data]).bytes
            : SourceValue.object(["event": .text(name), "data": data]).bytes
    }

    /// An answer; empty for an event whose client asked for none.
    public func answer(_ data: SourceValue, to number: UInt64?) -> [UInt8] {
        guard let number else { return [] }
        return self == .socketIO
            ? Array("43\(number)".utf8) + SourceValue.array([data]).bytes
            : SourceValue.object(["id": .count(number), "data": data]).bytes
    }

    /// A refusal: an answer, or an event `error` where the client asked for none.
    ///
    /// - Parameter name: of the refused event.
    public func refusal(
        code: Int, _ message: String, of name: String?, to number: UInt64?
    ) -> [UInt8] {
        let error: [String: SourceValue] = ["code": .count(code), "message": .text(message)]
        guard let number else {
            return event(
                "error", .object(error.merging(["event": .optional(name)]) { own, _ in own }))
        }
        return self == .socketIO
            ? answer(.object(["error": .object(error)]), to: number)
            : SourceValue.object(["id": .count(number), "error": .object(error)]).bytes
    }
}

/// The limits of sockets, each with the reason for its number.
public enum SocketLimits {
    /// Milliseconds between two pings to an idle client, as Socket.IO has it.
    public static let pingMilliseconds: UInt64 = 25_000
    /// Milliseconds that the greeting gives a client for its pong, as Socket.IO has it. The broker
    /// measures silence instead (``keepAliveSeconds``).
    public static let pongMilliseconds: UInt64 = 20_000
    /// Seconds of keep-alive: a client may be silent for one and a half times as long, which is
    /// the time between two pings and the time for a pong.
    public static let keepAliveSeconds: UInt16 = 30
    /// Milliseconds for which a client may be silent, or read nothing while too much is unsent: the
    /// time between two pings and the time for a pong.
    public static let silenceMilliseconds = pingMilliseconds + pongMilliseconds
    /// Bytes of a client's message: those of the content of a request.
    public static let messageByteCountMaximum = 65_536
    /// Bytes of a message before the login: a session has 43.
    public static let firstMessageByteCountMaximum = 2_048
    /// Frames of one message, as of the broker's own sockets.
    public static let fragmentCountMaximum = 64
    /// Events before the login: clients send `authenticate` first, and a few more by mistake. The
    /// last one is answered, and ends the connection.
    public static let eventsBeforeLoginMaximum: UInt8 = 8
    /// Bytes of a message that can be a ping or a pong of plain JSON.
    static let pingByteCountMaximum = 64
    /// Highest number of an event: what all programs write as a whole number.
    static let numberMaximum: UInt64 = 1 << 53
    /// Messages that may be without a pong: as many as those of a client of JSON.
    public static let windowMessages: UInt16 = 256
}
