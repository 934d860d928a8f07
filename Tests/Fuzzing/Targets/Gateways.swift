// Devices on a gateway's lines that send arbitrary bytes, and in half of the inputs a broker that
// does too. For any input, the broker receives only what a gateway may send (the model broker traps
// otherwise), no line exceeds its share, and while the broker is correct, a correct device loses
// nothing through the others.

import Gateway
import GatewayModel
import PacketMeanings
import Primitives
import WireFormat

/// The first byte says whether the broker keeps its rules. Then an input is a row of steps: a byte
/// whose lower three bits say what happens and whose upper bits say how, and for bytes that arrive
/// their count and themselves.
func fuzzGateway(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    var host = FuzzedGateway(isBrokerHostile: input.readByte() & 1 == 1)
    for _ in 0..<512 where !input.isAtEnd {
        let step = input.readByte()
        let number = Int(step >> 3)
        switch step & 7 {
        case 0: host.receive(Array(input.read(Int(input.readByte()))), on: number & 1)
        case 1, 2: host.receiveStream(Array(input.read(Int(input.readByte()))), on: number & 1)
        case 3: host.begin(number)
        case 4: host.login(number)
        case 5: host.broker(number, Array(input.read(number & 4 == 0 ? 0 : 6)))
        case 6: host.pass(milliseconds: 1 << UInt64(number & 15))
        default: host.lose(number)
        }
        host.checkHonest()
    }
}

/// A gateway with two lines of which the input decides every byte, and one device that keeps the
/// rules.
private struct FuzzedGateway {
    private static let honest = 2
    private let site = GatewaySite.ready(["a", "b/pump", "c"])
    private let isBrokerHostile: Bool
    private var devices = [ModelDevice(), ModelDevice(), ModelDevice()]

    init(isBrokerHostile: Bool) {
        self.isBrokerHostile = isBrokerHostile
        // Whoever has the token of "c" is "c", anywhere: that is nothing that a gateway could mend.
        site.broker.tokens = [[1]: "a", [2]: "nobody here"]
        logInHonest()
    }

    private mutating func logInHonest() {
        devices[Self.honest] = ModelDevice()
        _ = site.takeWritten(Self.honest)
        site.receive(devices[Self.honest].login(), on: Self.honest)
    }

    // MARK: Steps

    mutating func receive(_ bytes: [UInt8], on index: Int) { site.receive(bytes, on: index) }

    /// Bytes of the stream in sound frames.
    mutating func receiveStream(_ bytes: [UInt8], on index: Int) {
        site.receive(devices[index].frames(bytes), on: index)
    }

    mutating func begin(_ number: Int) {
        let index = number & 1
        // As often as a C client that was not answered, in one read.
        let opens = (0...(number >> 1 & 3)).flatMap { _ in devices[index].open() }
        site.receive(opens, on: index)
    }

    mutating func login(_ number: Int) {
        var connect = MRT.Connect()
        let source: [UInt8] = [UInt8(number >> 3 & 3), 0x63]
        switch number >> 1 & 3 {
        case 0: break
        case 1: connect.credential = .token(ByteRange(offset: 0, count: 1))
        case 2: connect.credential = .attached(user: ByteRange(offset: 1, count: 1))
        default: connect.device = ByteRange(offset: 1, count: 1)
        }
        let index = number & 1
        site.receive(devices[index].frames(connect, source), on: index)
    }

    mutating func broker(_ number: Int, _ bytes: [UInt8]) {
        switch number & 3 {
        case 0: site.broker.holdsAnswers = true
        case 1: site.broker.answerHeld()
        case 2: site.stalledByteCount = site.stalledByteCount == 0 ? 1 << 20 : 0
        default: break
        }
        if number & 4 != 0, isBrokerHostile { site.receiveFromBroker(bytes) }
        site.receiveFromBroker(site.broker.takeAnswers())
    }

    /// The device that keeps the rules is heard within its keep-alive.
    mutating func pass(milliseconds: UInt64) {
        var rest = milliseconds
        repeat {
            site.pass(milliseconds: min(rest, 4_000))
            rest -= min(rest, 4_000)
            site.receive(devices[Self.honest].frames(MRT.Ping(isResponse: false)), on: Self.honest)
        } while rest > 0
    }

    mutating func lose(_ number: Int) {
        switch number & 3 {
        case 0, 1:
            let index = number & 1
            if site.machine.summary(of: index).isOpen { site.loseLine(index) }
            pass(milliseconds: 10_000)
            site.openLine(index)
        case 2:
            site.loseUplink()
            reconnect()
        default: reconnect()
        }
    }

    /// The broker is there again, and keeps its rules to whoever comes back.
    private mutating func reconnect() {
        guard !site.isUplinkOpen else { return }
        site.pass(milliseconds: 200_000)
        site.openUplink()
        site.broker.answerHeld()
        site.stalledByteCount = 0
        site.turn()
        logInHonest()
    }

    /// What the others do ends nobody who keeps the rules.
    mutating func checkHonest() {
        guard !isBrokerHostile, site.isUplinkOpen, site.stalledByteCount == 0,
            !site.broker.holdsAnswers
        else { return }
        let ping = encode(MRT.Ping(isResponse: false))
        _ = devices[Self.honest].take(site.takeWritten(Self.honest))
        site.receive(devices[Self.honest].frames(ping), on: Self.honest)
        let answers = devices[Self.honest].take(site.takeWritten(Self.honest))
        precondition(
            answers.contains(encode(MRT.Ping(isResponse: true))),
            "a device that keeps the rules has lost its connection: \(answers)")
    }
}
