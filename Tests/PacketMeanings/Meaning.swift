// Describes bytes in the words of the vector files, and encodes the decoded packet again: it
// connects the codec with Tests/Vectors.

import Primitives

import WireFormat

/// What one packet was understood as.
package struct Meaning {
    package var text: String
    /// What the decoded packet encodes to.
    package var encoded: [UInt8] = []
}

/// Decodes bytes that a client or a broker sent.
package func understand(_ bytes: [UInt8], isFromClient: Bool) -> Meaning {
    bytes.withUnsafeBytes { bytes in
        switch PacketFrame.next(in: bytes.bytes, at: 0, packetMaximum: .max) {
        case .packet(let frame):
            do throws(WireError) {
                return try decode(frame, in: bytes, from: isFromClient ? .client : .broker)
            } catch {
                return Meaning(text: "error=\(word(error))")
            }
        case .incomplete(let count): return Meaning(text: "error=incomplete:\(count)")
        case .malformed: return Meaning(text: "error=malformed")
        case .tooLarge: return Meaning(text: "error=too-large")
        }
    }
}

/// The word for an error in the vector files.
func word(_ error: WireError) -> String {
    switch error {
    case .malformed: "malformed"
    case .protocolError: "protocol-error"
    case .unsupportedVersion: "unsupported-version"
    case .clientIdentifierNotValid: "client-identifier-not-valid"
    case .topicNameInvalid: "topic-name-invalid"
    case .topicFilterInvalid: "topic-filter-invalid"
    case .topicAliasInvalid: "topic-alias-invalid"
    }
}

private func decode(
    _ frame: PacketFrame, in bytes: UnsafeRawBufferPointer, from peer: MRT.Peer
) throws(WireError) -> Meaning {
    let type = try MRT.PacketType(frame, from: peer)
    let body = frame.body.bytes(in: bytes)
    func meaning(_ packet: some MRT.Packet, _ words: [String?]) -> Meaning {
        Meaning(
            text: words.compactMap(\.self).joined(separator: " "),
            encoded: encode(packet, Array(body)))
    }
    switch type {
    case .connect:
        let packet = try MRT.Connect(body: body.bytes)
        return meaning(packet, words(packet, body))
    case .connack:
        switch try MRT.Connack(body: body.bytes) {
        case .accepted(let packet): return meaning(packet, words(packet, body))
        case .refused(let packet): return meaning(packet, words(packet, body))
        }
    case .send:
        let packet = try MRT.Send(flags: frame.flags, body: body.bytes)
        return meaning(packet, words(packet, body))
    case .result:
        let packet = try MRT.SendResult(flags: frame.flags, body: body.bytes)
        return meaning(packet, words(packet, body))
    case .deliver:
        let packet = try MRT.Deliver(flags: frame.flags, body: body.bytes)
        return meaning(packet, words(packet, body))
    case .ack:
        let packet = try MRT.Ack(flags: frame.flags, body: body.bytes)
        return meaning(
            packet,
            ["ack", field("inbox", packet.inboxNumber), field("results", packet.resultsSeen)])
    case .request:
        let packet = try MRT.Request(body: body.bytes)
        return meaning(
            packet,
            [
                "request", "id=\(packet.identifier)", "operation=\(packet.operationCode)",
                "parameters=" + escape(packet.parameters, body),
            ])
    case .response:
        let packet = try MRT.Response(body: body.bytes)
        return meaning(
            packet,
            [
                "response", "id=\(packet.identifier)", "reason=\(packet.reason.rawValue)",
                "content=" + escape(packet.content, body),
            ])
    case .pingRequest, .pingResponse:
        let packet = try MRT.Ping(isResponse: type == .pingResponse, body: body.bytes)
        return meaning(packet, [packet.isResponse ? "pingresp" : "pingreq"])
    case .channel:
        let packet = try MRT.Channel(body: body.bytes)
        return meaning(
            packet,
            ["channel", "channel=\(packet.channel)", "inner=" + escape(packet.inner, body)])
    case .disconnect where peer == .client:
        let packet = try MRT.ClientDisconnect(body: body.bytes)
        return meaning(
            packet,
            [
                "disconnect", "reason=\(packet.reason.rawValue)",
                packet.sessionExpirySeconds.map { "expiry=\($0)" },
            ])
    case .disconnect:
        let packet = try MRT.BrokerDisconnect(body: body.bytes)
        return meaning(
            packet,
            ["disconnect", "reason=\(packet.reason.rawValue)", "text=" + escape(packet.text, body)])
    case .auth where peer == .client:
        let packet = try MRT.ClientAuth(body: body.bytes)
        return meaning(packet, ["auth", words(packet.credential, body)])
    case .auth:
        let packet = try MRT.BrokerAuth(body: body.bytes)
        return meaning(packet, ["auth", "reason=\(packet.reason.rawValue)"])
    }
}

private func words(_ credential: MRT.Credential, _ body: UnsafeRawBufferPointer) -> String? {
    switch credential {
    case .none: nil
    case .token(let token): "token=" + escape(token, body)
    case .attached(let user): "attached=" + escape(user, body)
    case .appKey(let app, let key, let user):
        "app=\(escape(app, body)) key=\(escape(key, body)) user=\(escape(user, body))"
    }
}

private func words(_ packet: MRT.Connect, _ body: UnsafeRawBufferPointer) -> [String?] {
    [
        "connect", mark("clean", packet.isCleanStart), mark("reconnect", packet.isReconnect),
        "keepalive=\(packet.keepAliveSeconds)", "window=\(packet.inboxWindow)",
        "packetmax=\(packet.packetMaximum)", "device=" + escape(packet.device, body),
        words(packet.credential, body),
        packet.resume.map { "resume=\(fixed8($0.epoch)),\($0.lastNumber)" },
        packet.cookie.map { "cookie=\(fixed8($0))" },
        packet.outbox.map { "outbox=\(fixed8($0.epoch)),\($0.resultsSeen),\($0.highestUsed)" },
        packet.sessionExpirySeconds.map { "expiry=\($0)" },
        field("info", packet.information, in: body),
        field("accepts", UInt64(packet.accepts.rawValue)),
    ]
}

private func words(_ packet: MRT.ConnectAccepted, _ body: UnsafeRawBufferPointer) -> [String?] {
    [
        "connack", mark("present", packet.isSessionPresent), mark("will", packet.hasWill),
        "epoch=\(fixed8(packet.sessionEpoch))", "cookie=\(fixed8(packet.resumeCookie))",
        "time=\(packet.serverTime)", "keepalive=\(packet.keepAliveSeconds)",
        "expiry=\(packet.sessionExpirySeconds)", "sendwindow=\(packet.sendWindow)",
        "window=\(packet.inboxWindow)", "packetmax=\(packet.packetMaximum)",
        "messagemax=\(packet.messageMaximum)", "payloadmax=\(packet.payloadMaximum)",
        "user=" + escape(packet.user, body), packet.unreadCount.map { "unread=\($0)" },
    ]
}

private func words(_ packet: MRT.ConnectRefused, _ body: UnsafeRawBufferPointer) -> [String?] {
    [
        "connack", "reason=\(packet.reason.rawValue)", "retry=\(packet.retryAfterSeconds)",
        "text=" + escape(packet.text, body),
    ]
}

private func words(_ packet: MRT.Send, _ body: UnsafeRawBufferPointer) -> [String?] {
    [
        "send", "grade=\(packet.grade.rawValue)", field("number", packet.number),
        field("messageid", packet.messageIdentifier, in: body),
        field("expiry", UInt64(packet.expirySeconds)), field("time", packet.time),
        mark("history", packet.isKept), mark("no-history", packet.isNeverKept),
        mark("history-only", packet.isUndelivered), mark("retain", packet.isRetained),
        field("fields", packet.fields, in: body),
        mark("raw", packet.isRaw), words(packet.target, body),
        "payload=" + escape(packet.payload, body),
    ]
}

func words(_ target: MRT.Target, _ body: UnsafeRawBufferPointer) -> String {
    switch target {
    case .user(let id): "user=" + escape(id, body)
    case .list(let count, let ids): "list=" + names(ids, body, count: count)
    case .group(let id): "group=" + escape(id, body)
    case .broadcast: "broadcast"
    case .topic(let name): "topic=" + escape(name, body)
    }
}

/// The strings of a run, which must be `count`.
func names(
    _ range: ByteRange, _ body: UnsafeRawBufferPointer, count: Int? = nil
) -> String {
    var list = MRT.IdentifierList(range, in: body.bytes)
    var names: [String] = []
    while let name = list.next() { names.append(escape(name, body)) }
    if let count { precondition(names.count == count, "a list counts its ids") }
    return names.joined(separator: ",")
}

private func words(_ packet: MRT.SendResult, _ body: UnsafeRawBufferPointer) -> [String?] {
    var list = MRT.RefusalList(packet.refusals, in: body.bytes)
    var refusals: [String] = []
    while let refusal = list.next() {
        refusals.append("\(refusal.index):\(refusal.reason.rawValue)")
    }
    return [
        "result", "number=\(packet.number)", "reason=\(packet.reason.rawValue)",
        field("messageid", packet.messageIdentifier, in: body),
        packet.reference == 0 ? nil : "reference=\(fixed8(packet.reference))",
        field("refused", packet.refusedCount),
        packet.refusedCount == 0 ? nil : "refusals=" + refusals.joined(separator: ","),
    ]
}

private func words(_ packet: MRT.Deliver, _ body: UnsafeRawBufferPointer) -> [String?] {
    [
        "deliver", "grade=\(packet.grade.rawValue)", field("number", packet.number),
        mark("duplicate", packet.isPossibleDuplicate), mark("raw", packet.isRaw),
        "kind=\(packet.kind.rawValue)", "from=" + escape(packet.from, body), "time=\(packet.time)",
        field("address", packet.address, in: body), field("fields", packet.fields, in: body),
        "payload=" + escape(packet.payload, body),
    ]
}

/// A bare word.
func mark(_ word: String, _ isSet: Bool) -> String? { isSet ? word : nil }

/// A number that is absent where it is 0.
func field(_ name: String, _ value: UInt64) -> String? {
    value == 0 ? nil : "\(name)=\(value)"
}

/// Bytes that are absent where there are none.
func field(_ name: String, _ range: ByteRange, in body: UnsafeRawBufferPointer) -> String? {
    range.isEmpty ? nil : "\(name)=" + escape(range, body)
}

func fixed8(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}

func escape(_ range: ByteRange, _ body: UnsafeRawBufferPointer) -> String {
    var text = ""
    for byte in range.bytes(in: body) {
        if (0x21...0x7E).contains(byte) && byte != UInt8(ascii: "%") {
            text.unicodeScalars.append(Unicode.Scalar(byte))
        } else {
            let digits = String(byte, radix: 16, uppercase: true)
            text += "%" + (digits.count == 1 ? "0" : "") + digits
        }
    }
    return text
}
