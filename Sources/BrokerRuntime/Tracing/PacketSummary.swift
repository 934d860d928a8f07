// What a trace shows of a packet: its fields, decoded from the bytes that passed by the codecs of
// WireFormat. Secrets are left out here, so that no trace ever holds one: passwords, tokens, keys,
// authentication data and resume cookies.

import Administration
import BrokerTerms
import Primitives
import WireFormat

/// What a traced connection speaks.
enum TracedDialect: Hashable, Sendable {
    case mrt
    case mqtt(MQTT.Version)
    /// The messages of a client are shown by the packets that have their meaning.
    case json

    var text: String {
        switch self {
        case .mrt: "MRT \(MRT.level)"
        case .mqtt(.v31): "MQTT 3.1"
        case .mqtt(.v311): "MQTT 3.1.1"
        case .mqtt(.v5): "MQTT 5.0"
        case .json: "JSON"
        }
    }
}

/// Fills a record with the fields of one packet.
struct PacketSummary: ~Escapable {
    /// The body of the packet.
    let body: RawSpan
    let flags: UInt8
    var packet: TracedPacket
    /// Words for ``TracedPacket/detail``.
    var words: [String] = []

    @_lifetime(copy body)
    init(_ packet: TracedPacket, flags: UInt8, body: RawSpan) {
        self.packet = packet
        self.flags = flags
        self.body = body
    }

    /// The record of a packet. One that cannot be decoded is shown by its type and size.
    ///
    /// - Parameter bytes: a whole packet.
    static func packet(
        _ bytes: RawSpan, dialect: TracedDialect, from peer: MRT.Peer
    ) -> TracedPacket {
        if dialect == .json, peer == .broker { return TracedPacket(message: bytes) }
        let direction: TracedPacket.Direction = peer == .client ? .in : .out
        let size = UInt64(bytes.byteCount)
        guard
            case .packet(let frame) = PacketFrame.next(in: bytes, at: 0, packetMaximum: .max)
        else { return TracedPacket(direction, "incomplete", byteCount: size) }
        var summary = PacketSummary(
            TracedPacket(direction, name(ofType: frame.type, dialect), byteCount: size),
            flags: frame.flags, body: frame.body.bytes(in: bytes))
        do throws(WireError) {
            switch dialect {
            case .mrt: try summary.readMRT(try MRT.PacketType(frame, from: peer), from: peer)
            case .json:
                let type = try MRT.PacketType(frame, from: peer)
                try summary.readMRT(type, from: peer)
                summary.packet.packet = try summary.messageType(type)
            case .mqtt(let version):
                try summary.readMQTT(
                    try MQTT.PacketType(frame, version, from: peer), version, from: peer)
            }
        } catch {
            summary.set(error.reason)
            summary.words.append("cannot be decoded")
        }
        if !summary.words.isEmpty { summary.packet.detail = summary.words.joined(separator: ", ") }
        return summary.packet
    }

    /// The name of a type of packets in its specification.
    private static func name(ofType type: UInt8, _ dialect: TracedDialect) -> String {
        switch dialect {
        case .mrt, .json:
            switch MRT.PacketType(rawValue: type) {
            case .connect: "CONNECT"
            case .connack: "CONNACK"
            case .send: "SEND"
            case .result: "RESULT"
            case .deliver: "DELIVER"
            case .ack: "ACK"
            case .request: "REQUEST"
            case .response: "RESPONSE"
            case .channel: "CHANNEL"
            case .pingRequest: "PINGREQ"
            case .pingResponse: "PINGRESP"
            case .disconnect: "DISCONNECT"
            case .auth: "AUTH"
            case nil: "type \(type)"
            }
        case .mqtt:
            MQTT.PacketType(rawValue: type).map { "\($0)".uppercased() } ?? "type \(type)"
        }
    }

    // MARK: - Fields

    mutating func set(_ reason: ReasonCode) {
        packet.reason = reason.name.description
        packet.code = UInt64(reason.rawValue)
    }

    /// Adds the size of a payload, and its beginning.
    mutating func setPayload(_ range: ByteRange) {
        packet.payloadByteCount = UInt64(range.count)
        let shown = Self.bytes(
            range.bytes(in: body), maximum: TraceLimits.payloadByteCountMaximum)
        if shown.isEmpty { return }
        if let text = Self.text(ofPrefix: shown, isCut: shown.count < Int(range.count)) {
            packet.payload = text
        } else {
            packet.hex = shown.reduce(into: "") { $0 += Self.hexadecimal($1) }
        }
    }

    func text(_ range: ByteRange) -> String { Self.text(range.bytes(in: body)) }

    /// A text, cut after ``TraceLimits/textByteCountMaximum``.
    static func text(_ span: RawSpan) -> String {
        let text = String(
            decoding: bytes(span, maximum: TraceLimits.textByteCountMaximum), as: UTF8.self)
        return span.byteCount > TraceLimits.textByteCountMaximum ? text + "…" : text
    }

    private static func bytes(_ span: RawSpan, maximum: Int) -> [UInt8] {
        span.extracting(0..<min(span.byteCount, maximum)).withUnsafeBytes { Array($0) }
    }

    /// UTF-8 as text; nil if it is none. A cut may divide the last character.
    private static func text(ofPrefix bytes: [UInt8], isCut: Bool) -> String? {
        // A character has at most four bytes, of which a cut leaves up to three.
        for dropped in 0...(isCut ? min(3, bytes.count) : 0) {
            if let text = String(validating: bytes.dropLast(dropped), as: UTF8.self) {
                return isCut ? text + "…" : text
            }
        }
        return nil
    }

    static func hexadecimal(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }

    /// A code of SUBACK or of an answer, as a number with its name.
    static func codeText(_ code: UInt8) -> String {
        switch code {
        case 0...2: "\(code) granted"
        default: ReasonCode(rawValue: code).map { "\(code) \($0.name)" } ?? "\(code)"
        }
    }
}
