// From Martlet to the MQTT broker: deliveries arrive, are published, and are acknowledged when the
// MQTT broker has acknowledged them.

import BrokerTerms
import ClientCore
import ClientProgram
import MartletClient
import Primitives
import WireFormat

extension MessageBridge {
    // MARK: - Martlet's session

    mutating func takeMartletEvents(_ now: Instant) {
        guard let martlet else { return }
        while let event = martlet.machine.nextEvent(now: now) {
            switch event {
            case .connectionWanted: add(.dialMartlet)
            case .connected(let connected): martletConnected(connected, now)
            case .delivered(let deliver) where hasRoom(for: deliver): delivered(deliver, now)
            case .groupChanged(let deliver, _) where hasRoom(for: deliver):
                complete(deliver.number, now)
            case .delivered(let deliver), .groupChanged(let deliver, _):
                martlet.machine.refuse(
                    .receiveMaximumExceeded, delivery: deliver.number, now: now)
            case .resolved(let result): resolved(result, now)
            case .answered(let response): martletAnswered(response, now)
            case .disconnected(let end): martletLost(end, now)
            case .credentialAnswered, .carried:
                // A bridge replaces no credential and opens no channel.
                martlet.machine.refuse(.protocolError, now: now)
            }
        }
    }

    /// Whether a delivery is known, or may wait. A broker that respects the window reaches its end
    /// only if several sessions ended while the MQTT broker was unreachable.
    private func hasRoom(for deliver: MRT.Deliver) -> Bool {
        outward.entries.count < 4 * settings.martlet.inFlightMaximum
            || deliver.number == 0 || outward.index(number: deliver.number) != nil
    }

    private mutating func martletConnected(_ connected: ClientConnected, _ now: Instant) {
        ownUser = martlet!.copy(connected.accepted.user)
        log(
            "martlet_connected",
            "server=\(martletServer) user=\(quoted(ownUser)) "
                + "session=\(connected.isNewInbox ? "new" : "present")")
        if connected.isNewInbox {
            let released = outward.detach()
            if terms != nil {
                for identifier in released {
                    foreign.acknowledge(.pubrel, identifier: identifier, now: now)
                }
            }
            martletSubscriptions.sessionLost(keepsQuestions: true)
            recordChange()
        }
    }

    private mutating func martletLost(_ end: ClientDisconnection, _ now: Instant) {
        add(.hangUpMartlet)
        if hasLeft { return }
        let named = end.reason?.redirection(martlet!.machine.bytes(end.text).bytes)
        let reason =
            (end.reason.map { "\($0.name)" } ?? martletDetail) + (named.map { ", \($0)" } ?? "")
        guard let retryAt = end.retryAt else {
            add(.fail("Martlet does not want this bridge: \(reason)"))
            return
        }
        log(
            "martlet_lost",
            "server=\(settings.martlet.servers[end.server]) reason=\(quoted(reason.utf8)) "
                + "retry_ms=\(retryAt.milliseconds(since: now))")
    }

    // MARK: - Deliveries

    private mutating func delivered(_ deliver: MRT.Deliver, _ now: Instant) {
        // Unacknowledged messages are repeated.
        if deliver.number != 0, isDraining { return }
        let message = ReceivedMessage(
            kind: deliver.kind, grade: deliver.grade, from: martlet!.copy(deliver.from),
            time: deliver.time, address: martlet!.copy(deliver.address), isRaw: deliver.isRaw,
            isPossibleDuplicate: deliver.isPossibleDuplicate,
            payload: martlet!.copy(deliver.payload))
        if deliver.kind == .kickedOut {
            log("kicked_out", "group=\(quoted(message.address))")
            martletSubscriptions.withdraw(group: message.address, .kickedOut)
        }
        let isMessage =
            switch deliver.kind {
            case .topic, .unicast, .group, .broadcast: true
            case .kickedOut, .groupEvent, .presence, .receipt, .recall, .update, .brokerEvent:
                false
            }
        guard isMessage else { return complete(deliver.number, now) }
        if message.from == ownUser {
            // It came from the MQTT broker.
            totals.own += 1
            return complete(deliver.number, now)
        }
        guard deliver.number != 0 else { return pass(message, now) }
        if recognize(deliver.number, message: message, now: now) { return }
        switch rules.route(message) {
        case .unmatched:
            logUnmatched(side: "martlet", address: message.address, now: now)
            complete(deliver.number, now)
        case .refused(let reason):
            let index = add(message, publish: nil, number: deliver.number)
            refuseOutward(index, reason: reason, now: now)
            acknowledgeCompleted(now)
        case .forward(let publish): _ = add(message, publish: publish, number: deliver.number)
        }
    }

    private mutating func add(
        _ message: ReceivedMessage, publish: PreparedPublish?, number: UInt64
    ) -> Int {
        outward.insert(
            OutwardEntry(
                number: number, publish: publish, message: message,
                qos: publish?.qos ?? .atMostOnce,
                phase: .waiting(until: Instant(milliseconds: 0))))
    }

    /// Checks whether an earlier run knew a delivery, and continues its exchange.
    ///
    /// - Parameter message: nil if no rule sends it any more.
    /// - Returns: whether it was known.
    private mutating func recognize(
        _ number: UInt64, message: ReceivedMessage?, now: Instant
    ) -> Bool {
        release(outward.passGhosts(below: number), now)
        guard let index = outward.index(number: number) else { return false }
        totals.repeated += 1
        outward[index].isGhost = false
        if outward[index].phase == .published {
            if let message, case .forward(let publish) = rules.route(message) {
                outward[index].publish = publish
                outward[index].message = message
                outward[index].phase = .waiting(until: Instant(milliseconds: 0))
            } else if outward[index].packetIdentifier == 0 {
                outward[index].phase = .completed
            } else {
                // The rules have changed; what was published of it stays.
                outward[index].phase = .released
                release([outward[index].packetIdentifier], now)
            }
        }
        acknowledgeCompleted(now)
        return true
    }

    private mutating func release(_ identifiers: [UInt16], _ now: Instant) {
        guard !identifiers.isEmpty else { return }
        recordChange()
        if terms == nil { return }
        for identifier in identifiers {
            foreign.acknowledge(.pubrel, identifier: identifier, now: now)
        }
    }

    /// A transient message is only for connected receivers.
    private mutating func pass(_ message: ReceivedMessage, _ now: Instant) {
        switch rules.route(message) {
        case .unmatched: logUnmatched(side: "martlet", address: message.address, now: now)
        case .refused(let reason): logRefusedOutward(message, reason, isDeadLetter: false)
        case .forward(let publish):
            guard let terms, !isClogged, foreign.byteCount(of: publish) <= terms.packetMaximum
            else {
                totals.dropped += 1
                return
            }
            foreign.publish(
                publish, as: .atMostOnce, identifier: 0, isDuplicate: false, now: now)
            totals.toMQTT += 1
        }
    }

    /// A numbered delivery without a publication: it is complete when all before it are.
    private mutating func complete(_ number: UInt64, _ now: Instant) {
        guard number != 0 else { return }
        if !recognize(number, message: nil, now: now) {
            _ = outward.insert(
                OutwardEntry(number: number, qos: .atMostOnce, phase: .completed))
        }
        acknowledgeCompleted(now)
    }

    mutating func acknowledgeCompleted(_ now: Instant) {
        guard let through = outward.takeCompleted() else { return }
        martlet?.machine.acknowledge(through: through, now: now)
    }

    // MARK: - Publishing

    private var isClogged: Bool {
        isForeignClogged || foreign.outgoing.count >= BridgeLimits.backlogMaximum
    }

    /// Publishes waiting messages, in order, while the MQTT broker accepts them.
    mutating func pumpOutward(_ now: Instant) {
        guard let terms, !isDraining else { return }
        let maximum = min(terms.receiveMaximum, settings.foreign.inFlightMaximum)
        var inFlight = outward.inFlightCount
        var index = 0
        while index < outward.entries.count, inFlight < maximum, !isClogged {
            defer { index += 1 }
            guard case .waiting(let until) = outward[index].phase else { continue }
            // Order is kept: later messages wait too.
            guard until <= now else {
                nextRetry = min(nextRetry, until)
                break
            }
            guard let publish = outward[index].publish else { continue }
            guard foreign.byteCount(of: publish) <= terms.packetMaximum else {
                refuseOutward(index, reason: .packetTooLarge, now: now)
                continue
            }
            self.publish(index, packet: publish, terms: terms, now: now)
            if outward[index].phase == .published { inFlight += 1 }
        }
        acknowledgeCompleted(now)
    }

    private mutating func publish(
        _ index: Int, packet publish: PreparedPublish, terms: ForeignTerms, now: Instant
    ) {
        var publish = publish
        publish.isRetained = publish.isRetained && terms.isRetainAvailable
        let qos = min(publish.qos, terms.qosMaximum)
        guard qos > .atMostOnce else {
            foreign.publish(publish, as: qos, identifier: 0, isDuplicate: false, now: now)
            totals.toMQTT += 1
            outward[index].phase = .completed
            return
        }
        let isDuplicate = outward[index].packetIdentifier != 0
        if !isDuplicate { outward[index].packetIdentifier = outward.makeIdentifier() }
        outward[index].qos = qos
        outward[index].phase = .published
        foreign.publish(
            publish, as: qos, identifier: outward[index].packetIdentifier,
            isDuplicate: isDuplicate, now: now)
        if qos == .exactlyOnce { recordChange() }
    }

    // MARK: - Answers

    /// PUBACK, PUBREC or PUBCOMP.
    mutating func answered(
        _ step: MQTT.Acknowledgement.Step, identifier: UInt16, reason: ReasonCode,
        now: Instant
    ) {
        guard let index = outward.index(identifier: identifier) else {
            // An exchange that this side has forgotten is completed, so that the broker can forget
            // it too.
            if step == .pubrec, !reason.isFailure {
                foreign.acknowledge(
                    .pubrel, identifier: identifier, reason: .packetIdentifierNotFound, now: now)
            }
            return
        }
        let isOnce = outward[index].qos == .exactlyOnce
        if isOnce { recordChange() }
        switch step {
        case .puback where !isOnce, .pubrec where isOnce && reason.isFailure:
            if reason.isFailure {
                failed(index, reason: reason, now: now)
            } else {
                succeeded(index)
            }
        case .pubrec where isOnce:
            outward[index].phase = .released
            // The MQTT broker holds the message now.
            outward[index].publish = nil
            outward[index].message = nil
            foreign.acknowledge(.pubrel, identifier: identifier, now: now)
        case .pubcomp where outward[index].phase == .released: succeeded(index)
        default: break
        }
        acknowledgeCompleted(now)
    }

    private mutating func succeeded(_ index: Int) {
        if !outward[index].isDeadLetter { totals.toMQTT += 1 }
        outward[index].phase = .completed
        outward[index].publish = nil
        outward[index].message = nil
    }

    private mutating func failed(_ index: Int, reason: ReasonCode, now: Instant) {
        outward[index].packetIdentifier = 0
        guard !reason.isForGood else { return refuseOutward(index, reason: reason, now: now) }
        totals.retried += 1
        if outward[index].attemptCount == 0, let publish = outward[index].publish {
            log(
                "message_retried",
                "direction=to-mqtt topic=\(quoted(publish.topic)) reason=\(reason.name)")
        }
        let until = retryTime(after: outward[index].attemptCount, now)
        outward[index].attemptCount += 1
        outward[index].phase = .waiting(until: until)
    }

    /// It can never be delivered: it becomes a dead letter, if a topic is configured.
    private mutating func refuseOutward(_ index: Int, reason: ReasonCode, now: Instant) {
        let entry = outward[index]
        guard let message = entry.message else {
            outward[index].phase = .completed
            return
        }
        logRefusedOutward(message, reason, isDeadLetter: entry.isDeadLetter)
        let qos = MQTT.QoS(rawValue: message.grade.rawValue)!
        if !entry.isDeadLetter, let publish = rules.deadLetter(message, qos: qos) {
            outward[index].publish = publish
            outward[index].qos = qos
            outward[index].isDeadLetter = true
            outward[index].packetIdentifier = 0
            outward[index].phase = .waiting(until: now)
            nextRetry = now
        } else {
            outward[index].phase = .completed
        }
    }

    private mutating func logRefusedOutward(
        _ message: ReceivedMessage, _ reason: ReasonCode, isDeadLetter: Bool
    ) {
        if !isDeadLetter { totals.refusedToMQTT += 1 }
        log(
            "message_refused",
            "direction=to-mqtt from=\(quoted(message.from)) "
                + "address=\(quoted(message.address)) reason=\(reason.name)"
                + (isDeadLetter ? " dead_letter=1" : ""))
    }
}
