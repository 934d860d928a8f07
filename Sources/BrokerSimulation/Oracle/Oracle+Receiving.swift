// Checks of received messages: each packet on the wire, each message when it is processed.

import Primitives
import WireFormat

/// A delivery from its receiver's view.
struct ReceivedMessage {
    let number: UInt64
    let grade: MRT.Grade
    let kind: MRT.DeliveryKind
    /// Nil if the delivery does not name it.
    var from: String?
    var isMarked: Bool
    /// MQTT cannot mark a message before 5.0.
    var canBeMarked = true
    /// Nil if no client made the payload.
    let message: Int?
    /// How often its content was replaced.
    var content = 0
    /// A moderator has given it another content.
    var isRewritten = false

    // In MQTT.
    var topic: String?
    /// It is marked as a possible second delivery.
    var isRepeated = false
    var isRetained = false
}

extension Oracle {
    /// How long a message may be in flight after it expired: the longest stall of a client, and the
    /// longest delays on both ways.
    private static let lateMillisecondsMaximum: UInt64 = 60_000

    // MARK: On the wire

    /// A numbered delivery arrives, whether or not the client reads it.
    func seen(_ received: ReceivedMessage, session: Int, client: Int, before: UInt64) {
        guard let message = received.message else { return }
        if received.number <= before {
            fail(
                .orderIsKept, "#\(received.number) behind #\(before) on one connection",
                message: message, client: client)
        }
        if let other = sessions[session].numbers[received.number], other != message {
            fail(
                .numbersAreNotReused, "#\(received.number) was message \(other)",
                message: message, client: client)
        }
        sessions[session].numbers[received.number] = message
    }

    // MARK: Processed

    /// A client has processed a message, and has it from now on.
    func received(_ received: ReceivedMessage, session: Int, client: Int, boot: Int) {
        guard let message = received.message, message < sends.count else {
            fail(.addresseesOnly, "a message that no client sent", client: client)
            return
        }
        history.note(
            .message(message),
            "client \(client) has it, #\(received.number)\(received.isMarked ? ", marked" : "")")
        if sends[message].isWill { willReceived(message, client: client) }
        checkAddress(received, message: message, session: session, client: client)
        checkRights(message, session: session, client: client)
        checkVerdict(received, message: message, client: client)
        checkPull(received, message: message, session: session, client: client)
        if !revisionFacts.isEmpty {
            checkRevision(received, message: message, session: session, client: client)
        }
        checkRepeat(message, client)
        checkSecond(received, message: message, session: session, client: client)
        checkCount(received, message: message, session: session, client: client, boot: boot)
        checkOrder(received, message: message, session: session, client: client)
        sessions[session].received.insert(message)
        sends[message].receivedCount += 1
        receivedCount += 1
        if received.grade != .transient { sends[message].keptCount += 1 }
        if let outcome = sends[message].outcome {
            if outcome.reason.isFailure { checkRefusedDelivery(message) }
            // A message of QoS 2 that an MQTT client may already have does not expire
            // [MQTT-4.3.3-7].
            let mayHaveBegun = received.grade == .once && received.isRepeated
            if !mayHaveBegun {
                checkExpiry(received, message: message, outcome: outcome, client: client)
            }
        }
    }

    private func checkAddress(
        _ received: ReceivedMessage, message: Int, session: Int, client: Int
    ) {
        let send = sends[message]
        let device = sessions[session].device
        // A session gets its own message back where it inherits the copy of another device.
        // So does one that has connected again before a moderator accepts what it sent as
        // transient.
        let isOwn =
            send.session == session && inheritedMaximum(devices[device].user) == 0
            && !(send.grade == .transient && isModerated(send))
        let isAddressee =
            switch send.receivers {
            case .users(let users, _): users.contains(devices[device].user)
            case .everybody: send.isWill || !isOwn
            case .group(let group):
                !isOwn
                    && !isStranger(
                        devices[device].user, to: group, from: send.issuedAt, through: now)
            case .topic(let topic): hasAsked(for: topic, userOf: device)
            }
        let sender = Profile.userName(profile.clients[send.client].user)
        let isFromSender = received.from == nil || received.from == sender
        if !isAddressee || received.kind != send.receivers.kind || !isFromSender
            || received.grade.rawValue > send.grade.rawValue || !isTopic(received, of: send)
        {
            fail(
                .addresseesOnly,
                "\(received.kind), \(received.grade), from \(received.from ?? "nobody"), on "
                    + "\(received.topic ?? "no topic"): sent by \(sender) to "
                    + "\(send.receivers) as \(send.grade)", message: message, client: client)
        }
    }

    private func isTopic(_ received: ReceivedMessage, of send: SendFact) -> Bool {
        guard let name = received.topic else { return true }
        switch send.receivers {
        case .users, .everybody: return true
        case .group(let group):
            return name == "$g/" + String(decoding: groups[group].name, as: UTF8.self)
        case .topic(let topic): return name == Profile.topics[topic]
        }
    }

    /// Whether a device, or another one of its user, has ever subscribed to a topic: the next
    /// session inherits what the last session of a user leaves.
    private func hasAsked(for topic: Int, userOf device: Int) -> Bool {
        devices.contains { other in
            other.user == devices[device].user
                && other.filtersAskedFor.keys.contains {
                    Oracle.matches(topic, $0) || Oracle.matches(topic, share: $0)
                }
        }
    }

    private func checkCount(
        _ received: ReceivedMessage, message: Int, session: Int, client: Int, boot: Int
    ) {
        if profile.clients[client].mqtt != nil {
            return checkMQTTCount(received, message: message, session: session, client: client)
        }
        let receipt = Receipt(session: session, client: client, message: message)
        var fact = receipts[receipt] ?? ReceiptFact()
        defer { receipts[receipt] = fact }
        if fact.count > 0 && received.number != 0 && fact.lastNumber == received.number {
            // The same delivery again: only a client that has forgotten the first may see it.
            if profile.clients[client].keepsInbox || fact.lastBoot == boot {
                fail(
                    .onceIsOnce, "#\(received.number) processed twice", message: message,
                    client: client)
            }
            fact.lastBoot = boot
            return
        }
        let send = sends[message]
        if received.grade == .transient {
            fact.transientCount += 1
            checkTransient(fact, send: send, message: message, client: client)
            return
        }
        fact.count += 1
        if !received.isMarked { fact.unmarkedCount += 1 }
        fact.lastNumber = received.number
        fact.lastBoot = boot
        // Another session of the user may have left a copy.
        let copyMaximum = 1 + inheritedMaximum(devices[sessions[session].device].user)
        switch received.grade {
        case .transient: break
        case .once:
            if fact.count > copyMaximum * (1 + send.forgetfulness) {
                fail(
                    .onceIsOnce, "received \(fact.count) times", message: message, client: client)
            }
        case .durable:
            checkDurable(
                fact, send: send, received: received, message: message, client: client,
                copyMaximum: copyMaximum)
        }
    }

    private func checkTransient(
        _ fact: ReceiptFact, send: SendFact, message: Int, client: Int
    ) {
        // It is unknown what was delivered to a subscription of the lowest grade before the broker
        // forgot the send or refused it.
        let isResend =
            send.grade != .transient
            && (deaths > send.deathsBefore || send.forgetfulness > 0 || mayHaveLackedRoom(send)
                || send.attemptCount > 1)
        if fact.transientCount > 1, !isResend {
            fail(
                .transientIsNotRepeated, "received \(fact.transientCount) times",
                message: message, client: client)
        }
    }

    private func checkDurable(
        _ fact: ReceiptFact, send: SendFact, received: ReceivedMessage, message: Int,
        client: Int, copyMaximum: Int
    ) {
        if send.isMQTT || send.isWill {
            if fact.count > copyMaximum * sendMaximum(send) {
                fail(
                    .repetitionIsFlagged,
                    "received \(fact.count) times, sent \(send.attemptCount) times",
                    message: message, client: client)
            }
            return
        }
        // A full store refuses a message that was delivered and not acknowledged when its
        // connection was lost; when it is sent again, it is marked.
        let fillings = max(fullTimes - send.fullTimesBefore, isStoreFull ? 1 : 0)
        let deaths = deaths - send.deathsBefore
        // An orderly stop loses no result, though later messages may be marked.
        let crashes = deaths - (stops - send.stopsBefore)
        let reasons = crashes + send.forgetfulness + fillings
        if fact.count > copyMaximum * (1 + reasons) {
            fail(
                .secondIsMarked, "received \(fact.count) times, for \(reasons) reasons",
                message: message, client: client)
        }
        if fact.unmarkedCount > copyMaximum {
            fail(
                .secondIsMarked, "received twice without a mark", message: message,
                client: client)
        }
        // A send that waited for the broker at its start may be marked without need.
        if received.isMarked && reasons == 0 && deaths == 0 && send.wasReachable {
            fail(
                .secondIsMarked, "marked, although nothing was forgotten", message: message,
                client: client)
        }
    }

    /// Whether a session did not subscribe to a topic, or its user was no member of a group, when a
    /// message was first sent, and may have been before the message was sent again to a broker that
    /// had died.
    private func isRoutedAnew(_ send: SendFact, _ session: Int) -> Bool {
        guard deaths > send.deathsBefore else { return false }
        switch send.receivers {
        case .users, .everybody: return false
        case .group(let group):
            let user = devices[sessions[session].device].user
            return !isMember(user, of: group, from: send.issuedAt, through: now)
        case .topic(let topic):
            return !sessions[session].filters.contains { filter, fact in
                fact.confirmedAt <= send.issuedAt && Oracle.matches(topic, filter)
            }
        }
    }

    private func checkOrder(
        _ received: ReceivedMessage, message: Int, session: Int, client: Int
    ) {
        let send = sends[message]
        guard received.grade != .transient, send.grade != .transient, !send.isWill,
            !sessions[session].received.contains(message), !mayShare(message, session)
        else { return }
        var route = Route(session: session, sender: send.client, outboxEpoch: send.outboxEpoch)
        // MQTT guarantees order within a topic and a quality of service; and messages that wait for
        // a user follow those of other topics from before the subscription.
        if send.isMQTT { route.grade = send.grade }
        let device = sessions[session].device
        let user = devices[device].user
        // Messages from before the session may arrive late: left by another session of the user
        // that has ended, or, in MQTT, waiting for a subscription.
        let isEarlier = send.issuedAt < sessions[session].firstSeen
        if isEarlier && (mqttUsers.contains(user) || hasHadSiblings(device)) { return }
        if mqttUsers.contains(user), hasHadSiblings(device) { return }
        if send.isMQTT || mqttUsers.contains(user) { route.receivers = send.receivers }
        if let last = routes[route], last >= send.number {
            if isResend(received, send) || isOutside(message) || isRoutedAnew(send, session) {
                excusedCount += 1
                return
            }
            fail(
                .orderIsKept, "send #\(send.number) first arrives behind send #\(last)",
                message: message, client: client)
        }
        routes[route] = send.number
    }

    /// Whether another device of the same user may have, or have had, a session.
    private func hasHadSiblings(_ device: Int) -> Bool {
        devices.indices.contains {
            $0 != device && devices[$0].user == devices[device].user
                && (devices[$0].sessionCount > 0 || devices[$0].attempts > 0)
        }
    }

    /// A repeated send that the broker does not know, because it has forgotten or refused it, is a
    /// new send: it is accepted after others that followed it the first time, and its receivers are
    /// the present ones.
    private func isResend(_ received: ReceivedMessage, _ send: SendFact) -> Bool {
        send.forgetfulness > 0
            || ((received.isMarked || !received.canBeMarked) && deaths > send.deathsBefore)
            || mayHaveLackedRoom(send) || (send.grade == .durable && send.attemptCount > 1)
    }

    private func checkExpiry(
        _ received: ReceivedMessage, message: Int, outcome: SendFact.Outcome, client: Int
    ) {
        let send = sends[message]
        let seconds = UInt64(send.expirySeconds)
        guard seconds > 0 else { return }
        // A repeated publication may be a new message to the broker, with the whole expiry time.
        let comesAgain = send.attemptCount > 1 || isResend(received, send)
        let accepted = comesAgain ? max(outcome.at, send.closedAt ?? now) : outcome.at
        let limit = accepted.advanced(bySeconds: seconds)
            .advanced(byMilliseconds: Oracle.lateMillisecondsMaximum)
        if now > limit {
            fail(
                .expiredIsGone,
                "processed \(now.milliseconds(since: outcome.at)) ms after its result",
                message: message, client: client)
        }
    }
}
