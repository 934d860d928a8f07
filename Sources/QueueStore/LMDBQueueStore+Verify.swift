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
                report.find("\(strayCount) pages behind the end of the file belong to nothing")
            }
            let environment = try Environment(
                directory: directory, lock: lock, mapByteCount: options.mapByteCount,
                isReadOnly: true)
            let formats = StoreFormats.known
            if let found = try storedFormat(environment, directory: directory) {
                try formats.check(found)
                // The checks know the rows of one format.
                guard found == formats.current else {
                    report.find(
                        "the store has format \(found): its next start makes it"
                            + " \(formats.current), check it then")
                    return report
                }
            }
            var verification = try Verification(environment: environment, progress: progress)
            defer { verification.end() }
            try verification.run(into: &report)
            try verification.read(into: &visitor)
        } catch .system(let call, let path, let errno) {
            throw .system(call: call, path: path, errno: errno)
        } catch {
            report.find("\(error)", preventsStart: true)
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
                    "message \(id) accounts for \(count) of \(holders.receiverCount) receivers")
            }
        }
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

    /// Reads the contents of the store as a start does.
    func read(into visitor: inout some StoreVisitor & ~Copyable) throws(StoreError) {
        var doomed: Set<QueueID> = []
        _ = try walk(tables.doomed) { (key, _) throws(StoreError) in
            if key.count == 8 { doomed.insert(QueueID(raw: key.bigEndian(at: 0))) }
        }
        let reading = StoreReading(
            transaction: transaction, tables: tables, scratch: scratch, doomedQueues: doomed)
        do throws(StoreError) {
            _ = try reading.readAll(into: &visitor)
        } catch .damagedRecord {
            // It is a finding already.
        }
    }

    private func verifyMeta(into report: inout VerificationReport) throws(StoreError) {
        for key in [MetaKey.format, .identity, .stamp, .backup] {
            do throws(StoreError) {
                let value = try metaValue(key, transaction: transaction, table: tables.meta) {
                    $0.count
                }
                // A store without a commit has no stamp.
                if value == nil, key == .format || key == .identity {
                    report.find("\(key.rawValue) is missing", preventsStart: true)
                }
            } catch .damagedMeta(let name) {
                report.find("\(name) fails its checksum", preventsStart: true)
            }
        }
        let doomedCount = try walk(tables.doomed) { (key, value) throws(StoreError) in
            if key.count != 8 || SealedValue.open(value, seed: .doomedQueue, key: key) == nil {
                report.find(
                    "deleted queue \(readable(key)) fails its checksum", preventsStart: true)
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
                    preventsStart: true)
            }
        }
        report.summary.append("\(count) records")
    }

    private mutating func verifyMessages(into report: inout VerificationReport) throws(StoreError) {
        var holders: [UInt64: Holders] = [:]
        let count = try walk(tables.messages) { (key, value) throws(StoreError) in
            guard key.count == 8 else {
                return report.find("\(readable(key)) is no message id")
            }
            let id: UInt64 = key.bigEndian(at: 0)
            if StoredMessage.block(value, id: id) == nil {
                report.find("message \(id) fails its checksum")
            }
            if addsUp, let receiverCount = StoredMessage.receiverCount(value, id: id) {
                holders[id] = Holders(receiverCount: receiverCount)
            }
        }
        self.holders = holders
        report.summary.append("\(count) messages")
    }

    private mutating func verifyReleases(into report: inout VerificationReport) throws(StoreError) {
        var released: [(id: UInt64, count: UInt32)] = []
        _ = try walk(tables.releases) { (key, value) throws(StoreError) in
            guard key.count == 8,
                let count = StoredRelease.count(value, id: key.bigEndian(at: 0))
            else { return report.find("release \(readable(key)) fails its checksum") }
            if addsUp { released.append((key.bigEndian(at: 0), count)) }
        }
        for release in released {
            if addsUp, holders[release.id] == nil {
                report.find("message \(release.id) is released and missing")
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
                return report.find("entry \(readable(key)) fails its checksum")
            }
            if addsUp, holders[entry.message] == nil {
                report.find(
                    "entry \(place.number) of queue \(place.queue) has no message \(entry.message)")
            }
            holders[entry.message]?.entryCount += 1
            if lastQueue != place.queue { queues += 1 }
            lastQueue = place.queue
        }
        self.holders = holders
        report.summary.append("\(count) entries in \(queues) queues")
    }

    private mutating func verifyDamaged(into report: inout VerificationReport) throws(StoreError) {
        var holders = holders
        let count = try walk(tables.damaged) { (key, value) throws(StoreError) in
            guard let place = EntryKey(key),
                let evidence = SealedValue.open(value, seed: .damagedEntry, key: key)
            else {
                return report.find("set-aside entry \(readable(key)) fails its checksum")
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
