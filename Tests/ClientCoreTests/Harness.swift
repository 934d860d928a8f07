// A machine with real memory, and a broker that the test controls: transcripts of calls in, bytes
// and events out, as comparable text.

import Primitives
import WireFormat

@testable import ClientCore

/// Owns a machine and its memory, keeps the time, and speaks for transport and broker.
final class Harness {
    private static let identityBytes = Array("pumps3cr3t".utf8)
    private let memory: [UnsafeMutableRawBufferPointer]
    private let transmitBuffer: UnsafeMutableRawBufferPointer
    var machine: ClientMachine
    var now = Instant(milliseconds: 1_000_000)

    init(
        record: ClientRecord = ClientRecord(outboxEpoch: 0xE),
        receiveByteCount: Int = 1024, outboxByteCount: Int = 1024, transmitByteCount: Int = 512,
        acknowledgementDelayMilliseconds: UInt64 = 0, seed: UInt64 = 1, servers: String = "",
        adjust: (inout MRT.Connect) -> Void = { _ in }
    ) {
        func allocate(_ byteCount: Int) -> UnsafeMutableRawBufferPointer {
            .allocate(byteCount: byteCount, alignment: 8)
        }
        memory = [
            allocate(Self.identityBytes.count + servers.utf8.count), allocate(receiveByteCount),
            allocate(outboxByteCount),
        ]
        transmitBuffer = allocate(transmitByteCount)
        memory[0].copyBytes(from: Self.identityBytes + servers.utf8)
        var connect = MRT.Connect()
        connect.keepAliveSeconds = 60
        connect.inboxWindow = 8
        connect.device = ByteRange(offset: 0, count: 4)
        connect.credential = .token(ByteRange(offset: 4, count: 6))
        adjust(&connect)
        var options = ClientOptions(jitterSeed: seed)
        options.acknowledgementDelayMilliseconds = acknowledgementDelayMilliseconds
        machine = ClientMachine(
            identity: ClientIdentity(
                connect: connect,
                servers: ByteRange(offset: Self.identityBytes.count, count: servers.utf8.count),
                bytes: UnsafeRawBufferPointer(memory[0])),
            memory: ClientMemory(receive: memory[1], outbox: memory[2]), record: record,
            options: options)
    }

    deinit {
        for part in memory { part.deallocate() }
        transmitBuffer.deallocate()
    }

    // A machine cannot be copied, which the macros of the tests would do.
    var isConnected: Bool { machine.isConnected }
    var inboxRecord: MRT.Resume? { machine.inboxRecord }
    var outboxRecord: MRT.Outbox { machine.outboxRecord }
    var resumeCookie: UInt64? { machine.resumeCookie }
    var nextDeadline: Instant { machine.nextDeadline }

    // MARK: Out

    /// All events there are, in words.
    func events() -> [String] {
        var words: [String] = []
        while let event = machine.nextEvent(now: now) { words.append(describe(event)) }
        return words
    }

    /// All packets the machine sends now, in words.
    func sent() -> [String] {
        var bytes: [UInt8] = []
        while true {
            let count = machine.transmit(into: transmitBuffer, now: now)
            if count == 0 { break }
            bytes += transmitBuffer[..<count]
        }
        return describePackets(bytes)
    }

    private func text(_ range: ByteRange) -> String {
        String(decoding: machine.bytes(range), as: UTF8.self)
    }

    private func describe(_ event: ClientEvent) -> String {
        switch event {
        case .connectionWanted: "wanted"
        case .connected(let connected): connected.isNewInbox ? "connected anew" : "connected"
        case .delivered(let deliver):
            "delivered \(deliver.kind.rawValue) #\(deliver.number) "
                + String(text(deliver.payload).dropFirst())
        case .groupChanged(let deliver, let change):
            "group \(text(deliver.address)) #\(deliver.number) \(describe(change))"
        case .resolved(let result):
            "resolved #\(result.number) \(result.reason.rawValue) "
                + text(result.messageIdentifier)
        case .answered(let response):
            "answered \(response.identifier) \(response.reason.rawValue)"
        case .carried(let channel): "carried on \(channel.channel)"
        case .credentialAnswered(let reason): "credential \(reason.rawValue)"
        case .disconnected(let end):
            "disconnected \(end.reason.map { "\($0.name)" } ?? "-")"
                + (end.retryAt == nil ? ", stopped" : "")
        }
    }

    private func describe(_ change: MRT.GroupEvent) -> String {
        switch change {
        case .joined(let user): "joined \(text(user))"
        case .left(let user): "left \(text(user))"
        case .kicked(let user): "kicked \(text(user))"
        case .allowListUpdated(.everybody): "open"
        case .allowListUpdated(.only(let count, let ids)): "only \(count) \(text(ids))"
        case .metaUpdated(let meta): "meta \(text(meta))"
        case .historyUpdated(let isKept, let shownCount):
            "history \(isKept ? "on" : "off") shown \(shownCount)"
        case .added(let notice):
            "added to \(text(notice.title)) of \(text(notice.owner)), \(notice.memberCount) members"
        case .removed: "removed"
        }
    }

    /// The program asks for something; the id of the answer.
    @discardableResult
    func request(
        _ operation: MRT.Operation, _ part: some RequestPart, from source: String
    ) throws -> UInt64 {
        try Array(source.utf8).withUnsafeBytes { source in
            try machine.request(operation, part, from: source)
        }
    }

    // MARK: In

    /// The broker sends a packet.
    func receive(_ packet: some MRT.Packet, _ source: String = "") {
        receive(encode(packet, source))
    }

    /// Bytes arrive, in reads of at most `readMaximum`; the events they cause are returned.
    @discardableResult
    func receive(_ bytes: [UInt8], readMaximum: Int = .max) -> [String] {
        var words: [String] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let space = machine.receiveSpace()
            let count = min(rest.count, space.count, readMaximum)
            space.copyBytes(from: rest.prefix(count))
            machine.received(byteCount: count, now: now)
            rest = rest.dropFirst(count)
            if rest.isEmpty { break }
            words += events()
        }
        return words
    }

    /// Let time pass until the machine's deadline, and tell it.
    func passToDeadline() {
        now = machine.nextDeadline
        machine.timePassed(now: now)
    }

    func pass(milliseconds: UInt64) {
        now = now.advanced(byMilliseconds: milliseconds)
        machine.timePassed(now: now)
    }

    /// Start, open, log in. Returns what the client sent in all.
    @discardableResult
    func connect(
        epoch: UInt64 = 0xA, window: UInt16 = 4,
        adjust: (inout MRT.ConnectAccepted) -> Void = { _ in }
    ) -> [String] {
        machine.start(now: now)
        _ = events()
        return open(epoch: epoch, window: window, adjust: adjust)
    }

    /// The transport opens and the broker accepts.
    @discardableResult
    func open(
        epoch: UInt64 = 0xA, window: UInt16 = 4,
        adjust: (inout MRT.ConnectAccepted) -> Void = { _ in }
    ) -> [String] {
        machine.opened(now: now)
        let connect = sent()
        receive(accepted(epoch: epoch, window: window, adjust: adjust), "alice")
        return connect
    }

    func accepted(
        epoch: UInt64 = 0xA, window: UInt16 = 4,
        adjust: (inout MRT.ConnectAccepted) -> Void = { _ in }
    ) -> MRT.ConnectAccepted {
        var accepted = MRT.ConnectAccepted()
        accepted.sessionEpoch = epoch
        accepted.resumeCookie = 0xC
        accepted.keepAliveSeconds = 60
        accepted.sendWindow = window
        accepted.inboxWindow = 8
        accepted.packetMaximum = 65_536
        accepted.messageMaximum = 1024
        accepted.payloadMaximum = 65_000
        accepted.user = ByteRange(offset: 0, count: 5)
        adjust(&accepted)
        return accepted
    }

    /// The broker delivers a unicast from alice.
    func deliver(_ number: UInt64, _ text: String = "x") {
        let packet = MRT.Deliver(
            grade: number == 0 ? .transient : .durable, number: number, kind: .unicast,
            from: ByteRange(offset: 0, count: 5), time: 1,
            payload: ByteRange(offset: 5, count: 1 + text.utf8.count))
        receive(packet, "alice\u{0}" + text)
    }

    /// The program sends a text to bob; 0 where it was not taken.
    @discardableResult
    func send(
        _ text: String = "x", grade: MRT.Grade = .durable, number: UInt64? = nil
    ) throws -> UInt64 {
        let source = Array("bob\u{0}".utf8) + Array(text.utf8)
        let message = MRT.Send(
            grade: grade, number: 0, target: .user(ByteRange(offset: 0, count: 3)),
            payload: ByteRange(offset: 3, count: source.count - 3))
        return try source.withUnsafeBytes { source in
            if let number {
                try machine.resend(message, number: number, from: source)
                return number
            }
            return try machine.send(message, from: source)
        }
    }
}

/// A packet's bytes; its ranges are within `source`.
func encode(_ packet: some MRT.Packet, _ source: String = "") -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
    bytes.withUnsafeMutableBytes { buffer in
        var writer = PacketWriter(buffer.mutableBytes)
        var source = source
        source.withUTF8 { packet.write(to: &writer, from: UnsafeRawBufferPointer($0).bytes) }
    }
    return bytes
}

/// What a broker would read, packet by packet.
func describePackets(_ bytes: [UInt8]) -> [String] {
    bytes.withUnsafeBytes { bytes in
        var words: [String] = []
        var offset = 0
        while offset < bytes.count {
            guard
                case .packet(let frame) = PacketFrame.next(
                    in: bytes.bytes, at: offset, packetMaximum: .max)
            else { return words + ["cut"] }
            offset = frame.endOffset
            words.append((try? describe(frame, frame.body.bytes(in: bytes))) ?? "invalid")
        }
        return words
    }
}

private func describe(_ frame: PacketFrame, _ body: UnsafeRawBufferPointer) throws -> String {
    func text(_ range: ByteRange) -> String {
        String(decoding: range.bytes(in: body), as: UTF8.self)
    }
    switch try MRT.PacketType(frame, from: .client) {
    case .connect:
        let packet = try MRT.Connect(body: body.bytes)
        var words = [
            "connect", packet.isCleanStart ? "clean" : "", packet.isReconnect ? "again" : "",
        ]
        if let resume = packet.resume {
            words.append("resume \(resume.epoch):\(resume.lastNumber)")
        }
        if let cookie = packet.cookie { words.append("cookie \(cookie)") }
        if let outbox = packet.outbox {
            words.append("outbox \(outbox.epoch):\(outbox.resultsSeen):\(outbox.highestUsed)")
        }
        return words.filter { !$0.isEmpty }.joined(separator: " ")
    case .send:
        let packet = try MRT.Send(flags: frame.flags, body: body.bytes)
        return "send #\(packet.number) \(text(packet.payload).dropFirst())"
    case .ack:
        let packet = try MRT.Ack(flags: frame.flags, body: body.bytes)
        return "ack \(packet.inboxNumber) \(packet.resultsSeen)"
    case .request:
        let packet = try MRT.Request(body: body.bytes)
        return "request \(packet.identifier) \(packet.operationCode) \(text(packet.parameters))"
    case .pingRequest: return "ping"
    case .disconnect:
        let packet = try MRT.ClientDisconnect(body: body.bytes)
        return "disconnect \(packet.reason.rawValue)"
    case .auth:
        guard case .token(let token) = try MRT.ClientAuth(body: body.bytes).credential else {
            return "auth"
        }
        return "auth \(text(token))"
    case .connack, .result, .deliver, .response, .channel, .pingResponse: return "wrong way"
    }
}
