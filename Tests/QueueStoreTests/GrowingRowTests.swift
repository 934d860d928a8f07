// The core on the real store while rows grow until the disk is full: requests are refused by name,
// no commit fails, and confirmed changes are present at the next start.

import BrokerCore
import BrokerTerms
import Primitives
import TestSurroundings
import Testing

@testable import QueueStore

@Suite struct `Rows that grow on a full disk` {
    static let app = Array("app".utf8)
    static let groupCount = 2_400
    /// The longest allow list there is.
    static let longList = (0..<CoreLimits.groupAllowedMaximum).map { number in
        Array("\(number)".utf8) + [UInt8](repeating: 120, count: 60)
    }

    /// A broker with its store, and batches that are committed when enough has gathered.
    struct Site: ~Copyable {
        var store: LMDBQueueStore
        var broker: Broker
        var effects = Effects(loopCount: 1)
        static let now = Moment(
            instant: Instant(milliseconds: 1), unixMilliseconds: 1_700_000_000_000)

        /// The disk is what fills, and not what groups may take of memory.
        static var limits: CoreLimits {
            var limits = CoreLimits()
            limits.groupBytesPerAppMaximum = .max
            limits.groupBytesPerUserMaximum = .max
            return limits
        }

        static func start(_ path: String) throws -> Site {
            var site = Site(
                store: try LMDBQueueStore(directory: path, options: .small),
                broker: Broker(limits: limits, at: Site.now))
            var state = try site.store.restore(into: &site.broker)
            site.store.claimRoom(telling: &state)
            try site.broker.finishRestoring(state, newEpochSeed: 1, at: Site.now)
            return site
        }

        /// Commits what has gathered, beside what gathers in the same moment.
        mutating func commit(meanwhile body: (inout Site) -> Void = { _ in }) throws {
            var batch = StoreBatch()
            let hasBatch = broker.takeBatch(into: &batch, at: Site.now)
            body(&self)
            guard hasBatch else { return }
            var result = StoreResult()
            try store.carryOut(batch, into: &result)
            broker.stored(result, at: Site.now, effects: &effects)
        }

        mutating func change(_ group: [UInt8], _ action: GroupAction) -> ReasonCode {
            broker.changeGroup(app: app, group, action, at: Site.now, effects: &effects).reason
        }
    }

    private func owner(_ number: Int) -> [UInt8] { Array("owner\(number / 500)".utf8) }

    private func makeGroups(_ site: inout Site) throws -> [[UInt8]] {
        let isNew = try site.broker.addApp(Self.app, keyDigest: nil)
        #expect(isNew)
        var groups: [[UInt8]] = []
        for number in 0..<Self.groupCount {
            _ = try site.broker.addUser(owner(number), app: Self.app)
            let made = site.broker.createGroup(
                app: Self.app, owner: owner(number), title: [], meta: [], allowed: nil,
                key: UInt64(number), seed: UInt64(number) << 20 | 1, at: Site.now,
                effects: &site.effects)
            try #require(made.reason == .success)
            groups.append(made.group)
        }
        try site.commit()
        return groups
    }

    @Test(.enabled(if: SmallDisk.canBeMounted, "mounting a small disk needs a privilege"))
    func `are refused, and no confirmed row is lost`() throws {
        let disk = try #require(SmallDisk(byteCount: 160 << 20))
        let (kept, count) = try fillAndDrain(disk.path + "/store")
        var site = try Site.start(disk.path + "/store")
        let allowed = site.broker.groupDescription(app: Self.app, kept)?.allowed
        #expect(allowed == Self.longList)
        let gauges = site.broker.gauges()
        #expect(gauges.groups == count)
        let reason = site.change(kept, .setMeta([1]))
        #expect(reason == .success)
    }

    /// - Returns: a group with a long list, and how many there are.
    private func fillAndDrain(_ path: String) throws -> (kept: [UInt8], count: Int) {
        var site = try Site.start(path)
        let groups = try makeGroups(&site)
        let long = try fill(&site, groups)

        // What makes room is never refused: shorter lists, and the end of members and groups.
        for group in long.prefix(40) {
            let reason = site.change(group, .setAllowed([]))
            #expect(reason == .success)
        }
        try site.commit()
        for (number, group) in groups.enumerated() where long.contains(group) {
            let reason = site.change(group, .leave(user: owner(number)))
            #expect(reason == .success)
            if number % 20 == 0 { try site.commit() }
        }
        // Housekeeping asks whether there is room.
        for minute in 1...3 as ClosedRange<UInt64> {
            try site.commit()
            site.broker.advance(
                to: Moment(
                    instant: Instant(milliseconds: minute * 60_000),
                    unixMilliseconds: 1_700_000_000_000),
                effects: &site.effects)
        }
        try site.commit()
        let kept = try #require(groups.last { !long.contains($0) })
        let reason = site.change(kept, .setAllowed(Self.longList))
        #expect(reason == .success)
        try site.commit()
        return (kept, Self.groupCount - long.count)
    }

    /// Gives groups long lists until there is no room, some hundred in a commit and as many while
    /// it is under way.
    ///
    /// - Returns: the groups that have got one.
    private func fill(_ site: inout Site, _ groups: [[UInt8]]) throws -> Set<[UInt8]> {
        var long: Set<[UInt8]> = []
        func grow(_ first: Int, _ site: inout Site) {
            for group in groups[first..<min(first + 200, groups.count)] {
                let reason = site.change(group, .setAllowed(Self.longList))
                #expect(reason == .success || reason == .quotaExceeded)
                if reason == .success { long.insert(group) }
            }
        }
        for start in stride(from: 0, to: groups.count, by: 400) {
            grow(start, &site)
            try site.commit { if start + 200 < groups.count { grow(start + 200, &$0) } }
        }
        try site.commit()
        #expect(long.count > 100)
        #expect(long.count < groups.count, "it never fills")
        return long
    }
}
