// Publications of an MQTT client. Those of QoS 1 and 2 are in its flash before they are
// transmitted, and are repeated on the next connection until they are answered (MQTT 4.3, 4.4).

import BrokerTerms
import Primitives
import WireFormat

extension SimulatedMQTTClient {
    // MARK: Publications

    func send(_ order: Order) {
        // An id that is drawn twice, from a million, is a repeat too.
        let repeated = usedIdentifiers.lastIndex {
            $0.order.messageIdentifier == order.messageIdentifier
        }
        send(order, repeating: repeated)
    }

    /// Sends again under an earlier message id, usually one that is about to be forgotten.
    func repeatSend() {
        guard !usedIdentifiers.isEmpty else { return }
        let window = Int(context.profile.limits.sendWindowMaximum)
        let back =
            context.habitRandom.happens(perTenThousand: 6_000)
            ? window : context.habitRandom.number(in: 1...2 * window + 1)
        let place = max(usedIdentifiers.count - back, 0)
        var order = usedIdentifiers[place].order
        order.grade = context.habitRandom.pick([.transient, .durable, .once, .once])
        if order.grade == .transient { order.messageIdentifier = "" }
        send(order, repeating: place)
    }

    /// - Parameter repeated: the index of the id that it uses again.
    private func send(_ order: Order, repeating repeated: Int?) {
        guard state != nil else { return }
        if order.grade == .transient {
            guard hasResent else { return }
        } else {
            guard powered.outgoing.count < min(mqtt.inFlightMaximum, sendWindow) else { return }
        }
        var fact = SendFact(
            client: index, receivers: order.receivers, grade: order.grade,
            expirySeconds: order.expirySeconds, messageIdentifier: order.messageIdentifier,
            issuedAt: context.now, session: session, wasReachable: false,
            deathsBefore: oracle.deaths, fullTimesBefore: oracle.pastFullTimes)
        if context.has(.uncheckedWill), oracle.isForbidden(fact) { return }
        fact.isMQTT = true
        fact.isKept = context.profile.keepsTopic(order.receivers, order.grade)
        fact.isRetained = order.isRetained
        fact.isClearing = order.isClearing
        if let repeated { fact.repeats = usedIdentifiers[repeated].message }
        let message = oracle.issue(fact)
        if repeated == nil, !order.messageIdentifier.isEmpty {
            usedIdentifiers.append((order, message))
        }
        var (packet, source) = encode(order, message)
        if order.isRetained { oracle.retaining(message) }
        guard order.grade != .transient else {
            oracle.attempted(message)
            write(packet, from: source)
            _ = survives()
            return
        }
        packet.packetIdentifier = takeIdentifier()
        sendCount += 1
        oracle.number(message, outboxEpoch: 0, sendCount)
        powered.outgoing.append(
            OutgoingPublication(message: message, packet: packet, source: source))
        guard survives() else { return }
        save()
        guard survives() else { return }
        if hasResent { publish(powered.outgoing.count - 1) }
        _ = survives()
    }

    /// Like many real clients, some ignore the broker's receive maximum.
    private var sendWindow: Int {
        mqtt.identifierMaximum == .max ? .max : powered.sendWindow
    }

    /// The next identifier without an exchange [MQTT-2.2.1-3].
    func takeIdentifier() -> UInt16 {
        var identifier = powered.lastIdentifier
        repeat {
            identifier = identifier % mqtt.identifierMaximum + 1
        } while powered.position(of: identifier) != nil || pending[identifier] != nil
        powered.lastIdentifier = identifier
        return identifier
    }

    /// Writes a publication, with DUP if it may have been written before [MQTT-3.3.1-1].
    private func publish(_ position: Int) {
        var packet = powered.outgoing[position].packet
        packet.isDuplicate = powered.outgoing[position].wasSent
        powered.outgoing[position].wasSent = true
        oracle.attempted(powered.outgoing[position].message)
        unanswered.append(packet.packetIdentifier)
        write(packet, from: powered.outgoing[position].source)
    }

    /// Resumes its session, or begins a new one.
    func beginSession(isPresent: Bool, _ receiveMaximum: Int) {
        if !isPresent {
            // [MQTT-3.2.2-5]: the state of the old session is void. Unanswered publications are
            // sent as new ones.
            powered.received = []
            powered.outgoing.removeAll { $0.isReceived }
            for position in powered.outgoing.indices { powered.outgoing[position].wasSent = false }
            confirmed = []
        }
        powered.sendWindow = receiveMaximum
        save()
    }

    /// Repeats unanswered publications, in order. False if the client lost power.
    func sendAgain() -> Bool {
        for position in powered.outgoing.indices {
            if powered.outgoing[position].isReceived {
                write(
                    MQTT.Acknowledgement(
                        version, .pubrel,
                        identifier: powered.outgoing[position].packet.packetIdentifier))
            } else {
                publish(position)
            }
            guard survives() else { return false }
        }
        return true
    }

    // MARK: Answers

    /// PUBACK, PUBREC or PUBCOMP has arrived.
    func answered(_ answer: MQTT.Acknowledgement, _ body: UnsafeRawBufferPointer) {
        let identifier = answer.packetIdentifier
        if answer.step != .pubcomp { checkOrder(of: identifier) }
        guard let position = powered.position(of: identifier) else {
            // Its exchange is complete already; only a PUBREC needs an answer.
            if answer.step == .pubrec, !answer.reason.isFailure {
                write(
                    MQTT.Acknowledgement(
                        version, .pubrel, identifier: identifier,
                        reason: version == .v5 ? .packetIdentifierNotFound : .success))
            }
            return
        }
        refusalCount = 0
        let publication = powered.outgoing[position]
        let isOnce = publication.packet.qos == .exactlyOnce
        switch answer.step {
        case .puback where !isOnce, .pubrec where isOnce && !publication.isReceived:
            resolve(publication, answer: answer, body: body)
            guard survives() else { return }
            if isOnce, !answer.reason.isFailure {
                powered.outgoing[position].isReceived = true
            } else {
                powered.outgoing.remove(at: position)
            }
            save()
            oracle.close(publication.message)
            guard survives(), answer.step == .pubrec, !answer.reason.isFailure else { return }
            write(MQTT.Acknowledgement(version, .pubrel, identifier: identifier))
        case .pubrec where isOnce:
            write(MQTT.Acknowledgement(version, .pubrel, identifier: identifier))
        case .pubcomp where publication.isReceived:
            powered.outgoing.remove(at: position)
            save()
        case .puback, .pubrec, .pubcomp, .pubrel:
            oracle.fail(
                .nobodyIsAtFault, "\(answer.step) does not answer what has that identifier",
                message: publication.message, client: index)
        }
        _ = survives()
    }

    /// Answers keep the order of the publications [MQTT-4.6.0-2]. A repeated publication may have
    /// been answered before, and before 5.0 refused ones are not answered.
    private func checkOrder(of identifier: UInt16) {
        guard let place = unanswered.firstIndex(of: identifier) else { return }
        if place > 0, let position = powered.position(of: identifier),
            oracle.sends[powered.outgoing[position].message].attemptCount == 1, version == .v5
        {
            oracle.fail(
                .orderIsKept, "answered before what was published before it",
                message: powered.outgoing[position].message, client: index)
        }
        unanswered.remove(at: place)
    }

    private func resolve(
        _ publication: OutgoingPublication, answer: MQTT.Acknowledgement,
        body: UnsafeRawBufferPointer
    ) {
        var identifier = ""
        var refused: [(index: Int, reason: ReasonCode)] = []
        var refusedCount = 0
        let owner = MQTT.PropertyOwner(answer.step.type)
        var reader = MQTT.PropertyReader(answer.properties, of: owner, in: body.bytes)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let value = String(decoding: property.value.bytes(in: body), as: UTF8.self)
            switch String(decoding: property.text.bytes(in: body), as: UTF8.self) {
            case "mid": identifier = value
            case "martlet-verdict":
                oracle.verdictTold(
                    publication.message, code: Int64(value) ?? 0, client: index)
            case "refused-count": refusedCount = Int(value) ?? 0
            case "refused":
                let parts = value.split(separator: " ").compactMap { UInt8($0) }
                guard parts.count == 2, let reason = ReasonCode(rawValue: parts[1]) else {
                    oracle.fail(.everySendIsAnswered, "refused: \(value)", client: index)
                    continue
                }
                refused.append((index: Int(parts[0]), reason: reason))
            default: break
            }
        }
        let reason = answer.reason == .success ? ReasonCode.sent : answer.reason
        oracle.resolve(
            publication.message, reason, messageIdentifier: identifier,
            refusedCount: max(refusedCount, refused.count), refused: refused)
    }

    // MARK: Packets

    func encode(_ order: Order, _ message: Int) -> (packet: MQTT.Publish, source: [UInt8]) {
        var source = ByteSource()
        func name(_ user: Int) -> String {
            user == context.profile.userCount
                ? Profile.unknownUser : Profile.userName(user)
        }
        var properties: [(name: String, value: String)] = []
        let topic: ByteRange
        switch order.receivers {
        case .users(let users, isList: false): topic = source.append("$u/\(name(users[0]))".utf8)
        case .users(let users, isList: true):
            topic = source.append("$u".utf8)
            properties = users.map { ("to", name($0)) }
        case .everybody: topic = source.append("$b".utf8)
        case .group(let group): topic = source.append("$g/".utf8 + oracle.groups[group].name)
        case .topic(let topicIndex): topic = source.append(Profile.topics[topicIndex].utf8)
        }
        if !order.messageIdentifier.isEmpty { properties.append(("mid", order.messageIdentifier)) }
        let text = MessageText.make(message, padding: order.padding)
        var payload = source.append(text)
        if order.isClearing {
            payload = .empty
        } else if order.receivers.kind != .topic {
            payload = source.append(Array(#"{"t":"0","b":""#.utf8) + text + Array(#""}"#.utf8))
        }
        var packet = MQTT.Publish(
            version, topic: topic, payload: payload, qos: MQTT.QoS(order.grade))
        packet.isRetained = order.isRetained
        guard version == .v5 else { return (packet, source.bytes) }
        if order.expirySeconds > 0 { packet.messageExpirySeconds = order.expirySeconds }
        let start = source.bytes.count
        for property in properties {
            _ = source.append([MQTT.PropertyIdentifier.userProperty.rawValue])
            for text in [property.name, property.value] {
                source.append(uint16: UInt16(text.utf8.count))
                _ = source.append(text.utf8)
            }
        }
        packet.properties = MQTT.PropertySection(
            carried: ByteRange(offset: start, count: source.bytes.count - start))
        return (packet, source.bytes)
    }
}
