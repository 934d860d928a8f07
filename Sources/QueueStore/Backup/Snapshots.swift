// Snapshots that other processes hold: mdb_copy, mdb_stat, a restore from a store in use. For them
// LMDB keeps all pages that were in use when they began. So what is freed meanwhile is not used
// again, and the file grows up to the end of the map, where nothing goes on. It knows who reads,
// and not what.

import CLMDB

/// What the snapshots of others cost. The store's own reader lets go before each write.
struct Snapshots {
    /// Bytes of the file when the first of them was seen; nil while nobody holds any.
    private var startByteCount: Int?

    /// Looks who holds a snapshot that is older than the last commit.
    mutating func look(at environment: borrowing Environment) throws(StoreError) {
        if environment.hasOldReader {
            // A process that died keeps its place in the table until somebody looks.
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
    /// Whether a reader, of whatever process, sees an earlier state than that of the last commit.
    fileprivate var hasOldReader: Bool {
        var info = MDB_envinfo()
        mdb_env_info(handle, &info)
        // The store's own is the only one.
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

/// LMDB tells of its readers in lines of text: process, thread, and the commit that is seen or "-".
private struct ReaderSearch {
    let lastCommit: Int
    var isFound = false

    /// Gives what LMDB wants to hear in order to go on.
    mutating func examine(_ line: UnsafePointer<CChar>) -> Int32 {
        let words = String(cString: line).split(whereSeparator: \.isWhitespace)
        if words.count == 3, let commit = Int(words[2]), commit < lastCommit { isFound = true }
        return 0
    }
}
