// The keys with which programs make their sends safe to repeat. A send with a key that was used is
// not made again: it gets the result of the first one.
//
// It owns the keys of all apps and their expiries. It sees no messages.
//
// Invariants: the row of a key is in the same batch as the message of its send, as a part of the
// send; a key whose row is not committed is under way; a key of which a result was told is kept
// until its expiry, and no key is removed to make room for others.

import BrokerTerms
import Primitives

/// What identifies a send that may be repeated.
public struct SendKey: Hashable, BitwiseCopyable, Sendable {
    /// Bits of a digest of the credential and the key.
    public var name: (high: UInt64, low: UInt64)
    /// Bits of a digest of what is sent.
    public var content: UInt64
    /// Whether the credential is a user's: the key is one of those that its sender may have.
    public var isOfUser: Bool

    public init(name: Digest, content: Digest, isOfUser: Bool = false) {
        self.name = (name.words.0, name.words.1)
        self.content = content.words.0
        self.isOfUser = isOfUser
    }

    public static func == (left: SendKey, right: SendKey) -> Bool {
        left.name == right.name && left.content == right.content
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(name.high)
        hasher.combine(name.low)
        hasher.combine(content)
    }
}

/// The keys of the sends of the last ``CoreLimits/sendKeySeconds``.
struct SendKeys: ~Copyable {
    /// A key within its app.
    struct Name: Hashable, BitwiseCopyable {
        let app: Index<App>
        let high: UInt64
        let low: UInt64

        init(_ key: SendKey, app: Index<App>) {
            self.init(app: app, high: key.name.high, low: key.name.low)
        }

        init(app: Index<App>, high: UInt64, low: UInt64) {
            (self.app, self.high, self.low) = (app, high, low)
        }
    }

    struct Entry {
        let content: UInt64
        /// In broker time.
        let expiry: Instant
        let result: OperatorSendResult
        /// The user whose credential made it; nil for those of app keys and operators.
        @Packed private(set) var owner: Index<User>?
        fileprivate(set) var isUnderWay: Bool

        fileprivate init(
            content: UInt64, expiry: Instant, result: OperatorSendResult, owner: Index<User>?,
            isUnderWay: Bool
        ) {
            self.content = content
            self.expiry = expiry
            self.result = result
            self.owner = owner
            self.isUnderWay = isUnderWay
        }
    }

    /// The keys of an app; those under way too.
    struct Counts: BitwiseCopyable {
        fileprivate(set) var all = 0
        /// Those of users' credentials.
        fileprivate(set) var ofUsers = 0
    }

    struct Expiry: BitwiseCopyable {
        let name: Name
        let instant: Instant
    }

    private var entries: [Name: Entry] = [:]
    private var counts: [Index<App>: Counts] = [:]
    /// Of users who have some.
    private var countsOfUsers: [Index<User>: Int] = [:]
    /// The order of their expiries. A key that was forgotten earlier is still there.
    private var expiries = Ring<Expiry>()
    /// Those of stored keys, until all are there.
    private var restored: [Expiry] = []
    /// Those whose rows are not committed, with the batch of the row and the number of the send, in
    /// the order of the batches.
    private var underWay: [(name: Name, batch: UInt64, send: UInt64)] = []

    /// Whether a row is on its way to the store; false for an ordinary commit.
    @inline(__always)
    var awaitsCommit: Bool { !underWay.isEmpty }

    var count: Int { entries.count }

    func counts(ofApp app: Index<App>) -> Counts { counts[app] ?? Counts() }

    func count(ofUser user: Index<User>) -> Int { countsOfUsers[user] ?? 0 }

    /// A key that was used and has not expired.
    func find(_ name: Name, at now: Instant) -> Entry? {
        guard let entry = entries[name], entry.isUnderWay || entry.expiry > now else { return nil }
        return entry
    }

    /// Adds a key whose row is in the batch.
    mutating func add(
        _ name: Name, content: UInt64, result: OperatorSendResult, owner: Index<User>?,
        expiry: Instant, batch: UInt64, send: UInt64
    ) {
        insert(
            name,
            Entry(
                content: content, expiry: expiry, result: result, owner: owner, isUnderWay: true))
        expiries.append(Expiry(name: name, instant: expiry))
        underWay.append((name, batch, send))
    }

    /// Adds a stored key. ``endRestoration()`` follows the last one.
    mutating func restore(
        _ name: Name, content: UInt64, result: OperatorSendResult, owner: Index<User>?,
        expiry: Instant
    ) {
        insert(
            name,
            Entry(
                content: content, expiry: expiry, result: result, owner: owner, isUnderWay: false))
        restored.append(Expiry(name: name, instant: expiry))
    }

    mutating func endRestoration() {
        restored.sort { $0.instant < $1.instant }
        for expiry in restored { expiries.append(expiry) }
        restored = []
    }

    /// Takes the result of a batch. Forgets the keys whose rows it contained if they were not
    /// stored. Returns the numbers of their sends.
    mutating func settle(batch: UInt64, isStored: Bool) -> [UInt64] {
        guard let first = underWay.first, first.batch <= batch else { return [] }
        let end = underWay.firstIndex { $0.batch > batch } ?? underWay.count
        let sends = underWay[..<end].map(\.send)
        for key in underWay[..<end] {
            if isStored { entries[key.name]?.isUnderWay = false } else { remove(key.name) }
        }
        underWay.removeFirst(end)
        return sends
    }

    /// Removes and returns keys that have expired.
    mutating func removeExpired(at now: Instant, countMaximum: Int) -> [Name] {
        var removed: [Name] = []
        while removed.count < countMaximum, !expiries.isEmpty, expiries[0].instant <= now {
            let first = expiries.removeFirst()
            // It may have been forgotten, and used again.
            guard entries[first.name]?.expiry == first.instant else { continue }
            remove(first.name)
            removed.append(first.name)
        }
        return removed
    }

    /// Removes and returns keys of an app, or of one of its users, that is being deleted. One whose
    /// row is not committed stays.
    ///
    /// - Parameter position: looks at keys before this one, and is set to the last one that was
    ///   looked at; 0 at the end. Keys that expire meanwhile move the others towards the beginning,
    ///   so that a walk to the beginning misses none.
    mutating func removeKeys(
        ofApp app: Index<App>, owner: Index<User>?, before position: inout Int, countMaximum: Int
    ) -> [Name] {
        position = min(position, expiries.count)
        let end = max(position - countMaximum, 0)
        var removed: [Name] = []
        while position > end {
            position -= 1
            let name = expiries[position].name
            guard name.app == app, let entry = entries[name], !entry.isUnderWay,
                owner == nil || owner == entry.owner
            else { continue }
            remove(name)
            removed.append(name)
        }
        return removed
    }

    private mutating func insert(_ name: Name, _ entry: Entry) {
        // A key that expired and was not removed is replaced.
        if let old = entries.updateValue(entry, forKey: name) { count(old, of: name.app, by: -1) }
        count(entry, of: name.app, by: 1)
    }

    private mutating func remove(_ name: Name) {
        if let old = entries.removeValue(forKey: name) { count(old, of: name.app, by: -1) }
    }

    private mutating func count(_ entry: Entry, of app: Index<App>, by change: Int) {
        counts[app, default: Counts()].all += change
        guard let owner = entry.owner else { return }
        counts[app, default: Counts()].ofUsers += change
        let count = count(ofUser: owner) + change
        countsOfUsers[owner] = count == 0 ? nil : count
    }

    func checkInvariants() {
        let sum = counts.values.reduce(0) { $0 + $1.all }
        precondition(sum == entries.count, "\(sum) keys of apps, and \(entries.count) keys")
        let (ofApps, ofUsers) = (
            counts.values.reduce(0) { $0 + $1.ofUsers }, countsOfUsers.values.reduce(0, +)
        )
        precondition(
            ofApps == ofUsers && ofUsers == entries.values.count { $0.owner != nil },
            "\(ofUsers) keys of users, and \(ofApps) of them in apps")
        precondition(
            entries.values.count { $0.isUnderWay } == underWay.count,
            "\(underWay.count) keys wait for a batch")
        precondition(
            expiries.count + restored.count >= entries.count,
            "\(expiries.count + restored.count) expiries of \(entries.count) keys")
    }
}

extension Records {
    /// The longest row of a key whose send names so many receivers.
    ///
    /// - Parameter owner: the name of the user whose credential made it; nil for none.
    static func sendKeyPageByteCount(app: [UInt8], owner: [UInt8]?, receiverCount: Int) -> Int {
        let ownerCount = owner?.count ?? 0
        return RecordChange.pageByteCount(
            key: 1 + app.count + 16, value: 38 + 3 * receiverCount + ownerCount)
    }

    /// Rows of version 1 have no owner: those of app keys and operators, and those of users that
    /// an earlier version wrote.
    static func sendKey(
        _ name: SendKeys.Name, app: [UInt8], owner: [UInt8]?, content: UInt64, expiry: Instant,
        _ result: OperatorSendResult
    ) -> RecordChange {
        // Version 2 appends the owner. Version 3 appends the owner, which is empty for none, and
        // the reference of the message.
        let version: UInt8 = result.reference != 0 ? 3 : owner == nil ? 1 : 2
        var row = RecordWriter(version: version)
        row.write(expiry.milliseconds)
        row.write(content)
        row.write(result.reason.rawValue)
        row.write(result.receiverCount)
        row.write(result.refusedCount)
        row.write(UInt16(result.refusals.count))
        for refusal in result.refusals {
            row.write(UInt16(refusal.index))
            row.write(refusal.reason.rawValue)
        }
        if version > 1 { row.write(owner ?? []) }
        if version > 2 { row.write(result.reference) }
        return RecordChange(table: .sendKeys, key: key(of: name, app: app), value: row.bytes)
    }

    static func key(of name: SendKeys.Name, app: [UInt8]) -> [UInt8] {
        RecordKey.name(app: app, RecordKey.numbers(name.high, name.low))
    }
}

extension Broker {
    /// Whether the key of a send was used, and what is answered then; nil for a new key.
    mutating func repeated(
        _ key: SendKey, ofApp app: Index<App>, at now: Instant
    ) -> OperatorSend? {
        guard let entry = sendKeys.find(SendKeys.Name(key, app: app), at: now) else { return nil }
        guard entry.content == key.content else {
            counters.sendKeysRefused += 1
            return .otherContent
        }
        guard !entry.isUnderWay else {
            counters.sendKeysRefused += 1
            return .underWay
        }
        counters.sendsRepeated += 1
        return .complete(entry.result)
    }

    /// Admits the row of a new key.
    ///
    /// - Parameter owner: the user whose credential made it; nil for none.
    /// - Throws: the limit that does not allow another key.
    mutating func admitKey(
        of request: SendRequest, app: Index<App>, owner: Index<User>?
    ) throws(KeyRefusal) -> GrowthPermit {
        if let limit = limit(ofKeys: app, owner: owner) { throw KeyRefusal(limit: limit) }
        var receiverCount = 0
        if case .users(_, let count) = request.target { receiverCount = count }
        let permit = admitGrowth(
            of: Records.sendKeyPageByteCount(
                app: registry.apps[app].name, owner: name(ofOwner: owner),
                receiverCount: receiverCount))
        guard let permit else { throw KeyRefusal(limit: commits.room.limit) }
        return permit
    }

    /// The limit that does not allow another key of an app; nil if it is allowed.
    private func limit(ofKeys app: Index<App>, owner: Index<User>?) -> LimitName? {
        let counts = sendKeys.counts(ofApp: app)
        if counts.all >= limits.sendKeysPerAppMaximum { return .sendKeys }
        guard let owner else { return nil }
        if sendKeys.count(ofUser: owner) >= limits.sendKeysPerUserMaximum {
            return .sendKeysOfUser
        }
        return counts.ofUsers >= limits.sendKeysOfUsersPerAppMaximum ? .sendKeysOfUsers : nil
    }

    private func name(ofOwner owner: Index<User>?) -> [UInt8]? {
        owner.map { Array(registry.users[$0].name) }
    }

    /// Stores the key of a send with its message: both are in the pending batch. Also makes room
    /// for it in memory.
    mutating func remember(
        _ key: SendKey, ofApp app: Index<App>, owner: Index<User>?, send: UInt64,
        result: OperatorSendResult, at now: Instant, permit: borrowing GrowthPermit
    ) {
        removeExpiredKeys(at: now, countMaximum: CoreLimits.expiredKeysPerSendMaximum)
        let name = SendKeys.Name(key, app: app)
        let expiry = now.advanced(bySeconds: CoreLimits.sendKeySeconds)
        let row = Records.sendKey(
            name, app: registry.apps[app].name, owner: self.name(ofOwner: owner),
            content: key.content, expiry: expiry, result)
        commits.putWithSends(row, permit)
        sendKeys.add(
            name, content: key.content, result: result, owner: owner, expiry: expiry,
            batch: commits.pendingSequence, send: send)
    }

    mutating func removeExpiredKeys(at now: Instant, countMaximum: Int) {
        for name in sendKeys.removeExpired(at: now, countMaximum: countMaximum) {
            commits.remove(
                .sendKeys, key: Records.key(of: name, app: registry.apps[name.app].name))
        }
    }

    /// Takes the result of the batch that contains the rows of keys.
    mutating func settleKeys(batch: UInt64, isStored: Bool) {
        for send in sendKeys.settle(batch: batch, isStored: isStored) {
            operatorSends.settleKey(of: send, isStored: isStored)
        }
    }

    mutating func restoreSendKey(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count == 1 + Int(appCount) + 16,
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw .danglingRecord(.sendKeys, key: key) }
        let name = SendKeys.Name(
            app: app, high: RecordKey.readNumber(key, at: 1 + Int(appCount)),
            low: RecordKey.readNumber(key, at: 1 + Int(appCount) + 8))
        let version = value.first.map { min(max($0, 1), 3) } ?? 1
        var row = try RecordReader(value, version: version, table: .sendKeys, key: key)
        let expiry = Instant(milliseconds: try row.read(UInt64.self))
        let content = try row.read(UInt64.self)
        var result = OperatorSendResult(reason: try row.readReason())
        result.receiverCount = try row.read(UInt32.self)
        result.refusedCount = try row.read(UInt32.self)
        for _ in 0..<(try row.read(UInt16.self)) {
            let index = try row.read(UInt16.self)
            result.refusals.append(
                Refusal(index: UInt32(index), reason: try row.readReason()))
        }
        var owner: Index<User>?
        if version > 1 {
            let name = try row.readString()
            if version == 2 || !name.isEmpty {
                // A key of a user that was deleted keeps others from using it, until it expires.
                owner = user(named: name, app: app) ?? deletedUser(named: name, app: app)
            }
        }
        if version > 2 { result.reference = try row.read(UInt64.self) }
        sendKeys.restore(name, content: content, result: result, owner: owner, expiry: expiry)
    }
}

/// Why a key was refused.
struct KeyRefusal: Error {
    let limit: LimitName
}
