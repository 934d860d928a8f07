// Encodes effects as MQTT packets, for all three versions. A publication is encoded once per
// version; each receiver's packet is a small header and one or two copies.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// Encodes the effects of one loop's MQTT connections.
struct MQTTEncoder: ~Copyable {
    private var before5 = EncodedPublication()
    private var since5 = EncodedPublication()
    private let packetMaximum: UInt32

    /// - Parameter packetMaximum: the largest packet of a client, which CONNACK announces.
    init(packetMaximum: UInt32) {
        self.packetMaximum = packetMaximum
    }

    /// Discards the publications of the last turn.
    mutating func begin() {
        before5.begin()
        since5.begin()
    }

    // MARK: - Deliveries

    @inline(__always)
    mutating func deliver(
        _ delivery: Delivery, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if delivery.dialect == .mqtt5 {
            since5.prepare(delivery, version: .v5, in: context)
            since5.deliver(delivery, in: context)
        } else {
            before5.prepare(delivery, version: .v311, in: context)
            before5.deliver(delivery, in: context)
        }
    }

    // MARK: - Beginning and end

    func accept(
        _ connection: ConnectionID, _ acceptance: Acceptance, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let conversation = context.conversations[known: connection]
        if acceptance.acknowledgesRefused {
            context.conversations[known: connection].traits.insert(.acknowledgesRefused)
        }
        context.conversations.setUser(
            Array(acceptance.user.bytes(in: context.bytes)), of: connection)
        var packet = MQTT.Connack(
            version, .success, isSessionPresent: acceptance.isSessionPresent)
        if version == .v5 {
            if acceptance.sessionExpirySeconds != conversation.sessionExpiryRequested {
                packet.sessionExpirySeconds = acceptance.sessionExpirySeconds
            }
            if acceptance.keepAliveSeconds != UInt32(conversation.keepAliveRequested) {
                packet.serverKeepAliveSeconds = UInt16(acceptance.keepAliveSeconds)
            }
            packet.receiveMaximum = acceptance.sendWindow
            packet.packetMaximum = packetMaximum
            packet.topicAliasMaximum = TopicAliasLimits.countMaximum
        }
        var source = Array(acceptance.assignedDevice.bytes(in: context.bytes))
        if version == .v5, !source.isEmpty {
            packet.assignedClientIdentifier = ByteRange(offset: 0, count: source.count)
        }
        if conversation.traits.contains(.authenticates) {
            // [MQTT-4.12.0-5]
            packet.authenticationMethod = source.appendRange(MQTTDecoder.tokenMethod.utf8Bytes)
        }
        if version == .v5, let count = acceptance.unreadCount {
            packet.properties = MQTT.PropertySection(carried: source.appendUnread(count))
        }
        let isWritten = source.withUnsafeBytes {
            context.write(packet, to: connection, from: $0)
        }
        guard isWritten else {
            // The client accepts no packet that could announce what it was granted.
            context.append(.peerFaulted(connection, .packetTooLarge))
            refuse(connection, .packetTooLarge, version: version, in: context)
            return
        }
        context.establish(connection, keepAliveSeconds: acceptance.keepAliveSeconds)
    }

    /// Refuses a login with a reason, then closes.
    func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        context.conversations.refuse(
            connection, reason.inConnack, version: version, through: &context.connections)
        context.close(connection)
    }

    /// Ends a connection with a reason. If CONNACK has not been sent, it is the only packet that
    /// may be [MQTT-3.2.0-1].
    func end(
        _ connection: ConnectionID, _ reason: ReasonCode, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if context.conversations[connection]?.phase == .awaitingAnswer {
            refuse(connection, reason, version: version, in: context)
            return
        }
        if version == .v5 {
            context.conversations.disconnect(
                connection, reason.inDisconnect, through: &context.connections)
        }
        context.close(connection)
    }

    // MARK: - Answers

    /// Writes a packet that the client waits for. A client that does not accept a packet of that
    /// size is disconnected.
    private func write(
        _ packet: some ShortenablePacket, to connection: ConnectionID,
        from source: UnsafeRawBufferPointer,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if !context.write(packet, to: connection, from: source) {
            context.append(.peerFaulted(connection, .packetTooLarge))
        }
    }

    /// The result of a QoS 0 publication, which has no packet. The connection of a refused one is
    /// closed.
    func report(
        _ result: SendResult, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        if result.reason.isFailure, context.loop.verdict(of: result) == nil,
            !acknowledgesRefused(result.connection, in: context)
        {
            context.append(.peerFaulted(result.connection, result.reason))
        }
    }

    /// Answers a packet.
    func answer(
        _ answer: MQTTEffect, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        switch answer {
        case .answerPacket(let answer): self.answer(answer, version: version, in: context)
        case .answerFilters(let answer): self.answer(answer, version: version, in: context)
        case .dropReply(let connection, let identifier):
            _ = context.conversations.takeReply(identifier, to: connection)
        }
    }

    /// A step of an exchange. A failure has a reason string, and the result of a message with an
    /// application's id, if the client accepts them [MQTT-3.1.2-29].
    private func answer(
        _ answer: PacketAnswer, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let isPublishAnswer = answer.step == .accepted || answer.step == .received
        var reason = isPublishAnswer ? answer.reason.inPublishAnswer : answer.reason
        let verdict = context.loop.verdict(of: answer)
        // A client that sent what a moderator refuses would send it again after each login.
        if version < .v5 && verdict != nil { reason = .success }
        if version < .v5 && reason.isFailure && isPublishAnswer {
            // No negative acknowledgement exists [MQTT-3.3.5-2 of 3.1.1].
            guard acknowledgesRefused(answer.connection, in: context) else {
                context.append(.peerFaulted(answer.connection, answer.reason))
                return
            }
            reason = .success
        }
        var packet = MQTT.Acknowledgement(
            version, MQTT.Acknowledgement.Step(answer.step), identifier: answer.packetIdentifier,
            reason: reason)
        let isTold =
            reason.isFailure || !answer.messageIdentifier.isEmpty || answer.namedRefusalCount > 0
            || answer.refusedCount > 0 || answer.reference != 0 || answer.cause != .none
        guard version == .v5, isTold, wantsProblemInformation(answer.connection, in: context)
        else {
            write(packet, to: answer.connection, from: context.bytes, in: context)
            return
        }
        var source: [UInt8] = []
        if let verdict {
            packet.reasonString = source.appendRange(verdict.detail(answer.cause))
        } else if reason.isFailure {
            packet.reasonString = source.appendRange(answer.reason.text(answer.cause))
        } else if answer.refusedCount > 0 {
            packet.reasonString = source.appendRange(
                Array("\(answer.refusedCount) of its receivers did not get it".utf8))
        }
        packet.properties = MQTT.PropertySection(
            carried: source.appendProperties(of: answer, in: context.loop))
        // Properties that do not fit are omitted, the reason string first [MQTT-3.4.2-2],
        // [MQTT-3.4.2-3].
        let maximum = context.conversations.packetMaximum(of: answer.connection)
        if packet.encodedByteCount > maximum { packet.reasonString = nil }
        if packet.encodedByteCount > maximum {
            packet.properties = MQTT.PropertySection(
                carried: source.appendRefusedCount(of: answer))
        }
        if packet.encodedByteCount > maximum { packet.properties = .empty }
        source.withUnsafeBytes {
            write(packet, to: answer.connection, from: $0, in: context)
        }
    }

    /// Handles a refused publication for which MQTT has no negative acknowledgement: any in 3.1 and
    /// 3.1.1, QoS 0 in 5.0. The log records it in any case.
    private func acknowledgesRefused(
        _ connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> Bool {
        context.conversations[connection]?.traits.contains(.acknowledgesRefused) == true
    }

    private func wantsProblemInformation(
        _ connection: ConnectionID,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) -> Bool {
        context.conversations[connection]?.traits.contains(.wantsProblemInformation) == true
    }

    /// The result of a new token [MQTT-4.12.1-2].
    func answerCredential(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        guard !reason.isFailure else {
            context.append(.peerFaulted(connection, reason))
            return
        }
        let method = MQTTDecoder.tokenMethod.utf8Bytes
        let packet = MQTT.Auth(
            .success, authenticationMethod: ByteRange(offset: 0, count: method.count))
        write(packet, to: connection, from: method, in: context)
    }

    /// The answer to a SUBSCRIBE or an UNSUBSCRIBE: a code for each filter, and a reason string for
    /// the first refusal.
    private func answer(
        _ answer: FilterAnswer, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let packetIdentifier = UInt16(truncatingIfNeeded: answer.requestIdentifier)
        let whole = ByteRange(offset: 0, count: Int(answer.codes.count))
        var source = Array(answer.codes.bytes(in: context.bytes))
        var text: ByteRange?
        if version == .v5, wantsProblemInformation(answer.connection, in: context),
            let refusal = source.first(where: { $0 >= MQTT.Suback.failureCode })
        {
            text = source.appendRange(
                (ReasonCode(rawValue: refusal) ?? .unspecifiedError).text.utf8Bytes)
        }
        switch answer.request {
        case .unsubscribe:
            var packet = MQTT.Unsuback(version, packetIdentifier, codes: whole)
            packet.reasonString = text
            source.withUnsafeBytes {
                write(packet, to: answer.connection, from: $0, in: context)
            }
        case .subscribe:
            var packet = MQTT.Suback(version, packetIdentifier, codes: whole)
            packet.reasonString = text
            if version < .v5 {
                for index in source.indices where source[index] > MQTT.Suback.failureCode {
                    source[index] = MQTT.Suback.failureCode
                }
            }
            source.withUnsafeBytes {
                write(packet, to: answer.connection, from: $0, in: context)
            }
        }
    }
}

extension ConversationTable {
    /// Tells a client the reason why its login is refused.
    func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode, version: MQTT.Version,
        through host: inout some ConnectionHost & ~Copyable
    ) {
        var packet = MQTT.Connack(version, reason)
        let text = reason.text.utf8Bytes
        if version == .v5 {
            packet.reasonString = ByteRange(offset: 0, count: text.count)
        }
        // A client that does not accept even this size is sent nothing [MQTT-3.1.2-24].
        write(packet, to: connection, from: text, through: &host)
    }

    /// The last packet of a 5.0 connection.
    func disconnect(
        _ connection: ConnectionID, _ reason: ReasonCode,
        through host: inout some ConnectionHost & ~Copyable
    ) {
        var packet = MQTT.Disconnect(.v5, reason)
        let text = reason.text.utf8Bytes
        packet.reasonString = ByteRange(offset: 0, count: text.count)
        // A client that does not accept even this size is sent nothing [MQTT-3.1.2-24].
        write(packet, to: connection, from: text, through: &host)
    }
}

extension ReasonCode {
    /// The reason as a code of CONNACK.
    fileprivate var inConnack: ReasonCode { isInConnack ? self : .unspecifiedError }

    /// The reason as a code of DISCONNECT.
    fileprivate var inDisconnect: ReasonCode {
        if isInDisconnect(from: .broker) { return self }
        return self == .badUserNameOrPassword ? .notAuthorized : .unspecifiedError
    }

    /// The reason as a code of PUBACK or PUBREC. A message that is too large exceeds a quota:
    /// closing the connection would make a client send it again forever.
    fileprivate var inPublishAnswer: ReasonCode {
        if isInPublishAnswer { return self }
        return self == .packetTooLarge ? .quotaExceeded : .unspecifiedError
    }
}

extension MQTT.Acknowledgement.Step {
    fileprivate init(_ step: PacketStep) {
        switch step {
        case .accepted: self = .puback
        case .received: self = .pubrec
        case .release: self = .pubrel
        case .complete: self = .pubcomp
        }
    }
}

extension [UInt8] {
    /// Appends bytes; returns their range.
    fileprivate mutating func appendRange(_ bytes: some Collection<UInt8>) -> ByteRange {
        append(contentsOf: bytes)
        return ByteRange(offset: count - bytes.count, count: bytes.count)
    }

    private mutating func appendText(_ bytes: some Collection<UInt8>) {
        append(UInt8(bytes.count >> 8))
        append(UInt8(bytes.count & 0xFF))
        append(contentsOf: bytes)
    }

    private mutating func appendProperty(
        _ name: StaticString, _ value: some Collection<UInt8>
    ) {
        append(MQTT.PropertyIdentifier.userProperty.rawValue)
        appendText(name.utf8Bytes)
        appendText(value)
    }

    /// Appends the user properties of an answer.
    fileprivate mutating func appendProperties(
        of answer: PacketAnswer, in loop: borrowing LoopEffects
    ) -> ByteRange {
        let start = count
        if !answer.messageIdentifier.isEmpty {
            appendProperty(
                MessageProperty.identifier,
                answer.messageIdentifier.bytes(in: loop.bytes.bytes))
            appendProperty(MessageProperty.reason, String(answer.result.rawValue).utf8)
        }
        if answer.reference != 0 {
            var digits: [UInt8] = []
            digits.append(hexadecimal: answer.reference)
            appendProperty(MessageProperty.reference, digits)
        }
        if let verdict = loop.verdict(of: answer) {
            appendProperty(MessageProperty.verdict, "\(verdict.code)".utf8)
        }
        for index in 0..<Int(answer.namedRefusalCount) {
            let refusal = loop.refusals[Int(answer.firstRefusal) + index]
            appendProperty(
                MessageProperty.refused, "\(refusal.index) \(refusal.reason.rawValue)".utf8)
        }
        _ = appendRefusedCount(of: answer)
        return ByteRange(offset: start, count: count - start)
    }

    /// Appends the number of conversations with unread messages.
    fileprivate mutating func appendUnread(_ count: UInt8) -> ByteRange {
        let start = self.count
        appendProperty(MessageProperty.unread, String(count).utf8)
        return ByteRange(offset: start, count: self.count - start)
    }

    /// Appends the number of refused receivers, if there are any.
    fileprivate mutating func appendRefusedCount(of answer: PacketAnswer) -> ByteRange {
        let start = count
        if answer.refusedCount > 0 {
            appendProperty(MessageProperty.refusedCount, String(answer.refusedCount).utf8)
        }
        return ByteRange(offset: start, count: count - start)
    }
}
