// The receivers that do not take the message with a collapse key that is being routed. What they
// have of the earlier message stays.

import Primitives

/// The users of whom a queue did not take the message that is being routed.
struct UntakenReceivers {
    private var isNoting = false
    private(set) var users: Set<Index<User>> = []

    /// Begins with a message.
    ///
    /// - Parameter isNoting: whether the message has a collapse key.
    mutating func begin(isNoting: Bool) { self.isNoting = isNoting }

    /// Notes that a queue of a user does not take the message.
    mutating func note(_ user: Index<User>) {
        if isNoting { users.insert(user) }
    }

    /// Ends with the message.
    mutating func end() {
        isNoting = false
        if !users.isEmpty { users.removeAll() }
    }
}
