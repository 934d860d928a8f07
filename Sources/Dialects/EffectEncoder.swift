// From effects to bytes: every effect of a loop is written into the outgoing stream of its
// connection, in order, by the encoder of the dialect that the connection speaks.

import BrokerCore
import Primitives
import WireFormat

/// Encodes the effects of one loop.
public struct EffectEncoder: ~Copyable {
    private var mrt: MRTEncoder
    private var mqtt: MQTTEncoder
    /// Connections of which the core wants to know when they have taken what was written. The
    /// driver of the loop tells it, and takes them off.
    public var awaitingDrain: [ConnectionID] = []

    /// - Parameter packetMaximum: what clients are told is the largest packet the broker takes.
    public init(packetMaximum: Int) {
        let packetMaximum = UInt32(packetMaximum)
        mrt = MRTEncoder(packetMaximum: packetMaximum)
        mqtt = MQTTEncoder(packetMaximum: packetMaximum)
    }

    /// Writes everything a loop's effects ask for. What cannot be delivered comes back as events.
    public mutating func encode(
        _ loop: borrowing EffectLane, at now: Instant, conversations: inout ConversationTable,
        host: inout some ConnectionHost & ~Copyable, log: inout some LogSink & ~Copyable,
        events: inout ContiguousArray<Event>
    ) {
        mrt.begin()
        mqtt.begin()
        for index in 0..<loop.effects.count {
            switch loop.effects[index] {
            case .deliver(let delivery):
                if delivery.dialect == .mrt {
                    mrt.deliver(delivery, at: index, loop, &conversations, &host, &events)
                } else {
                    mqtt.deliver(delivery, loop, at: now, &conversations, &host, &events)
                }
            case .note(let note):
                log.take(note, bytes: loop.bytes.bytes)
            case .awaitDrain(let connection):
                awaitingDrain.append(connection)
            case .holdReading(let connection):
                host.holdForAnswers(connection)
            case .resumeReading(let connection):
                host.releaseAfterAnswers(connection)
            case let effect:
                // Who has left in the very turn in which it asked is told nothing.
                guard let conversation = conversations[effect.connection] else { continue }
                if let version = conversation.version {
                    mqtt.encode(effect, version, loop, &conversations, &host, &events)
                } else {
                    mrt.encode(effect, loop, &conversations, &host, &events)
                }
            }
        }
    }

    /// Tells everybody that the broker stops (conventions: 0x8B), as the last thing they hear.
    public func writeShutdown(
        conversations: inout ConversationTable, host: inout some ConnectionHost & ~Copyable
    ) {
        conversations.forEachEstablished { connection, version in
            if let version {
                MQTTEncoder.writeShutdown(to: connection, version, conversations, &host)
            } else {
                conversations.write(
                    MRT.BrokerDisconnect(reason: .serverShuttingDown), to: connection, &host)
            }
        }
    }
}
