// A broker of one session, as PROTOCOL.md section 8 describes it: enough to check a client while
// connections break and devices lose power.

import BrokerTerms
import Primitives
import WireFormat

struct ModelBroker {
    // The session.
    private let epoch: UInt64 = 0xA
    private var inbox: [(number: UInt64, text: String)] = []
    private var lastInboxNumber: UInt64 = 0
    private var outboxEpoch: UInt64 = 0
    private var resultsSeen: UInt64 = 0
    private var results: [UInt64: ReasonCode] = [:]
    /// Texts of all sends that took place, in order.
    private(set) var accepted: [String] = []
    /// Rules that the client broke.
    private(set) var complaints: [String] = []

    // The connection.
    private var arrived: [UInt8] = []
    private(set) var outgoing: [UInt8] = []
    private var isLoggedIn = false
    private var highestSent: UInt64 = 0
    private var unacknowledged: [UInt64] = []
    static let sendWindow: UInt16 = 3
    static let inboxWindow: UInt16 = 4

    /// Somebody sends to this session. Numbers may leave gaps.
    mutating func enqueue(_ text: String, gap: UInt64) {
        lastInboxNumber += 1 + gap
        inbox.append((lastInboxNumber, text))
        deliver()
    }

    var hasUndelivered: Bool { !inbox.isEmpty }

    mutating func connectionLost() {
        arrived = []
        outgoing = []
        isLoggedIn = false
        highestSent = 0
        unacknowledged = []
    }

    mutating func takeOutgoing(_ count: Int) -> [UInt8] {
        let taken = Array(outgoing.prefix(count))
        outgoing.removeFirst(taken.count)
        return taken
    }

    mutating func receive(_ bytes: [UInt8]) {
        arrived += bytes
        while true {
            let packet: (PacketFrame, [UInt8])? = arrived.withUnsafeBytes { bytes in
                guard
                    case .packet(let frame) = PacketFrame.next(
                        in: bytes.bytes, at: 0, packetMaximum: .max)
                else { return nil }
                return (frame, Array(frame.body.bytes(in: bytes)))
            }
            guard let (frame, body) = packet else { return }
            arrived.removeFirst(frame.byteCount)
            body.withUnsafeBytes { body in
                do { try handle(frame, body) } catch { complaints.append("\(error)") }
            }
        }
    }

    private mutating func handle(
        _ frame: PacketFrame, _ body: UnsafeRawBufferPointer
    ) throws(WireError) {
        switch try MRT.PacketType(frame, from: .client) {
        case .connect: connect(try MRT.Connect(body: body.bytes))
        case .send: send(try MRT.Send(flags: frame.flags, body: body.bytes), body)
        case .ack: acknowledge(try MRT.Ack(flags: frame.flags, body: body.bytes))
        case .pingRequest: write(MRT.Ping(isResponse: true))
        default: complaints.append("a packet that this test does not send")
        }
    }

    private mutating func connect(_ packet: MRT.Connect) {
        isLoggedIn = true
        if let resume = packet.resume, resume.epoch == epoch {
            if resume.lastNumber > lastInboxNumber { complaints.append("resumes from the future") }
            inbox.removeAll { $0.number <= resume.lastNumber }
            highestSent = resume.lastNumber
        }
        guard let outbox = packet.outbox else { return complaints.append("no outbox") }
        if outbox.epoch != outboxEpoch {
            outboxEpoch = outbox.epoch
            results = [:]
            resultsSeen = 0
        }
        seen(outbox.resultsSeen)
        var answer = MRT.ConnectAccepted()
        answer.sessionEpoch = epoch
        answer.keepAliveSeconds = 60
        answer.sendWindow = Self.sendWindow
        answer.inboxWindow = Self.inboxWindow
        answer.packetMaximum = 4096
        answer.messageMaximum = 1024
        answer.user = ByteRange(offset: 0, count: 1)
        write(answer, "u")
        deliver()
    }

    private mutating func deliver() {
        guard isLoggedIn else { return }
        for (number, text) in inbox where number > highestSent {
            if unacknowledged.count == Int(Self.inboxWindow) { return }
            unacknowledged.append(number)
            highestSent = number
            write(
                MRT.Deliver(
                    grade: .durable, number: number, kind: .unicast,
                    from: ByteRange(offset: 0, count: 1), time: 1,
                    payload: ByteRange(offset: 1, count: 1 + text.utf8.count)),
                "u\u{0}" + text)
        }
    }

    private mutating func send(_ packet: MRT.Send, _ body: UnsafeRawBufferPointer) {
        let number = packet.number
        if number <= resultsSeen {
            return complaints.append("#\(number) after its result was seen")
        }
        if number > resultsSeen + UInt64(Self.sendWindow) { complaints.append("beyond the window") }
        if results[number] == nil {
            let text = String(decoding: packet.payload.bytes(in: body).dropFirst(), as: UTF8.self)
            // Every seventh is refused; that leaves no trace, so a resend may be refused again.
            guard !text.hasSuffix("7") else {
                return write(MRT.SendResult(number: number, reason: .quotaExceeded))
            }
            accepted.append(text)
            results[number] = .sent
        }
        write(MRT.SendResult(number: number))
    }

    private mutating func acknowledge(_ packet: MRT.Ack) {
        if packet.inboxNumber > highestSent { complaints.append("ack above what was sent") }
        if packet.inboxNumber > 0 {
            inbox.removeAll { $0.number <= packet.inboxNumber }
            unacknowledged.removeAll { $0 <= packet.inboxNumber }
        }
        if packet.resultsSeen > 0 { seen(packet.resultsSeen) }
        deliver()
    }

    private mutating func seen(_ number: UInt64) {
        if number < resultsSeen { complaints.append("results seen goes back") }
        resultsSeen = number
        results = results.filter { $0.key > number }
    }

    private mutating func write(_ packet: some MRT.Packet, _ source: String = "") {
        outgoing += encode(packet, source)
    }
}
