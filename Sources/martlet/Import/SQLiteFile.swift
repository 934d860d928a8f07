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

    /// What stands at the beginning of each database.
    static let magic = Array("SQLite format 3\0".utf8)

    /// The bytes of the lock that each connection with a write-ahead log keeps while it is open
    /// (sqlite.org/walformat.html, sqlite.org/src/file/src/os.h: SHARED_FIRST and SHARED_SIZE).
    private static let sharedLock = (start: 0x4000_0002, count: 510)

    /// Which files there are, and how they look from outside.
    private struct State: Equatable {
        private struct File: Equatable {
            let device: dev_t
            let number: ino_t
            let byteCount: Int
            let seconds: Int
            let nanoseconds: Int

            init?(_ path: String) {
                var status = stat()
                guard stat(path, &status) == 0 else { return nil }
                device = status.st_dev
                number = status.st_ino
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
    ///   - byteCountMaximum: bytes of the database with its log.
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
        if let process = try Self.user(of: path) { throw Self.inUse(by: process) }
        handle = try Self.opened(path, hasLog: state.hasLog)
        self.path = path
        self.state = state
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
            // The functions of a schema that somebody else wrote are not called.
            code = sqlite3_exec(
                handle, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF", nil, nil, nil)
        }
        guard code == SQLITE_OK, let handle else {
            sqlite3_close_v2(handle)
            throw SQLiteFailure(text: "cannot be opened: \(String(cString: sqlite3_errstr(code)))")
        }
        return handle
    }

    deinit { sqlite3_close_v2(handle) }

    /// Calls a function with each row that a query finds.
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
            case SQLITE_ROW: body(Row(statement: statement))
            case SQLITE_DONE: return
            default: throw failure()
            }
        }
    }

    /// Throws if pages are damaged or missing.
    borrowing func check() throws(SQLiteFailure) {
        var fault: String?
        try rows("PRAGMA quick_check(1)") { row in
            let text = String(decoding: row.text(0) ?? [], as: UTF8.self)
            if text != "ok" { fault = text }
        }
        if let fault {
            // Its lines may be several.
            throw SQLiteFailure(text: "is damaged: \(fault.split(separator: "\n").first ?? "")")
        }
    }

    /// Throws if another process has written since the beginning, or may write: what was read may
    /// then be of two times.
    borrowing func checkUnchanged() throws(SQLiteFailure) {
        if let process = try Self.user(of: path) { throw Self.inUse(by: process) }
        guard State(path) == state else {
            throw SQLiteFailure(text: "has changed while it was read: stop its program first")
        }
    }

    private borrowing func failure() -> SQLiteFailure {
        SQLiteFailure(text: "is damaged: \(String(cString: sqlite3_errmsg(handle)))")
    }

    // MARK: - Other processes

    /// Another process that has the database open; nil for none, 0 for one that is not visible
    /// from here, such as one of another container.
    private static func user(of path: String) throws(SQLiteFailure) -> pid_t? {
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
        // File systems without locks have no answer; the state of the files is left.
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
            var bytes = [UInt8](
                repeating: 0, count: Int(sqlite3_column_bytes(statement, column)))
            memcpy(&bytes, start, bytes.count)
            return bytes
        }

        /// Bytes; nil for anything but a BLOB or NULL, which is none.
        func bytes(_ column: Int32) -> [UInt8]? {
            let type = sqlite3_column_type(statement, column)
            guard type == SQLITE_BLOB || type == SQLITE_NULL else { return nil }
            guard let start = sqlite3_column_blob(statement, column) else { return [] }
            var bytes = [UInt8](
                repeating: 0, count: Int(sqlite3_column_bytes(statement, column)))
            memcpy(&bytes, start, bytes.count)
            return bytes
        }
    }
}
