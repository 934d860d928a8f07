// Copies of stores and backups that are sound, truncated, or damaged at any place. A copy is
// complete or does not exist, and the process that makes it survives.

import BrokerCore
import CLMDB
import Glibc
import Testing

@testable import QueueStore

@Suite struct `A backup` {
    let directory = TemporaryDirectory(inMemory: true)

    /// A store with trees of several levels, large values and free pages.
    private func makeStore(messageCount: UInt64 = 300) throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        for first in stride(from: 1, through: messageCount, by: 50) {
            var batch = StoreBatch(at: 1)
            for number in first..<first + 50 {
                let text = String(repeating: "text \(number) ", count: number % 7 == 0 ? 900 : 20)
                batch.send(number, text, to: [1, 2, 10_000 + number], number: number)
                batch.put(.sessions, "session \(number)", "state \(number)")
            }
            if first % 100 == 1 { batch.acknowledge(1, through: first) }
            _ = try store.carryOut(batch)
        }
    }

    private func contents(_ path: String) throws -> (Restored, [String]) {
        var store = try LMDBQueueStore(directory: path, options: .small)
        var restored = Restored()
        _ = try store.restore(into: &restored)
        return (restored, try store.texts(of: 1) + store.texts(of: 2))
    }

    /// The error of a copy, or nil where there is one; a copy that failed leaves nothing.
    private func copyFailure(from source: String) throws -> StoreError? {
        let target = directory.path + "/copy"
        do throws(StoreError) {
            try LMDBQueueStore.copy(directory: source, to: target, options: .small)
        } catch {
            try #require(access(target, F_OK) != 0, "\(error) left something behind")
            return error
        }
        for name in ["data.mdb", "lock.mdb", "martlet.lock"] { unlink(target + "/" + name) }
        rmdir(target)
        return nil
    }

    @Test func `has the contents of the store, without its free pages`() throws {
        try makeStore()
        do {
            var store = try LMDBQueueStore(directory: directory.path, options: .small)
            var batch = StoreBatch(at: 2)
            batch.acknowledge(2, through: 200)
            _ = try store.carryOut(batch)
        }
        let copy = TemporaryDirectory(inMemory: true)
        let report = try LMDBQueueStore.copy(
            directory: directory.path, to: copy.path, options: .small)
        #expect(report.verification.findings == [])
        #expect(report.byteCount == readFile(copy.dataFile).count)
        #expect(report.byteCount < readFile(directory.dataFile).count)
        let progress = CopyProgress()
        var visitor = Restored()
        let check = try LMDBQueueStore.verify(
            directory: copy.path, progress: progress, into: &visitor)
        #expect(check.findings == [])
        #expect((1...progress.totalByteCount).contains(progress.doneByteCount))
        let (found, expected) = (try contents(copy.path), try contents(directory.path))
        #expect(found.0 == expected.0)
        #expect(found.1 == expected.1)
    }

    @Test func `has the state of its snapshot, while the store continues`() throws {
        try makeStore()
        let copy = TemporaryDirectory(inMemory: true)
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        let before = try store.texts(of: 2)
        let snapshot = try store.snapshot()
        for round in 0..<20 as Range<UInt64> {
            var batch = StoreBatch(at: 2 + round)
            batch.send(1_000 + round, "later", to: [2], number: 1_000 + round)
            batch.acknowledge(2, through: 10 * round)
            _ = try store.carryOut(batch)
        }
        let report = try snapshot.copy(to: copy.path)
        snapshot.end()
        #expect(report.verification.findings == [])
        var opened = try LMDBQueueStore(directory: copy.path, options: .small)
        #expect(try opened.texts(of: 2) == before)
        #expect(try store.texts(of: 2).last == "later")
        // What the snapshot held is used again.
        let byteCount = readFile(directory.dataFile).count
        for round in 100..<120 as Range<UInt64> {
            var batch = StoreBatch(at: round)
            batch.send(1_000 + round, "later", to: [2], number: 1_000 + round)
            _ = try store.carryOut(batch)
        }
        #expect(readFile(directory.dataFile).count == byteCount)
    }

    @Test func `that is truncated at or within any page is refused`() throws {
        try makeStore(messageCount: 100)
        let backup = TemporaryDirectory(inMemory: true)
        try LMDBQueueStore.copy(directory: directory.path, to: backup.path, options: .small)
        let whole = readFile(backup.dataFile).count
        var cuts = 0
        for end in stride(from: 0, to: whole, by: 4096) {
            for rest in [0, 1, 2048, 4095] where end + rest < whole {
                let bytes = readFile(backup.dataFile)
                truncate(backup.dataFile, off_t(end + rest))
                let failure = try copyFailure(from: backup.path)
                guard case .damagedPage = failure else {
                    Issue.record("cut at \(end + rest): \(String(describing: failure))")
                    return
                }
                truncate(backup.dataFile, off_t(whole))
                overwrite(backup.dataFile, at: 0, bytes)
                cuts += 1
            }
        }
        #expect(cuts > 100)
        #expect(try copyFailure(from: backup.path) == nil)
    }

    @Test func `with a page of zeros, of ones, of noise or of another page is refused`() throws {
        try makeStore(messageCount: 100)
        let backup = TemporaryDirectory(inMemory: true)
        try LMDBQueueStore.copy(directory: directory.path, to: backup.path, options: .small)
        let sound = readFile(backup.dataFile)
        let pageCount = sound.count / 4096
        var generator = SystemRandomNumberGenerator()
        let isOfLargeValue = pagesOfLargeValues(sound)
        // Marking it as a backup left some pages free.
        let free = try freePages(backup.path)
        for page in 0..<pageCount where !free.contains(page) {
            let other = (page + 1) % pageCount * 4096
            let noise = (0..<4096).map { _ in UInt8.random(in: 0...255, using: &generator) }
            for bytes in [
                [UInt8](repeating: 0, count: 4096), [UInt8](repeating: 0xFF, count: 4096), noise,
                Array(sound[other..<other + 4096]),
            ] {
                overwrite(backup.dataFile, at: page * 4096, bytes)
                if let failure = try copyFailure(from: backup.path) {
                    #expect("\(failure)".contains("damaged"))
                } else {
                    // Within a large value no page has a form: its checksum tells.
                    try #require(isOfLargeValue[page], "page \(page) went unnoticed")
                }
            }
            overwrite(
                backup.dataFile, at: page * 4096, Array(sound[page * 4096..<(page + 1) * 4096]))
        }
        #expect(try copyFailure(from: backup.path) == nil)
    }

    /// Which pages follow the first one of a large value.
    private func pagesOfLargeValues(_ bytes: [UInt8]) -> [Bool] {
        var found = [Bool](repeating: false, count: bytes.count / 4096)
        var page = 0
        while page < found.count {
            let start = page * 4096
            let isOverflow = bytes[start + 10] & 0x6F == 0x04
            let count = isOverflow ? Int(bytes[start + 12]) | Int(bytes[start + 13]) << 8 : 1
            for next in page + 1..<page + max(count, 1) { found[next] = true }
            page += max(count, 1)
        }
        return found
    }

    /// The pages that LMDB's list of free pages has.
    private func freePages(_ path: String) throws -> Set<Int> {
        let environment = try Environment(
            directory: path, lock: nil, mapByteCount: 1 << 30, isReadOnly: true)
        var begun: OpaquePointer?
        try check(mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "begin")
        defer { mdb_txn_abort(begun) }
        let scratch = KeyScratch()
        var cursor = try Cursor(transaction: begun!, table: 0, scratch: scratch.bytes)
        defer { mdb_cursor_close(cursor.handle) }
        var pages: Set<Int> = []
        while try cursor.next() {
            let count = Int(cursor.value.littleEndian(at: 0) as UInt64)
            for index in 0..<count {
                pages.insert(Int(cursor.value.littleEndian(at: 8 + 8 * index) as UInt64))
            }
        }
        return pages
    }

    /// In four parts, to use the processors.
    @Test(arguments: 0..<4)
    func `with any byte flipped is refused, or delivers no changed byte`(part: Int) throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 1)
        for number in 1...12 as ClosedRange<UInt64> {
            batch.send(number, "message \(number)", to: [1, 2], number: number)
            batch.put(.sessions, "session \(number)", "state \(number)")
        }
        batch.send(13, String(repeating: "large ", count: 1000), to: [1], number: 13)
        _ = try store.carryOut(batch)
        store.close()
        let sound = readFile(directory.dataFile)
        let expected = try contents(directory.path)
        let changed = readFile(directory.dataFile)
        let target = TemporaryDirectory(inMemory: true)
        var (refused, copied) = (0, 0)
        for offset in stride(from: 7 * part, to: changed.count, by: 28) {
            overwrite(directory.dataFile, at: 0, sound)
            overwrite(directory.dataFile, at: offset, [sound[offset] ^ 0x20])
            do throws(StoreError) {
                try LMDBQueueStore.copy(
                    directory: directory.path, to: target.path, options: .small)
            } catch {
                refused += 1
                continue
            }
            copied += 1
            let found = try contents(target.path)
            try #require(found.0.records == expected.0.records, "byte \(offset)")
            try #require(Set(found.1).isSubset(of: expected.1), "byte \(offset)")
            unlink(target.dataFile)
            unlink(target.path + "/lock.mdb")
        }
        #expect(refused > 0 && copied > 0)
    }

    /// A meta page that says so would cost 4 GiB, and the process its life.
    @Test func `with a last page beyond its end costs no memory`() throws {
        try makeStore(messageCount: 50)
        let sound = readFile(directory.dataFile)
        // The last page stands behind both trees.
        for meta in 0...1 {
            overwrite(
                directory.dataFile, at: meta * 4096 + 16 + 24 + 96, [0xFF, 0xFF, 0xFF, 0xFF])
        }
        #expect(readFile(directory.dataFile) != sound)
        let before = largestMemoryKilobytes()
        _ = try copyFailure(from: directory.path)
        let report = try LMDBQueueStore.verify(directory: directory.path, options: .small)
        #expect(report.findings.first?.contains("pages behind the end of the file") == true)
        // LMDB maps as much as the meta page claims, 16 TiB, which a sanitizer refuses.
        #expect(report.findingCount <= 2)
        #expect(largestMemoryKilobytes() - before < 1 << 20)
    }

    private func largestMemoryKilobytes() -> Int {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_maxrss
    }

    @Test func `with an impossible number of its commit is refused`() throws {
        try makeStore(messageCount: 50)
        // The number stands behind the last page.
        for meta in 0...1 {
            overwrite(
                directory.dataFile, at: meta * 4096 + 16 + 24 + 104,
                [UInt8](repeating: 0xFF, count: 8))
        }
        #expect(try copyFailure(from: directory.path) != nil)
        #expect(throws: StoreError.self) {
            _ = try LMDBQueueStore(directory: directory.path, options: .small)
        }
    }

    /// LMDB keeps marks of its own beside the kind of a page (0x10: it lies in memory and is
    /// written where it is). The page of a file that bears one must not reach LMDB.
    @Test func `with any flag of a page changed is refused, or starts`() throws {
        try makeStore(messageCount: 50)
        let sound = readFile(directory.dataFile)
        let expected = try contents(directory.path)
        let isLarge = pagesOfLargeValues(sound)
        let target = TemporaryDirectory(inMemory: true)
        var refused = 0
        for page in 2..<sound.count / 4096 where !isLarge[page] {
            for bit in 0..<16 {
                let offset = page * 4096 + 10 + bit / 8
                overwrite(directory.dataFile, at: offset, [sound[offset] ^ 1 << (bit % 8)])
                defer { overwrite(directory.dataFile, at: offset, [sound[offset]]) }
                do throws(StoreError) {
                    try LMDBQueueStore.copy(
                        directory: directory.path, to: target.path, options: .small)
                } catch {
                    refused += 1
                    continue
                }
                // A page that is free. A store that starts writes to the copy, too.
                let found = try contents(target.path)
                try #require(found.0.records == expected.0.records, "page \(page), bit \(bit)")
                try #require(found.1 == expected.1, "page \(page), bit \(bit)")
                unlink(target.dataFile)
                unlink(target.path + "/lock.mdb")
            }
        }
        #expect(refused > 100)
    }

    @Test func `of a running store with a damaged page is refused, and the store continues`() throws
    {
        try makeStore()
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        // A leaf of the records, which the running store has read and does not read again.
        for page in leaves(of: "session 150", in: readFile(directory.dataFile)) {
            overwrite(directory.dataFile, at: page * 4096, [UInt8](repeating: 0, count: 64))
        }
        let target = directory.path + "/copy"
        do throws(StoreError) {
            try store.copy(to: target)
            Issue.record("a damaged store was copied")
        } catch {
            #expect("\(error)".contains("the store is damaged: page "))
        }
        #expect(access(target, F_OK) != 0)
        var batch = StoreBatch(at: 2)
        batch.send(1_000, "still here", to: [9_000], number: 1_000)
        _ = try store.carryOut(batch)
        #expect(try store.texts(of: 9_000) == ["still here"])
    }

    /// The leaves with a key that ends so, those of earlier commits included.
    private func leaves(of key: String, in file: [UInt8]) -> [Int] {
        let key = Array(key.utf8)
        return (2..<file.count / 4096).filter { page in
            let bytes = Array(file[page * 4096..<(page + 1) * 4096])
            func number(_ offset: Int) -> Int { Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 }
            guard bytes[10] & 0x6F == 0x02, number(12) <= 4096 else { return false }
            return stride(from: 16, to: number(12), by: 2).contains { slot in
                let node = number(slot)
                let end = node + 8 + number(node + 6)
                return end <= 4096 && bytes[..<end].ends(with: key)
            }
        }
    }

    @Test func `reports damaged messages, and is refused with a damaged record`() throws {
        try makeStore(messageCount: 50)
        let sound = readFile(directory.dataFile)
        func flip(_ text: String) {
            let pattern = Array(text.utf8)
            for start in 0...sound.count - pattern.count
            where sound[start] == pattern[0]
                && Array(sound[start..<start + pattern.count]) == pattern
            {
                overwrite(directory.dataFile, at: start + 3, [sound[start + 3] ^ 0x10])
            }
        }
        let copy = TemporaryDirectory(inMemory: true)
        flip("text 12 ")
        let report = try LMDBQueueStore.copy(
            directory: directory.path, to: copy.path, options: .small)
        #expect(report.verification.findings == ["message 12 fails its checksum"])
        let found = try contents(copy.path)
        #expect(!found.1.contains { $0.contains("text 12 ") })
        #expect(found.1.contains { $0.contains("text 13 ") })

        overwrite(directory.dataFile, at: 0, sound)
        flip("state 12")
        let failure = try copyFailure(from: directory.path)
        #expect("\(failure!)".contains("record session%2012 of table sessions fails its checksum"))
        #expect("\(failure!)".contains("no broker would start"))
    }

    @Test func `needs a new or empty directory`() throws {
        try makeStore(messageCount: 50)
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(throws: StoreError.holdsStore(directory: directory.path)) {
            try store.copy(to: directory.path)
        }
        #expect(throws: StoreError.self) { try store.copy(to: "/") }
        #expect(access("/martlet.lock", F_OK) != 0)
        let other = TemporaryDirectory()
        overwrite(other.path + "/data.txt", at: 0, [1], flags: O_CREAT)
        #expect(throws: StoreError.notEmpty(directory: other.path, name: "data.txt")) {
            try store.copy(to: other.path)
        }
        unlink(other.path + "/data.txt")
        for path in ["", other.path + "/a\0b"] {
            #expect(throws: StoreError.impossiblePath(path)) { try store.copy(to: path) }
        }
        // What a copy that was killed has left is no obstacle.
        mkdir(other.path + "/new", 0o700)
        overwrite(other.path + "/new/data.mdb", at: 0, [1, 2, 3], flags: O_CREAT)
        try store.copy(to: other.path)
        #expect(try LMDBQueueStore.verify(directory: other.path).findings == [])
    }

    @Test func `that is cancelled leaves nothing`() throws {
        try makeStore(messageCount: 50)
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        let progress = CopyProgress()
        progress.cancel()
        let snapshot = try store.snapshot()
        #expect(throws: StoreError.cancelled) {
            try snapshot.copy(to: directory.path + "/copy", progress: progress)
        }
        snapshot.end()
        #expect(progress.totalByteCount > 0)
        #expect(access(directory.path + "/copy", F_OK) != 0)
    }
}

@Suite struct `A store's file` {
    @Test func `whose last pages were never written is opened`() throws {
        let directory = TemporaryDirectory(inMemory: true)
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var batch = StoreBatch(at: 1)
        for number in 1...400 as ClosedRange<UInt64> {
            batch.send(number, String(repeating: "x", count: 2000), to: [1], number: number)
        }
        batch.deletedQueues = [QueueID(raw: 1)]
        _ = try store.carryOut(batch)
        store.close()
        _ = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(try LMDBQueueStore.verify(directory: directory.path).findings == [])
    }
}

extension RandomAccessCollection<UInt8> {
    fileprivate func ends(with suffix: [UInt8]) -> Bool {
        self.suffix(suffix.count).elementsEqual(suffix)
    }
}
