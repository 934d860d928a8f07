// Users who register by themselves, with a password. Nobody gets a name that others have rights or
// places for: a user, a password, an allow list of a group or a right may have it already.

import Primitives

/// What became of a registration.
public enum UserRegistration: Hashable, Sendable {
    case done
    case unknownApp
    /// There is a user or a password of this name.
    case taken
}

/// A search for what names a user of an app: allow lists of groups, and rights of the app, its
/// tokens, keys and passwords. They are read in slices: no message waits for more than one.
public struct NameSearch: Sendable {
    fileprivate enum Part: CaseIterable {
        case app, groups, tokens, keys, passwords
    }

    fileprivate let app: [UInt8]
    fileprivate let user: [UInt8]
    /// The rights that name the user, as they are written.
    fileprivate let rights: Set<[UInt8]>
    fileprivate var part = Part.app
    /// The place that was read last in this part.
    fileprivate var last: UInt32?
    /// Whether something names the user.
    public fileprivate(set) var isNamed = false

    /// Names and places that are read at a time: about a millisecond.
    fileprivate static let sliceCount = 4_096

    public init(user: [UInt8], app: [UInt8]) {
        self.user = user
        self.app = app
        let percent = UInt8(ascii: "%")
        let pattern = user.flatMap { $0 == percent ? [percent, percent] : [$0] }
        rights = Set(
            ["send:", "presence:", "receipts:", "attach:"].map { Array($0.utf8) + pattern })
    }

    fileprivate func names(_ rights: Rights?) -> Bool { rights?.hasText(in: self.rights) ?? false }
}

extension Broker {
    /// Makes a user with a password, in one batch: a crash leaves both or none.
    public mutating func registerUser(
        with password: RegisteredPassword, app name: [UInt8], at moment: Moment,
        effects: inout Effects
    ) throws(NoRoom) -> UserRegistration {
        guard let app = app(named: name) else { return .unknownApp }
        guard user(named: password.user, app: app) == nil,
            registry.passwords.find(password.name, app: name) == nil
        else { return .taken }
        _ = try setPasswords([password], app: name, at: moment, effects: &effects)
        return .done
    }

    /// Reads the next slice of a search. Returns false when it is complete.
    public func advance(_ search: inout NameSearch) -> Bool {
        guard let app = app(named: search.app) else { return false }
        var work = 0
        while work < NameSearch.sliceCount {
            if search.isNamed { return false }
            if let count = readNext(&search, app: app) {
                work += count
                continue
            }
            let parts = NameSearch.Part.allCases
            guard let next = parts.drop(while: { $0 != search.part }).dropFirst().first else {
                return false
            }
            (search.part, search.last) = (next, nil)
        }
        return true
    }

    /// Reads one place of the current part. Returns its work; nil behind the last place.
    private func readNext(_ search: inout NameSearch, app: Index<App>) -> Int? {
        switch search.part {
        case .app:
            search.isNamed =
                search.names(registry.apps[app].rights)
                || limits.policy(ofApp: registry.apps[app].name).names(relay: search.user)
            return nil
        case .groups:
            var places = groupTable.groups.places.after(search.last)
            guard let group = places.next() else { return nil }
            search.last = group.place
            guard groupTable.groups.contains(group), groupTable.groups[group].app == app,
                let allowed = groupTable.groups[group].allowed
            else { return 1 }
            search.isNamed = allowed.contains(search.user)
            return 1 + allowed.count
        case .tokens:
            var places = registry.tokens.places.after(search.last)
            guard let index = places.next() else { return nil }
            search.last = index.place
            if let token = registry.tokens[index], let rights = token.rights,
                token.app == search.app
            {
                search.isNamed = search.names(rights)
            }
            return 1
        case .keys:
            var places = registry.keys.places.after(search.last)
            guard let index = places.next() else { return nil }
            search.last = index.place
            if let entry = registry.keys[index], entry.app == app {
                search.isNamed = search.names(entry.key.rights)
            }
            return 1
        case .passwords:
            var places = registry.passwords.places.after(search.last)
            guard let index = places.next() else { return nil }
            search.last = index.place
            if let entry = registry.passwords[index], entry.app == app {
                search.isNamed = search.names(entry.password.rights)
            }
            return 1
        }
    }
}
