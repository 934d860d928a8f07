// Two brokers of one session each, as MQTT and PROTOCOL.md describe them: enough to check a bridge
// while connections break and the bridge dies. They lose nothing by themselves.

import BrokerTerms
import Primitives
import WireFormat

@testable import Bridge

/// The packets of a stream.
struct PacketBuffer {
    private var bytes: [UInt8] = []

    mutating func append(_ more: [UInt8]) { bytes += more }

    mutating func next() -> (frame: PacketFrame, body: [UInt8])? {
        let result = bytes.withUnsafeBytes {
            PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: 1 << 20)
        }
        guard case .packet(let frame) = result else { return nil }
        let body = Array(bytes[Int(frame.body.offset)..<frame.endOffset])
        bytes.removeFirst(frame.endOffset)
        return (frame, body)
    }
}

/// Of a bridge between both models: its windows are the brokers' own.
///
/// - Parameter topicCount: rules for as many topics of Martlet, and one for a group.
func modelSettings(topicCount: Int = 0) throws -> BridgeSettings {
    let topics = (0..<topicCount).map { "{ from: { topic: \"t/\($0)\" }, to: \"u/\($0)\" }" }
    let group = topicCount > 0 ? ["{ from: { group: \"g\" }, to: \"group\" }"] : []
    let inputs = topicCount > 0 ? ["{ from: \"more/+\", to: { user: \"sink\" } }"] : []
    let toMartlet = ["{ from: \"in/+\", to: { user: \"sink\" } }"] + inputs
    let toMQTT = ["{ from: { inbox: \"*\" }, to: \"out/{from}\" }"] + topics + group
    let text = """
        { mqtt: { server: "tcp://a:1", clientId: "c", inFlight: 6 },
          martlet: { server: "tcp://b:2", token: "t", inFlight: 5 }, stateFile: "s",
          totalsSeconds: 0,
          toMartlet: [\(toMartlet.joined(separator: ","))],
          toMqtt: [\(toMQTT.joined(separator: ","))] }
        """
    return try BridgeFile.settings(text: Array(text.utf8), path: "f", token: nil)
}

func encoded(_ packet: some WirePacket, _ source: [UInt8] = []) -> [UInt8] {
    bytes(of: packet.encodedByteCount) { writer in
        source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
    }
}

/// MQTT 5.0, the broker's half.
struct ForeignModel {
    struct Outgoing {
        var text: String
        var qos: MQTT.QoS
        /// 0 before it was sent.
        var identifier: UInt16 = 0
        var isReleased = false
    }

    private var hasSession = false
    private var waiting: [Outgoing] = []
    private var inFlight: [Outgoing] = []
    private var lastIdentifier: UInt16 = 0
    /// QoS 2 of the bridge's that has not been released.
    private var held: [UInt16: String] = [:]
    /// What the bridge has published, as others would receive it.
    private(set) var received: [String] = []
    private(set) var complaints: [String] = []
    /// What the session is subscribed to.
    private(set) var filters: Set<String> = []
    /// Every subscription is refused for now but that which messages come by.
    var refusesSubscriptions = false

    private var buffer = PacketBuffer()
    private(set) var outgoing: [UInt8] = []
    private var isLoggedIn = false
    private static let window = 6

    var isQuiet: Bool { waiting.isEmpty && inFlight.isEmpty && held.isEmpty }

    mutating func publish(_ text: String, _ qos: MQTT.QoS) {
        waiting.append(Outgoing(text: text, qos: qos))
        pump()
    }

    mutating func connectionLost() {
        buffer = PacketBuffer()
        outgoing = []
        isLoggedIn = false
    }

    /// It loses its connection and its memory, as one without persistence that is killed. What it
    /// had not sent yet is published once more, by those who wait for the session that comes.
    ///
    /// - Returns: the texts that nobody owes any more.
    mutating func forgetSession() -> [String] {
        connectionLost()
        let lost = inFlight.map(\.text) + held.values
        inFlight = []
        held = [:]
        hasSession = false
        filters = []
        return lost
    }

    mutating func takeOutgoing(_ count: Int) -> [UInt8] {
        let taken = Array(outgoing.prefix(count))
        outgoing.removeFirst(taken.count)
        return taken
    }

    private mutating func pump() {
        guard isLoggedIn, hasSession else { return }
        // As Mosquitto does, which does not count what it has released.
        while !waiting.isEmpty, inFlight.count(where: { !$0.isReleased }) < Self.window {
            var message = waiting.removeFirst()
            // Few identifiers, so that they come again soon.
            repeat {
                lastIdentifier = lastIdentifier % 199 + 1
            } while inFlight.contains(where: { $0.identifier == lastIdentifier })
            message.identifier = lastIdentifier
            inFlight.append(message)
            send(message, isDuplicate: false)
        }
    }

    private mutating func send(_ message: Outgoing, isDuplicate: Bool) {
        let source = Array("in/x".utf8) + message.text.utf8
        var packet = MQTT.Publish(
            .v5, topic: ByteRange(offset: 0, count: 4),
            payload: ByteRange(offset: 4, count: source.count - 4), qos: message.qos,
            packetIdentifier: message.identifier)
        packet.isDuplicate = isDuplicate
        outgoing += encoded(packet, source)
    }

    private mutating func answer(_ step: MQTT.Acknowledgement.Step, _ identifier: UInt16) {
        outgoing += encoded(MQTT.Acknowledgement(.v5, step, identifier: identifier))
    }

    mutating func receive(_ bytes: [UInt8]) {
        buffer.append(bytes)
        while let (frame, body) = buffer.next() {
            do {
                try take(frame, body)
            } catch {
                complaints.append("packet \(frame.type): \(error)")
            }
        }
    }

    private mutating func take(_ frame: PacketFrame, _ body: [UInt8]) throws {
        let type = try MQTT.PacketType(frame, .v5, from: .client)
        if (type == .connect) == isLoggedIn { complaints.append("\(type) at a wrong time") }
        switch type {
        case .connect:
            isLoggedIn = true
            var connack = MQTT.Connack(.v5, .success, isSessionPresent: hasSession)
            connack.receiveMaximum = 4
            outgoing += encoded(connack)
            for message in inFlight {
                if message.isReleased {
                    answer(.pubrel, message.identifier)
                } else {
                    send(message, isDuplicate: true)
                }
            }
            pump()
        case .subscribe:
            let packet = try body.decoded { b throws(WireError) in
                try MQTT.Subscribe(.v5, body: b.bytes)
            }
            hasSession = true
            var codes: [UInt8] = []
            for filter in Self.filters(of: packet, in: body) {
                let isRefused = refusesSubscriptions && filter != "in/+"
                if !isRefused { filters.insert(filter) }
                codes.append(isRefused ? 0x97 : 2)
            }
            outgoing += encoded(
                MQTT.Suback(
                    .v5, packet.packetIdentifier,
                    codes: ByteRange(offset: 0, count: codes.count)), codes)
            pump()
        case .publish: try publishReceived(frame, body)
        case .puback, .pubrec, .pubrel, .pubcomp:
            let step = MQTT.Acknowledgement.Step(rawValue: type.rawValue)!
            let packet = try body.decoded { b throws(WireError) in
                try MQTT.Acknowledgement(.v5, step, body: b.bytes)
            }
            acknowledged(step, packet.packetIdentifier)
        case .pingreq: outgoing += encoded(MQTT.Ping(isResponse: true))
        case .disconnect: isLoggedIn = false
        default: complaints.append("\(type) is not expected")
        }
    }

    private static func filters(of packet: MQTT.Subscribe, in body: [UInt8]) -> [String] {
        var rest = body[Int(packet.subscriptions.offset)..<packet.subscriptions.endOffset]
        var filters: [String] = []
        while rest.count > 2 {
            let count = Int(rest.removeFirst()) << 8 | Int(rest.removeFirst())
            filters.append(String(decoding: rest.prefix(count), as: UTF8.self))
            rest = rest.dropFirst(count + 1)
        }
        return filters
    }

    private mutating func publishReceived(_ frame: PacketFrame, _ body: [UInt8]) throws {
        let packet = try body.decoded { b throws(WireError) in
            try MQTT.Publish(.v5, flags: frame.flags, body: b.bytes, from: .client)
        }
        let text = body.withUnsafeBytes {
            String(decoding: packet.payload.bytes(in: $0), as: UTF8.self)
        }
        switch packet.qos {
        case .atMostOnce: received.append(text)
        case .atLeastOnce:
            received.append(text)
            answer(.puback, packet.packetIdentifier)
        case .exactlyOnce:
            if let known = held[packet.packetIdentifier] {
                if known != text { complaints.append("\(text) as \(known)") }
            } else {
                held[packet.packetIdentifier] = text
            }
            answer(.pubrec, packet.packetIdentifier)
        }
        if held.count > 4 { complaints.append("more than the receive maximum") }
    }

    private mutating func acknowledged(_ step: MQTT.Acknowledgement.Step, _ identifier: UInt16) {
        let index = inFlight.firstIndex { $0.identifier == identifier }
        switch step {
        case .pubrel:
            if let text = held.removeValue(forKey: identifier) { received.append(text) }
            answer(.pubcomp, identifier)
        case .puback, .pubcomp:
            guard let index else { return complaints.append("\(step) of nothing") }
            inFlight.remove(at: index)
            pump()
        case .pubrec:
            guard let index else { return complaints.append("pubrec of nothing") }
            inFlight[index].isReleased = true
            answer(.pubrel, identifier)
            pump()
        }
    }
}

/// MRT, the broker's half.
struct MartletModel {
    private var epoch: UInt64 = 0xA
    /// What the session is subscribed to, and the groups that its user is in.
    private(set) var filters: Set<String> = []
    private(set) var groups: Set<String> = []
    /// Requests are refused for now.
    var refusesSubscriptions = false
    /// Requests that were answered, by their id: a client asks again what has no answer.
    private(set) var requestCount = 0
    private var inbox: [(number: UInt64, text: String, grade: MRT.Grade)] = []
    private var lastNumber: UInt64 = 0
    private var outboxEpoch: UInt64 = 0
    private var resultsSeen: UInt64 = 0
    /// Accepted sends: whether they have their result.
    private var results: [UInt64: Bool] = [:]
    /// Texts of all sends that took place.
    private(set) var received: [String] = []
    private(set) var complaints: [String] = []
    /// New sends are refused for now.
    var isFull = false

    private var buffer = PacketBuffer()
    private(set) var outgoing: [UInt8] = []
    private var isLoggedIn = false
    private var highestSent: UInt64 = 0
    private var unacknowledged = 0
    private static let inboxWindow = 5
    private static let sendWindow = 8

    var isQuiet: Bool { inbox.isEmpty && results.values.allSatisfy { $0 } }

    /// The session has ended while nobody was connected, and nothing waited in it.
    mutating func forgetSession() {
        guard inbox.isEmpty else { return }
        connectionLost()
        epoch += 1
        filters = []
    }

    mutating func enqueue(_ text: String, _ grade: MRT.Grade, gap: UInt64) {
        lastNumber += 1 + gap
        inbox.append((lastNumber, text, grade))
        deliver()
    }

    mutating func connectionLost() {
        buffer = PacketBuffer()
        outgoing = []
        isLoggedIn = false
    }

    mutating func takeOutgoing(_ count: Int) -> [UInt8] {
        let taken = Array(outgoing.prefix(count))
        outgoing.removeFirst(taken.count)
        return taken
    }

    private mutating func deliver() {
        guard isLoggedIn else { return }
        for (number, text, grade) in inbox where number > highestSent {
            guard unacknowledged < Self.inboxWindow else { return }
            let source = Array("bob".utf8) + [0] + text.utf8
            let packet = MRT.Deliver(
                grade: grade, number: number, kind: .unicast,
                from: ByteRange(offset: 0, count: 3), time: 1,
                payload: ByteRange(offset: 3, count: source.count - 3))
            outgoing += encoded(packet, source)
            highestSent = number
            unacknowledged += 1
        }
    }

    /// The commit that some sends have waited for.
    mutating func commit() {
        for (number, isGiven) in results.sorted(by: { $0.key < $1.key }) where !isGiven {
            results[number] = true
            if isLoggedIn { outgoing += encoded(MRT.SendResult(number: number)) }
        }
    }

    mutating func receive(_ bytes: [UInt8]) {
        buffer.append(bytes)
        while let (frame, body) = buffer.next() {
            do {
                try take(frame, body)
            } catch {
                complaints.append("packet \(frame.type): \(error)")
            }
        }
    }

    private mutating func take(_ frame: PacketFrame, _ body: [UInt8]) throws {
        let type = try MRT.PacketType(frame, from: .client)
        if (type == .connect) == isLoggedIn { complaints.append("\(type) at a wrong time") }
        switch type {
        case .connect:
            login(try body.decoded { b throws(WireError) in try MRT.Connect(body: b.bytes) })
        case .send:
            let packet = try body.decoded { b throws(WireError) in
                try MRT.Send(flags: frame.flags, body: b.bytes)
            }
            sendReceived(packet, body)
        case .ack:
            let packet = try body.decoded { b throws(WireError) in
                try MRT.Ack(flags: frame.flags, body: b.bytes)
            }
            acknowledged(packet)
        case .pingRequest: outgoing += encoded(MRT.Ping(isResponse: true))
        case .disconnect: isLoggedIn = false
        case .request:
            requestReceived(
                try body.decoded { b throws(WireError) in try MRT.Request(body: b.bytes) }, body)
        default: complaints.append("\(type) is not expected")
        }
    }

    private mutating func requestReceived(_ request: MRT.Request, _ body: [UInt8]) {
        let parameters = body.withUnsafeBytes { Array(request.parameters.bytes(in: $0)) }
        // The first byte is a grade, or the length of a name.
        let name = String(decoding: parameters.dropFirst(), as: UTF8.self)
        requestCount += 1
        var reason = ReasonCode.success
        if refusesSubscriptions {
            reason = .quotaExceeded
        } else {
            switch request.operation {
            case .subscribe: filters.insert(name)
            case .unsubscribe: filters.remove(String(decoding: parameters, as: UTF8.self))
            case .groupJoin: groups.insert(name)
            default: complaints.append("operation \(request.operationCode) is not expected")
            }
        }
        let content: [UInt8] =
            request.operation == .subscribe && reason == .success ? [parameters[0]] : []
        outgoing += encoded(
            MRT.Response(
                identifier: request.identifier, reason: reason,
                content: ByteRange(offset: 0, count: content.count)), content)
    }

    private mutating func login(_ connect: MRT.Connect) {
        isLoggedIn = true
        unacknowledged = 0
        if let resume = connect.resume, resume.epoch == epoch {
            inbox.removeAll { $0.number <= resume.lastNumber }
        }
        highestSent = connect.resume.map { $0.epoch == epoch ? $0.lastNumber : 0 } ?? 0
        if let outbox = connect.outbox {
            if outbox.epoch != outboxEpoch {
                outboxEpoch = outbox.epoch
                results = [:]
                resultsSeen = 0
            }
            let open = results.filter { !$0.value }.keys.min() ?? .max
            see(min(outbox.resultsSeen, open - 1))
        }
        var accepted = MRT.ConnectAccepted()
        accepted.isSessionPresent = connect.resume?.epoch == epoch
        accepted.sessionEpoch = epoch
        accepted.resumeCookie = 1
        accepted.keepAliveSeconds = 60
        accepted.sendWindow = UInt16(Self.sendWindow)
        accepted.inboxWindow = UInt16(Self.inboxWindow)
        accepted.packetMaximum = 1 << 16
        accepted.messageMaximum = 1_024
        accepted.payloadMaximum = 1 << 16
        accepted.user = ByteRange(offset: 0, count: 4)
        outgoing += encoded(accepted, Array("gate".utf8))
        deliver()
    }

    private mutating func see(_ number: UInt64) {
        guard number > resultsSeen else { return }
        resultsSeen = number
        results = results.filter { $0.key > number }
    }

    private mutating func sendReceived(_ packet: MRT.Send, _ body: [UInt8]) {
        let text = body.withUnsafeBytes {
            String(decoding: packet.payload.bytes(in: $0).dropFirst(), as: UTF8.self)
        }
        guard packet.number > resultsSeen else {
            return complaints.append("\(text) as number \(packet.number), which is over")
        }
        if let isGiven = results[packet.number] {
            if isGiven { outgoing += encoded(MRT.SendResult(number: packet.number)) }
            return
        }
        if isFull {
            outgoing += encoded(MRT.SendResult(number: packet.number, reason: .quotaExceeded))
            return
        }
        results[packet.number] = false
        if results.count > Self.sendWindow { complaints.append("more than the send window") }
        received.append(text)
    }

    private mutating func acknowledged(_ packet: MRT.Ack) {
        if packet.inboxNumber > highestSent { complaints.append("an ACK of what was not sent") }
        if packet.inboxNumber > 0 {
            inbox.removeAll { $0.number <= packet.inboxNumber }
            unacknowledged = inbox.count { $0.number <= highestSent }
        }
        if results.contains(where: { $0.key <= packet.resultsSeen && !$0.value }) {
            complaints.append("results seen of what has none")
        }
        see(packet.resultsSeen)
        deliver()
    }
}
