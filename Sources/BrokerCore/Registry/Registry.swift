// Who is known: apps, their users, the tokens of users, and the keys that the operator trusts. What
// it holds outlasts connections and sessions. It knows nothing of messages.
//
// It knows sessions, groups, offline queues and retained messages by the indices that a user or an
// app contains.
//
// Invariants: an app is found by its name, and a user by its app and name; users and apps stay, so
// that an index of one is valid for the life of the process.

import Primitives

/// The known apps, users and credentials.
struct Registry: ~Copyable {
    var apps = Slab<App>()
    var appNames = ByteKeyTable<App>()
    var users = Slab<User>()
    var tokens = TokenTable()
    /// The app of clients that a listener lets in without credentials.
    var anonymousApp: [UInt8] = []
    /// The keys and names by which the edge verifies identities.
    var trust: VoucherTrust

    init(trust: VoucherTrust) {
        self.trust = trust
    }
}
