// Recalls and replacements over the HTTP API and the admin socket, as users of an app. The sender
// has no session: the result is kept until it is taken.

import BrokerTerms
import Primitives

extension Broker {
    /// Recalls or replaces a message that a user sent, whether or not the user is connected.
    ///
    /// - Parameters:
    ///   - request: its ranges refer to `bytes`.
    ///   - sender: the user who sent the message.
    /// - Returns: nil if there is no such user.
    public mutating func recall(
        _ request: RecallRequest, in bytes: [UInt8], as sender: SendingUser, at moment: Moment,
        effects: inout Effects
    ) -> OperatorRecall? {
        guard let app = app(named: sender.app), let user = user(named: sender.user, app: app)
        else { return nil }
        let principal = principal(of: sender, user, app)
        let number = operatorRecalls.add()
        let decision = bytes.withUnsafeBytes {
            var step = Step(bytes: $0, at: moment, effects: effects)
            return begin(
                request, ofUser: user, by: .principal(principal), for: .operator(number: number),
                in: &step)
        }
        switch decision {
        case .begun: return .pending(number: number)
        case .known(let answer):
            operatorRecalls.forget(number)
            return .complete(OperatorRecallResult(reason: .success, answer: answer))
        case .refused(let reason, let cause):
            operatorRecalls.forget(number)
            counters.requestsRefused += 1
            return .complete(OperatorRecallResult(reason: reason, cause: cause))
        }
    }

    /// Removes and returns the result of an operator's recall; nil if it is not final.
    public mutating func takeResult(ofOperatorRecall number: UInt64) -> OperatorRecallResult? {
        let first =
            commits.isCommitting
            ? commits.inFlightBatch.sequence : commits.pendingSequence
        return operatorRecalls.take(number, firstOpenBatch: first)
    }

    /// Forgets the result of an operator's recall that nobody waits for. The recall goes on.
    public mutating func forgetResult(ofOperatorRecall number: UInt64) {
        operatorRecalls.forget(number)
    }
}
