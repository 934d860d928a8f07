// Recalls and replacements over the HTTP API and the admin socket, as plain data.

import BrokerTerms

/// The result of an operator's recall or replacement.
public struct OperatorRecallResult: Hashable, Sendable {
    /// ``ReasonCode/success``, or the reason of the refusal.
    public var reason: ReasonCode
    /// What caused a refusal, if its reason does not tell.
    public var cause: LimitName
    /// Of a success.
    public var answer: RecallAnswer?

    public init(reason: ReasonCode, cause: LimitName = .none, answer: RecallAnswer? = nil) {
        self.reason = reason
        self.cause = cause
        self.answer = answer
    }
}

/// An operator's recall that was carried out, refused, or begun.
public enum OperatorRecall: Hashable, Sendable {
    /// The result is final.
    case complete(OperatorRecallResult)
    /// The result comes after one or more commits; see
    /// ``Broker/takeResult(ofOperatorRecall:)``.
    case pending(number: UInt64)
}
