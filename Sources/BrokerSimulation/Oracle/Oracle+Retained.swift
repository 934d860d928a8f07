// Retained messages (MQTT 3.3.1.3): a new subscription gets the last one of each matching topic. If
// publications overlap, the last one is unknown, so the oracle checks only that no message was
// delivered which is certainly not the last, and that one was delivered which may be.

import Primitives
import WireFormat

extension Oracle {
    /// How long a publication that nobody waits for may be in flight.
    private static let strayMilliseconds: UInt64 = 60_000

    /// A client publishes a retained message.
    func retaining(_ message: Int) {
        guard case .topic(let topic) = sends[message].receivers else { return }
        retained[topic, default: []].append(message)
    }

    /// A message arrives because it was retained.
    func receivedRetained(_ received: ReceivedMessage, session: Int, client: Int) {
        guard let message = received.message, message < sends.count,
            case .topic(let topic) = sends[message].receivers, sends[message].isRetained,
            received.topic == Profile.topics[topic]
        else {
            return fail(
                .lastIsRetained, "a retained message that no client published", client: client)
        }
        history.note(.message(message), "client \(client) has it, as it was retained")
        sessions[session].retainedReceived.insert(message)
        guard let asked = firstAsked(for: topic, session) else {
            return fail(
                .lastIsRetained, "on a topic without a subscription", message: message,
                client: client)
        }
        if let later = successor(of: message, before: asked) {
            fail(
                .lastIsRetained, "message \(later) had taken its place before the subscription",
                message: message, client: client)
        }
    }

    /// When a session first requested a filter that matches a topic. Messages that earlier sessions
    /// of its user left may be in its queue.
    private func firstAsked(for topic: Int, _ session: Int) -> Instant? {
        let user = devices[sessions[session].device].user
        return devices.filter { $0.user == user }.flatMap { device in
            device.filtersAskedFor.filter { Oracle.matches(topic, $0.key) }.map(\.value)
        }.min()
    }

    /// A later retained message of the same topic that certainly replaced another one.
    private func successor(of message: Int, before time: Instant) -> Int? {
        guard case .topic(let topic) = sends[message].receivers else { return nil }
        let end = lastEffect(of: message)
        return retained[topic, default: []].first { other in
            guard let outcome = sends[other].outcome, !outcome.reason.isFailure else {
                return false
            }
            return sends[other].issuedAt > end && outcome.at <= time
        }
    }

    /// The last moment at which a publication can take effect.
    private func lastEffect(of message: Int) -> Instant {
        let send = sends[message]
        if send.grade == .transient {
            return send.issuedAt.advanced(byMilliseconds: Oracle.strayMilliseconds)
        }
        return send.closedAt ?? .never
    }

    // MARK: Settlement

    func checkRetained() {
        for session in sessions.indices
        where sessions[session].lastSeen == .never && sessions[session].isLasting
            && isMQTT(session)
        {
            for (filter, fact) in sessions[session].filters.sorted(by: { "\($0.key)" < "\($1.key)" }
            )
            where fact.endedAt == .never && fact.grade != .transient {
                for topic in retained.keys.sorted() where Oracle.matches(topic, filter) {
                    checkRetained(topic, filter: fact, session: session)
                }
            }
        }
    }

    private func checkRetained(_ topic: Int, filter fact: FilterFact, session: Int) {
        // Without space, nobody is told.
        if profile.hasSmallQueues || fullTimes > fact.fullTimesBefore || isStoreFull { return }
        // A message that replaced the last one while the replay waited may be delivered instead,
        // however long after the subscription it was sent.
        let possible = retained[topic, default: []].filter {
            successor(of: $0, before: fact.askedAt) == nil
        }
        let candidates = possible.filter { sends[$0].issuedAt <= fact.confirmedAt }
        let isCertain = candidates.contains {
            guard let outcome = sends[$0].outcome else { return false }
            return !outcome.reason.isFailure && outcome.at <= fact.askedAt
        }
        let isPlain = possible.allSatisfy {
            !sends[$0].isClearing && sends[$0].grade != .transient && sends[$0].expirySeconds == 0
        }
        guard isCertain, isPlain else { return }
        let has = sessions[session].retainedReceived.union(sessions[session].received)
        if !possible.contains(where: has.contains) {
            fail(
                .lastIsRetained,
                "a subscription did not get the retained message of \(Profile.topics[topic])",
                message: candidates.last,
                client: profile.clients.firstIndex { $0.device == sessions[session].device })
        }
    }
}
