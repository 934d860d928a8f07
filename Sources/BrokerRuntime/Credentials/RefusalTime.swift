// When a wrong password is refused: at fixed times after the login began, so that the time tells
// nothing of how the password is hashed, or whether there is one.

import Primitives

enum RefusalTime {
    /// Milliseconds from a login to its refusal, or between two times at which it may be refused.
    /// Hashes of different kinds take from microseconds to a third of a second.
    static let intervalMilliseconds: UInt64 = 500

    /// The first of these times at which the password is verified. It is at most one interval away.
    ///
    /// - Parameter verified: when the password was found to be wrong.
    static func due(began: Instant, verified: Instant) -> Instant {
        let intervals = verified.milliseconds(since: began) / intervalMilliseconds
        return began.advanced(byMilliseconds: (intervals + 1) * intervalMilliseconds)
    }
}
