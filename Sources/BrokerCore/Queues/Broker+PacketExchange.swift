// Acknowledgements of single deliveries, as MQTT clients give them: by packet identifier, in any
// order, in one step for QoS 1 and in two for QoS 2.
//
//     QoS 1   sent ──PUBACK──► settled
//     QoS 2   sent ──PUBREC, committed──► PUBREL ──PUBCOMP──► settled
//              └──PUBREC that refuses──► settled

import BrokerTerms
import Primitives

extension Broker {
    mutating func packetAnswered(
        by connection: ConnectionID, packet identifier: UInt16, exchange: PacketStep,
        reason: ReasonCode, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        if exchange == .release {
            releasePublication(session, identifier, in: &step)
            return
        }
        guard let position = windowPosition(ofPacket: identifier, session) else {
            // The delivery is settled already, or was dropped; only a PUBREC needs an answer.
            if exchange == .received && !reason.isFailure {
                step.effects[connection.loop].effects.append(
                    .mqtt(
                        .answerPacket(
                            PacketAnswer(
                                to: connection, packet: identifier, step: .release,
                                reason: .packetIdentifierNotFound))))
            }
            return
        }
        let entry = live.connectedSessions[connectedIndex(of: session)].window[position]
        let isReceived = entry.state.options.contains(.received)
        switch (exchange, entry.state.grade) {
        case (.accepted, .durable):
            settleDelivery(session, position, isReceived: !reason.isFailure, in: &step)
            pump(session, in: &step)
        case (.received, .once) where reason.isFailure && !isReceived,
            (.complete, .once) where entry.isReleased:
            settleDelivery(session, position, isReceived: exchange == .complete, in: &step)
            pump(session, in: &step)
        case (.received, .once) where !reason.isFailure:
            receiveDelivery(of: session, at: position, to: connection, in: &step)
        case (.accepted, _), (.received, _), (.complete, _), (.release, _):
            // A step that the exchange does not expect. A released delivery is stored as received
            // and is released again on the next connection, so a PUBCOMP cannot precede a reconnect
            // or a crash.
            close(session, .protocolError, in: &step)
        }
    }

    /// The position in the window of the delivery with a packet identifier. The numbers in the
    /// window differ by less than the number of identifiers, so the first entry's identifier
    /// determines all others.
    private func windowPosition(ofPacket identifier: UInt16, _ session: Index<Session>) -> Int? {
        let connected = connectedIndex(of: session)
        guard let front = live.connectedSessions[connected].oldestSent else { return nil }
        let frontIdentifier = UInt64(PacketIdentifier.derived(from: front))
        let distance =
            (UInt64(identifier) + PacketIdentifier.count - frontIdentifier) % PacketIdentifier.count
        guard let position = live.connectedSessions[connected].position(of: front + distance),
            position < live.connectedSessions[connected].sentCount
        else { return nil }
        return position
    }

    /// Sends PUBREL; PUBCOMP is expected from now on.
    mutating func noteReleased(_ identifier: UInt16, _ session: Index<Session>) {
        guard let position = windowPosition(ofPacket: identifier, session) else { return }
        live.connectedSessions[connectedIndex(of: session)].release(at: position)
    }

    /// Settles one delivery.
    ///
    /// - Parameter isReceived: whether the client has the message and did not refuse it.
    private mutating func settleDelivery(
        _ session: Index<Session>, _ position: Int, isReceived: Bool, in step: inout Step
    ) {
        counters.acknowledgements += 1
        let entry = live.connectedSessions[connectedIndex(of: session)].remove(at: position)
        if !tracking.isEmpty, memory.messages[entry.message].hasFields {
            if isReceived {
                noteDelivered(entry.message, by: session, in: &step)
            } else {
                noteSent(entry.message, to: sessions[session].user)
            }
        }
        let isFront = position == 0
        // An entry that is not the first is removed from the store by itself, so that a reload does
        // not contain it.
        if isFront { sessions[session].inbox.acknowledgedThrough = entry.number }
        guard settle(entry, session, in: &step) == .inStore else { return }
        if isFront {
            removeFromStore(session, throughNumber: entry.number)
        } else {
            commits.remove(entry.number, from: sessions[session].inbox.queue)
        }
    }

    /// Handles PUBREC of a QoS 2 delivery: PUBREL is sent after the commit.
    private mutating func receiveDelivery(
        of session: Index<Session>, at position: Int, to connection: ConnectionID,
        in step: inout Step
    ) {
        let connected = connectedIndex(of: session)
        let number = live.connectedSessions[connected].window[position].number
        let answer = PacketAnswer(
            to: connection, packet: PacketIdentifier.derived(from: number), step: .release)
        let isRepeated = live.connectedSessions[connected].window[position].state.options.contains(
            .received)
        live.connectedSessions[connected].receive(at: position)
        guard sessions[session].isPersistent else {
            live.connectedSessions[connected].release(at: position)
            step.effects[connection.loop].effects.append(.mqtt(.answerPacket(answer)))
            return
        }
        if !isRepeated {
            commits.change(
                EntryStateChange(
                    queue: sessions[session].inbox.queue, number: number,
                    state: live.connectedSessions[connected].window[position].state))
        }
        commits.confirm(.answerPacket(answer))
    }
}
