// What an MQTT client publishes. What is of QoS 1 or 2 is in its flash before it is on the wire,
// and is sent again on the next connection until it is answered (MQTT 4.3, 4.4).

import Primitives
import WireFormat

extension SimulatedMQTTClient {
    // MARK: Publications

    func send(_ order: Order) { send(order, repeating: nil) }

    /// Sends once more under a message id of its own, mostly one that is about to be forgotten.
    func repeatSend() {
        guard !usedIdentifiers.isEmpty else { return }
        let window = Int(surroundings.profile.limits.sendWindowMaximum)
        let back =
            surroundings.habitRandom.happens(perTenThousand: 6_000)
            ? window : surroundings.habitRandom.number(in: 1...2 * window + 1)
        let place = max(usedIdentifiers.count - back, 0)
        var order = usedIdentifiers[place].order
        order.grade = surroundings.habitRandom.pick([.transient, .durable, .once, .once])
        if order.grade == .transient { order.messageIdentifier = "" }
        send(order, repeating: place)
    }

    /// - Parameter repeated: the place of the id that it uses again.
    private func send(_ order: Order, repeating repeated: Int?) {
        guard state != nil else { return }
        if order.grade == .transient {
            guard hasResent else { return }
        } else {
            guard state!.outgoing.count < min(mqtt.inFlightMaximum, sendWindow) else { return }
        }
        var fact = SendFact(
            client: index, receivers: order.receivers, grade: order.grade,
            expirySeconds: order.expirySeconds, messageIdentifier: order.messageIdentifier,
            issuedAt: surroundings.now, session: session, wasReachable: false,
            deathsBefore: ledger.deaths, fullTimesBefore: ledger.pastFullTimes)
        if surroundings.has(.uncheckedWill), ledger.isForbidden(fact) { return }
        fact.isMQTT = true
        fact.isRetained = order.isRetained
        fact.isClearing = order.isClearing
        if let repeated {
            fact.repeats = usedIdentifiers[repeated].message
            // What comes again and has been forgotten takes a place of its own.
            fact.idsBetween = identifiedCount - usedIdentifiers[repeated].position - 1
        }
        let message = ledger.issue(fact)
        if repeated == nil, !order.messageIdentifier.isEmpty {
            usedIdentifiers.append((order, message, position: identifiedCount))
        }
        if !order.messageIdentifier.isEmpty { identifiedCount += 1 }
        var (packet, source) = encode(order, message)
        if order.isRetained { ledger.retaining(message) }
        guard order.grade != .transient else {
            ledger.attempted(message)
            write(packet, from: source)
            _ = survives()
            return
        }
        packet.packetIdentifier = takeIdentifier()
        sendCount += 1
        ledger.number(message, outboxEpoch: 0, sendCount)
        state!.outgoing.append(
            OutgoingPublication(message: message, packet: packet, source: source))
        guard survives() else { return }
        save()
        guard survives() else { return }
        if hasResent { publish(state!.outgoing.count - 1) }
        _ = survives()
    }

    /// Like many clients, some do not heed what the broker takes at a time.
    private var sendWindow: Int {
        mqtt.identifierMaximum == .max ? .max : state!.sendWindow
    }

    /// The next identifier that nothing is under way with [MQTT-2.2.1-3].
    func takeIdentifier() -> UInt16 {
        var identifier = state!.lastIdentifier
        repeat {
            identifier = identifier % mqtt.identifierMaximum + 1
        } while state!.position(of: identifier) != nil || pending[identifier] != nil
        state!.lastIdentifier = identifier
        return identifier
    }

    /// Writes a publication, once more where it may have been written before [MQTT-3.3.1-1].
    private func publish(_ position: Int) {
        var packet = state!.outgoing[position].packet
        packet.isDuplicate = state!.outgoing[position].wasSent
        state!.outgoing[position].wasSent = true
        ledger.attempted(state!.outgoing[position].message)
        unanswered.append(packet.packetIdentifier)
        write(packet, from: state!.outgoing[position].source)
    }

    /// Takes its session up where it was, or begins a new one.
    func beginSession(isPresent: Bool, _ receiveMaximum: Int) {
        if !isPresent {
            // [MQTT-3.2.2-5]: what the session knew is worth nothing now. What was not answered is
            // sent as something new.
            state!.received = []
            state!.outgoing.removeAll { $0.isReceived }
            for position in state!.outgoing.indices { state!.outgoing[position].wasSent = false }
            confirmed = []
        }
        state!.sendWindow = receiveMaximum
        save()
    }

    /// Sends again what was not answered, in its order. False when the power went away.
    func sendAgain() -> Bool {
        for position in state!.outgoing.indices {
            if state!.outgoing[position].isReceived {
                write(
                    MQTT.Acknowledgement(
                        version, .pubrel, state!.outgoing[position].packet.packetIdentifier))
            } else {
                publish(position)
            }
            guard survives() else { return false }
        }
        return true
    }

    // MARK: Answers

    /// PUBACK, PUBREC or PUBCOMP has come.
    func answered(_ answer: MQTT.Acknowledgement, _ body: UnsafeRawBufferPointer) {
        let identifier = answer.packetIdentifier
        if answer.step != .pubcomp { checkOrder(of: identifier) }
        guard let position = state!.position(of: identifier) else {
            // It is finished already; only a PUBREC wants an answer.
            if answer.step == .pubrec, !answer.reason.isFailure {
                write(
                    MQTT.Acknowledgement(
                        version, .pubrel, identifier,
                        version == .v5 ? .packetIdentifierNotFound : .success))
            }
            return
        }
        refusalCount = 0
        let publication = state!.outgoing[position]
        let isOnce = publication.packet.qos == .exactlyOnce
        switch answer.step {
        case .puback where !isOnce, .pubrec where isOnce && !publication.isReceived:
            resolve(publication, answer, body)
            guard survives() else { return }
            if isOnce, !answer.reason.isFailure {
                state!.outgoing[position].isReceived = true
            } else {
                state!.outgoing.remove(at: position)
            }
            save()
            ledger.close(publication.message)
            guard survives(), answer.step == .pubrec, !answer.reason.isFailure else { return }
            write(MQTT.Acknowledgement(version, .pubrel, identifier))
        case .pubrec where isOnce:
            write(MQTT.Acknowledgement(version, .pubrel, identifier))
        case .pubcomp where publication.isReceived:
            state!.outgoing.remove(at: position)
            save()
        case .puback, .pubrec, .pubcomp, .pubrel:
            ledger.accuse(
                .nobodyIsAtFault, "\(answer.step) does not answer what has that identifier",
                message: publication.message, client: index)
        }
        _ = survives()
    }

    /// Answers keep the order of what they answer [MQTT-4.6.0-2]; what was sent again may have been
    /// answered before, and before 5.0 what is refused is not answered.
    private func checkOrder(of identifier: UInt16) {
        guard let place = unanswered.firstIndex(of: identifier) else { return }
        if place > 0, let position = state!.position(of: identifier),
            ledger.sends[state!.outgoing[position].message].attemptCount == 1, version == .v5
        {
            ledger.accuse(
                .orderIsKept, "answered before what was published before it",
                message: state!.outgoing[position].message, client: index)
        }
        unanswered.remove(at: place)
    }

    private func resolve(
        _ publication: OutgoingPublication, _ answer: MQTT.Acknowledgement,
        _ body: UnsafeRawBufferPointer
    ) {
        var identifier = ""
        var refused: [(index: Int, reason: ReasonCode)] = []
        var refusedCount = 0
        let owner = MQTT.PropertyOwner(answer.step.type)
        var reader = MQTT.PropertyReader(answer.properties, of: owner, in: body)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let value = String(decoding: property.value.bytes(in: body), as: UTF8.self)
            switch String(decoding: property.text.bytes(in: body), as: UTF8.self) {
            case "mid": identifier = value
            case "refused-count": refusedCount = Int(value) ?? 0
            case "refused":
                let parts = value.split(separator: " ").compactMap { UInt8($0) }
                guard parts.count == 2, let reason = ReasonCode(rawValue: parts[1]) else {
                    ledger.accuse(.everySendIsAnswered, "refused: \(value)", client: index)
                    continue
                }
                refused.append((index: Int(parts[0]), reason: reason))
            default: break
            }
        }
        let reason = answer.reason == .success ? ReasonCode.sent : answer.reason
        ledger.resolve(
            publication.message, reason, messageIdentifier: identifier,
            refusedCount: max(refusedCount, refused.count), refused: refused)
    }

    // MARK: Packets

    func encode(_ order: Order, _ message: Int) -> (packet: MQTT.Publish, source: [UInt8]) {
        var source = ByteSource()
        func name(_ user: Int) -> String {
            user == surroundings.profile.userCount
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
        case .group(let group): topic = source.append("$g/".utf8 + ledger.groups[group].name)
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
            version, topic: topic, payload: payload, qos: MQTT.QoS(rawValue: order.grade.rawValue)!)
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
