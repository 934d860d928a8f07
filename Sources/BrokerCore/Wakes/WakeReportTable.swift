// What relays reported of wake-ups: the newest entries of each user and of each app, in memory.
// Entries are in two chains, oldest first: that of their user, and that of their app. The oldest
// of a full chain makes room. The oldest of an app is the oldest of its user too. A restart of the
// broker forgets them.

import Primitives

struct WakeReportTable: ~Copyable {
    struct Entry {
        let user: Index<User>
        let app: Index<App>
        let report: WakeReport
        @Packed var nextOfUser: Index<Entry>?
        @Packed var before: Index<Entry>?
        @Packed var after: Index<Entry>?
    }

    private struct Chain {
        var first: Index<Entry>
        var last: Index<Entry>
        var count: Int
    }

    private var entries = Slab<Entry>()
    private var users: [Index<User>: Chain] = [:]
    private var apps: [Index<App>: Chain] = [:]
    /// That of the latest entry.
    private(set) var lastNumber: UInt64 = 0

    /// All entries.
    var count: Int { entries.count }

    /// Adds an entry.
    ///
    /// - Returns: how many older ones made room.
    mutating func add(_ report: WakeReport, of user: Index<User>, app: Index<App>) -> Int {
        lastNumber += 1
        var report = report
        report.number = lastNumber
        let last = apps[app]?.last
        let index = entries.insert(
            Entry(
                user: user, app: app, report: report, nextOfUser: nil, before: last, after: nil)
        ).index
        if let last { entries[last].after = index }
        apps[app, default: Chain(first: index, last: index, count: 0)].last = index
        apps[app]!.count += 1
        if let last = users[user]?.last { entries[last].nextOfUser = index }
        users[user, default: Chain(first: index, last: index, count: 0)].last = index
        users[user]!.count += 1
        if users[user]!.count > CoreLimits.wakeReportsOfUserMaximum {
            removeOldest(of: user)
            return 1
        }
        guard apps[app]!.count > CoreLimits.wakeReportsOfAppMaximum else { return 0 }
        removeOldest(of: entries[apps[app]!.first].user)
        return 1
    }

    /// The entries of a user, oldest first.
    ///
    /// - Parameters:
    ///   - number: only those with a higher number; nil for the latest ones, and so is a number
    ///     that was not given yet: numbers begin again when the broker starts.
    ///   - limit: how many at most.
    func reports(of user: Index<User>, after number: UInt64?, limit: Int) -> [WakeReport] {
        var all: [WakeReport] = []
        var next = users[user]?.first
        while let index = next {
            all.append(entries[index].report)
            next = entries[index].nextOfUser
        }
        guard let number, number <= lastNumber else { return all.suffix(limit) }
        return Array(all.lazy.filter { $0.number > number }.prefix(limit))
    }

    /// Forgets the entries of a user who is deleted.
    func has(_ user: Index<User>) -> Bool { users[user] != nil }

    mutating func removeAll(of user: Index<User>) {
        while users[user] != nil { removeOldest(of: user) }
    }

    private mutating func removeOldest(of user: Index<User>) {
        guard let index = users[user]?.first else {
            preconditionFailure("user \(user.place) has no entry that can make room")
        }
        let entry = entries.remove(index)
        if let next = entry.nextOfUser {
            users[user]!.first = next
            users[user]!.count -= 1
        } else {
            users[user] = nil
        }
        if let before = entry.before { entries[before].after = entry.after }
        if let after = entry.after { entries[after].before = entry.before }
        apps[entry.app]!.count -= 1
        if let after = entry.after, entry.before == nil { apps[entry.app]!.first = after }
        if let before = entry.before, entry.after == nil { apps[entry.app]!.last = before }
        if apps[entry.app]!.count == 0 { apps[entry.app] = nil }
    }

    func checkInvariants() {
        var counts = (users: 0, apps: 0)
        for (user, chain) in users {
            var (next, count) = (Optional(chain.first), 0)
            while let index = next {
                precondition(
                    entries[index].user == user, "an entry of another user than \(user.place)")
                count += 1
                next = entries[index].nextOfUser
            }
            precondition(
                count == chain.count && count <= CoreLimits.wakeReportsOfUserMaximum,
                "\(count) entries of user \(user.place), counted \(chain.count)")
            counts.users += count
        }
        for (app, chain) in apps {
            var (next, last, count) = (Optional(chain.first), Optional<Index<Entry>>.none, 0)
            while let index = next {
                precondition(
                    entries[index].app == app && entries[index].before == last,
                    "an entry of app \(app.place) is not where the one before it says")
                count += 1
                last = index
                next = entries[index].after
            }
            precondition(
                count == chain.count && last == chain.last
                    && count <= CoreLimits.wakeReportsOfAppMaximum,
                "\(count) entries of app \(app.place), counted \(chain.count)")
            counts.apps += count
        }
        precondition(
            counts == (entries.count, entries.count),
            "\(entries.count) entries, \(counts.users) of users, \(counts.apps) of apps")
    }
}
