// A broker as far as a gateway uses it: it accepts the gateway's login, keeps channels and sessions
// by the rules of PROTOCOL.md section 7, and traps if the gateway breaks them.

import BrokerTerms
import PacketMeanings
import Primitives
import WireFormat

/// The broker at the other end of a gateway's connection.
package struct ModelBroker {
    package struct Identity: Hashable {
        package var user: String
        package var device: String

        package init(user: String, device: String = "") {
            self.user = user
            self.device = device
        }
    }

    private struct Channel {
        var identity: Identity
        var isAnswered = false
    }

    /// Whom the gateway may vouch for.
    package var identities: Set<Identity> = []
    /// Whom the gateway may not vouch for, although it has a line for them.
    package var forbidden: Set<Identity> = []
    /// Why the gateway's own login is refused; nil if it is not.
    package var loginRefusal: ReasonCode?
    /// The text of that refusal.
    package var loginRefusalText = ""
    /// Whose credential a token is.
    package var tokens: [[UInt8]: String] = [:]
    /// What devices are told of the largest packet that is taken.
    package var packetMaximum: UInt32 = 1 << 17
    /// CONNECTs wait until ``answerHeld()``.
    package var holdsAnswers = false
    private var held: [UInt32] = []
    private var incoming: [UInt8] = []
    private var answers: [UInt8] = []
    private var isJoined = false
    private var channels: [UInt32: Channel] = [:]

    // What a test asks afterwards.
    /// The users and devices that have been let in, in order.
    package private(set) var logins: [Identity] = []
    package private(set) var losses: [Identity] = []
    /// Packets on open channels, CONNECT and DISCONNECT apart: who sent them and their type.
    package private(set) var packets: [(identity: Identity, type: UInt8)] = []
    package private(set) var channelCountHighest = 0

    package var channelCount: Int { channels.count }

    package func channelCount(of identity: Identity) -> Int {
        channels.values.count { $0.identity == identity }
    }

    package func isConnected(_ identity: Identity) -> Bool {
        channels.values.contains { $0.identity == identity && $0.isAnswered }
    }

    package mutating func connectionBegan() {
        incoming = []
        answers = []
        held = []
        channels = [:]
        isJoined = false
    }

    package mutating func takeAnswers() -> [UInt8] {
        defer { answers = [] }
        return answers
    }

    package mutating func answerHeld() {
        holdsAnswers = false
        let numbers = held
        held = []
        for number in numbers { accept(number) }
    }

    // MARK: - What the gateway sends

    package mutating func receive(_ bytes: [UInt8]) {
        incoming += bytes
        while let packet = nextPacket() { take(packet) }
    }

    private mutating func nextPacket() -> [UInt8]? {
        let result = incoming.withUnsafeBytes {
            PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: 1 << 20)
        }
        switch result {
        case .packet(let frame):
            defer { incoming.removeFirst(frame.endOffset) }
            return Array(incoming[..<frame.endOffset])
        case .incomplete: return nil
        case .malformed, .tooLarge: preconditionFailure("the gateway sends no packets")
        }
    }

    private mutating func take(_ packet: [UInt8]) {
        let meaning = understand(packet, isFromClient: true)
        let frame = PacketMeanings.frame(packet)!
        guard frame.type == MRT.PacketType.channel.rawValue else {
            precondition(!meaning.text.hasPrefix("error="), "the gateway sends \(meaning.text)")
            takeOwn(frame.type)
            return
        }
        precondition(isJoined, "a channel before CONNACK")
        let body = Array(packet[Int(frame.body.offset)...])
        let channel = body.withUnsafeBytes { try? MRT.Channel(body: $0.bytes) }
        guard let channel else { preconditionFailure("a CHANNEL that ends the connection") }
        takeInner(Array(body[Int(channel.inner.offset)...]), channel.channel)
    }

    private mutating func takeOwn(_ type: UInt8) {
        switch MRT.PacketType(rawValue: type) {
        case .connect:
            if let loginRefusal {
                let text = Array(loginRefusalText.utf8)
                answers += encode(
                    MRT.ConnectRefused(
                        reason: loginRefusal, text: ByteRange(offset: 0, count: text.count)), text)
                return
            }
            var accepted = MRT.ConnectAccepted()
            accepted.sessionEpoch = 0xA
            accepted.packetMaximum = 1 << 18
            accepted.keepAliveSeconds = 30
            accepted.user = ByteRange(offset: 0, count: 4)
            isJoined = true
            answers += encode(accepted, Array("gate".utf8))
        case .pingRequest: answers += encode(MRT.Ping(isResponse: true))
        default: break
        }
    }

    private mutating func takeInner(_ packet: [UInt8], _ number: UInt32) {
        let frame = PacketMeanings.frame(packet)!
        if let channel = channels[number] {
            precondition(channel.isAnswered, "a packet between CONNECT and CONNACK")
            takeOpen(packet, frame, number, channel.identity)
        } else if frame.type == MRT.PacketType.connect.rawValue {
            begin(packet, frame, number)
        }
    }

    private mutating func begin(_ packet: [UInt8], _ frame: PacketFrame, _ number: UInt32) {
        let body = Array(packet[Int(frame.body.offset)...])
        body.withUnsafeBytes { bytes in
            guard let connect = try? MRT.Connect(body: bytes.bytes) else {
                preconditionFailure("a CONNECT that the gateway did not write")
            }
            func text(_ range: ByteRange) -> String {
                String(decoding: range.bytes(in: bytes), as: UTF8.self)
            }
            let user: String?
            switch connect.credential {
            case .attached(let name): user = text(name)
            case .token(let token): user = tokens[Array(token.bytes(in: bytes))]
            case .appKey(_, _, let name): user = text(name)
            case .none: preconditionFailure("a CONNECT without a credential")
            }
            guard let user else {
                reply(encode(MRT.ConnectRefused(reason: .badUserNameOrPassword)), number)
                return
            }
            let identity = Identity(user: user, device: text(connect.device))
            if case .attached = connect.credential {
                precondition(identities.contains(identity), "the gateway vouches for \(identity)")
                if forbidden.contains(identity) {
                    reply(encode(MRT.ConnectRefused(reason: .notAuthorized)), number)
                    return
                }
            }
            channels[number] = Channel(identity: identity)
            channelCountHighest = max(channelCountHighest, channels.count)
            precondition(channels.count <= 1_024, "more channels than a connection may have")
        }
        guard channels[number] != nil else { return }
        if holdsAnswers {
            held.append(number)
        } else {
            accept(number)
        }
    }

    private mutating func accept(_ number: UInt32) {
        guard let identity = channels[number]?.identity else { return }
        for (other, channel) in channels
        where other != number && channel.identity == identity && channel.isAnswered {
            end(other, .sessionTakenOver)
        }
        channels[number]!.isAnswered = true
        logins.append(identity)
        var accepted = MRT.ConnectAccepted()
        accepted.sessionEpoch = 0xB
        accepted.packetMaximum = packetMaximum
        accepted.keepAliveSeconds = 10
        let name = Array(identity.user.utf8)
        accepted.user = ByteRange(offset: 0, count: name.count)
        reply(encode(accepted, name), number)
    }

    private mutating func takeOpen(
        _ packet: [UInt8], _ frame: PacketFrame, _ number: UInt32, _ identity: Identity
    ) {
        switch MRT.PacketType(rawValue: frame.type) {
        case .disconnect:
            let isLoss = packet == [0xE0, 1, ReasonCode.unspecifiedError.rawValue]
            if isLoss { losses.append(identity) }
            end(number, .success)
        case .pingRequest:
            packets.append((identity, frame.type))
            reply(encode(MRT.Ping(isResponse: true)), number)
        case .send, .ack, .request, .auth: packets.append((identity, frame.type))
        default: preconditionFailure("a packet \(frame.type) that no device may send")
        }
    }

    // MARK: - What the broker sends

    /// Ends a channel for a reason.
    package mutating func end(_ number: UInt32, _ reason: ReasonCode) {
        channels[number] = nil
        reply(encode(MRT.BrokerDisconnect(reason: reason)), number)
    }

    /// Sends a packet to who is let in as this one.
    package mutating func send(_ packet: [UInt8], to identity: Identity) {
        for (number, channel) in channels where channel.identity == identity && channel.isAnswered {
            reply(packet, number)
        }
    }

    private mutating func reply(_ packet: [UInt8], _ number: UInt32) {
        answers += encode(
            MRT.Channel(channel: number, inner: ByteRange(offset: 0, count: packet.count)), packet)
    }
}
