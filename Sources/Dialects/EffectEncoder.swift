// From effects to bytes: every effect of a loop is written into the outgoing stream of its
// connection, in order, by the encoder of the dialect that the connection speaks.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// Encodes the effects of one loop.
public struct EffectEncoder: ~Copyable {
    private var mrt: MRTEncoder
    private var mqtt: MQTTEncoder
    private let json: JSONEffectEncoder
    /// Connections for which the core wants an event when they have sent the written bytes. The
    /// loop reports it, and removes them from here.
    public var awaitingDrain: [ConnectionID] = []

    /// HOST:PORT of the node of a cluster that a client is to use whose login is refused with that
    /// reason; empty if none is known.
    public var serverReference: [UInt8] = []

    /// - Parameter packetMaximum: the largest packet of a client, which CONNACK announces.
    public init(packetMaximum: Int) {
        let packetMaximum = UInt32(packetMaximum)
        mrt = MRTEncoder(packetMaximum: packetMaximum)
        mqtt = MQTTEncoder(packetMaximum: packetMaximum)
        json = JSONEffectEncoder(packetMaximum: packetMaximum)
    }

    /// Writes all effects of a loop. Deliveries that cannot be written come back as events.
    public mutating func encode(
        _ effects: borrowing LoopEffects, at now: Instant,
        conversations: inout ConversationTable, host: inout some ConnectionHost & ~Copyable,
        log: inout some LogSink & ~Copyable, events: inout ContiguousArray<Event>
    ) {
        mrt.begin()
        mqtt.begin()
        withUnsafePointer(to: effects) { effects in
            withUnsafeMutablePointer(to: &conversations) { conversations in
                withUnsafeMutablePointer(to: &host) { host in
                    withUnsafeMutablePointer(to: &events) { events in
                        encode(
                            EncodingContext(
                                effects, at: now, conversations: conversations, host: host,
                                events: events),
                            log: &log)
                    }
                }
            }
        }
    }

    private mutating func encode(
        _ context: borrowing EncodingContext<some ConnectionHost & ~Copyable>,
        log: inout some LogSink & ~Copyable
    ) {
        for index in 0..<context.loop.effects.count {
            switch context.loop.effects[index] {
            case .deliver(let delivery):
                switch delivery.dialect {
                case .mrt: mrt.deliver(delivery, at: index, in: context)
                case .mqtt3, .mqtt5: mqtt.deliver(delivery, in: context)
                case .json:
                    if context.conversations[delivery.connection]?.jsonForm == .leanMessage {
                        LeanMessageEncoder.deliver(delivery, in: context)
                    } else {
                        json.deliver(delivery, in: context)
                    }
                }
            case .note(let note):
                log.take(note, bytes: context.bytes)
            case .awaitDrain(let connection):
                awaitingDrain.append(connection)
            case .pauseReading(let connection):
                context.connections.holdForAnswers(connection)
            case .resumeReading(let connection):
                context.connections.releaseAfterAnswers(connection)
            case let effect:
                // A client that left in the turn of its request gets no answer.
                guard let conversation = context.conversations[effect.connection] else { continue }
                if conversation.jsonForm == .leanMessage {
                    LeanMessageEncoder.tell(effect, in: context)
                } else if case .json = conversation.dialect {
                    tellJSON(effect, in: context)
                } else {
                    tell(effect, version: conversation.version, in: context)
                }
            }
        }
    }

    /// Writes an effect in the dialect of its client. Answers that exist in one dialect only are
    /// known to its encoder.
    ///
    /// - Parameter version: the version of MQTT; nil for MRT.
    private func tell(
        _ effect: Effect, version: MQTT.Version?,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        switch (effect, version) {
        case (.deliver, _), (.note, _), (.awaitDrain, _), (.pauseReading, _), (.resumeReading, _):
            break
        case (.accept(let connection, let acceptance), let version?):
            mqtt.accept(connection, acceptance, version: version, in: context)
        case (.accept(let connection, let acceptance), nil):
            mrt.accept(connection, acceptance, in: context)
        case (.refuse(let connection, .useAnotherServer, _), _):
            redirect(connection, version: version, in: context)
        case (.refuse(let connection, let reason, _), let version?):
            mqtt.refuse(connection, reason, version: version, in: context)
        case (.refuse(let connection, let reason, let seconds), nil):
            mrt.refuse(connection, reason, retryAfterSeconds: seconds, in: context)
        case (.close(let connection, let reason), let version?):
            mqtt.end(connection, reason, version: version, in: context)
        case (.close(let connection, let reason), nil):
            mrt.end(connection, reason, in: context)
        case (.confirmDisconnect(let connection), _?):
            context.close(connection)
        case (.confirmDisconnect(let connection), nil):
            mrt.confirmDisconnect(connection, in: context)
        case (.reportResult(let result), _?):
            mqtt.report(result, in: context)
        case (.reportResult(let result), nil):
            mrt.report(result, in: context)
        case (.answerCredential(let connection, let reason), _?):
            mqtt.answerCredential(connection, reason, in: context)
        case (.answerCredential(let connection, let reason), nil):
            context.write(MRT.BrokerAuth(reason: reason), to: connection)
        case (.mqtt(let answer), let version?):
            mqtt.answer(answer, version: version, in: context)
        case (.mrt(let answer), nil):
            mrt.answer(answer, in: context)
        case (.mrt(let answer), let version?):
            mqtt.reply(answer, version: version, in: context)
        case (.mqtt, nil):
            // It answers a packet that this client cannot have sent: it is left out.
            assertionFailure("\(effect) in MQTT \(String(describing: version))")
        }
    }

    /// Refuses a login whose app another node of the cluster serves.
    private func redirect(
        _ connection: ConnectionID, version: MQTT.Version?,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let range = ByteRange(offset: 0, count: serverReference.count)
        serverReference.withUnsafeBytes { reference in
            guard let version else {
                context.write(
                    MRT.ConnectRefused(reason: .useAnotherServer, text: range), to: connection,
                    from: reference)
                return
            }
            var packet = MQTT.Connack(version, .useAnotherServer)
            if version == .v5, !serverReference.isEmpty { packet.serverReference = range }
            context.write(packet, to: connection, from: reference)
        }
        context.close(connection)
    }

    /// Writes an effect as JSON. Its clients get the answers that those of MRT get.
    private func tellJSON(
        _ effect: Effect, in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        switch effect {
        case .deliver, .note, .awaitDrain, .pauseReading, .resumeReading:
            break
        case .accept(let connection, let acceptance):
            json.accept(connection, acceptance, in: context)
        case .refuse(let connection, let reason, let seconds):
            json.refuse(connection, reason, retryAfterSeconds: seconds, in: context)
        case .close(let connection, let reason):
            json.end(connection, reason, in: context)
        case .confirmDisconnect(let connection):
            json.end(connection, .normalDisconnection, in: context)
        case .reportResult(let result):
            json.report(result, in: context)
        case .answerCredential(let connection, let reason):
            json.answerCredential(connection, reason, in: context)
        case .mrt(let answer):
            json.answer(answer, in: context)
        case .mqtt:
            assertionFailure("\(effect) for a client of JSON")
        }
    }

    /// Announces that the broker stops (0x8B), as the last packet of each connection.
    public func writeShutdown(
        conversations: inout ConversationTable, host: inout some ConnectionHost & ~Copyable
    ) {
        conversations.forEachEstablished { connection, dialect in
            switch dialect {
            case .mqtt(.v5):
                conversations.disconnect(connection, .serverShuttingDown, through: &host)
            case .mqtt(.v31), .mqtt(.v311):
                // MQTT 3.1 and 3.1.1 have no DISCONNECT of the broker.
                break
            case .mrt, .unknown:
                conversations.write(
                    MRT.BrokerDisconnect(reason: .serverShuttingDown), to: connection,
                    through: &host)
            case .json:
                JSONMessage.sendClosed(
                    to: connection, .serverShuttingDown, in: conversations, through: &host)
            }
        }
    }
}
