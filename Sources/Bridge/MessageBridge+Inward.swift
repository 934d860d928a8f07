// From the MQTT broker to Martlet: publications arrive, are passed on, and are acknowledged when
// Martlet has acknowledged them.

import BrokerTerms
import ClientCore
import ClientProgram
import Primitives
import WireFormat

extension MessageBridge {
    // MARK: - The MQTT broker's session

    mutating func takeForeignEvents(_ now: Instant) {
        while let event = foreign.nextEvent() {
            switch event {
            case .connectionWanted: add(.dialForeign)
            case .connected(let terms): foreignConnected(terms, now)
            case .published(let message): publicationArrived(message, now)
            case .oversized(let message):
                publicationArrived(message, refusal: .packetTooLarge, now)
            case .acknowledged(.pubrel, let identifier, _): released(identifier, now)
            case .acknowledged(let step, let identifier, let reason):
                answered(step, identifier: identifier, reason: reason, now: now)
            case .subscribed(let codes):
                // What came before was sent by the earlier subscriptions alone.
                copies.forget()
                foreignAnswered(codes, now)
            case .unsubscribed(let codes):
                // Behind a full window copies may still wait at the broker.
                if inward.entries.count < settings.foreign.inFlightMaximum { copies.forget() }
                foreignAnswered(codes, now)
            case .disconnected(let detail, let retryAt):
                foreignLost(detail, retryAt: retryAt, now: now)
            }
        }
    }

    private mutating func foreignConnected(_ terms: ForeignTerms, _ now: Instant) {
        self.terms = terms
        log(
            "mqtt_connected",
            "server=\(settings.foreign.server) "
                + "session=\(terms.isSessionPresent ? "present" : "new")")
        if terms.isSessionPresent {
            inward.connectionLost()
            for identifier in outward.resume() {
                foreign.acknowledge(.pubrel, identifier: identifier, now: now)
            }
        } else {
            inward.sessionLost()
            outward.restart()
            base.foreignFilters = [:]
            foreignSubscriptions.sessionLost(keepsQuestions: false)
            acknowledgeCompleted(now)
            recordChange()
        }
        staleDeadline = now.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds)
        if martlet == nil {
            if inward.isMissingAny {
                recoveryDeadline = staleDeadline
            } else {
                startMartlet(now)
            }
        }
        if terms.isSessionPresent { recordKeptForeign() }
    }

    /// The MQTT broker is still repeating messages of an earlier connection. It repeats each once
    /// per connection, so this ends.
    private mutating func recordRepetition(_ now: Instant) {
        let deadline = now.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds)
        if staleDeadline != .never { staleDeadline = deadline }
        if recoveryDeadline != .never { recoveryDeadline = deadline }
    }

    private mutating func foreignLost(_ detail: String, retryAt: Instant, now: Instant) {
        if terms != nil || !isDraining {
            let milliseconds = retryAt.milliseconds(since: now)
            log("mqtt_lost", "reason=\(quoted(detail.utf8)) retry_ms=\(milliseconds)")
        }
        terms = nil
        foreignSubscriptions.forgetQuestions()
        recoveryDeadline = .never
        staleDeadline = .never
        inward.connectionLost()
        add(.hangUpForeign)
    }

    // MARK: - Publications

    private mutating func publicationArrived(
        _ message: ForeignMessage, refusal: ReasonCode? = nil, _ now: Instant
    ) {
        guard message.qos > .atMostOnce else {
            pass(message, refusal: refusal, now: now)
            return
        }
        // Unanswered messages are repeated.
        guard !isDraining else { return }
        let digest = Digest.of(topic: message.topic, payload: message.payload)
        if let entry = inward.known(message, digest: digest) {
            totals.repeated += 1
            inward.expectAnswer(message.packetIdentifier, message.qos)
            if entry.isStale { recordRepetition(now) }
            inward.update(message.packetIdentifier) { $0.isStale = false }
            if case .missing(let number) = entry.phase { find(message, number: number, now: now) }
            answerInward(now)
            return
        }
        guard inward.entries.count < BridgeLimits.publicationsMaximum else {
            // No broker's window is that large. Such a broker would fill memory and record.
            foreign.closed("\(ReasonCode.receiveMaximumExceeded.name)", now: now)
            return
        }
        if message.isDuplicate { recordRepetition(now) }
        let isCopy = copies.take(digest, by: message.subscriptions)
        var entry = InwardEntry(
            packetIdentifier: message.packetIdentifier, qos: message.qos, digest: digest,
            topic: message.topic, payload: message.payload,
            phase: .waiting(until: Instant(milliseconds: 0)))
        switch refusal.map({ Route.refused($0) }) ?? route(message) {
        case _ where isCopy:
            totals.repeated += 1
            inward.add(entry)
            inward.change(message.packetIdentifier, to: .settled)
        case .forward(let send):
            entry.send = send
            inward.add(entry)
        case .unmatched:
            logUnmatched(side: "mqtt", address: message.topic, now: now)
            inward.add(entry)
            inward.change(message.packetIdentifier, to: .settled)
        case .refused(let reason):
            inward.add(entry)
            refuseInward(message.packetIdentifier, reason: reason, now: now)
        }
        if message.qos == .exactlyOnce { recordChange() }
        answerInward(now)
    }

    private func route(_ message: ForeignMessage) -> Route<PreparedSend> {
        let decision = rules.route(topic: message.topic, payload: message.payload)
        guard case .forward(var send) = decision else { return decision }
        send.expirySeconds = message.expirySeconds
        return .forward(send)
    }

    /// A publication of QoS 0 is only for connected receivers.
    private mutating func pass(_ message: ForeignMessage, refusal: ReasonCode?, now: Instant) {
        switch refusal.map({ Route.refused($0) }) ?? route(message) {
        case .unmatched: logUnmatched(side: "mqtt", address: message.topic, now: now)
        case .refused(let reason): logRefusedInward(message.topic, reason, isDeadLetter: false)
        case .forward(let send):
            guard let martlet, martlet.machine.isConnected else {
                totals.dropped += 1
                return
            }
            switch martlet.send(send, .transient) {
            case .taken: totals.toMartlet += 1
            case .full: totals.dropped += 1
            case .refused(let reason):
                logRefusedInward(message.topic, reason, isDeadLetter: false)
            }
        }
    }

    /// A message of an earlier run was repeated.
    private mutating func find(_ message: ForeignMessage, number: UInt64, now: Instant) {
        let send: PreparedSend? =
            if case .forward(let send) = route(message) { send } else { nil }
        inward.update(message.packetIdentifier) { entry in
            entry.topic = message.topic
            entry.payload = message.payload
            entry.send = send
        }
        inward.change(message.packetIdentifier, to: .found(number: number))
        if !inward.isMissingAny { startMartlet(now) }
    }

    /// Sends it under its old number: Martlet recognises it, or has never received it.
    mutating func resend(_ entry: InwardEntry, _ now: Instant) {
        let again = Instant(milliseconds: 0)
        guard let send = entry.send, let number = entry.number else {
            // The rules have changed: no rule sends it any more.
            inward.change(entry.packetIdentifier, to: .settled)
            return
        }
        switch martlet!.send(send, .once, again: number) {
        case .taken(let number): inward.change(entry.packetIdentifier, to: .sent(number: number))
        case .full: inward.change(entry.packetIdentifier, to: .waiting(until: again))
        case .refused(let reason): refuseInward(entry.packetIdentifier, reason: reason, now: now)
        }
    }

    /// Passes waiting messages on, in order, while there is room. A message that waits for its next
    /// attempt holds back those of its topic.
    mutating func pumpInward(_ now: Instant) {
        nextRetry = .never
        guard let martlet, !isDraining else { return }
        var held: Set<[UInt8]> = []
        for identifier in inward.waiting {
            guard inward.sentCount < settings.foreign.inFlightMaximum else { break }
            guard let entry = inward.entries[identifier], let send = entry.send,
                case .waiting(let until) = entry.phase, !held.contains(entry.topic)
            else { continue }
            guard until <= now else {
                held.insert(entry.topic)
                nextRetry = min(nextRetry, until)
                continue
            }
            switch martlet.send(send, MRT.Grade(rawValue: entry.qos.rawValue)!) {
            case .taken(let number):
                inward.change(identifier, to: .sent(number: number))
                if number > base.reservedThrough {
                    base.reservedThrough = number + BridgeLimits.numberReservation
                    recordChange()
                }
                if entry.qos == .exactlyOnce { recordChange() }
            case .full: return
            case .refused(let reason): refuseInward(identifier, reason: reason, now: now)
            }
        }
        answerInward(now)
    }

    // MARK: - Results

    mutating func resolved(_ result: MRT.SendResult, _ now: Instant) {
        guard let entry = inward.entry(number: result.number) else {
            if result.number == 0, result.reason.isFailure { totals.dropped += 1 }
            return
        }
        if !result.reason.isFailure {
            if !entry.isDeadLetter { totals.toMartlet += 1 }
            inward.change(entry.packetIdentifier, to: .settled)
        } else if result.reason.isForGood {
            refuseInward(entry.packetIdentifier, reason: result.reason, now: now)
        } else {
            if entry.attemptCount == 0 {
                log(
                    "message_retried",
                    "direction=to-martlet topic=\(quoted(entry.topic)) "
                        + "reason=\(result.reason.name)")
            }
            totals.retried += 1
            inward.update(entry.packetIdentifier) { $0.attemptCount += 1 }
            inward.change(
                entry.packetIdentifier,
                to: .waiting(until: retryTime(after: entry.attemptCount, now)))
        }
        if entry.qos == .exactlyOnce { recordChange() }
        answerInward(now)
    }

    /// It can never be delivered: it becomes a dead letter, if a topic is configured.
    private mutating func refuseInward(
        _ identifier: UInt16, reason: ReasonCode, now: Instant
    ) {
        let entry = inward.entries[identifier]!
        logRefusedInward(entry.topic, reason, isDeadLetter: entry.isDeadLetter)
        if !entry.isDeadLetter, reason != .packetTooLarge || !entry.payload.isEmpty,
            let send = rules.deadLetter(topic: entry.topic, payload: entry.payload)
        {
            inward.update(identifier) { entry in
                entry.send = send
                entry.isDeadLetter = true
            }
            inward.change(identifier, to: .waiting(until: now))
            nextRetry = now
        } else {
            inward.change(identifier, to: .settled)
        }
    }

    private mutating func logRefusedInward(
        _ topic: [UInt8], _ reason: ReasonCode, isDeadLetter: Bool
    ) {
        if !isDeadLetter { totals.refusedToMartlet += 1 }
        log(
            "message_refused",
            "direction=to-martlet topic=\(quoted(topic)) reason=\(reason.name)"
                + (isDeadLetter ? " dead_letter=1" : ""))
    }

    /// One line a minute: a broker that sends unrequested messages sends many.
    mutating func logUnmatched(side: String, address: [UInt8], now: Instant) {
        totals.unmatched += 1
        guard now >= nextUnmatchedLine else { return }
        nextUnmatchedLine = now.advanced(bySeconds: 60)
        log(
            "message_unmatched",
            "side=\(side) address=\(quoted(address)) unmatched=\(totals.unmatched)")
    }

    // MARK: - Answers

    private mutating func answerInward(_ now: Instant) {
        guard terms != nil else { return }
        while let identifier = inward.nextAnswer(.atLeastOnce) {
            foreign.acknowledge(.puback, identifier: identifier, now: now)
            inward.forget(identifier)
        }
        while inward.unreleasedCount < BridgeLimits.unreleasedMaximum,
            let identifier = inward.nextAnswer(.exactlyOnce)
        {
            foreign.acknowledge(.pubrec, identifier: identifier, now: now)
        }
    }

    private mutating func released(_ identifier: UInt16, _ now: Instant) {
        let entry = inward.entries[identifier]
        let isKnown = entry?.qos == .exactlyOnce
        if isKnown {
            if entry!.isStale { recordRepetition(now) }
            inward.forget(identifier)
            recordChange()
        }
        foreign.acknowledge(
            .pubcomp, identifier: identifier,
            reason: isKnown ? .success : .packetIdentifierNotFound, now: now)
        answerInward(now)
    }
}

extension ReasonCode {
    /// Whether the same message would be refused again at every attempt (PROTOCOL.md section 9).
    var isForGood: Bool {
        switch self {
        case .implementationSpecificError, .notAuthorized, .topicNameInvalid, .packetTooLarge,
            .payloadFormatInvalid, .retainNotSupported, .qosNotSupported:
            true
        default: false
        }
    }
}
