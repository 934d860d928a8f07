// The complete check of a store (martletd --verify-store): the form of every page, every checksum,
// and the sums of bodies, entries and releases. It changes nothing.

import BrokerCore
import CLMDB
import Glibc

extension LMDBQueueStore {
    /// Checks the store in a directory that no broker has open.
    ///
    /// The report contains the store's faults. Throws if the store cannot be examined: it is in
    /// use, or the file system fails.
    public static func verify(
        directory: String, options: StoreOptions = StoreOptions()
    ) throws(StoreError) -> VerificationReport {
        var nobody = DeafVisitor()
        return try verify(directory: directory, options: options, into: &nobody)
    }

    /// The same; also passes the contents of a store with valid rows to `visitor`, as a start does,
    /// so that the visitor finds what a start would refuse.
    public static func verify(
        directory: String, options: StoreOptions = StoreOptions(), progress: CopyProgress? = nil,
        into visitor: inout some StoreVisitor & ~Copyable
    ) throws(StoreError) -> VerificationReport {
        var report = VerificationReport()
        let lock = try DirectoryLock(directory: directory, createsDirectory: false)
        do throws(StoreError) {
            let path = directory + "/" + Environment.dataFile
            var information = stat()
            if let progress, stat(path, &information) == 0 {
                // The rows are in the pages: both are read.
                progress.begin(totalByteCount: 2 * Int(information.st_size))
            }
            let strayCount = try PageCheck.run(path: path, progress: progress)
            if strayCount > 0 {
                report.find(
                    "\(strayCount) pages behind the end of the file belong to nothing",
                    .none("nothing is lost; a backup that is restored does not have them"))
            }
            let environment = try Environment(
                directory: directory, lock: lock, mapByteCount: options.mapByteCount,
                isReadOnly: true)
            report.commitNumber = environment.commitNumber
            let formats = StoreFormats.known
            if let found = try storedFormat(environment, directory: directory) {
                try formats.check(found)
                // The checks know the rows of one format.
                guard found == formats.current else {
                    report.find(
                        "the store has format \(found): its next start makes it"
                            + " \(formats.current), check it then",
                        .none("start the broker once"))
                    return report
                }
            }
            var verification = try Verification(environment: environment, progress: progress)
            defer { verification.end() }
            try verification.run(into: &report)
            try verification.read(into: &visitor, report)
        } catch .system(let call, let path, let errno) {
            throw .system(call: call, path: path, errno: errno)
        } catch {
            report.find("\(error)", preventsStart: true, .none("restore a backup"))
        }
        return report
    }

    /// Checks a staging file's pages and the checksum of every row. It does not compare the sums of
    /// rows, which takes memory for each message: a copy has the rows of its original.
    static func verify(
        _ stagingFile: StagingFile, format: UInt32, progress: CopyProgress?,
        into report: inout VerificationReport
    ) throws(StoreError) {
        try PageCheck.run(path: stagingFile.path, progress: progress)
        try verifyRows(of: stagingFile, format: format, into: &report)
    }

    /// The same without the pages, which have to be sound: LMDB maps them.
    static func verifyRows(
        of stagingFile: StagingFile, format: UInt32, into report: inout VerificationReport
    ) throws(StoreError) {
        // The checks know the rows of one format.
        guard format == StoreFormats.known.current else { return }
        let environment = try Environment(
            reading: stagingFile, mapByteCount: StoreOptions().mapByteCount)
        var verification = try Verification(environment: environment, addsUp: false)
        defer { verification.end() }
        try verification.run(into: &report)
    }
}

/// Ignores its input.
private struct DeafVisitor: StoreVisitor {
    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {}

    mutating func visitQueue(_ outline: QueueOutline) {}
}

/// One walk over all tables.
private struct Verification {
    /// The holders of a body.
    private struct Holders {
        var receiverCount: UInt32
        var releasedCount: UInt32 = 0
        var entryCount: UInt32 = 0
        var setAsideCount: UInt32 = 0
    }

    private let transaction: OpaquePointer
    private let tables: Tables
    private let scratch: UnsafeMutableRawPointer
    private var holders: [UInt64: Holders] = [:]
    /// Messages whose body cannot be read.
    private var unreadable: Set<UInt64> = []
    /// Nil if it cannot be read.
    private var stamp: MetaStamp?
    /// Whether the sums of bodies, entries and releases are checked.
    private let addsUp: Bool
    private let progress: CopyProgress?

    init(
        environment: borrowing Environment, addsUp: Bool = true, progress: CopyProgress? = nil
    ) throws(StoreError) {
        var begun: OpaquePointer?
        try check(
            mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
        do throws(StoreError) {
            tables = try Tables(transaction: begun!)
        } catch {
            mdb_txn_abort(begun)
            throw error
        }
        transaction = begun!
        self.addsUp = addsUp
        self.progress = progress
        scratch = .allocate(byteCount: 8, alignment: 8)
    }

    func end() {
        mdb_txn_abort(transaction)
        scratch.deallocate()
    }

    mutating func run(into report: inout VerificationReport) throws(StoreError) {
        try verifyMeta(into: &report)
        try verifyRecords(into: &report)
        try verifyMessages(into: &report)
        try verifyReleases(into: &report)
        try verifyEntries(into: &report)
        try verifyDamaged(into: &report)
        for (id, holders) in holders.sorted(by: { $0.key < $1.key }) {
            let count = holders.releasedCount + holders.entryCount + holders.setAsideCount
            if count != holders.receiverCount {
                report.find(
                    "message \(id) accounts for \(count) of \(holders.receiverCount) receivers",
                    remedy(of: id, holders))
            }
        }
    }

    /// What makes the count of a message's receivers agree with the entries that have it.
    private func remedy(of id: UInt64, _ holders: Holders) -> VerificationReport.Remedy {
        guard !unreadable.contains(id) else { return .included }
        let held = holders.entryCount + holders.setAsideCount
        // Receivers with neither an entry nor a release: a row of either kind is gone.
        let known = held + holders.releasedCount
        let lost =
            known < holders.receiverCount
            ? "\(holders.receiverCount - known) receivers, whom no row names, may not have it"
            : "nothing is lost"
        guard held > 0 else {
            return .changes(
                Self.removal(ofMessage: id), "remove it: no queue has an entry with it; \(lost)")
        }
        guard held <= holders.receiverCount else {
            return .changes(
                [.setReceivers(message: id, count: held)],
                "set its receivers to \(held), the entries that have it; nothing is lost")
        }
        let released = holders.receiverCount - held
        return .changes(
            [.setReleased(message: id, count: released)],
            "count \(released) releases, because \(held) entries have it; \(lost)")
    }

    private static func removal(ofMessage id: UInt64) -> [StoreRepair.Change] {
        let key = [UInt8](bigEndian: id)
        return [.remove(.messages, key: key), .remove(.releases, key: key)]
    }

    /// Calls `body` with every key and value of a table; returns their number.
    private func walk(
        _ table: MDB_dbi,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) -> Int {
        var cursor = try Cursor(transaction: transaction, table: table, scratch: scratch)
        defer { mdb_cursor_close(cursor.handle) }
        var count = 0
        while try cursor.next() {
            count += 1
            try progress?.advance(byByteCount: cursor.key.count + cursor.value.count)
            try body(cursor.key, cursor.value)
        }
        return count
    }

    /// Reads the contents of the store as a start does; without damaged records, if a repair
    /// removes all of them.
    func read(
        into visitor: inout some StoreVisitor & ~Copyable, _ report: VerificationReport
    ) throws(StoreError) {
        var doomed: Set<QueueID> = []
        _ = try walk(tables.doomed) { (key, value) throws(StoreError) in
            guard SealedValue.open(value, seed: .doomedQueue, key: key) != nil else { return }
            if key.count == 8 { doomed.insert(QueueID(raw: key.bigEndian(at: 0))) }
        }
        let reading = StoreReading(
            transaction: transaction, tables: tables, scratch: scratch, doomedQueues: doomed,
            skipsDamagedRecords: !report.isBeyondRepair)
        do throws(StoreError) {
            _ = try reading.readAll(into: &visitor)
        } catch .damagedRecord {
            // It is a finding already.
        }
    }

    private mutating func verifyMeta(into report: inout VerificationReport) throws(StoreError) {
        var hasStamp = false
        for key in [MetaKey.format, .identity, .stamp, .backup, .position] {
            do throws(StoreError) {
                let value = try metaValue(key, transaction: transaction, table: tables.meta) {
                    [UInt8]($0)
                }
                if key == .stamp, let value {
                    hasStamp = true
                    stamp = value.withUnsafeBytes(MetaStamp.init)
                }
                // A store without a commit has no stamp.
                if value == nil, key == .format || key == .identity {
                    report.find(
                        "\(key.rawValue) is missing", preventsStart: true, key.remedyOfDamage)
                }
                if value != nil, key == .position { report.belongsToCluster = true }
            } catch .damagedMeta(let name) {
                if key == .position { report.belongsToCluster = true }
                if key == .stamp { hasStamp = true }
                report.find("\(name) fails its checksum", preventsStart: true, key.remedyOfDamage)
            }
        }
        let faults = try metaFaults(
            transaction: transaction, tables: tables, scratch: scratch, hasStamp: hasStamp)
        for fault in faults {
            report.find(fault, preventsStart: true, .none("restore a backup"))
        }
        let doomedCount = try walk(tables.doomed) { (key, value) throws(StoreError) in
            if key.count != 8 || SealedValue.open(value, seed: .doomedQueue, key: key) == nil {
                report.find(
                    "deleted queue \(readable(key)) fails its checksum", preventsStart: true,
                    .changes(
                        [.remove(.doomed, key: [UInt8](key))],
                        "remove the mark; a queue without an owner gets another one"))
            }
        }
        if doomedCount > 0 { report.summary.append("\(doomedCount) queues are being deleted") }
    }

    private func verifyRecords(into report: inout VerificationReport) throws(StoreError) {
        let count = try walk(tables.records) { (key, value) throws(StoreError) in
            let table = key.first.flatMap(RecordTable.init)
            if table == nil || SealedValue.open(value, seed: .record, key: key) == nil {
                let name = table.map { "\($0)" } ?? "unknown"
                report.find(
                    "record \(readable(key.dropFirst())) of table \(name) fails its checksum",
                    preventsStart: true,
                    Self.remedy(ofRecord: [UInt8](key), [UInt8](value), in: table))
            }
        }
        report.summary.append(counted(count, "record", plural: "records"))
    }

    private static func remedy(
        ofRecord key: [UInt8], _ value: [UInt8], in table: RecordTable?
    ) -> VerificationReport.Remedy {
        guard let table else {
            return .none("a newer broker may have written it: start that one, or restore a backup")
        }
        guard let loss = table.lossOfRow else {
            return .none("messages or other records need it: restore a backup")
        }
        // The name of these is in the value, not in the key.
        let isNumbered = table == .retained || table == .wills
        let text = isNumbered ? "; its bytes: \(readable(value.dropFirst(8).prefix(96)))" : ""
        return .changes([.remove(.records, key: key)], "remove it: \(loss)\(text)")
    }

    private mutating func verifyMessages(into report: inout VerificationReport) throws(StoreError) {
        var holders: [UInt64: Holders] = [:]
        var unreadable: Set<UInt64> = []
        let count = try walk(tables.messages) { (key, value) throws(StoreError) in
            // A start compares the last key only.
            let isBeyond = stamp?.isReached(by: key) == true
            guard key.count == 8 else {
                return report.find(
                    "\(readable(key)) is no message id", preventsStart: isBeyond,
                    .changes(
                        [.remove(.messages, key: [UInt8](key))],
                        "remove it: no entry can name it"))
            }
            let id: UInt64 = key.bigEndian(at: 0)
            if StoredMessage.block(value, id: id) == nil {
                unreadable.insert(id)
                report.find(
                    "message \(id) fails its checksum", preventsStart: isBeyond,
                    .changes(Self.removal(ofMessage: id), "remove it: nobody can receive it"))
            } else if isBeyond {
                report.find(
                    "message \(id) is not below the next one of the stamp", preventsStart: true,
                    .none("the broker would give its id to another one: restore a backup"))
            }
            if addsUp, let receiverCount = StoredMessage.receiverCount(value, id: id) {
                holders[id] = Holders(receiverCount: receiverCount)
            }
        }
        self.holders = holders
        self.unreadable = unreadable
        report.summary.append(counted(count, "message", plural: "messages"))
    }

    private mutating func verifyReleases(into report: inout VerificationReport) throws(StoreError) {
        var released: [(id: UInt64, count: UInt32)] = []
        _ = try walk(tables.releases) { (key, value) throws(StoreError) in
            guard key.count == 8,
                let count = StoredRelease.count(value, id: key.bigEndian(at: 0))
            else {
                return report.find(
                    "release \(readable(key)) fails its checksum",
                    .changes(
                        [.remove(.releases, key: [UInt8](key))],
                        "remove it: the releases are counted from the entries"))
            }
            if addsUp { released.append((key.bigEndian(at: 0), count)) }
        }
        for release in released {
            if addsUp, holders[release.id] == nil {
                report.find(
                    "message \(release.id) is released and missing",
                    .changes(
                        [.remove(.releases, key: [UInt8](bigEndian: release.id))],
                        "remove the release; nothing is lost"))
            }
            holders[release.id]?.releasedCount = release.count
        }
    }

    private mutating func verifyEntries(into report: inout VerificationReport) throws(StoreError) {
        var holders = holders
        self.holders = [:]
        var queues = 0
        var lastQueue: UInt64?
        let count = try walk(tables.entries) { (key, value) throws(StoreError) in
            guard let place = EntryKey(key), let entry = StoredEntry(value, key: place) else {
                return report.find(
                    "entry \(readable(key)) fails its checksum",
                    Self.removal(ofEntry: [UInt8](key)),
                    queue: EntryKey(key).map { QueueID(raw: $0.queue) })
            }
            let name = "entry \(place.number) of queue \(place.queue)"
            if addsUp, holders[entry.message] == nil, !unreadable.contains(entry.message) {
                report.find(
                    "\(name) has no message \(entry.message)", Self.removal(ofEntry: [UInt8](key)),
                    queue: QueueID(raw: place.queue))
            } else if addsUp, unreadable.contains(entry.message) {
                // A finding of its message.
                report.repairs.append(
                    StoreRepair(
                        "\(name) has message \(entry.message), which cannot be read",
                        Self.entryAction, changes: [.remove(.entries, key: [UInt8](key))],
                        queue: QueueID(raw: place.queue)))
            }
            holders[entry.message]?.entryCount += 1
            if lastQueue != place.queue { queues += 1 }
            lastQueue = place.queue
        }
        self.holders = holders
        report.summary.append(
            counted(count, "entry", plural: "entries") + " in "
                + counted(queues, "queue", plural: "queues"))
    }

    private static let entryAction = "remove it: its receiver does not get this message"

    private static func removal(ofEntry key: [UInt8]) -> VerificationReport.Remedy {
        .changes([.remove(.entries, key: key)], entryAction)
    }

    private mutating func verifyDamaged(into report: inout VerificationReport) throws(StoreError) {
        var holders = holders
        let count = try walk(tables.damaged) { (key, value) throws(StoreError) in
            guard let place = EntryKey(key),
                let evidence = SealedValue.open(value, seed: .damagedEntry, key: key)
            else {
                return report.find(
                    "set-aside entry \(readable(key)) fails its checksum",
                    .changes(
                        [.remove(.damaged, key: [UInt8](key))],
                        "remove it: it was not delivered any more"))
            }
            let original = UnsafeRawBufferPointer(rebasing: evidence.dropFirst())
            if let entry = StoredEntry(original, key: place) {
                holders[entry.message]?.setAsideCount += 1
            }
            let cause = evidence.first == DamageCause.unreadableBody.rawValue ? "body" : "entry"
            report.summary.append(
                "entry \(place.number) of queue \(place.queue) was set aside: unreadable \(cause)")
        }
        self.holders = holders
        if count > 0 { report.summary.append("\(count) entries were set aside as damaged") }
    }
}

extension MetaKey {
    /// What can be done if it is damaged, or missing.
    fileprivate var remedyOfDamage: VerificationReport.Remedy {
        switch self {
        case .format: .none("nobody knows what the rows mean: restore a backup")
        case .stamp: .none("the broker's clock is in it, for every deadline: restore a backup")
        case .position: .none("copy the store of another node (--copy-node)")
        case .identity, .backup:
            .changes(
                [.renewIdentity],
                "make a new one, as for a restored backup: devices resume at the beginning and "
                    + "may receive messages again")
        }
    }
}

extension [UInt8] {
    /// The key of a number.
    fileprivate init(bigEndian number: UInt64) {
        self = Swift.withUnsafeBytes(of: number.bigEndian) { [UInt8]($0) }
    }
}

/// A number and its noun: `1 entry`, `2 entries`.
private func counted(_ count: Int, _ noun: String, plural: String) -> String {
    "\(count) \(count == 1 ? noun : plural)"
}
