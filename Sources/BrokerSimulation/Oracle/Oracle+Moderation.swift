// Moderation: nobody gets a message on which a moderator decides before it accepts it, or gives it
// another content; and its sender is told the verdict on this message.

import BrokerTerms
import Primitives
import WireFormat

/// A question that the moderator got.
struct QuestionFact {
    let message: Int
    /// The verdict that counts: the first one that it published.
    var verdict: SimulatedVerdict?
}

struct ModerationFacts {
    var questions: [UInt64: QuestionFact] = [:]
    /// By messages, which are asked about again when they are sent again.
    var asked: [Int: [UInt64]] = [:]
}

extension Oracle {
    /// The code of a verdict tells its message; refusals have its negative.
    static func verdictCode(_ message: Int) -> Int { 1_000 + message }

    /// Whether a moderator decides on a message.
    func isModerated(_ send: SendFact) -> Bool {
        guard let policy = profile.moderation, !send.isWill else { return false }
        switch send.receivers {
        case .users: return policy.coversUsers
        case .everybody: return policy.coversEverybody
        case .group: return policy.coversGroups
        case .topic(let topic):
            return policy.topics.contains {
                Oracle.matches(
                    topic: Profile.topics[topic], filter: String(decoding: $0, as: UTF8.self))
            }
        }
    }

    // MARK: The moderator

    func asked(_ question: UInt64, about message: Int?) {
        guard let message else { return }
        guard message < sends.count else {
            return fail(.verdictsAreKept, "asked about a message that nobody sent")
        }
        history.note(.message(message), "is asked about, question \(question)")
        if let known = moderationFacts.questions[question], known.message != message {
            return fail(
                .verdictsAreKept, "question \(question) was about message \(known.message)",
                message: message)
        }
        guard moderationFacts.questions[question] == nil else { return }
        moderationFacts.questions[question] = QuestionFact(message: message)
        moderationFacts.asked[message, default: []].append(question)
    }

    /// The moderator publishes a verdict; only the first one on a question counts.
    func decided(_ question: UInt64, _ verdict: SimulatedVerdict) {
        guard let fact = moderationFacts.questions[question], fact.verdict == nil else { return }
        moderationFacts.questions[question]?.verdict = verdict
        history.note(.message(fact.message), "verdict \(verdict), question \(question)")
    }

    /// The verdicts on a message so far: one for each time that it was asked about.
    private func verdicts(on message: Int) -> Set<SimulatedVerdict> {
        Set(
            (moderationFacts.asked[message] ?? []).compactMap {
                moderationFacts.questions[$0]?.verdict
            })
    }

    /// Whether a refusal may be the moderator's.
    func isRefusedByModerator(_ message: Int) -> Bool {
        profile.moderation != nil && verdicts(on: message).contains(.refused)
    }

    // MARK: Receivers and senders

    /// A receiver has a message.
    func checkVerdict(_ received: ReceivedMessage, message: Int, client: Int) {
        guard let policy = profile.moderation else { return }
        let verdicts = verdicts(on: message)
        if received.isRewritten {
            guard !verdicts.contains(.rewritten) else { return }
            fail(
                .verdictsAreKept, "rewritten, and nobody has done it", message: message,
                client: client)
        } else if isModerated(sends[message]), !policy.acceptsWhenSilent,
            !verdicts.contains(.accepted)
        {
            fail(
                .verdictsAreKept, "delivered as it was sent; the verdicts are \(verdicts)",
                message: message, client: client)
        }
    }

    /// A sender has a result.
    func checkVerdict(on message: Int, _ reason: ReasonCode) {
        guard let policy = profile.moderation, reason == .sent || reason == .noMatchingSubscribers,
            isModerated(sends[message]), !policy.acceptsWhenSilent, sends[message].repeats == nil
        else { return }
        let verdicts = verdicts(on: message)
        guard verdicts.isDisjoint(with: [.accepted, .rewritten]) else { return }
        fail(
            .verdictsAreKept, "accepted; the verdicts are \(verdicts)", message: message,
            client: sends[message].client)
    }

    /// A sender is told the code of a verdict.
    func verdictTold(_ message: Int, code: Int64, client: Int) {
        history.note(.message(message), "its sender is told the verdict \(code)")
        let verdict: SimulatedVerdict = code < 0 ? .refused : .rewritten
        let isOwn = abs(code) == Int64(Oracle.verdictCode(message))
        guard !isOwn || !verdicts(on: message).contains(verdict) else { return }
        fail(
            .verdictsAreKept, "the verdict \(code) is about another message", message: message,
            client: client)
    }
}
