// The final check, when nothing is in flight any more: every acknowledged message must have reached
// every receiver that was entitled to it.

import Primitives
import WireFormat

extension Oracle {
    /// A client is connected at the end, so that its session is known to have lasted.
    func lasts(_ session: Int) { sessions[session].lastSeen = .never }

    /// Checks every send that was acknowledged.
    func checkAtEnd() {
        for message in sends.indices where !sends[message].isClearing { checkAtEnd(message) }
        checkShares()
        checkRetained()
        checkReceipts()
        checkNotices()
        checkRevisions()
        checkWakes()
    }

    /// Removes one record of the model, for the mutation `canary`.
    func loseRecord(_ message: Int) {
        for session in sessions.indices where sessions[session].received.remove(message) != nil {
            return
        }
    }

    private func checkAtEnd(_ message: Int) {
        let send = sends[message]
        // A repeat may have been recognised, and was then delivered to nobody.
        guard send.grade != .transient, let outcome = send.outcome, !outcome.reason.isFailure,
            send.repeats == nil, !mayBeRevised(message)
        else { return }
        var missing: [Int] = []
        for session in sessions.indices
        where isEntitled(send, outcome, to: session) && isMissing(message, from: session) {
            missing.append(session)
        }
        if let first = missing.first {
            if send.expirySeconds > 0 || missing.count <= refusedSessions(send, outcome)
                || isRefusedUntold(send, outcome)
            {
                excusedCount += missing.count
            } else {
                fail(
                    .acknowledgedIsKept,
                    "acknowledged at \(outcome.at.milliseconds) ms, and lost for session "
                        + String(sessions[first].epoch, radix: 16), message: message,
                    client: profile.clients.firstIndex { $0.device == sessions[first].device })
            }
        }
        checkUserQueue(message, send: send, outcome: outcome)
    }

    /// Whether a session should have a message and does not. Messages that a session had not
    /// acknowledged when it expired wait for the user, and must be in a later session of a user
    /// with one device; if there are several devices, the others had copies of their own.
    private func isMissing(_ message: Int, from index: Int) -> Bool {
        let session = sessions[index]
        if session.received.contains(message) { return false }
        let user = devices[session.device].user
        if isPulled(message, of: user, by: session.device) { return false }
        if session.lastSeen == .never { return true }
        // An MQTT session leaves its messages to its user if it subscribes to messages to the user.
        if isMQTT(index), session.filters[.user] == nil { return false }
        if isOwn(sends[message], of: user) { return false }
        return keepsUserMessages(user) && !hasReceived(user, message)
    }

    /// Whether a user sent a message to receivers that include its other devices. The device that
    /// sent it gets no copy, and does not inherit one from a session that ends.
    private func isOwn(_ send: SendFact, of user: Int) -> Bool {
        if case .users = send.receivers { return false }
        return profile.clients[send.client].user == user
    }

    private func hasReceived(_ user: Int, _ message: Int) -> Bool {
        sessions.contains { devices[$0.device].user == user && $0.received.contains(message) }
    }

    /// Sessions that may lack the message because the sender was told so.
    private func refusedSessions(_ send: SendFact, _ outcome: SendFact.Outcome) -> Int {
        guard case .users(let users, _) = send.receivers else { return outcome.refusedCount }
        return outcome.refusedCount - users.count { $0 == profile.userCount }
    }

    /// Whether a session existed from before a send until after its result, and is a receiver.
    private func isEntitled(_ send: SendFact, _ outcome: SendFact.Outcome, to index: Int) -> Bool {
        let session = sessions[index]
        guard session.isLasting, session.firstSeen <= send.issuedAt, session.lastSeen >= outcome.at,
            !session.doubts.contains(where: { $0.overlaps(send.issuedAt...outcome.at) })
        else { return false }
        switch send.receivers {
        case .users(let users, _):
            let user = devices[session.device].user
            return users.contains(user) && !isForbidden(send, to: user)
                && (!isMQTT(index) || holds(.user, session: session, send: send, outcome: outcome))
        case .everybody:
            if isMQTT(index), !holds(.everybody, session: session, send: send, outcome: outcome) {
                return false
            }
            // A sender that was not connected may have got another session since.
            return send.session != index
                && (send.session != nil || profile.clients[send.client].device != session.device)
        case .group(let group):
            if isMQTT(index), !holds(.group(group), session: session, send: send, outcome: outcome)
            {
                return false
            }
            return send.session != index
                && (send.session != nil || profile.clients[send.client].device != session.device)
                && isMember(
                    devices[session.device].user, of: group, from: send.issuedAt,
                    through: outcome.at)
        case .topic(let topic):
            return session.filters.contains { filter, fact in
                fact.grade != .transient && fact.confirmedAt <= send.issuedAt
                    && fact.endedAt >= outcome.at && Oracle.matches(topic, filter)
            }
        }
    }

    /// Messages to a user outlive sessions: an acknowledged message reaches a user with one device
    /// even if there was no session, or if it expired meanwhile.
    private func checkUserQueue(_ message: Int, send: SendFact, outcome: SendFact.Outcome) {
        guard case .users(let users, let isList) = send.receivers, send.expirySeconds == 0 else {
            return
        }
        for (index, user) in users.enumerated() where keepsUserMessages(user) {
            // Receivers that a full store refused are counted but not named.
            let isNamed = isList && outcome.refusedIndices.count == outcome.refusedCount
            let isRefused =
                isNamed ? outcome.refusedIndices.contains(index) : outcome.refusedCount > 0
            guard !isRefused, !hasReceived(user, message),
                !isPulled(message, of: user)
            else { continue }
            if isList && isRefusedUntold(send, outcome) { continue }
            fail(
                .acknowledgedIsKept, "acknowledged, and lost for user \(user)", message: message,
                client: profile.clients.firstIndex { $0.user == user })
        }
    }

    /// Whether no device of a user ever discards messages. If there are several devices, one of
    /// them must have each message: the messages of the session that ends last wait for the user,
    /// and a session that ends before leaves to the others what they have not received. A session
    /// without an expiry leaves nothing, and may have been the only one.
    private func keepsUserMessages(_ user: Int) -> Bool {
        let clients = profile.clients.filter { $0.user == user }
        if clients.count == 1 { return !clients[0].startsClean }
        return profile.siblings != nil && !profile.hasSmallQueues
            && clients.allSatisfy {
                $0.mqtt == nil && !$0.isRival && !$0.startsClean && $0.sessionExpirySeconds > 0
            }
    }
}
