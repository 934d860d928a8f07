// The settlement at the end of a run, when everything has come to rest: every acknowledged message
// has to be with everybody who was promised it.

import Primitives
import WireFormat

extension Ledger {
    /// A client is connected at the end, so that its session is known to have lasted.
    func lasts(_ session: Int) { sessions[session].lastSeen = .never }

    /// Looks at every send that was acknowledged.
    func settle() {
        for message in sends.indices where !sends[message].isClearing { settle(message) }
        settleShares()
        settleRetained()
    }

    /// One line of the book is lost: for the canary.
    func loseLine(_ message: Int) {
        for session in sessions.indices where sessions[session].received.remove(message) != nil {
            return
        }
    }

    private func settle(_ message: Int) {
        let send = sends[message]
        // A repeat may have been recognised, and is then with nobody.
        guard send.grade != .transient, let outcome = send.outcome, !outcome.reason.isFailure,
            send.repeats == nil
        else { return }
        var missing: [Int] = []
        for session in sessions.indices
        where isPromised(send, outcome, to: session) && isMissing(message, from: session) {
            missing.append(session)
        }
        if let first = missing.first {
            if send.expirySeconds > 0 || missing.count <= refusedSessions(send, outcome)
                || isRefusedUntold(send, outcome)
            {
                excusedCount += missing.count
            } else {
                accuse(
                    .acknowledgedIsKept,
                    "acknowledged at \(outcome.at.milliseconds) ms, and lost for session "
                        + String(sessions[first].epoch, radix: 16), message: message,
                    client: profile.clients.firstIndex { $0.device == sessions[first].device })
            }
        }
        settleMail(message, send, outcome)
    }

    /// Whether a session should have a message and has not. What a session had not acknowledged
    /// when it expired waits for the user, and has to be in a later session of a user with one
    /// device; where there are more devices, the others had copies of their own.
    private func isMissing(_ message: Int, from index: Int) -> Bool {
        let session = sessions[index]
        if session.received.contains(message) { return false }
        if session.lastSeen == .never { return true }
        // An MQTT session leaves what waits to its user where it hears the user's mail.
        if isMQTT(index), session.filters[.mail] == nil { return false }
        let user = devices[session.device].user
        return hasPlainMail(user) && !hasReceived(user, message)
    }

    private func hasReceived(_ user: Int, _ message: Int) -> Bool {
        sessions.contains { devices[$0.device].user == user && $0.received.contains(message) }
    }

    /// Sessions that may be missing, because the sender was told so.
    private func refusedSessions(_ send: SendFact, _ outcome: SendFact.Outcome) -> Int {
        guard case .users(let users, _) = send.receivers else { return outcome.refusedCount }
        return outcome.refusedCount - users.count { $0 == profile.userCount }
    }

    /// Whether a session was there from before a send until after its result, and is a receiver.
    private func isPromised(_ send: SendFact, _ outcome: SendFact.Outcome, to index: Int) -> Bool {
        let session = sessions[index]
        guard session.isLasting, session.firstSeen <= send.issuedAt, session.lastSeen >= outcome.at,
            !session.doubts.contains(where: { $0.overlaps(send.issuedAt...outcome.at) })
        else { return false }
        switch send.receivers {
        case .users(let users, _):
            let user = devices[session.device].user
            return users.contains(user) && !isForbidden(send, to: user)
                && (!isMQTT(index) || holds(.mail, session, send, outcome))
        case .everybody:
            if isMQTT(index), !holds(.everybody, session, send, outcome) { return false }
            // A sender that was not connected may have got another session than it had.
            return send.session != index
                && (send.session != nil || profile.clients[send.client].device != session.device)
        case .group(let group):
            if isMQTT(index), !holds(.group(group), session, send, outcome) { return false }
            return send.session != index
                && (send.session != nil || profile.clients[send.client].device != session.device)
                && isMember(
                    devices[session.device].user, of: group, from: send.issuedAt,
                    through: outcome.at)
        case .topic(let topic):
            return session.filters.contains { filter, fact in
                fact.grade != .transient && fact.confirmedAt <= send.issuedAt
                    && fact.endedAt >= outcome.at && Ledger.matches(topic, filter)
            }
        }
    }

    /// Mail for a user outlives sessions: what was acknowledged reaches a user with one device even
    /// if there was no session, or it expired meanwhile.
    private func settleMail(_ message: Int, _ send: SendFact, _ outcome: SendFact.Outcome) {
        guard case .users(let users, let isList) = send.receivers, send.expirySeconds == 0 else {
            return
        }
        for (index, user) in users.enumerated() where hasPlainMail(user) {
            // Those whom the store had no room for are only counted.
            let isNamed = isList && outcome.refusedIndices.count == outcome.refusedCount
            let isRefused =
                isNamed ? outcome.refusedIndices.contains(index) : outcome.refusedCount > 0
            guard !isRefused, !hasReceived(user, message) else { continue }
            if isList && isRefusedUntold(send, outcome) { continue }
            accuse(
                .acknowledgedIsKept, "acknowledged, and lost for user \(user)", message: message,
                client: profile.clients.firstIndex { $0.user == user })
        }
    }

    /// Whether all mail of a user is for devices that never ask to forget any. Where there are
    /// several, one of them has to have it: what the session that ends last leaves behind waits,
    /// and a session that ends before leaves the others what they have not had.
    private func hasPlainMail(_ user: Int) -> Bool {
        let clients = profile.clients.filter { $0.user == user }
        if clients.count == 1 { return !clients[0].startsClean }
        return profile.siblings != nil && !profile.hasSmallQueues
            && clients.allSatisfy { $0.mqtt == nil && !$0.isRival && !$0.startsClean }
    }
}
