// An MQTT broker that sends arbitrary bytes to a bridge, with a Martlet that is correct or also
// sends arbitrary bytes. For any input, the bridge sends only complete and valid packets to both,
// and can read its record again.

import Bridge
import BrokerTerms
import ClientCore
import PacketMeanings
import Primitives
import WireFormat

/// The first byte chooses the version, and whether Martlet keeps its rules. Then an input is a row
/// of steps: a byte whose lower three bits say what happens and whose upper bits say how, and for
/// bytes that arrive their count and themselves.
func fuzzBridge(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    let first = input.readByte()
    var host = FuzzedBridge(first & 1 == 0 ? .v5 : .v311, isMartletSound: first & 2 == 0)
    for _ in 0..<512 where !input.isAtEnd {
        let step = input.readByte()
        let number = step >> 3
        switch step & 7 {
        case 0, 1: host.receive(input.read(Int(input.readByte())))
        case 2: host.receiveFromMartlet(input.read(Int(input.readByte())))
        case 3: host.logIn(number)
        case 4: host.deliver(MRT.Grade(rawValue: number % 3)!)
        case 5: host.answer(number)
        case 6: host.pass(milliseconds: 1 << number)
        default: host.lose(number)
        }
        host.turn()
    }
}

/// A bridge, its disk, and Martlet as far as it is needed.
private struct FuzzedBridge: ~Copyable {
    private let version: MQTT.Version
    private let isMartletSound: Bool
    private let settings: BridgeSettings
    private var bridge: MessageBridge
    private var disk: [UInt8] = []
    private var now = Instant(milliseconds: 1_000_000)
    /// Whether the other broker, and Martlet, are to be dialled.
    private var wantsForeign = false
    private var wantsMartlet = false
    private var isForeignOpen = false
    private var isMartletOpen = false
    /// Martlet's side: sends without a result, and deliveries.
    private var unanswered: [UInt64] = []
    private var lastNumber: UInt64 = 0
    private var acknowledged: UInt64 = 0
    private static let window: UInt64 = 5

    private static let current = settings(.v5)
    private static let older = settings(.v311)

    private static func settings(_ version: MQTT.Version) -> BridgeSettings {
        let text = """
            { mqtt: { server: "tcp://a:1", clientId: "c", inFlight: 6,
                version: "\(version == .v5 ? "5" : "3.1.1")" },
              martlet: { server: "tcp://b:2", token: "t", inFlight: \(window) },
              stateFile: "s", packetMaximumBytes: 65536,
              toMartlet: [
                { from: "in/+", to: { user: "{1}" } },
                { from: "raw/#", to: { topic: "x/{1..}" } },
                { from: "json/+/#", to: { group: "{1}" }, payload: "json" },
              ],
              toMqtt: [
                { from: { inbox: "*" }, to: "out/{from}" },
                { from: { group: "g" }, to: "group/{from}" },
                { from: { topic: "command/+" }, to: "plant/{1}", payload: "json" },
              ],
              deadLetter: { martlet: "dead/{topic}", mqtt: "dead/{from}" } }
            """
        do {
            return try BridgeFile.settings(text: Array(text.utf8), path: "f", token: nil)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    init(_ version: MQTT.Version, isMartletSound: Bool) {
        self.version = version
        self.isMartletSound = isMartletSound
        settings = version == .v5 ? Self.current : Self.older
        bridge = MessageBridge(settings, stored: nil, jitterSeed: 7, freshEpoch: 9)
        bridge.start(now: now)
        turn()
    }

    // MARK: Steps

    mutating func receive(_ bytes: UnsafeRawBufferPointer) {
        guard isForeignOpen else { return }
        bridge.foreignReceived(bytes, now: now)
    }

    /// Bytes of Martlet's where it keeps no rules, otherwise of the other broker's.
    mutating func receiveFromMartlet(_ bytes: UnsafeRawBufferPointer) {
        if isMartletSound { return receive(bytes) }
        guard isMartletOpen else { return }
        bridge.martletReceived(bytes, now: now)
    }

    /// - Parameter number: its lowest bit chooses Martlet, the next says that the other broker has
    ///   kept its session, the third that it does not answer CONNECT.
    mutating func logIn(_ number: UInt8) {
        if number & 1 == 1 {
            logInToMartlet()
        } else if wantsForeign {
            wantsForeign = false
            isForeignOpen = true
            bridge.foreign.opened(now: now)
            guard number & 4 == 0 else { return }
            turn()
            let connack = MQTT.Connack(version, .success, isSessionPresent: number & 2 == 2)
            encoded(connack).withUnsafeBytes { bridge.foreignReceived($0, now: now) }
        }
    }

    private mutating func logInToMartlet() {
        guard wantsMartlet, let link = bridge.martlet else { return }
        wantsMartlet = false
        isMartletOpen = true
        link.machine.opened(now: now)
        turn()
        var accepted = MRT.ConnectAccepted()
        accepted.isSessionPresent = true
        accepted.sessionEpoch = 0xA
        accepted.resumeCookie = 1
        accepted.sendWindow = 8
        accepted.inboxWindow = UInt16(Self.window)
        accepted.packetMaximum = 1 << 16
        accepted.messageMaximum = 1_024
        accepted.payloadMaximum = 1 << 16
        accepted.user = ByteRange(offset: 0, count: 4)
        say(encoded(accepted, Array("gate".utf8)))
    }

    private mutating func say(_ packet: [UInt8]) {
        guard isMartletOpen else { return }
        packet.withUnsafeBytes { bridge.martletReceived($0, now: now) }
    }

    mutating func deliver(_ grade: MRT.Grade) {
        guard isMartletOpen, grade == .transient || lastNumber < acknowledged + Self.window
        else { return }
        if grade != .transient { lastNumber += 1 }
        let source = Array("bob".utf8) + [0] + Array("hello".utf8)
        let packet = MRT.Deliver(
            grade: grade, number: grade == .transient ? 0 : lastNumber, kind: .unicast,
            from: ByteRange(offset: 0, count: 3), time: 1,
            payload: ByteRange(offset: 3, count: source.count - 3))
        say(encoded(packet, source))
    }

    /// Martlet's result for the oldest send: taken, refused for now, or for good.
    mutating func answer(_ number: UInt8) {
        guard isMartletOpen, !unanswered.isEmpty else { return }
        let reason: ReasonCode =
            switch number % 4 {
            case 0: .quotaExceeded
            case 1: .notAuthorized
            default: .sent
            }
        say(encoded(MRT.SendResult(number: unanswered.removeFirst(), reason: reason)))
    }

    mutating func pass(milliseconds: UInt64) {
        now = now.advanced(byMilliseconds: milliseconds)
    }

    mutating func lose(_ number: UInt8) {
        switch number % 3 {
        case 0 where isForeignOpen:
            hangUpForeign()
            bridge.foreign.closed("lost", now: now)
        case 1 where isMartletOpen:
            hangUpMartlet()
            bridge.martletClosed("lost", now: now)
        case 2: die()
        default: break
        }
    }

    private mutating func die() {
        hangUpForeign()
        hangUpMartlet()
        wantsForeign = false
        wantsMartlet = false
        bridge = MessageBridge(
            settings, stored: BridgeRecord.decode(disk)?.record, jitterSeed: 7, freshEpoch: 9)
        bridge.start(now: now)
    }

    // MARK: A turn

    mutating func turn() {
        bridge.work(now: now)
        for effect in bridge.takeEffects() {
            switch effect {
            case .dialForeign: wantsForeign = true
            case .dialMartlet: wantsMartlet = true
            case .hangUpForeign: hangUpForeign()
            case .hangUpMartlet: hangUpMartlet()
            case .log(let line):
                precondition(line.utf8.allSatisfy { $0 >= 0x20 }, "a line that is two")
            case .fail(let text):
                precondition(!isMartletSound, "the bridge gave up: \(text)")
            }
        }
        if let record = bridge.takeRecord() {
            disk = record.encoded(sequence: 1)
            precondition(BridgeRecord.decode(disk)?.record == record, "another record")
        }
        if isForeignOpen {
            expectWhole(bridge.foreign.takeOutgoing()) {
                understandMQTT($0, version, isFromClient: true)
            }
        }
        hearMartletsSide()
    }

    private mutating func hearMartletsSide() {
        guard isMartletOpen, let link = bridge.martlet else { return }
        var bytes: [UInt8] = []
        while case let more = link.nextBytes(now: now), !more.isEmpty { bytes += more }
        expectWhole(bytes) { understand($0, isFromClient: true) }
        bytes.withUnsafeBytes { bytes in
            var offset = 0
            while case .packet(let frame) = PacketFrame.next(
                in: bytes.bytes, at: offset, packetMaximum: .max)
            {
                offset = frame.endOffset
                let body = frame.body.bytes(in: bytes)
                switch try? MRT.PacketType(frame, from: .client) {
                case .send:
                    let number = try! MRT.Send(flags: frame.flags, body: body.bytes).number
                    if number != 0 { unanswered.append(number) }
                case .ack:
                    let ack = try! MRT.Ack(flags: frame.flags, body: body.bytes)
                    acknowledged = max(acknowledged, ack.inboxNumber)
                default: break
                }
            }
        }
        guard isMartletSound else { return }
        precondition(acknowledged <= lastNumber, "an acknowledgement of what was not sent")
        precondition(unanswered.count <= 8, "more than the send window")
    }

    private mutating func hangUpForeign() { isForeignOpen = false }

    private mutating func hangUpMartlet() {
        isMartletOpen = false
        unanswered = []
    }

    /// The bytes are packets, and nothing else.
    private func expectWhole(_ bytes: [UInt8], _ understand: ([UInt8]) -> Meaning) {
        var offset = 0
        bytes.withUnsafeBytes { bytes in
            while case .packet(let frame) = PacketFrame.next(
                in: bytes.bytes, at: offset, packetMaximum: .max)
            {
                let meaning = understand(Array(bytes[offset..<frame.endOffset]))
                precondition(!meaning.text.hasPrefix("error="), "it says \(meaning.text)")
                offset = frame.endOffset
            }
        }
        precondition(offset == bytes.count, "a piece of a packet")
    }

    private func encoded(_ packet: some WirePacket, _ source: [UInt8] = []) -> [UInt8] {
        PacketMeanings.bytes(count: packet.encodedByteCount) { writer in
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
    }
}
