// The LMDB environment: opening it, its named databases, and its size.

import CLMDB
import Glibc

/// An open LMDB environment, closed when it goes out of scope. Every transaction in it must have
/// ended by then.
struct Environment: ~Copyable {
    /// LMDB's data file in the store's directory.
    static let dataFile = "data.mdb"
    /// LMDB's lock file beside it.
    private static let lockFile = "lock.mdb"
    /// Bytes of LMDB's table of 126 readers.
    private static let lockFileByteCount = 8_192

    private(set) var handle: OpaquePointer
    private let path: String
    private let mapByteCount: Int
    private let flags: Int32
    /// Released after the environment is closed: fields outlive `deinit`.
    private let lock: DirectoryLock?

    /// Opens the environment in an existing directory, and holds `lock` while it is open.
    ///
    /// Syncing stays at LMDB's default: fdatasync before and after the meta page of every commit.
    /// MDB_NOSYNC, MDB_MAPASYNC and MDB_WRITEMAP would be faster and lose acknowledged messages.
    init(
        directory: String, lock: consuming DirectoryLock?, mapByteCount: Int,
        isReadOnly: Bool = false
    ) throws(StoreError) {
        try self.init(
            path: directory, lock: lock, mapByteCount: mapByteCount,
            flags: isReadOnly ? MDB_RDONLY : 0)
    }

    /// Opens a staging file, and creates it if it is missing. No other code has it open.
    init(stagingFile: StagingFile, mapByteCount: Int) throws(StoreError) {
        try self.init(
            path: stagingFile.folder, lock: nil, mapByteCount: mapByteCount, flags: MDB_NOLOCK)
    }

    /// Opens a complete staging file for reading.
    init(reading stagingFile: StagingFile, mapByteCount: Int) throws(StoreError) {
        try self.init(
            path: stagingFile.folder, lock: nil, mapByteCount: mapByteCount,
            flags: MDB_NOLOCK | MDB_RDONLY)
    }

    private init(
        path: String, lock: consuming DirectoryLock?, mapByteCount: Int, flags: Int32
    ) throws(StoreError) {
        var created: OpaquePointer?
        try check(mdb_env_create(&created), "mdb_env_create")
        let handle = created!
        do throws(StoreError) {
            try Self.open(handle, path: path, mapByteCount: mapByteCount, flags: flags)
        } catch {
            mdb_env_close(handle)
            throw error
        }
        self.handle = handle
        self.path = path
        self.mapByteCount = mapByteCount
        self.flags = flags
        self.lock = lock
    }

    private static func open(
        _ handle: OpaquePointer, path: String, mapByteCount: Int, flags: Int32
    ) throws(StoreError) {
        try check(mdb_env_set_mapsize(handle, mapByteCount), "mdb_env_set_mapsize")
        try check(mdb_env_set_maxdbs(handle, UInt32(Tables.names.count)), "mdb_env_set_maxdbs")
        let usesLock = flags & MDB_NOLOCK == 0
        if usesLock {
            try createLockFile(
                path + "/" + lockFile, in: path, byteCount: lockFileByteCount)
        }
        // MDB_NOTLS: a read transaction belongs to its handle, not to the thread that opened it.
        let code = mdb_env_open(handle, path, UInt32(MDB_NOTLS | flags), 0o600)
        if code == EACCES {
            // LMDB does not tell which file.
            let isLock = usesLock && access(path + "/" + lockFile, R_OK | W_OK) != 0
            throw .system(
                call: "open", path: path + "/" + (isLock ? lockFile : dataFile), errno: code)
        }
        try check(code, "mdb_env_open")
        // A reader whose process died would pin old pages forever, and the file would grow.
        try check(mdb_reader_check(handle, nil), "mdb_reader_check")
    }

    /// Closes LMDB's environment and opens it again, which frees the memory that it keeps. The
    /// directory stays locked. Every transaction must have ended, also those of snapshots. After an
    /// error the file is not open.
    ///
    /// - Parameter reserve: descriptors for LMDB to use. Connections that are accepted meanwhile
    ///   could take those that it closes.
    mutating func reopen(using reserve: consuming DescriptorReserve) throws(StoreError) {
        var created: OpaquePointer?
        try check(mdb_env_create(&created), "mdb_env_create")
        // LMDB must not have a file open twice in one process.
        mdb_env_close(handle)
        handle = created!
        _ = consume reserve
        try Self.open(handle, path: path, mapByteCount: mapByteCount, flags: flags)
    }

    deinit {
        mdb_env_close(handle)
    }

    var pageByteCount: Int {
        var statistics = MDB_stat()
        mdb_env_stat(handle, &statistics)
        return Int(statistics.ms_psize)
    }

    /// Bytes of the file that LMDB has ever used: no page was ever written beyond.
    var highWaterByteCount: Int {
        var info = MDB_envinfo()
        mdb_env_info(handle, &info)
        return (info.me_last_pgno + 1) * pageByteCount
    }

    /// The number of the last commit.
    var commitNumber: Int {
        var info = MDB_envinfo()
        mdb_env_info(handle, &info)
        return info.me_last_txnid
    }

    var fileDescriptor: Int32 {
        var descriptor: Int32 = -1
        mdb_env_get_fd(handle, &descriptor)
        return descriptor
    }
}

/// The named databases. Their names are on disk.
struct Tables {
    static let names: Set = ["messages", "releases", "entries", "records", "doomed", "damaged"]

    /// LMDB's unnamed database, which holds the roots of the others and is rewritten with every
    /// commit. The store's own few values are in it, so that the stamp costs no page.
    let meta: MDB_dbi = 1
    let messages: MDB_dbi
    let releases: MDB_dbi
    let entries: MDB_dbi
    let records: MDB_dbi
    let doomed: MDB_dbi
    let damaged: MDB_dbi

    /// Opens the databases, and creates those that the store cannot have yet. Any other missing one
    /// is damage: creating it would hide the loss.
    init(transaction: OpaquePointer, making missing: Set<String> = []) throws(StoreError) {
        func open(_ name: String) throws(StoreError) -> MDB_dbi {
            try Self.open(name, transaction, creates: missing.contains(name))
        }
        messages = try open("messages")
        releases = try open("releases")
        entries = try open("entries")
        records = try open("records")
        doomed = try open("doomed")
        damaged = try open("damaged")
    }

    private static func open(
        _ name: String, _ transaction: OpaquePointer, creates: Bool
    ) throws(StoreError) -> MDB_dbi {
        var table: MDB_dbi = 0
        let flags = creates ? UInt32(MDB_CREATE) : 0
        guard try found(mdb_dbi_open(transaction, name, flags, &table), "mdb_dbi_open") else {
            throw .damagedMeta(name: "table of \(name)")
        }
        return table
    }

    /// Only the table of records, which every format has.
    static func records(transaction: OpaquePointer) throws(StoreError) -> MDB_dbi {
        try open("records", transaction, creates: false)
    }

    /// The tables by name, with LMDB's list of free pages.
    private var named: [(name: String, table: MDB_dbi)] {
        [
            ("free", 0), ("meta", meta), ("messages", messages), ("releases", releases),
            ("entries", entries), ("records", records), ("doomed", doomed), ("damaged", damaged),
        ]
    }

    /// Bytes of the pages of each table within a transaction.
    func byteCounts(transaction: OpaquePointer) -> [(name: String, byteCount: UInt64)] {
        named.map { name, table in
            var statistics = MDB_stat()
            guard mdb_stat(transaction, table, &statistics) == MDB_SUCCESS else { return (name, 0) }
            let pages =
                statistics.ms_branch_pages + statistics.ms_leaf_pages + statistics.ms_overflow_pages
            return (name, UInt64(pages) * UInt64(statistics.ms_psize))
        }
    }

    /// The rows of all tables within a transaction, without the store's own values.
    func rowCount(transaction: OpaquePointer) -> Int {
        [messages, releases, entries, records, doomed, damaged].reduce(0) { sum, table in
            var statistics = MDB_stat()
            guard mdb_stat(transaction, table, &statistics) == MDB_SUCCESS else { return sum }
            return sum + statistics.ms_entries
        }
    }

    /// Bytes of all pages in use within a transaction, including LMDB's own list of free pages.
    func usedByteCount(transaction: OpaquePointer) -> UInt64 {
        let freeList: MDB_dbi = 0
        var pages = 0
        var pageByteCount: UInt32 = 0
        for table in [freeList, meta, messages, releases, entries, records, doomed, damaged] {
            var statistics = MDB_stat()
            guard mdb_stat(transaction, table, &statistics) == MDB_SUCCESS else { continue }
            pages +=
                statistics.ms_branch_pages + statistics.ms_leaf_pages + statistics.ms_overflow_pages
            pageByteCount = statistics.ms_psize
        }
        return UInt64(pages) * UInt64(pageByteCount)
    }
}
