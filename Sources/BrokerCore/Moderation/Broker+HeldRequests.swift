// Messages of the HTTP API that wait for a moderator. Each waits alone: the order of requests that
// do not wait for each other's answers is open.

import BrokerTerms
import Primitives

extension Broker {
    /// Holds a message of a request on which a moderator decides. Returns nil for a message that is
    /// sent without a verdict.
    @inline(never)
    mutating func moderate(
        _ request: SendRequest, as user: Index<User>, by principal: Principal, key: SendKey?,
        _ sender: SendingUser, in step: inout Step
    ) -> OperatorSend? {
        guard let policy = moderation(ofApp: principal.app),
            !sender.isProved || Array(registry.users[user].name) != policy.moderator,
            covers(
                policy, ofApp: principal.app, request.target,
                subject: subject(of: request.target, in: step.bytes).bytes),
            // It is refused for another reason.
            !request.isUnusual || fault(ofUnusual: request, at: step.moment) == nil
        else { return nil }
        if sender.moderation == .refuses { return refused(.notAuthorized, .moderatedInterface) }
        if case .refused(let reason, let limit) = authorize(
            request, by: .principal(principal), ofUser: user, in: step.bytes)
        {
            return refused(reason, limit)
        }
        let limit = moderation.limit(
            of: user, app: principal.app, adding: request.heldByteCount)
        guard limit == .none else {
            counters.heldOverLimit += 1
            return refused(.quotaExceeded, limit)
        }
        let question = moderation.makeQuestion(at: step.moment)
        guard
            let isAsked = ask(
                policy, about: request, question, of: user, device: principal.names.device,
                app: principal.app, in: &step)
        else { return refused(.packetTooLarge, .questionBytes) }
        guard isAsked else {
            counters.moderatorSilences += 1
            return policy.acceptsWhenSilent ? nil : refused(.quotaExceeded, .moderatorSilent)
        }
        let (queue, number) = moderation.hold(
            HeldSend(
                request, in: step, question: question,
                deadline: step.moment.instant.advanced(byMilliseconds: policy.milliseconds),
                acceptsWhenSilent: policy.acceptsWhenSilent, verdict: nil),
            by: principal, user: user, key: key, isAwaited: sender.moderation == .holds)
        arm(queue)
        return .held(number: number)
    }

    mutating func refused(_ reason: ReasonCode, _ limit: LimitName) -> OperatorSend {
        counters.sendsRefused += 1
        return .complete(OperatorSendResult(reason: reason, limit: limit))
    }

    /// Sends or refuses the message of a request, and notes what became of it.
    mutating func release(
        _ send: HeldSend, of principal: Principal, key: SendKey?, number: UInt64,
        refusesSilence: Bool, in step: inout Step
    ) {
        var outcome: OperatorSend
        if refusesSilence {
            outcome = refused(.quotaExceeded, .moderatorSilent)
        } else if case .refused(let note)? = send.verdict {
            counters.messagesRefusedByModerator += 1
            counters.sendsRefused += 1
            var result = OperatorSendResult(
                reason: .implementationSpecificError, limit: .moderatorRefused)
            result.verdict = note
            outcome = .complete(result)
        } else {
            outcome = release(send, of: principal, key: key, in: &step)
            if let note = send.note {
                counters.messagesRewritten += 1
                switch outcome {
                case .complete(var result):
                    result.verdict = note
                    outcome = .complete(result)
                case .pending(let pending): operatorSends.note(note, of: pending)
                case .held, .otherContent, .underWay: break
                }
            }
        }
        commits.commitSoon()
        if !moderation.settle(number, outcome), case .pending(let pending) = outcome {
            operatorSends.forget(pending)
        }
    }

    /// Removes and returns what became of messages that were held, by their numbers, since the last
    /// call.
    public mutating func takeHeldOutcomes() -> [(number: UInt64, outcome: OperatorSend)] {
        moderation.takeOutcomes()
    }
}
