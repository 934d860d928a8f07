// A broker that sends arbitrary bytes to the SDK, in answers too. The application sends, requests,
// subscribes, reads messages and acknowledges them. For any input, the client sends only complete
// and valid packets, holds no more messages than its window allows, and reconnects in time unless
// it was stopped permanently.

import BrokerTerms
import MartletClient
import PacketMeanings
import Primitives
import WireFormat

/// An input is a row of steps: a byte whose lower three bits say what happens and whose upper bits
/// say how, and for bytes that arrive their count and themselves.
func fuzzClient(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    let host = FuzzedClient()
    for _ in 0..<512 where !input.isAtEnd {
        let step = input.readByte()
        let number = step >> 3
        switch step & 7 {
        case 0, 1: host.receive(input.read(Int(input.readByte())))
        case 2: host.answer(number, input.read(Int(input.readByte())))
        case 3: host.logIn(number)
        case 4: host.deliver(number, input.read(Int(input.readByte() & 63)))
        case 5: host.use(number, input.read(Int(input.readByte() & 63)))
        case 6: host.pass(milliseconds: 1 << number)
        default: host.take(number)
        }
        host.turn()
    }
}

/// A client, its application, and the broker as far as it keeps any rule.
private final class FuzzedClient {
    private let client: ClientRehearsal
    private var messages: [IncomingMessage] = []
    /// What the client has asked and sent on this connection, without an answer.
    private var requests: [UInt64] = []
    private var sends: [UInt64] = []
    private var lastNumber: UInt64 = 0
    private static let window: UInt16 = 5

    init() {
        do throws(MartletError) {
            var settings = ClientSettings(
                servers: try ServerAddress.list("tcp://127.0.0.1:1,tcp://127.0.0.1:2"),
                credential: .token("t"))
            settings.inboxWindow = Self.window
            settings.packetMaximum = 4_096
            settings.outboxByteCount = 4_096
            settings.waitingSendsMaximum = 16
            settings.acknowledgement = .byApplication
            client = try ClientRehearsal(settings)
        } catch {
            preconditionFailure("\(error)")
        }
        client.connect()
    }

    // MARK: The broker

    func receive(_ bytes: UnsafeRawBufferPointer) { client.receive(bytes) }

    /// - Parameter number: its bits say what is present, and whether CONNECT is answered at all.
    func logIn(_ number: UInt8) {
        client.open()
        turn()
        guard number & 16 == 0 else { return }
        var accepted = MRT.ConnectAccepted()
        accepted.isSessionPresent = number & 1 == 1
        accepted.hasWill = number & 2 == 2
        accepted.sessionEpoch = number & 4 == 4 ? 0xA : 0xB
        accepted.resumeCookie = 1
        accepted.keepAliveSeconds = 60
        accepted.sendWindow = 8
        accepted.inboxWindow = Self.window
        accepted.packetMaximum = number & 8 == 8 ? 128 : 1 << 16
        accepted.messageMaximum = 1_024
        accepted.payloadMaximum = 1 << 16
        accepted.user = ByteRange(offset: 0, count: 3)
        say(accepted, Array("bob".utf8))
    }

    private func say(_ packet: some WirePacket, _ source: [UInt8]) {
        let bytes = PacketMeanings.bytes(count: packet.encodedByteCount) { writer in
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        bytes.withUnsafeBytes { client.receive($0) }
    }

    /// The answer to the oldest request or send, with content that is the input's.
    func answer(_ number: UInt8, _ content: UnsafeRawBufferPointer) {
        let reason: ReasonCode = number & 2 == 0 ? .success : .quotaExceeded
        if number & 1 == 0, !requests.isEmpty {
            let range = ByteRange(offset: 0, count: content.count)
            let identifier = requests.removeFirst()
            say(
                MRT.Response(identifier: identifier, reason: reason, content: range),
                Array(content))
        } else if !sends.isEmpty {
            say(
                MRT.SendResult(
                    number: sends.removeFirst(), reason: reason == .success ? .sent : reason), [])
        }
    }

    func deliver(_ number: UInt8, _ payload: UnsafeRawBufferPointer) {
        let kinds: [MRT.DeliveryKind] = [
            .unicast, .broadcast, .group, .kickedOut, .groupEvent, .presence, .receipt, .recall,
            .update, .brokerEvent,
        ]
        let kind = kinds[Int(number >> 1) % kinds.count]
        let source = Array("alice".utf8) + Array("group".utf8) + Array(payload)
        if number & 1 == 0 { lastNumber += 1 }
        var packet = MRT.Deliver(
            grade: number & 1 == 0 ? .durable : .transient,
            number: number & 1 == 0 ? lastNumber : 0,
            kind: kind, from: ByteRange(offset: 0, count: 5), time: 1,
            payload: ByteRange(offset: 10, count: payload.count))
        switch kind {
        case .group, .kickedOut, .groupEvent, .recall, .update:
            packet.address = ByteRange(offset: 5, count: 5)
        case .unicast, .broadcast, .presence, .receipt, .brokerEvent, .topic: break
        }
        say(packet, source)
    }

    // MARK: The application

    func use(_ number: UInt8, _ bytes: UnsafeRawBufferPointer) {
        let text = String(decoding: bytes, as: UTF8.self)
        switch number & 7 {
        case 0: client.send(OutgoingMessage(to: .user("carol"), text: text))
        case 1: client.send(OutgoingMessage(to: .users(["carol", "dave"]), text: text))
        case 2: client.send(OutgoingMessage(to: .everybody, text: text, grade: .transient))
        case 3: client.subscribe(to: text, .durable)
        case 4: client.setWill(to: .user("carol"), text)
        case 5: client.ask(.groupList, Array(bytes))
        case 6: client.ask(.groupDescribe, Array(bytes))
        default: client.ask(.presence, Array(bytes))
        }
    }

    /// Takes what has happened, acknowledges, gives up, loses the line.
    func take(_ number: UInt8) {
        switch number & 7 {
        case 0...3:
            for _ in 0...number {
                guard let event = client.takeEvent() else { break }
                guard case .message(let message) = event else { continue }
                precondition(message.json != "", "an empty object")
                if message.record != nil { messages.append(message) }
            }
        case 4, 5:
            guard !messages.isEmpty else { return }
            let index = min(Int(number >> 3), messages.count - 1)
            client.acknowledge(messages[index].record!)
            messages.removeSubrange(...index)
        case 6: client.lose()
        default: client.cancel(UInt64(number >> 3))
        }
    }

    func pass(milliseconds: UInt64) { client.pass(milliseconds: milliseconds) }

    // MARK: A turn

    func turn() {
        if !client.isOpen {
            requests = []
            sends = []
        }
        let bytes = client.takeOutgoing()
        bytes.withUnsafeBytes { bytes in
            var offset = 0
            while case .packet(let frame) = PacketFrame.next(
                in: bytes.bytes, at: offset, packetMaximum: .max)
            {
                let packet = Array(bytes[offset..<frame.endOffset])
                let meaning = understand(packet, isFromClient: true)
                precondition(!meaning.text.hasPrefix("error="), "it says \(meaning.text)")
                note(frame, frame.body.bytes(in: bytes))
                offset = frame.endOffset
            }
            precondition(offset == bytes.count, "a piece of a packet")
        }
        precondition(
            client.numberedCount <= 2 * Int(Self.window), "more messages than two windows")
        _ = client.takeOutcomes()
    }

    private func note(_ frame: PacketFrame, _ body: UnsafeRawBufferPointer) {
        switch try? MRT.PacketType(frame, from: .client) {
        case .send:
            let number = try! MRT.Send(flags: frame.flags, body: body.bytes).number
            if number != 0 { sends.append(number) }
        case .request: requests.append(try! MRT.Request(body: body.bytes).identifier)
        default: break
        }
    }
}
