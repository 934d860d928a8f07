// The targets of fuzzing by name. They return for any input: a trap, a hang or growing memory is a
// find. They do not use libFuzzer; the tests run them over the stored inputs.

/// A place where bytes from strangers enter.
package enum FuzzTarget: String, CaseIterable, Sendable {
    /// Finding packets in a stream.
    case framing
    /// Every MRT packet and every part of one.
    case mrt
    /// Every packet of MQTT 3.1, 3.1.1 and 5.0.
    case mqtt
    /// The scanner of `t`/`b` messages.
    case text
    /// JSON Web Tokens and opaque tokens.
    case tokens
    /// Configuration files.
    case configuration
    /// Rows that a broker reads back at its start.
    case records
    /// A store's file, changed at some places.
    case store
    /// A backup that is cut off and changed, and the copy that a restore makes of it.
    case backup
    /// The bytes of several connections, through dialects, core and back.
    case connection
    /// The messages of JSON clients beside other connections, in the same way.
    case json
    /// The real loop: credentials, rights, rates, several connections and turns, operators,
    /// restarts.
    case loop
    /// What an MQTT broker says to a bridge.
    case bridge
    /// What a broker says to the SDK.
    case client
    /// What devices, and a broker, say to a gateway.
    case gateway
    /// Requests of HTTP, and frames of WebSocket.
    case web
    /// PROXY headers, addresses, networks and `X-Forwarded-For`.
    case proxy

    package func run(_ bytes: UnsafeRawBufferPointer) {
        switch self {
        case .framing: fuzzFraming(bytes)
        case .mrt: fuzzMRT(bytes)
        case .mqtt: fuzzMQTT(bytes)
        case .text: fuzzText(bytes)
        case .tokens: fuzzTokens(bytes)
        case .configuration: fuzzConfiguration(bytes)
        case .records: fuzzRecords(bytes)
        case .store: fuzzStore(bytes)
        case .backup: fuzzBackup(bytes)
        case .connection: fuzzConnection(bytes)
        case .json: fuzzJSON(bytes)
        case .loop: fuzzLoop(bytes)
        case .bridge: fuzzBridge(bytes)
        case .client: fuzzClient(bytes)
        case .gateway: fuzzGateway(bytes)
        case .web: fuzzWeb(bytes)
        case .proxy: fuzzProxy(bytes)
        }
    }
}

/// Takes an input apart into numbers and pieces; the rest of one that has ended is zeros.
struct InputReader {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    mutating func readByte() -> UInt8 {
        guard offset < bytes.count else { return 0 }
        defer { offset += 1 }
        return bytes[offset]
    }

    mutating func readUInt16() -> UInt16 { UInt16(readByte()) << 8 | UInt16(readByte()) }

    /// At most `count` bytes.
    mutating func read(_ count: Int) -> UnsafeRawBufferPointer {
        let end = min(offset + count, bytes.count)
        defer { offset = end }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<end])
    }
}
