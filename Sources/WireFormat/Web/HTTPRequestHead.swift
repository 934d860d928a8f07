// The parts of an HTTP/1.1 request's head that the broker needs, as plain values. Other fields are
// checked and dropped.

import Primitives

/// The head of a request. Its ranges refer to the bytes from which it was parsed.
public struct HTTPRequestHead: Sendable, Equatable {
    public enum Method: UInt8, Sendable {
        case get, head, post, put, delete, options, other
    }

    /// The known subprotocols in a client's list.
    public struct Subprotocols: OptionSet, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        public static let mqtt = Subprotocols(rawValue: 1 << 0)
        /// The name from before MQTT 3.1.1, which older clients use.
        public static let mqttV31 = Subprotocols(rawValue: 1 << 1)
        public static let mrt = Subprotocols(rawValue: 1 << 2)
    }

    public struct Traits: OptionSet, Sendable {
        public let rawValue: UInt16
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// HTTP/1.0: the connection closes unless the client requests otherwise.
        public static let isVersion10 = Traits(rawValue: 1 << 0)
        /// `Connection: close`.
        public static let closes = Traits(rawValue: 1 << 1)
        /// `Connection: keep-alive`.
        public static let keepsAlive = Traits(rawValue: 1 << 2)
        /// `Connection: upgrade`.
        public static let upgrades = Traits(rawValue: 1 << 3)
        /// `Upgrade: websocket`.
        public static let offersWebSocket = Traits(rawValue: 1 << 4)
        /// `Sec-WebSocket-Version: 13`.
        public static let isWebSocketVersion13 = Traits(rawValue: 1 << 5)
        /// `Transfer-Encoding: chunked`.
        public static let isChunked = Traits(rawValue: 1 << 6)
        /// `Expect: 100-continue`: the client waits for 100 Continue before it sends the content.
        public static let expectsContinue = Traits(rawValue: 1 << 7)
        /// An expectation that is not known.
        public static let expectsOther = Traits(rawValue: 1 << 8)
        /// `Content-Encoding`.
        public static let isCoded = Traits(rawValue: 1 << 9)
        /// `Accept` names `application/openmetrics-text`, and not `text/plain` with a higher
        /// weight.
        public static let prefersOpenMetrics = Traits(rawValue: 1 << 10)
        /// `Access-Control-Request-Method`: a browser asks whether a page may make a request.
        public static let isPreflight = Traits(rawValue: 1 << 11)
    }

    public internal(set) var method = Method.other
    /// As it was sent, with escapes and without the query.
    public internal(set) var path = ByteRange.empty
    /// What follows `?`, as it was sent; nil if there is none.
    public internal(set) var query: ByteRange?
    /// Host, or the authority of an absolute target, which replaces it (RFC 9112, 3.2.2).
    public internal(set) var authority = ByteRange.empty
    /// Nil if there is none. The value is not checked.
    public internal(set) var origin: ByteRange?
    /// Nil if there is none. The value is not checked.
    public internal(set) var authorization: ByteRange?
    /// Nil if there is none. The value is not checked.
    public internal(set) var contentType: ByteRange?
    /// `Martlet-User`: the user for whom the request is made. Nil if there is none. The value is
    /// not checked.
    public internal(set) var actingUser: ByteRange?
    /// `QB-Token`: the session of a client of QuickBlox. Nil if there is none. The value is not
    /// checked.
    public internal(set) var sessionToken: ByteRange?
    /// `X-Diuit-Application-Id`: the app of a client of Diuit. Nil if there is none. The value is
    /// not checked.
    public internal(set) var application: ByteRange?
    /// Which part of the content is asked for. Nil if there is none. The value is not checked.
    public internal(set) var range: ByteRange?
    /// Nil if there is none. The value is not checked.
    public internal(set) var lastEventID: ByteRange?
    /// Nil if there is none. The value is not checked.
    public internal(set) var idempotencyKey: ByteRange?
    /// Nil if there is none. The value is not checked.
    public internal(set) var webSocketKey: ByteRange?
    /// The values of all `X-Forwarded-For`, in their order. They are not checked.
    public internal(set) var forwardedFor: [ByteRange] = []
    public internal(set) var subprotocols: Subprotocols = []
    public internal(set) var traits: Traits = []
    public internal(set) var contentLength: UInt64 = 0

    /// Whether content follows the head.
    public var hasContent: Bool { contentLength > 0 || traits.contains(.isChunked) }

    /// Whether the connection stays open after the response, if the server wants it too (RFC 9112,
    /// 9.3).
    public var isPersistent: Bool {
        if traits.contains(.closes) { return false }
        return !traits.contains(.isVersion10) || traits.contains(.keepsAlive)
    }

    /// Whether the client requests WebSocket.
    public var wantsWebSocket: Bool { traits.isSuperset(of: [.upgrades, .offersWebSocket]) }
}

/// The characters of HTTP (RFC 9110, 5.6; RFC 3986).
enum HTTPCharacter {
    /// Letters, digits and ``!#$%&'*+-.^_`|~``.
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "!"), UInt8(ascii: "|"),
            UInt8(ascii: "~"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"),
            UInt8(ascii: "."), UInt8(ascii: "#")...UInt8(ascii: "'"),
            UInt8(ascii: "^")...UInt8(ascii: "`"):
            true
        default: false
        }
    }

    /// Whether a byte may be in a path or a query, including `?` and escapes.
    static func isTarget(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "#"), UInt8(ascii: "<"), UInt8(ascii: ">"),
            UInt8(ascii: "\\"), UInt8(ascii: "^"), UInt8(ascii: "`"), UInt8(ascii: "{"),
            UInt8(ascii: "|"), UInt8(ascii: "}"):
            false
        default: byte > 0x20 && byte < 0x7F
        }
    }

    /// Whether a byte may be in a host with a port. User information is not allowed.
    static func isAuthority(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "@"): false
        default: isTarget(byte)
        }
    }

    static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    static func lowercase(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}

extension RawSpan {
    /// Whether these bytes are equal to a lowercase text, ignoring the case of letters.
    public func isEqual(ignoringCase text: StaticString) -> Bool {
        isEqual(ignoringCase: text.utf8Bytes)
    }

    /// Whether two texts are equal, ignoring the case of letters.
    public func isEqual(ignoringCase other: RawSpan) -> Bool {
        guard other.byteCount == byteCount else { return false }
        for offset in byteOffsets
        where HTTPCharacter.lowercase(self[offset]) != HTTPCharacter.lowercase(other[offset]) {
            return false
        }
        return true
    }

    /// Whether these bytes are equal to a text.
    public func isEqual(_ text: StaticString) -> Bool {
        let other = text.utf8Bytes
        guard other.byteCount == byteCount else { return false }
        for offset in byteOffsets where self[offset] != other[offset] { return false }
        return true
    }

    func allSatisfy(_ condition: (UInt8) -> Bool) -> Bool {
        for offset in byteOffsets where !condition(self[offset]) { return false }
        return true
    }
}
