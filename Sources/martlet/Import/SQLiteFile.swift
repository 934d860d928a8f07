// A database of SQLite that another program wrote. Reading takes no lock and changes no byte:
// SQLite itself would put files for the write-ahead log beside the database, with the owner of this
// process, and the other program could not open them.
//
//     FILE            the database
//     FILE-wal        committed pages that are not in FILE yet; left by a program that was killed
//     FILE-journal    pages from before a change that has not ended

import CSQLite
import Files
import Glibc

/// Why a database is not read.
struct SQLiteFailure: Error {
    let text: String
}

/// A database that is open for reading.
struct SQLiteFile: ~Copyable {
    private let handle: OpaquePointer
    private let path: String
    private let state: State
    private let effort: Effort

    /// What stands at the beginning of each database.
    static let magic = Array("SQLite format 3\0".utf8)

    /// The bytes of the lock that each connection with a write-ahead log keeps while it is open
    /// (sqlite.org/walformat.html, sqlite.org/src/file/src/os.h: SHARED_FIRST and SHARED_SIZE).
    private static let sharedLock = (start: 0x4000_0002, count: 510)

    /// Bytes of a value, and of a row: the largest packet of MQTT [MQTT 5.0, 2.1.4].
    private static let valueByteCountMaximum = 268_435_456

    /// What the reading has taken so far. The values may have more bytes than the files: that of a
    /// column that was added with a default is in no row.
    fileprivate final class Effort {
        let byteCountMaximum: Int
        let stepCountMaximum: Int
        /// Bytes of the values that were read.
        var byteCount = 0
        /// Instructions of SQLite's virtual machine.
        var stepCount = 0

        /// Steps between two calls of the handler.
        static let stepInterval = 100_000
        /// Steps for a file of any size: below a second.
        private static let fewSteps = 10_000_000
        /// A row of Mosquitto has 30 bytes or more. A check of it and one query need less than 300
        /// steps.
        private static let stepsPerByte = 100

        init(byteCount: Int, byteCountMaximum: Int) {
            self.byteCountMaximum = byteCountMaximum
            stepCountMaximum = Self.fewSteps + byteCount * Self.stepsPerByte
        }
    }

    /// Which files there are, and how they look from outside.
    private struct State: Equatable {
        private struct File: Equatable {
            let device: dev_t
            let inode: ino_t
            let byteCount: Int
            let seconds: Int
            let nanoseconds: Int

            init?(_ path: String) {
                var status = stat()
                guard stat(path, &status) == 0 else { return nil }
                device = status.st_dev
                inode = status.st_ino
                byteCount = status.st_size
                seconds = status.st_mtim.tv_sec
                nanoseconds = status.st_mtim.tv_nsec
            }
        }

        private let database: File?
        private let log: File?
        private let journal: File?

        init(_ path: String) {
            database = File(path)
            log = File(path + "-wal")
            journal = File(path + "-journal")
        }

        var hasLog: Bool { (log?.byteCount ?? 0) > 0 }
        var hasJournal: Bool { (journal?.byteCount ?? 0) > 0 }
        var byteCount: Int { (database?.byteCount ?? 0) + (log?.byteCount ?? 0) }
    }

    /// - Parameters:
    ///   - path: a file that begins with ``magic``.
    ///   - byteCountMaximum: bytes of the database with its log, and of the values that are read.
    init(_ path: String, byteCountMaximum: Int) throws(SQLiteFailure) {
        // The log is beside the file that a link leads to.
        guard let resolved = realpath(path, nil) else {
            throw SQLiteFailure(text: "cannot be read: \(SystemError.last)")
        }
        defer { free(resolved) }
        let path = String(cString: resolved)
        let state = State(path)
        guard state.byteCount <= byteCountMaximum else {
            throw SQLiteFailure(text: "has more than \(byteCountMaximum) bytes")
        }
        guard !state.hasJournal else {
            throw SQLiteFailure(
                text: "has a transaction that has not ended (\(path)-journal): start and stop its "
                    + "program once")
        }
        if let process = try Self.lockHolder(of: path) { throw Self.inUse(by: process) }
        let effort = Effort(byteCount: state.byteCount, byteCountMaximum: byteCountMaximum)
        handle = try Self.opened(path, hasLog: state.hasLog)
        self.path = path
        self.state = state
        self.effort = effort
        sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, Int32(Self.valueByteCountMaximum))
        // The handle ends before the counts.
        sqlite3_progress_handler(
            handle, Int32(Effort.stepInterval),
            { context in
                guard let context else { return 1 }
                let effort = Unmanaged<Effort>.fromOpaque(context).takeUnretainedValue()
                effort.stepCount += Effort.stepInterval
                return effort.stepCount > effort.stepCountMaximum ? 1 : 0
            }, Unmanaged.passUnretained(effort).toOpaque())
    }

    private static func opened(_ path: String, hasLog: Bool) throws(SQLiteFailure) -> OpaquePointer
    {
        // Without a log the file is complete. With one, the VFS without locks keeps the index of
        // the log in memory, where an exclusive connection has it.
        var handle: OpaquePointer?
        var code = sqlite3_open_v2(
            hasLog ? path : "file:\(escaped(path))?immutable=1", &handle,
            SQLITE_OPEN_READONLY | SQLITE_OPEN_EXRESCODE | (hasLog ? 0 : SQLITE_OPEN_URI),
            hasLog ? "unix-none" : nil)
        if code == SQLITE_OK {
            sqlite_leave_log(handle)
            // The functions of a schema that somebody else wrote are not called, also not by a
            // check of the pages.
            code = sqlite3_exec(
                handle,
                "PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; "
                    + "PRAGMA ignore_check_constraints=ON", nil, nil, nil)
        }
        guard code == SQLITE_OK, let handle else {
            sqlite3_close_v2(handle)
            throw SQLiteFailure(text: "cannot be opened: \(String(cString: sqlite3_errstr(code)))")
        }
        return handle
    }

    deinit { sqlite3_close_v2(handle) }

    /// Calls a function with each row that a query finds. Not inlined: where it is, Swift 6.3.1
    /// crashes in release builds, because a row refers to an object and cannot be copied.
    @inline(never)
    borrowing func rows(
        _ query: String, _ body: (borrowing Row) -> Void
    ) throws(SQLiteFailure) {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, query, -1, &statement, nil) == SQLITE_OK,
            let statement
        else { throw failure() }
        defer { sqlite3_finalize(statement) }
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                body(Row(statement: statement, effort: effort))
                guard effort.byteCount <= effort.byteCountMaximum else {
                    throw SQLiteFailure(
                        text: "has values of more than \(effort.byteCountMaximum) bytes")
                }
            case SQLITE_DONE: return
            default: throw failure()
            }
        }
    }

    /// The columns of each table, by its name in lower case.
    ///
    /// Throws if the schema has anything but tables and indexes, or a column that is computed: a
    /// query would evaluate them without a bound of time and memory.
    borrowing func tables() throws(SQLiteFailure) -> [String: Set<String>] {
        var tables: [String: Set<String>] = [:]
        var fault: String?
        // The text makes the object.
        try rows("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL") { row in
            let name = row.string(0) ?? ""
            let definition = row.string(1) ?? ""
            if definition.hasPrefix("CREATE TABLE ") {
                if tables.updateValue([], forKey: name.lowercased()) != nil {
                    fault = "is damaged: it has the table \(name) twice"
                }
            } else if !definition.hasPrefix("CREATE INDEX "),
                !definition.hasPrefix("CREATE UNIQUE INDEX ")
            {
                fault = "has a view, a trigger or a virtual table, as Mosquitto has none: \(name)"
            }
        }
        if let fault { throw SQLiteFailure(text: fault) }
        try rows(
            "SELECT tables.name, columns.name, columns.hidden FROM sqlite_schema AS tables, "
                + "pragma_table_xinfo(tables.name) AS columns "
                + "WHERE tables.sql GLOB 'CREATE TABLE *'"
        ) { row in
            let table = row.string(0) ?? ""
            let column = row.string(1) ?? ""
            tables[table.lowercased()]?.insert(column)
            if row.integer(2) != 0 {
                fault = "has a computed column, as Mosquitto has none: \(table).\(column)"
            }
        }
        if let fault { throw SQLiteFailure(text: fault) }
        if let name = tables.first(where: { $0.value.isEmpty })?.key {
            throw SQLiteFailure(text: "is damaged: it has no table \(name)")
        }
        return tables
    }

    /// Throws if pages are damaged or missing. ``tables()`` comes before it.
    borrowing func check() throws(SQLiteFailure) {
        var fault: String?
        try rows("PRAGMA quick_check(1)") { row in
            let text = row.string(0)
            if text != "ok" { fault = text ?? "" }
        }
        if let fault {
            // Its lines may be several.
            throw SQLiteFailure(text: "is damaged: \(fault.split(separator: "\n").first ?? "")")
        }
    }

    /// Throws if another process has written since the beginning, or may write: what was read may
    /// then be of two times.
    borrowing func checkUnchanged() throws(SQLiteFailure) {
        if let process = try Self.lockHolder(of: path) { throw Self.inUse(by: process) }
        guard State(path) == state else {
            throw SQLiteFailure(text: "has changed while it was read: stop its program first")
        }
    }

    private borrowing func failure() -> SQLiteFailure {
        switch sqlite3_errcode(handle) & 0xFF {
        case SQLITE_TOOBIG:
            SQLiteFailure(text: "has a value of more than \(Self.valueByteCountMaximum) bytes")
        case SQLITE_INTERRUPT:
            SQLiteFailure(text: "needs more than \(effort.stepCountMaximum) steps to be read")
        default: SQLiteFailure(text: "is damaged: \(String(cString: sqlite3_errmsg(handle)))")
        }
    }

    // MARK: - Other processes

    /// Another process that has the database open; nil for none, 0 for one that is not visible
    /// from here, such as one of another container.
    private static func lockHolder(of path: String) throws(SQLiteFailure) -> pid_t? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw SQLiteFailure(text: "cannot be read: \(SystemError.last)")
        }
        defer { close(descriptor) }
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = sharedLock.start
        lock.l_len = sharedLock.count
        // File systems without locks have no answer; there only the comparison of the files' state
        // remains.
        guard fcntl(descriptor, F_GETLK, &lock) == 0 else { return nil }
        return lock.l_type == Int16(F_UNLCK) ? nil : max(0, lock.l_pid)
    }

    private static func inUse(by process: pid_t) -> SQLiteFailure {
        SQLiteFailure(
            text: "is in use by \(process > 0 ? "process \(process)" : "another process"): stop it "
                + "first; to try the import before, give --store a copy, which "
                + "sqlite3 FILE '.backup COPY' makes")
    }

    /// A path for a URI.
    private static func escaped(_ path: String) -> String {
        path.utf8.reduce(into: "") { text, byte in
            let character = Character(Unicode.Scalar(byte))
            let isPlain = byte < 0x80 && (character.isLetter || character.isNumber)
            if isPlain || "/-._~".contains(character) {
                text.append(character)
            } else {
                text += byte < 0x10 ? "%0" : "%"
                text += String(byte, radix: 16)
            }
        }
    }
}

extension SQLiteFile {
    /// A row that a query has found.
    struct Row: ~Copyable {
        fileprivate let statement: OpaquePointer
        fileprivate let effort: Effort

        func isNull(_ column: Int32) -> Bool {
            sqlite3_column_type(statement, column) == SQLITE_NULL
        }

        /// Whether the value is a number, which a column of the type STRING makes of a text such as
        /// `007` (sqlite.org/datatype3.html, 3.1).
        func isNumber(_ column: Int32) -> Bool {
            [SQLITE_INTEGER, SQLITE_FLOAT].contains(sqlite3_column_type(statement, column))
        }

        /// A whole number; nil for anything else.
        func integer(_ column: Int32) -> Int64? {
            guard sqlite3_column_type(statement, column) == SQLITE_INTEGER else { return nil }
            return sqlite3_column_int64(statement, column)
        }

        /// The bytes of a text, or of a number as text; nil for anything else.
        func text(_ column: Int32) -> [UInt8]? {
            guard
                [SQLITE_TEXT, SQLITE_INTEGER, SQLITE_FLOAT]
                    .contains(sqlite3_column_type(statement, column)),
                let start = sqlite3_column_text(statement, column)
            else { return nil }
            return copy(column) { memcpy(&$0, start, $0.count) }
        }

        /// A text that is UTF-8, or a number as text; nil for anything else.
        func string(_ column: Int32) -> String? {
            text(column).flatMap { String(validating: $0, as: UTF8.self) }
        }

        /// Bytes; nil for anything but a BLOB or NULL, which is none.
        func bytes(_ column: Int32) -> [UInt8]? {
            let type = sqlite3_column_type(statement, column)
            guard type == SQLITE_BLOB || type == SQLITE_NULL else { return nil }
            guard let start = sqlite3_column_blob(statement, column) else { return [] }
            return copy(column) { memcpy(&$0, start, $0.count) }
        }

        private func copy(_ column: Int32, _ fill: (inout [UInt8]) -> Void) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: Int(sqlite3_column_bytes(statement, column)))
            effort.byteCount += bytes.count
            fill(&bytes)
            return bytes
        }
    }
}
