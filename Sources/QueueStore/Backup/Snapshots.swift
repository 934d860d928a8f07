// Snapshots that other processes hold: mdb_copy, mdb_stat, a restore from a store in use. LMDB
// keeps all pages that were in use when a snapshot began. Pages freed meanwhile are not reused, and
// the file grows up to the end of the map, where every write fails.

import CLMDB

/// The growth of the file because of other processes' snapshots. The store's own reader ends before
/// each write.
struct Snapshots {
    /// Bytes of the file when the first snapshot was seen; nil without snapshots.
    private var startByteCount: Int?

    /// Checks for snapshots that are older than the last commit.
    mutating func look(at environment: borrowing Environment) throws(StoreError) {
        if environment.hasOldReader {
            // A process that died stays in the reader table until mdb_reader_check.
            try check(mdb_reader_check(environment.handle, nil), "mdb_reader_check")
        }
        if !environment.hasOldReader {
            startByteCount = nil
        } else if startByteCount == nil {
            startByteCount = environment.highWaterByteCount
        }
    }

    /// Whether the file has grown for them: LMDB first takes the pages that were free before.
    func haveGrown(_ environment: borrowing Environment) -> Bool {
        guard let startByteCount else { return false }
        return environment.highWaterByteCount > startByteCount
    }
}

extension Environment {
    /// Whether a reader of any process sees an earlier state than the last commit.
    fileprivate var hasOldReader: Bool {
        var info = MDB_envinfo()
        mdb_env_info(handle, &info)
        // The only reader is the store's own.
        if info.me_numreaders <= 1 { return false }
        var search = ReaderSearch(lastCommit: info.me_last_txnid)
        mdb_reader_list(
            handle,
            { line, search in
                search!.assumingMemoryBound(to: ReaderSearch.self).pointee.examine(line!)
            }, &search)
        return search.isFound
    }
}

/// LMDB lists its readers as lines of text: process, thread, and the snapshot's commit or "-".
private struct ReaderSearch {
    let lastCommit: Int
    var isFound = false

    /// Returns 0, with which LMDB continues the list.
    mutating func examine(_ line: UnsafePointer<CChar>) -> Int32 {
        let words = String(cString: line).split(whereSeparator: \.isWhitespace)
        if words.count == 3, let commit = Int(words[2]), commit < lastCommit { isFound = true }
        return 0
    }
}
