// The share of each limit of the HTTP API that each principal may use. Without it, the holder of
// one credential could keep all others away with requests that it does not complete.

import Administration

/// Who has a share of a limit: a user, with whatever token, or the holder of a key.
enum RequestHolder: Hashable {
    // Names are bytes: two that are canonically equivalent are two holders, each with its share.

    case user(app: String, user: String)
    case appKey(app: String, name: String)
    case `operator`(name: String)
    /// Somebody who has not proved who he is.
    case stranger(address: String)

    init(_ principal: APIPrincipal) {
        switch principal {
        case .user(let user): self = .user(app: user.app, user: user.user)
        case .appKey(let key): self = .appKey(app: key.app, name: key.name)
        case .operator(let name, _): self = .operator(name: name)
        }
    }

    /// Nil for operators, who are there for all apps.
    var app: String? {
        switch self {
        case .user(let app, _), .appKey(let app, _): app
        case .operator, .stranger: nil
        }
    }

    var kind: APIPrincipal.Kind {
        switch self {
        case .user, .stranger: .user
        case .appKey: .appKey
        case .operator: .operator
        }
    }

    /// Which case it is, and its texts; the second one is empty where there is one.
    private var parts: (tag: UInt8, first: String, second: String) {
        switch self {
        case .user(let app, let user): (0, app, user)
        case .appKey(let app, let name): (1, app, name)
        case .operator(let name): (2, name, "")
        case .stranger(let address): (3, address, "")
        }
    }

    static func == (first: RequestHolder, second: RequestHolder) -> Bool {
        let (a, b) = (first.parts, second.parts)
        return a.tag == b.tag && a.first.utf8.elementsEqual(b.first.utf8)
            && a.second.utf8.elementsEqual(b.second.utf8)
    }

    func hash(into hasher: inout Hasher) {
        let (tag, first, second) = parts
        hasher.combine(tag)
        hasher.combine(Array(first.utf8))
        hasher.combine(Array(second.utf8))
    }
}

/// A limit of what may be in use at a time, and the shares of it.
struct RequestShare {
    /// What all users may use.
    let users: Int
    /// What one of them may use.
    let oneUser: Int
    /// What one key of an app may use.
    let oneKey: Int

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

    /// What the users and keys of one app may use when one of this kind asks for more. A quarter
    /// stays for other apps.
    func appMaximum(for kind: APIPrincipal.Kind) -> Int { Self.maximum(users, for: kind) * 3 / 4 }

    func ownMaximum(for kind: APIPrincipal.Kind) -> Int {
        switch kind {
        case .user: oneUser
        case .appKey: oneKey
        case .operator: Self.maximum(users, for: kind)
        }
    }
}

/// How much of a limit is in use, by whom.
struct RequestShareCounts {
    private let share: RequestShare
    private(set) var total = 0
    private var holders: [RequestHolder: Int] = [:]
    /// By the bytes of the name.
    private var apps: [[UInt8]: Int] = [:]

    init(_ share: RequestShare) { self.share = share }

    /// Whether a holder may use this much more.
    func admits(_ amount: Int, for holder: RequestHolder) -> Bool {
        total + amount <= RequestShare.maximum(share.users, for: holder.kind)
            && holders[holder, default: 0] + amount <= share.ownMaximum(for: holder.kind)
            && (holder.app.map { apps[Array($0.utf8), default: 0] } ?? 0) + amount
                <= share.appMaximum(for: holder.kind)
    }

    /// What a holder uses.
    func amount(of holder: RequestHolder) -> Int { holders[holder, default: 0] }

    mutating func add(_ amount: Int, for holder: RequestHolder) {
        guard amount != 0 else { return }
        total += amount
        Self.add(amount, at: holder, of: &holders)
        if let app = holder.app { Self.add(amount, at: Array(app.utf8), of: &apps) }
    }

    private static func add<Key>(_ amount: Int, at key: Key, of counts: inout [Key: Int]) {
        let count = counts[key, default: 0] + amount
        counts[key] = count == 0 ? nil : count
    }
}
