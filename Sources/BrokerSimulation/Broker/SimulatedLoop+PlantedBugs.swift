// Planted bugs of a loop or of the core: the loop changes events before it passes them to the core,
// or effects before it executes them, so the core itself has no bug. Without a planted bug this
// code changes nothing.

import BrokerCore
import BrokerTerms
import Dialects

/// The state of planted bugs.
struct PlantedMemory: ~Copyable {
    /// The client of each connection, by its CONNECT.
    var peers: [ConnectionID: PlantedPeer] = [:]
    /// The highest number delivered on each connection.
    var delivered: [ConnectionID: UInt64] = [:]
    /// Sends that are answered without the core, with their connections.
    var forged: [(connection: ConnectionID, number: UInt64, identifier: [UInt8])] = []
    /// MQTT clients by their connections.
    var exchanges: [ConnectionID: PlantedExchange] = [:]
    /// Effects of an earlier turn that were held back.
    var held = LoopEffects()
}

struct PlantedPeer: Hashable {
    var token: [UInt8]
    var outboxEpoch: UInt64
}

/// A send that was refused.
struct PlantedRefusal: Hashable {
    var peer: PlantedPeer
    var number: UInt64
}

extension SimulatedLoop {
    // MARK: - Events

    /// Changes the events before they enter the core.
    mutating func tamperEvents(_ arena: UnsafeRawBufferPointer) {
        guard context.options.mutation != nil else { return }
        notePeers(arena)
        switch context.options.mutation {
        case .swappedEvents: swapEvents()
        case .rememberedRefusal: recogniseRefused(arena)
        case .kickLosesMessages: loseMessages(arena)
        case .lostHeld: answerRepeated(arena.bytes)
        default: break
        }
        tamperMQTTEvents(arena)
        for index in decoder.events.indices {
            decoder.events[index] = tampered(decoder.events[index])
        }
    }

    private func tampered(_ event: Event) -> Event {
        switch (context.options.mutation, event) {
        case (.hastyOnce, .sendReceived(let connection, var send)) where send.grade == .once:
            send.grade = .durable
            return .sendReceived(connection, send)
        case (.forgottenExpiry, .sendReceived(let connection, var send)):
            send.expirySeconds = nil
            return .sendReceived(connection, send)
        case (.lostWake, .sendReceived(let connection, var send))
        where context.misbehaves(.lostWake, perTenThousand: 5_000):
            send.isWithoutWake = true
            return .sendReceived(connection, send)
        case (.unheededLogout, .disconnectReceived(let connection, var request))
        where request.sessionExpirySeconds == 0:
            request.sessionExpirySeconds = nil
            return .disconnectReceived(connection, request)
        case (.ignoredKey, .sendReceived(let connection, var send))
        where !send.collapseKey.isEmpty && send.number % 2 == 0:
            send.collapseKey = .empty
            return .sendReceived(connection, send)
        case (.ignoredWindow, .connectReceived(let connection, var request)):
            request.inboxWindow = .max
            return .connectReceived(connection, request)
        case (.hastyWill, .willSet(let connection, let identifier, var request)):
            request.delaySeconds = 0
            return .willSet(connection, requestIdentifier: identifier, request)
        case (.hastyWill, .connectReceived(let connection, var request)):
            guard var will = request.will else { return event }
            will.delaySeconds = 0
            request.setWill(will)
            return .connectReceived(connection, request)
        case (.unaskedRow, .groupRequested(_, _, .setMeta(_, let meta))):
            context.unaskedByteCount += Int(meta.count)
            return event
        case (.unaskedRow, .groupRequested(_, _, .setAllowed(_, let allowed?))):
            context.unaskedByteCount += Int(allowed.bytes.count)
            return event
        case (.gatewayEndsWills, .connectionClosed(let connection, _)) where connection.isChannel:
            return .disconnectReceived(connection, DisconnectRequest())
        case (.keptWill, .disconnectReceived(let connection, var request)):
            request.sendsWill = true
            return .disconnectReceived(connection, request)
        default: return event
        }
    }

    private mutating func notePeers(_ arena: UnsafeRawBufferPointer) {
        for event in decoder.events {
            guard case .connectReceived(let connection, let request) = event,
                case .token(let token, _) = request.claim
            else { continue }
            planted.peers[connection] = PlantedPeer(
                token: Array(token.bytes(in: arena)), outboxEpoch: request.outbox?.epoch ?? 0)
        }
    }

    /// Two sends of one connection change places.
    private mutating func swapEvents() {
        guard decoder.events.count > 1 else { return }
        for position in 1..<decoder.events.count {
            if case .sendReceived(let first, _) = decoder.events[position - 1],
                case .sendReceived(let second, _) = decoder.events[position], first == second
            {
                decoder.events.swapAt(position - 1, position)
            }
        }
    }

    /// A repeated send is treated as accepted although it was refused.
    private mutating func recogniseRefused(_ arena: UnsafeRawBufferPointer) {
        decoder.events.removeAll { event in
            guard case .sendReceived(let connection, let send) = event, send.number > 0,
                let peer = planted.peers[connection],
                context.plantedRefusals.contains(
                    PlantedRefusal(peer: peer, number: send.number))
            else { return false }
            planted.forged.append(
                (connection, send.number, Array(send.messageIdentifier.bytes(in: arena))))
            return true
        }
    }

    /// A kicked member of a group loses messages in flight.
    private mutating func loseMessages(_ arena: UnsafeRawBufferPointer) {
        for event in decoder.events {
            guard case .groupRequested(_, _, .kick(_, let user)) = event else { continue }
            let token = Array("token-of-".utf8) + user.bytes(in: arena)
            for (connection, peer) in planted.peers where peer.token == token {
                guard host[connection]?.name == connection else { continue }
                let number = planted.delivered[connection] ?? 0
                decoder.events.append(.inboxAcknowledged(connection, throughNumber: number))
            }
        }
    }

    // MARK: - Effects

    /// Changes the effects before they are carried out.
    mutating func tamperEffects() {
        switch context.options.mutation {
        case nil: return
        case .swappedDeliveries: swapDeliveries { _, _ in true }
        case .overtakenOnce: swapDeliveries { first, _ in first.grade == .once }
        case .hastyOnce: nameGrades()
        case .repeatedDelivery:
            for index in effects.effects.indices {
                let effect = effects.effects[index]
                if case .deliver = effect { effects.effects.append(effect) }
            }
        case .lostEffects:
            if context.misbehaves(.lostEffects, perTenThousand: 100) { effects.removeAll() }
        case .namelessResult:
            for index in effects.effects.indices {
                guard case .reportResult(var result) = effects.effects[index] else { continue }
                result.messageIdentifier = .empty
                effects.effects[index] = .reportResult(result)
            }
        case .unmarkedDuplicate:
            for publication in effects.publications.elements {
                // The marks are the third byte of a block.
                let block = effects.bytes.mutableBytes(publication.block)
                block[2] &= ~MessageMarks.possibleDuplicate.rawValue
            }
        case .rememberedRefusal: rememberRefusals()
        case .keptWake, .hiddenVerdict, .lostHeld: tamperServiceEffects()
        case .repeatedResult:
            for case .reportResult(let result) in effects.effects.elements
            where result.number > 0
                && context.misbehaves(.repeatedResult, perTenThousand: 200)
            {
                effects.effects.append(.reportResult(result))
            }
        case .repeatedRefusal:
            guard context.oracle.isStoreFull else { return }
            for case .reportResult(let result) in effects.effects.elements where result.number > 0 {
                effects.effects.append(.reportResult(result))
            }
        case .silentRefusal: hideRefusals()
        case .kickLosesMessages:
            for case .deliver(let delivery) in effects.effects.elements where delivery.number > 0 {
                planted.delivered[delivery.connection] = delivery.number
            }
        default: tamperMQTTEffects()
        }
    }

    private mutating func swapDeliveries(where isChosen: (Delivery, Delivery) -> Bool) {
        guard effects.effects.count > 1 else { return }
        for position in 0..<effects.effects.count - 1 {
            if case .deliver(let first) = effects.effects[position],
                case .deliver(let second) = effects.effects[position + 1],
                first.connection == second.connection, isChosen(first, second)
            {
                effects.effects.swapAt(position, position + 1)
            }
        }
    }

    /// The core treated the send as *durable*; the result is reported for the *once* that was sent.
    private mutating func nameGrades() {
        for index in effects.effects.indices {
            guard case .deliver(var delivery) = effects.effects[index], delivery.number > 0 else {
                continue
            }
            let range = effects.publications[Int(delivery.publication)].block
            let block = MessageBlock(range.bytes(in: effects.bytes.bytes))
            guard
                let message = MessageText.message(
                    in: block.payload, isRaw: block.marks.contains(.raw)),
                message < context.oracle.sends.count,
                context.oracle.sends[message].receivers.kind != .topic
            else { continue }
            delivery.grade = context.oracle.sends[message].grade == .once ? .once : .durable
            effects.effects[index] = .deliver(delivery)
        }
    }

    private mutating func hideRefusals() {
        for index in effects.effects.indices {
            switch effects.effects[index] {
            case .reportResult(var result) where !result.reason.isFailure:
                (result.refusedCount, result.namedRefusalCount) = (0, 0)
                effects.effects[index] = .reportResult(result)
            case .mqtt(.answerPacket(var answer)) where !answer.reason.isFailure:
                (answer.refusedCount, answer.namedRefusalCount) = (0, 0)
                effects.effects[index] = .mqtt(.answerPacket(answer))
            default: break
            }
        }
    }

    private mutating func rememberRefusals() {
        for case .reportResult(let result) in effects.effects.elements
        where result.reason.isFailure && result.number > 0 {
            guard let peer = planted.peers[result.connection] else { continue }
            context.plantedRefusals.insert(
                PlantedRefusal(peer: peer, number: result.number))
        }
        answerForged()
    }

    /// Answers sends without the core.
    mutating func answerForged() {
        for answer in planted.forged {
            answer.identifier.withUnsafeBytes {
                effects.appendResult(
                    answer.connection, number: answer.number, reason: .sent,
                    messageIdentifier: $0)
            }
        }
        planted.forged = []
    }

    /// Holds back the core's effects for this loop until there are more, which are then executed
    /// first. True if effects must be executed later.
    mutating func holdEffects() -> Bool {
        guard context.has(.swappedTurns), planted.held.isEmpty, !effects.isEmpty,
            context.misbehaves(.swappedTurns, perTenThousand: 300)
        else { return false }
        swap(&effects, &planted.held)
        return true
    }

    /// Takes the effects that were held back. False if there are none.
    mutating func takeHeldEffects() -> Bool {
        guard !planted.held.isEmpty else { return false }
        swap(&effects, &planted.held)
        return true
    }
}
