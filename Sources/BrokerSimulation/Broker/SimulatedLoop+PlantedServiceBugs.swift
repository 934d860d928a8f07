// Planted bugs of wake-ups and moderation between the core and its relay or moderator.

import BrokerCore
import BrokerTerms
import Dialects
import Primitives

extension SimulatedLoop {
    /// A send that comes again, without a result, is answered without the core.
    mutating func answerRepeated(_ arena: RawSpan) {
        var rest: ContiguousArray<Event> = []
        for event in decoder.events {
            guard case .sendReceived(let connection, let send) = event, send.number > 0,
                let peer = planted.peers[connection]
            else {
                rest.append(event)
                continue
            }
            let known = PlantedRefusal(peer: peer, number: send.number)
            guard context.plantedHeld.contains(known) else {
                context.plantedHeld.insert(known)
                rest.append(event)
                continue
            }
            let identifier = send.messageIdentifier.bytes(in: arena).withUnsafeBytes { Array($0) }
            planted.forged.append((connection, send.number, identifier))
        }
        decoder.events = rest
    }

    mutating func tamperServiceEffects() {
        switch context.options.mutation {
        case .keptWake: hideWithdrawals()
        case .hiddenVerdict:
            for index in effects.effects.indices {
                guard case .reportResult(var result) = effects.effects[index],
                    result.reason == .implementationSpecificError
                else { continue }
                result.reason = .sent
                effects.effects[index] = .reportResult(result)
            }
        case .lostHeld:
            for case .reportResult(let result) in effects.effects.elements {
                guard let peer = planted.peers[result.connection] else { continue }
                context.plantedHeld.remove(PlantedRefusal(peer: peer, number: result.number))
            }
            answerForged()
        default: break
        }
    }

    /// Gives some ends of requests a name that the relay does not know.
    private mutating func hideWithdrawals() {
        let begin = Array("{\"event\":\"WAKE_WITHDRAWN".utf8)
        for case .deliver(let delivery) in effects.effects.elements {
            let range = effects.publications[Int(delivery.publication)].block
            let block = MessageBlock(range.bytes(in: effects.bytes.bytes))
            guard block.kind == .brokerEvent, block.payload.starts(with: begin),
                context.misbehaves(.keptWake, perTenThousand: 3_000)
            else { continue }
            // The payload ends the block.
            let place = Int(range.count) - block.payload.count + begin.count - 1
            let bytes = effects.bytes.mutableBytes(range)
            bytes[place] = UInt8(ascii: "x")
        }
    }
}
