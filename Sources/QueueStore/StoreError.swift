// The errors of a store, in words that an operator can act on. A full store is no error: it is a
// refusal in the batch's result.

import BrokerCore
import CLMDB
import Glibc

/// The reason why a store cannot be used.
public enum StoreError: Error, Hashable, Sendable {
    /// A system call failed on a path.
    case system(call: String, path: String, errno: Int32)
    /// LMDB failed; the code is an errno or one of LMDB's own.
    case lmdb(call: String, code: Int32)
    /// Another process has the store open; 0 if it did not write its process id.
    case inUse(directory: String, processIdentifier: Int32)
    /// The destination of a copy contains a store already.
    case holdsStore(directory: String)
    /// The destination of a copy contains other files.
    case notEmpty(directory: String, name: String)
    /// The text is no valid path.
    case impossiblePath(String)
    /// The copy was cancelled.
    case cancelled
    /// A copy was discarded because no broker would start with it: the original is damaged.
    case unusableCopy(finding: String, count: Int)
    /// The disk of a directory has too little space for a copy, and for what a store there needs
    /// meanwhile.
    case noRoomForCopy(directory: String, byteCount: UInt64, freeByteCount: UInt64)
    /// The directory holds an LMDB file that is not a Martlet store.
    case notAStore(directory: String)
    /// The store was written by a newer version of the broker.
    case newerFormat(found: UInt32, known: UInt32)
    /// The store was written by a version so old that this one cannot upgrade it.
    case olderFormat(found: UInt32, oldest: UInt32)
    /// A record of the broker's state failed its checksum. Without it the broker would forget a
    /// session, a token or a subscription, so it does not start.
    case damagedRecord(table: RecordTable?, key: [UInt8])
    /// One of the store's own few records (format, identity, stamp) failed its checksum.
    case damagedMeta(name: String)
    /// The store's own values do not belong to its rows, or one of them has an unknown name.
    case inconsistentMeta(finding: String)
    /// A page of the file is not what LMDB wrote.
    case damagedPage(number: UInt64, finding: String)
    /// A commit failed. Whether the data is on disk is unknown, and a second sync may report
    /// success for pages that the kernel has dropped: the process must end, and the next start
    /// reads the disk.
    case syncFailed(code: Int32)
    /// A record of the cluster's log had another effect here than in the store of its author: this
    /// copy is damaged, and a new one is needed.
    case divergedCopy(sequence: UInt64)
    /// The store has another commit than the one that a repair was proposed for.
    case changedMeanwhile(directory: String)

    /// Whether a transaction failed for lack of space, and may be tried again with less.
    var isFull: Bool {
        guard case .lmdb(_, let code) = self else { return false }
        // LMDB keeps the pages that a transaction changed in memory, up to 512 MB.
        return code == MDB_MAP_FULL || code == ENOSPC || code == EDQUOT || code == ENOMEM
    }
}

extension StoreError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .system(let call, let path, let errno):
            return "\(call) failed on \(path): \(errorText(errno))"
        case .lmdb(let call, let code):
            return "the store failed: \(call): \(errorText(code))"
        case .inUse(let directory, let processIdentifier):
            let holder = processIdentifier == 0 ? "another process" : "process \(processIdentifier)"
            return "the store in \(directory) is in use by \(holder)"
        case .holdsStore(let directory):
            return "\(directory) holds a store already; a copy goes into a new directory"
        case .notEmpty(let directory, let name):
            return
                "\(directory) is not empty (\(readable(name.utf8))); "
                + "a copy goes into a new directory"
        case .impossiblePath(let path):
            return "\"\(readable(path.utf8))\" is not the path of a directory"
        case .cancelled:
            return "the copy was cancelled"
        case .unusableCopy(let finding, let count):
            let others = count > 1 ? " and \(count - 1) more findings" : ""
            return
                "the store is damaged, and no broker would start with a copy of it: \(finding)"
                + "\(others); see all damage with --verify-store"
        case .noRoomForCopy(let directory, let byteCount, let freeByteCount):
            return
                "the disk of \(directory) has \(freeByteCount) bytes of free space, and a copy of "
                + "\(byteCount) bytes needs more"
        case .notAStore(let directory):
            return "\(directory) holds an LMDB file that is not a Martlet store"
        case .newerFormat(let found, let known):
            return
                "the store has format \(found), this broker knows \(known) at most: use a newer one"
        case .olderFormat(let found, let oldest):
            return
                "the store has format \(found), this broker upgrades from \(oldest) at the"
                + " earliest: start a version in between first"
        case .damagedRecord(let table, let key):
            let name = table.map { "\($0)" } ?? "unknown"
            return
                "the store is damaged: record \(readable(key)) of table \(name) fails its checksum;"
                + " see all damage with --verify-store, then restore a backup"
        case .damagedMeta(let name):
            return "the store is damaged: its \(name) fails its checksum; restore a backup"
        case .inconsistentMeta(let finding):
            return
                "the store is damaged: \(finding); see all damage with --verify-store, then "
                + "restore a backup"
        case .damagedPage(let number, let finding):
            return "the store is damaged: page \(number): \(finding); restore a backup"
        case .syncFailed(let code):
            return "a commit failed (\(errorText(code))): ending, what was acknowledged is on disk"
        case .divergedCopy(let sequence):
            return
                "record \(sequence) of the cluster's log has another effect on this store than on "
                + "the primary's: copy another node's store"
        case .changedMeanwhile(let directory):
            return "the store in \(directory) has changed since it was checked: check it again"
        }
    }
}

/// The text of an errno or an LMDB code.
func errorText(_ code: Int32) -> String { String(cString: mdb_strerror(code)) }

/// Bytes as text if they are printable ASCII, otherwise `%` and two hexadecimal digits.
func readable(_ bytes: some Sequence<UInt8>) -> String {
    bytes.reduce(into: "") { text, byte in
        if byte > 0x20, byte < 0x7F, byte != UInt8(ascii: "%") {
            text.unicodeScalars.append(Unicode.Scalar(byte))
        } else {
            let digits = String(byte, radix: 16, uppercase: true)
            text += digits.count == 1 ? "%0\(digits)" : "%\(digits)"
        }
    }
}

/// Throws unless LMDB reported success.
@inline(__always)
func check(_ code: Int32, _ call: String) throws(StoreError) {
    guard code == MDB_SUCCESS else { throw .lmdb(call: call, code: code) }
}

/// Like ``check(_:_:)``, for lookups: whether the key exists.
@inline(__always)
func found(_ code: Int32, _ call: String) throws(StoreError) -> Bool {
    if code == MDB_NOTFOUND { return false }
    try check(code, call)
    return true
}

extension [UInt8] {
    /// The array's bytes, for a body that throws this module's errors: `withUnsafeBytes` of the
    /// standard library loses their type (Swift 6.3.1).
    @inline(__always)
    func withBytes<Result>(
        _ body: (UnsafeRawBufferPointer) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        try span.withUnsafeBytes(body)
    }
}
