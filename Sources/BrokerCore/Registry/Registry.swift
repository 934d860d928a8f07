// Who is known: apps, their users, the tokens of users, and the keys that the operator trusts. What
// it holds outlasts connections and sessions. It knows nothing of messages.

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
