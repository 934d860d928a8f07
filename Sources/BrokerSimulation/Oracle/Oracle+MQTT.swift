// The oracle's model of MQTT clients: their sessions, which have no identifier on the wire, and how
// often a message may reach them.

import Primitives
import WireFormat

extension Oracle {
    func isMQTT(_ session: Int) -> Bool {
        profile.clients.contains { $0.device == sessions[session].device && $0.mqtt != nil }
    }

    // MARK: Sessions

    /// A client is about to write CONNECT, which replaces its will. A will whose device was lost
    /// for long enough has been sent by now.
    func mqttConnecting(_ client: Int) {
        let device = profile.clients[client].device
        guard devices[device].attempts == 0 else { return }
        for (message, will) in wills.sorted(by: { $0.key < $1.key }) {
            guard will.device == device, will.isConfirmed, !will.isOver, !will.isUncertain,
                let lost = will.lostSince, mustHaveSent(will, lost)
            else { continue }
            mustBeThere(message, lostAt: lost, session: devices[device].session)
        }
    }

    /// A client sees CONNACK. Returns the session.
    ///
    /// - Parameter will: the name of the message of the will in CONNECT.
    func mqttConnected(
        _ client: Int, isPresent: Bool, isStanding: Bool, expirySeconds: UInt32, will: Int?,
        brokerStart: Int
    ) -> Int {
        let device = profile.clients[client].device
        let known = devices[device].session
        // MQTT transmits no epoch, so the oracle assigns one to each session.
        var epoch = UInt64(sessions.count + 1)
        if isPresent, let known, !mayHaveEndedUnseen(device) { epoch = sessions[known].epoch }
        let session = connected(
            client, epoch: epoch, isPresent: isPresent, isStanding: isStanding, hasWill: nil,
            expirySeconds: expirySeconds, brokerStart: brokerStart)
        if let will {
            willAnswered(will, .success, client: client)
        } else {
            for message in wills.keys where wills[message]?.device == device {
                wills[message]?.isOver = true
            }
        }
        return session
    }

    /// Whether the session that a client finds may be one whose CONNACK it has never seen, because
    /// its own had ended.
    func mayHaveEndedUnseen(_ device: Int) -> Bool {
        let fact = devices[device]
        guard fact.attempts > 1 else { return false }
        if fact.mayEnd { return true }
        guard let end = fact.lastEnd, fact.expirySeconds != .max else { return false }
        return now >= end.advanced(bySeconds: UInt64(fact.expirySeconds))
    }

    /// A client begins to write a publication.
    func attempted(_ message: Int) {
        sends[message].attemptCount += 1
        let count = sends[message].attemptCount
        if count > 1 { history.note(.message(message), "sent again, for the \(count)th time") }
        if !sends[message].messageIdentifier.isEmpty {
            let place = identifierCounts[sends[message].client]
            if sends[message].identifierPlace == nil { sends[message].identifierPlace = place }
            identifierCounts[sends[message].client] = place + 1
        }
    }

    // MARK: Repeats

    /// A send under a known message id must not be delivered, unless the broker may have forgotten
    /// that id. Each id that was written since may have taken its place: one that was written again
    /// too, if it had been forgotten. If the send itself is written a second time, ids that were
    /// sent after the first time may be known.
    func checkRepeat(_ message: Int, _ client: Int) {
        let send = sends[message]
        guard let original = send.repeats, let outcome = sends[original].outcome,
            send.grade != .transient, !outcome.reason.isFailure, outcome.at <= send.issuedAt,
            outcome.deathsBefore == deaths, sends[original].deathsBefore == deaths,
            fullTimes == sends[original].fullTimesBefore, !isStoreFull,
            let session = send.session, sends[original].session == session,
            devices[profile.clients[send.client].device].session == session,
            send.forgetfulness == 0, sends[original].forgetfulness == 0,
            send.attemptCount <= 1, let place = send.identifierPlace,
            let firstPlace = sends[original].identifierPlace,
            place - firstPlace < Int(profile.limits.sendWindowMaximum)
        else { return }
        fail(
            .onceIsOnce,
            "delivered under the id of message \(original), \(place - firstPlace - 1) ids before",
            message: message, client: client)
    }

    // MARK: Counts

    /// How often a send may have become a message of the broker.
    func sendMaximum(_ send: SendFact) -> Int {
        guard send.isWill else { return max(send.attemptCount, 1) }
        // A will that the store had no space for is sent again later, and once more if the store is
        // still full then.
        let fillings = max(fullTimes - send.fullTimesBefore, isStoreFull ? 1 : 0)
        return 1 + deaths - send.deathsBefore + send.forgetfulness + 2 * fillings
    }

    /// How many copies of a message a session may have taken over from others of its user.
    func inheritedMaximum(_ user: Int) -> Int {
        guard mqttUsers.contains(user) else { return 0 }
        let count = devices.filter { $0.user == user }
        return count.count > 1 ? max(count.reduce(0) { $0 + $1.sessionCount } - 1, 0) : 0
    }

    /// How often one message may be delivered to a session: by its subscriptions, by each shared
    /// one, and from ended sessions of its user.
    private func copyMaximum(_ message: Int, _ session: Int) -> Int {
        let device = sessions[session].device
        let inherited = inheritedMaximum(devices[device].user)
        guard case .topic(let topic) = sends[message].receivers else { return 1 + inherited }
        let filters = devices[device].filtersAskedFor.keys
        let plain = filters.contains { Oracle.matches(topic, $0) } ? 1 : 0
        return max(1, plain + filters.count { Oracle.matches(topic, share: $0) }) + inherited
    }

    /// Whether a message may have been delivered to a session by a shared subscription.
    func mayShare(_ message: Int, _ session: Int) -> Bool {
        guard case .topic(let topic) = sends[message].receivers else { return false }
        return devices[sessions[session].device].filtersAskedFor.keys.contains {
            Oracle.matches(topic, share: $0)
        }
    }

    /// An MQTT client has processed a message.
    func checkMQTTCount(
        _ received: ReceivedMessage, message: Int, session: Int, client: Int
    ) {
        let receipt = Receipt(session: session, client: client, message: message)
        var fact = receipts[receipt] ?? ReceiptFact()
        let send = sends[message]
        let copies = copyMaximum(message, session)
        switch received.grade {
        case .transient:
            fact.transientCount += 1
            let isResend =
                send.grade != .transient
                && (deaths > send.deathsBefore || send.forgetfulness > 0
                    || mayHaveLackedRoom(send) || send.attemptCount > 1)
            if fact.transientCount > copies, !isResend {
                fail(
                    .transientIsNotRepeated, "received \(fact.transientCount) times",
                    message: message, client: client)
            }
        case .durable:
            if !received.isRepeated { fact.firstCount += 1 }
            checkDurable(
                fact, copies: copies, send: send, message: message, client: client, session: session
            )
        case .once:
            fact.count += 1
            if fact.count > copies * (1 + send.forgetfulness) {
                fail(
                    .onceIsOnce, "received \(fact.count) times", message: message,
                    client: client)
            }
        }
        receipts[receipt] = fact
    }

    private func checkDurable(
        _ fact: ReceiptFact, copies: Int, send: SendFact, message: Int, client: Int,
        session: Int
    ) {
        // A message that a sharer has not acknowledged may return to it through another one.
        if mayShare(message, session) { return }
        let fillings = max(fullTimes - send.fullTimesBefore, isStoreFull ? 1 : 0)
        let maximum =
            send.isMQTT || send.isWill
            ? sendMaximum(send) : 1 + deaths - send.deathsBefore + send.forgetfulness + fillings
        if fact.firstCount > copies * maximum {
            fail(
                .repetitionIsFlagged,
                "received \(fact.firstCount) times as if it were the first, for \(maximum) sends",
                message: message, client: client)
        }
    }

    // MARK: Settlement

    /// Whether an MQTT session had a subscription from before a send until after its result.
    func holds(
        _ filter: FilterName, session: SessionFact, send: SendFact,
        outcome: SendFact.Outcome
    ) -> Bool {
        guard let fact = session.filters[filter], fact.grade != .transient,
            fact.confirmedAt <= send.issuedAt, fact.endedAt >= outcome.at
        else { return false }
        guard case .group(let group) = filter else { return true }
        return !mayHaveLeft(
            devices[session.device].user, group, since: fact.askedAt, through: outcome.at)
    }

    /// MQTT cannot report which of several receivers were refused because a queue was full.
    func isRefusedUntold(_ send: SendFact, _ outcome: SendFact.Outcome) -> Bool {
        guard send.isMQTT, outcome.mayHaveLackedRoom, !isTold(send) else { return false }
        guard case .users(let users, _) = send.receivers, users.count == 1 else { return true }
        return devices.count { $0.user == users[0] } > 1
    }

    /// Whether the answer has the number of refused receivers: since 5.0, for a message that was
    /// sent once.
    private func isTold(_ send: SendFact) -> Bool {
        profile.clients[send.client].mqtt?.version == .v5 && send.attemptCount == 1
    }

    /// One member of each share must have each acknowledged message, unless a member left with
    /// messages that were sent to it.
    func checkShares() {
        for message in sends.indices {
            let send = sends[message]
            guard case .topic(let topic) = send.receivers, send.grade != .transient,
                send.expirySeconds == 0, !send.isClearing, let outcome = send.outcome,
                !outcome.reason.isFailure, !isRefusedUntold(send, outcome),
                outcome.refusedCount == 0, !outcome.mayHaveLackedRoom
            else { continue }
            for filter in Profile.filters.indices {
                let share = FilterName.share(filter)
                guard Oracle.matches(topic, share: share),
                    isShared(share, send: send, outcome: outcome),
                    !hasSharer(of: share, with: message), !mayHaveBeenInMemory(share, send),
                    !mayHaveEnded(share, send)
                else { continue }
                fail(
                    .acknowledgedIsKept,
                    "acknowledged, and none of those who share "
                        + "\(Profile.filters[filter]) has it", message: message)
            }
        }
    }

    /// Whether a session shared a filter during the whole time, and all sessions that may have done
    /// so still exist.
    private func isShared(
        _ share: FilterName, send: SendFact, outcome: SendFact.Outcome
    ) -> Bool {
        let isStrict = profile.habits.contains(.changesShare)
        let isHeld = sessions.contains {
            $0.isLasting && $0.lastSeen == .never
                && holds(share, session: $0, send: send, outcome: outcome)
                && (!isStrict || $0.filters[share]?.endedAt == .never)
        }
        // The broker moves unacknowledged messages of a leaving member to the others.
        if isStrict { return isHeld && !sharedAtMostOnce.contains(share) }
        // A session that a device may have had and lost, with a subscription that was not
        // confirmed.
        let mayBeGone = devices.contains { device in
            guard let asked = device.filtersAskedFor[share], asked <= outcome.at else {
                return false
            }
            guard let session = device.session else { return true }
            return sessions[session].lastSeen != .never || !sessions[session].isLasting
                || sessions[session].firstSeen > send.issuedAt
                || sessions[session].filters[share]?.grade == .transient
        }
        return isHeld && !mayBeGone
    }

    /// Whether a QoS 2 message may have belonged to a session that has ended: it is not passed to
    /// another one [MQTT-4.8.2-5].
    private func mayHaveEnded(_ share: FilterName, _ send: SendFact) -> Bool {
        send.grade == .once
            && sessions.contains {
                $0.lastSeen != .never && devices[$0.device].sharedOnce.contains(share)
            }
    }

    /// Whether a message may have been in a session that ends with its connection when the broker
    /// died, or when there was no space to store it for another one: it was only in memory and is
    /// lost.
    private func mayHaveBeenInMemory(_ share: FilterName, _ send: SendFact) -> Bool {
        guard deaths > send.deathsBefore || fullTimes > send.fullTimesBefore else { return false }
        return sessions.contains {
            !$0.isLasting && devices[$0.device].filtersAskedFor[share] != nil
                && ($0.firstSeen <= lastDeath || fullTimes > send.fullTimesBefore)
        }
    }

    private func hasSharer(of share: FilterName, with message: Int) -> Bool {
        sessions.contains {
            devices[$0.device].filtersAskedFor[share] != nil && $0.received.contains(message)
        }
    }
}
