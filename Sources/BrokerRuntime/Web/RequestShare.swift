// The share of each limit of the HTTP API that each kind of principal may use. Without it, the
// holder of one user's token could keep operators away with requests that it does not complete.

import Administration

enum RequestShare {
    /// The number that may be in use when a principal of this kind asks for more.
    ///
    /// What is above `usersMaximum` is kept for those who administer the users: app keys have a
    /// quarter more, and operators a half.
    static func maximum(_ usersMaximum: Int, for kind: APIPrincipal.Kind) -> Int {
        switch kind {
        case .user: usersMaximum
        case .appKey: usersMaximum + usersMaximum / 4
        case .operator: usersMaximum + usersMaximum / 2
        }
    }
}
