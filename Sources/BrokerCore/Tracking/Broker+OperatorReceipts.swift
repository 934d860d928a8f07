// What a receiving application tells about a message over the HTTP API or the admin socket, as a
// user who need not be connected.

import BrokerTerms
import Primitives

extension Broker {
    /// Notes that a user's application has applied a message, or why not. It is on disk when the
    /// batch that is pending now is committed.
    ///
    /// - Parameters:
    ///   - code: from ``ReceiptLimits/failureCode`` on a failure.
    ///   - text: at most ``ReceiptLimits/textByteCountMaximum`` bytes.
    ///   - device: the device that the receipt names; empty for none.
    /// - Returns: success, or the reason of the refusal and its cause; nil if there is no such
    ///   user.
    public mutating func reportApplied(
        _ reference: UInt64, code: UInt8, text: [UInt8], app: [UInt8], user: [UInt8],
        device: [UInt8], at moment: Moment, effects: inout Effects
    ) -> (reason: ReasonCode, cause: LimitName)? {
        guard let app = self.app(named: app), let user = self.user(named: user, app: app) else {
            return nil
        }
        var step = Step(at: moment, effects: effects)
        let outcome = noteApplied(
            reference, code: code, text: text, by: user, device: device, in: &step)
        if outcome.reason == .quotaExceeded { counters.requestsOverQuota += 1 }
        if outcome.reason != .success { counters.requestsRefused += 1 }
        return outcome
    }
}
