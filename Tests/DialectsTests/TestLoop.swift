// A loop without sockets: the real decoder and the real encoder between bytes and text. The test
// acts as the sockets and the core.

import BrokerTerms
import Primitives
import WireFormat

@testable import BrokerCore
@testable import Dialects

/// One loop with one connection, unless a test opens more.
final class TestLoop {
    var decoder: PacketDecoder
    var encoder: EffectEncoder
    var host = RecordingHost()
    var authenticator = TestAuthenticator()
    var log = TestLog()
    var effects = LoopEffects()
    var now = Instant(milliseconds: 1_000)
    let connection = ConnectionID(loop: 0, slot: 3, generation: 1)

    /// - Parameter allowsAnonymous: whether the listener lets clients in without credentials.
    init(allowsAnonymous: Bool = false, packetMaximum: Int = 65_536) {
        encoder = EffectEncoder(packetMaximum: 65_536)
        decoder = PacketDecoder(
            loop: 0, terms: [ListenerTerms(allowsAnonymous: allowsAnonymous)],
            packetMaximum: packetMaximum)
        decoder.conversations.open(connection, terms: 0)
    }

    /// The connection ends and another one takes its place.
    func reopen() {
        decoder.closed(connection, .lost, isTold: false)
        decoder.conversations.open(connection, terms: 0)
        host = RecordingHost()
        log = TestLog()
    }

    var phase: Conversation.Phase? { decoder.conversations[connection]?.phase }

    // MARK: - In

    /// Bytes arrive; what they are to the core.
    ///
    /// - Parameter consumed: how many were taken.
    @discardableResult
    func receive(_ bytes: [UInt8], consumed: inout Int) -> [String] {
        // Not at the start of the buffer, as in a loop's arena: offsets must be right.
        var buffer = [UInt8](repeating: 0xEE, count: 11) + bytes
        let room = TopicAliasLimits.burstByteCountMaximum
        buffer += [UInt8](repeating: 0xEE, count: room)
        return buffer.withUnsafeMutableBytes { mutable in
            host.incoming = mutable
            host.incomingCount = 11 + bytes.count
            defer { host.incoming = nil }
            let buffer = UnsafeRawBufferPointer(mutable)
            let outcome = decoder.receive(
                ByteRange(offset: 11, count: bytes.count), of: mutable, from: connection,
                host: &host, authenticator: &authenticator, log: &log)
            consumed = outcome.consumed
            defer { decoder.events.removeAll() }
            return decoder.events.map { line($0, buffer) }
        }
    }

    /// The same, of bytes that must all be taken.
    @discardableResult
    func receive(_ bytes: [UInt8]) -> [String] {
        var consumed = 0
        let lines = receive(bytes, consumed: &consumed)
        precondition(consumed == bytes.count, "\(consumed) of \(bytes.count) bytes were taken")
        return lines
    }

    @discardableResult
    func receive(_ name: String) -> [String] { receive(packet(name)) }

    /// Logs in: from here on the connection is established.
    func establish(packetMaximum: UInt32 = 0) {
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        connect.packetMaximum = packetMaximum
        connect.credential = .token(ByteRange(offset: 0, count: 6))
        receive(encode(connect, "s3cr3t"))
        carryOut { $0.append(.accept(self.connection, acceptance(user: .empty))) }
        host.written = []
    }

    // MARK: - Out

    /// Carries out effects; events that this causes, as lines.
    @discardableResult
    func carryOut(_ body: (inout PlainBuffer<Effect>) -> Void) -> [String] {
        body(&effects.effects)
        var events = ContiguousArray<Event>()
        encoder.encode(
            effects, at: now, conversations: &decoder.conversations, host: &host, log: &log,
            events: &events)
        effects.removeAll()
        return events.map { line($0, UnsafeRawBufferPointer(start: nil, count: 0)) }
    }

    /// The bytes of a text in the loop's arena.
    func text(_ text: String) -> ByteRange {
        Array(text.utf8).withUnsafeBytes { effects.bytes.append($0) }
    }

    /// Names in a row, each with a byte of length.
    func run(_ names: String...) -> ByteRange {
        var run: [UInt8] = []
        for name in names { run += [UInt8(name.utf8.count)] + name.utf8 }
        return run.withUnsafeBytes { effects.bytes.append($0) }
    }

    /// Conversations, as the core reports them.
    func conversations(
        _ entries: [(name: String, isGroup: Bool, last: UInt64, read: UInt64, unread: UInt64)]
    ) -> ByteRange {
        var bytes: [UInt8] = []
        for entry in entries {
            for number in [entry.last, entry.read, entry.unread] {
                withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
            }
            bytes += [entry.isGroup ? 1 : 0, UInt8(entry.name.utf8.count)] + entry.name.utf8
        }
        return bytes.withUnsafeBytes { effects.bytes.append($0) }
    }

    /// Kept messages of type 0, as the core reports them.
    func history(
        _ messages: [(sender: String, number: UInt64, time: UInt64, text: String)],
        fields: MessageFields? = nil
    ) -> ByteRange {
        var bytes: [UInt8] = []
        for message in messages {
            let (sender, payload) = (Array(message.sender.utf8), [0] + Array(message.text.utf8))
            let section = fields?.section() ?? []
            let block = sender.withUnsafeBytes { sender in
                section.withUnsafeBytes { section in
                    payload.withUnsafeBytes { payload in
                        MessageParts(
                            kind: .unicast, marks: section.isEmpty ? [] : .fields,
                            grade: .durable, time: message.time, sender: sender,
                            address: UnsafeRawBufferPointer(start: nil, count: 0),
                            properties: section, payload: payload
                        ).block()
                    }
                }
            }
            withUnsafeBytes(of: message.number.littleEndian) { bytes += $0 }
            withUnsafeBytes(of: UInt32(block.count).littleEndian) { bytes += $0 }
            bytes += block
        }
        return bytes.withUnsafeBytes { effects.bytes.append($0) }
    }

    /// Makes a message of the loop; its index.
    func publish(
        _ kind: MessageKind, address: String = "", marks: MessageMarks = [], payload: [UInt8],
        properties: [UInt8] = [], deadline: Instant = .never
    ) -> UInt32 {
        let (sender, address) = (Array("alice".utf8), Array(address.utf8))
        let range = sender.withUnsafeBytes { sender in
            address.withUnsafeBytes { address in
                (properties + payload).withUnsafeBytes { both in
                    let parts = MessageParts(
                        kind: kind, marks: marks, grade: .durable, time: 1_790_000_000_000,
                        sender: sender, address: address,
                        properties: UnsafeRawBufferPointer(rebasing: both[..<properties.count]),
                        payload: UnsafeRawBufferPointer(rebasing: both[properties.count...]))
                    let range = effects.bytes.reserve(parts.blockByteCount)
                    parts.write(to: effects.bytes.mutableBytes(range))
                    return range
                }
            }
        }
        effects.publications.append(Publication(block: range, deadline: deadline))
        return UInt32(effects.publications.count - 1)
    }

    /// All that was written, and forgets it.
    func written() -> [UInt8] {
        defer { host.written = [] }
        return host.written
    }
}

func acceptance(user: ByteRange, hasWill: Bool = false) -> Acceptance {
    Acceptance(
        isSessionPresent: hasWill, hasWill: hasWill, epoch: 0x0123_4567_89AB_CDEF,
        cookie: 0xFEDC_BA98_7654_3210, unixMilliseconds: 1_790_000_000_000,
        keepAliveSeconds: 300, sessionExpirySeconds: 604_800, sendWindow: 32, inboxWindow: 16,
        messageMaximum: 1024, payloadMaximum: 65_000, user: user)
}

/// What became of the filters of a packet, under packet identifier 1.
func filterAnswer(
    _ connection: ConnectionID, _ request: FilterAnswer.Request, codes: ByteRange
) -> FilterAnswer {
    FilterAnswer(connection: connection, request: request, requestIdentifier: 1, codes: codes)
}

/// A packet's bytes; its ranges are within `source`.
func encode(_ packet: some MRT.Packet, _ source: String = "") -> [UInt8] {
    encode(packet, Array(source.utf8))
}

func encode(_ packet: some MRT.Packet, _ source: [UInt8]) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
    bytes.withUnsafeMutableBytes { buffer in
        var writer = PacketWriter(buffer.mutableBytes)
        source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
    }
    return bytes
}

// MARK: - Surroundings

/// Keeps what is written, of all connections in one row, and what is asked of the loop.
struct RecordingHost: ConnectionHost {
    var written: [UInt8] = []
    var isHeld = false
    var isClosed = false
    /// Whether the outgoing buffer has room for what may be left out.
    var hasRoom = true
    /// How the last packet is treated if its receiver reads slowly.
    private(set) var lastPriority = PacketPriority.required
    var silenceMilliseconds: UInt64?
    /// The turn's buffer, and how much of it is in use.
    var incoming: UnsafeMutableRawBufferPointer?
    var incomingCount = 0
    private var packet: UnsafeMutableRawBufferPointer?

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        let range = ByteRange(offset: incomingCount, count: bytes.count)
        UnsafeMutableRawBufferPointer(rebasing: incoming![incomingCount...])
            .copyMemory(from: bytes)
        incomingCount += bytes.count
        return range
    }

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        lastPriority = priority
        if isClosed || (!hasRoom && priority != .required) { return nil }
        precondition(packet == nil, "a packet was reserved and not committed")
        packet = .allocate(byteCount: byteCount, alignment: 1)
        return packet!.baseAddress
    }

    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        precondition(packet?.count == byteCount, "a packet of another size than reserved")
        written += packet!
        packet!.deallocate()
        packet = nil
    }

    mutating func closeConnection(_ connection: ConnectionID) { isClosed = true }

    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {
        isHeld = false
        self.silenceMilliseconds = silenceMilliseconds
    }

    mutating func holdConnection(_ connection: ConnectionID) { isHeld = true }

    mutating func holdForAnswers(_ connection: ConnectionID) { isHeld = true }
    mutating func releaseAfterAnswers(_ connection: ConnectionID) { isHeld = false }
}

/// Believes everything but the token `bad`; its random numbers are 1, 2, 3 and so on.
struct TestAuthenticator: Authenticator {
    private var count: UInt64 = 0

    mutating func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim? {
        token.bytes(in: bytes).elementsEqual("bad".utf8)
            ? nil : .token(identifier: token, digest: Digest(words: (0, 0, 0, 0)))
    }

    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim? {
        .appKey(app: app, digest: Digest(words: (0, 0, 0, 0)), user: user)
    }

    mutating func claim(of connection: ConnectionID) -> Claim? { nil }

    mutating func makeRandomNumber() -> UInt64 {
        count += 1
        return count
    }
}

struct TestLog: LogSink {
    var refusals: [ReasonCode] = []
    var kinds: [LogEvent.Kind] = []

    mutating func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer) { kinds.append(note.kind) }
    mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {
        refusals.append(reason)
    }
}

/// A short packet that ends with its reason in words.
func worded(_ first: UInt8, _ fields: [UInt8], _ reason: ReasonCode) -> [UInt8] {
    let body = fields + Array(reason.text.utf8Bytes)
    return [first, UInt8(body.count)] + body
}
