// Received packets of an MQTT client. A QoS 2 message is processed once for each use of its
// identifier, which is stored together with the message's effect (MQTT 4.3.3).

import Primitives
import WireFormat

extension SimulatedMQTTClient {
    // MARK: Bytes

    func received(_ bytes: [UInt8]) {
        guard state != nil, let connection = link, !bytes.isEmpty else { return }
        heard()
        var packets: [(frame: PacketFrame, body: [UInt8])] = []
        let isSound = incoming.take(bytes) { frame, body in packets.append((frame, Array(body))) }
        for packet in packets {
            // It may lose power, or disconnect, in between.
            guard state != nil, link == connection else { return }
            packet.body.withUnsafeBytes { body in
                do throws(WireError) {
                    try handle(packet.frame, body)
                } catch {
                    oracle.fail(
                        .nobodyIsAtFault, "a packet that is none: \(error)", client: index)
                }
            }
        }
        if !isSound {
            oracle.fail(.nobodyIsAtFault, "the stream is not one of packets", client: index)
        }
        guard state != nil, link == connection else { return }
        runOn()
    }

    private func handle(
        _ frame: PacketFrame, _ body: UnsafeRawBufferPointer
    ) throws(WireError) {
        let type = try MQTT.PacketType(frame, version, from: .broker)
        guard isConnected || type == .connack else { throw .protocolError }
        switch type {
        case .connack: handle(try MQTT.Connack(version, body: body.bytes))
        case .publish:
            try handle(
                MQTT.Publish(version, flags: frame.flags, body: body.bytes, from: .broker), body)
        case .puback: answered(try MQTT.Acknowledgement(version, .puback, body: body.bytes), body)
        case .pubrec: answered(try MQTT.Acknowledgement(version, .pubrec, body: body.bytes), body)
        case .pubcomp: answered(try MQTT.Acknowledgement(version, .pubcomp, body: body.bytes), body)
        case .pubrel: released(try MQTT.Acknowledgement(version, .pubrel, body: body.bytes))
        case .suback:
            let packet = try MQTT.Suback(version, body: body.bytes)
            subscriptionAnswered(
                packet.packetIdentifier, isSubscribing: true,
                code: packet.codes.bytes(in: body).first)
        case .unsuback:
            let packet = try MQTT.Unsuback(version, body: body.bytes)
            subscriptionAnswered(
                packet.packetIdentifier, isSubscribing: false,
                code: packet.codes.bytes(in: body).first)
        case .pingresp: break
        case .disconnect:
            let packet = try MQTT.Disconnect(version, body: body.bytes, from: .broker)
            oracle.history.note(.client(index), "is sent away: \(packet.reason.name)")
            checkFault(packet.reason)
            giveUp()
        case .connect, .subscribe, .unsubscribe, .pingreq, .auth: throw .protocolError
        }
    }

    // MARK: Messages

    private func handle(
        _ publish: MQTT.Publish, _ body: UnsafeRawBufferPointer
    ) throws(WireError) {
        guard let session else { return }
        var topic = String(decoding: publish.topic.bytes(in: body), as: UTF8.self)
        if publish.topicAlias > 0 {
            guard publish.topicAlias <= mqtt.topicAliasMaximum else { throw .topicAliasInvalid }
            if !topic.isEmpty { aliases[publish.topicAlias] = topic }
            guard let known = aliases[publish.topicAlias] else { throw .protocolError }
            topic = known
        }
        guard publish.qos != .atMostOnce else {
            return take(publish, topic: topic, body: body, session: session)
        }
        let identifier = publish.packetIdentifier
        noteUnfinished(identifier)
        if publish.qos == .exactlyOnce {
            if !powered.received.contains(identifier) {
                take(publish, topic: topic, body: body, session: session)
                if context.misbehaves(.lateIdentifier, perTenThousand: 300) {
                    return powerOff()
                }
                powered.received.insert(identifier)
                save()
            }
        } else {
            take(publish, topic: topic, body: body, session: session)
        }
        guard survives() else { return }
        scheduleAnswer(publish.qos == .exactlyOnce ? .pubrec : .puback, identifier)
    }

    private func noteUnfinished(_ identifier: UInt16) {
        if !unfinished.insert(identifier).inserted {
            oracle.fail(
                .numbersAreNotReused, "identifier \(identifier) twice on one connection",
                client: index)
        }
        // A client before 5.0 cannot announce a receive maximum.
        let window = version == .v5 ? Int(habits.inboxWindow) : Int(UInt16.max)
        if unfinished.count > window {
            oracle.fail(
                .windowIsKept, "\(unfinished.count) unacknowledged in a window of \(window)",
                client: index)
        }
    }

    /// Processes a message.
    private func take(
        _ publish: MQTT.Publish, topic: String, body: UnsafeRawBufferPointer, session: Int
    ) {
        let payload = publish.payload.bytes(in: body)
        // A retained message is removed by an empty one; and a group event is no message.
        if payload.isEmpty || payload.starts(with: #"{"event""#.utf8) { return }
        let (message, from) = MessageText.message(inPublication: payload)
        var received = ReceivedMessage(
            number: UInt64(publish.packetIdentifier),
            grade: publish.qos.grade, kind: kind(of: topic), from: from,
            isMarked: false, message: message)
        received.canBeMarked = version == .v5
        received.isRewritten = MessageText.isRewritten(payload.bytes)
        received.topic = topic
        received.isRepeated = publish.isDuplicate
        received.isRetained = publish.isRetained
        var reader = MQTT.PropertyReader(publish.properties, of: .publish, in: body.bytes)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let value = String(decoding: property.value.bytes(in: body), as: UTF8.self)
            switch String(decoding: property.text.bytes(in: body), as: UTF8.self) {
            case "possible-duplicate": received.isMarked = true
            case "from": received.from = value
            default: break
            }
        }
        if received.isRetained {
            oracle.receivedRetained(received, session: session, client: index)
        } else {
            oracle.received(received, session: session, client: index, boot: boots)
        }
    }

    private func kind(of topic: String) -> MRT.DeliveryKind {
        if topic == "$u/\(Profile.userName(habits.user))" { return .unicast }
        if topic == "$b" { return .broadcast }
        return topic.hasPrefix("$g/") ? .group : .topic
    }

    /// PUBREL has arrived: the identifier will mean another message.
    private func released(_ release: MQTT.Acknowledgement) {
        powered.received.remove(release.packetIdentifier)
        save()
        guard survives() else { return }
        scheduleAnswer(.pubcomp, release.packetIdentifier)
    }

    // MARK: Answers

    /// Answers, now or a little later, in the order of the packets.
    private func scheduleAnswer(_ step: MQTT.Acknowledgement.Step, _ identifier: UInt16) {
        answers.append(MQTT.Acknowledgement(version, step, identifier: identifier))
        answersDue = min(
            answersDue,
            context.now.advanced(byMilliseconds: habits.acknowledgementDelayMilliseconds))
        if answersDue <= context.now { _ = giveAnswers() }
    }

    /// Sends the due answers. False if the client lost power.
    func giveAnswers() -> Bool {
        answersDue = .never
        let due = answers
        answers = []
        for answer in due {
            if answer.step != .pubrec { unfinished.remove(answer.packetIdentifier) }
            write(answer)
            guard survives() else { return false }
        }
        return true
    }
}
