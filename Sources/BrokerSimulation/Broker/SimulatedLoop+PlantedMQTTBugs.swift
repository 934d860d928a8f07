// Planted bugs that concern only MQTT: steps of the exchanges of publications, packet identifiers,
// and shared subscriptions.

import BrokerCore
import Dialects
import Primitives

/// An identifier of QoS 2 that a client has used and not released.
struct PlantedIdentifier: Hashable {
    /// The device's token and name.
    var peer: [UInt8]
    var identifier: UInt16
}

/// The state of MQTT's planted bugs for one connection.
struct PlantedExchange {
    var peer: [UInt8]
    /// Identifiers of unacknowledged shared deliveries of QoS 1.
    var shared: [UInt16] = []
}

extension SimulatedLoop {
    /// The replacement of an identifier that is treated as another one.
    private static let otherIdentifier: UInt16 = 0x8000

    // MARK: - Events

    mutating func tamperMQTTEvents(_ arena: UnsafeRawBufferPointer) {
        switch context.options.mutation {
        case .repeatedPublication, .leaverLosesShare: break
        default: return
        }
        var changed: ContiguousArray<Event> = []
        for event in decoder.events {
            noteMQTT(event, arena)
            changed.append(contentsOf: replacements(of: event))
        }
        decoder.events = changed
    }

    private mutating func noteMQTT(_ event: Event, _ arena: UnsafeRawBufferPointer) {
        guard case .connectReceived(let connection, let request) = event, request.dialect.isMQTT,
            case .token(let token, _) = request.claim
        else { return }
        planted.exchanges[connection] = PlantedExchange(
            peer: Array(token.bytes(in: arena)) + Array(request.device.bytes(in: arena)))
    }

    private mutating func replacements(of event: Event) -> [Event] {
        let repeats = context.has(.repeatedPublication)
        switch event {
        case .sendReceived(let connection, var send)
        where repeats && send.grade == .once && send.packetIdentifier > 0:
            guard let peer = planted.exchanges[connection]?.peer else { return [event] }
            let used = PlantedIdentifier(peer: peer, identifier: send.packetIdentifier)
            if context.plantedIdentifiers.insert(used).inserted { return [event] }
            send.packetIdentifier ^= Self.otherIdentifier
            return [.sendReceived(connection, send)]
        case .packetAnswered(let connection, let identifier, .release, let reason) where repeats:
            guard let peer = planted.exchanges[connection]?.peer else { return [event] }
            context.plantedIdentifiers.remove(
                PlantedIdentifier(peer: peer, identifier: identifier))
            let other = identifier ^ Self.otherIdentifier
            return [
                event,
                .packetAnswered(connection, packetIdentifier: other, .release, reason),
            ]
        case .packetAnswered(let connection, let identifier, .accepted, _):
            planted.exchanges[connection]?.shared.removeAll { $0 == identifier }
            return [event]
        case .connectionClosed(let connection, _) where context.has(.leaverLosesShare),
            .disconnectReceived(let connection, _) where context.has(.leaverLosesShare):
            let lost = planted.exchanges.removeValue(forKey: connection)?.shared ?? []
            return lost.map {
                .packetAnswered(connection, packetIdentifier: $0, .accepted, .success)
            } + [event]
        default: return [event]
        }
    }

    // MARK: - Effects

    mutating func tamperMQTTEffects() {
        switch context.options.mutation {
        case .repeatedPublication: nameAnswers()
        case .earlyForgetting:
            for case .mqtt(.answerPacket(let answer)) in effects.effects.elements
            where answer.step == .received && !answer.reason.isFailure {
                decoder.events.append(
                    .packetAnswered(
                        answer.connection, packetIdentifier: answer.packetIdentifier, .release,
                        .success))
            }
        case .unflaggedRepetition:
            for index in effects.effects.indices {
                guard case .deliver(var delivery) = effects.effects[index] else { continue }
                delivery.options.remove(.repeated)
                effects.effects[index] = .deliver(delivery)
            }
        case .swappedAnswers: swapAnswers()
        case .leaverLosesShare:
            for case .deliver(let delivery) in effects.effects.elements
            where delivery.options.contains(.shared) && delivery.grade == .durable {
                planted.exchanges[delivery.connection]?.shared.append(delivery.packetIdentifier)
            }
        default: break
        }
    }

    /// Tells the client its own identifiers.
    private mutating func nameAnswers() {
        effects.effects.removeAll { effect in
            guard case .mqtt(.answerPacket(let answer)) = effect else { return false }
            return answer.step == .complete && answer.packetIdentifier >= Self.otherIdentifier
        }
        for index in effects.effects.indices {
            guard case .mqtt(.answerPacket(var answer)) = effects.effects[index],
                answer.step == .received, answer.packetIdentifier >= Self.otherIdentifier
            else { continue }
            answer.packetIdentifier ^= Self.otherIdentifier
            effects.effects[index] = .mqtt(.answerPacket(answer))
        }
    }

    private mutating func swapAnswers() {
        guard effects.effects.count > 1 else { return }
        for position in 0..<effects.effects.count - 1 {
            if case .mqtt(.answerPacket(let first)) = effects.effects[position],
                case .mqtt(.answerPacket(let second)) = effects.effects[position + 1],
                first.connection == second.connection, first.step == second.step,
                first.step == .accepted || first.step == .received
            {
                effects.effects.swapAt(position, position + 1)
            }
        }
    }
}
