// The directory of a store: its owner, refused contents, and backups.

import BrokerCore
import Glibc
import Primitives
import Testing

@testable import QueueStore

@Suite struct `A store's directory` {
    let directory = TemporaryDirectory()

    @Test func `is private to its user`() throws {
        let inner = directory.path + "/store"
        defer {
            for name in ["data.mdb", "lock.mdb", "martlet.lock"] { unlink(inner + "/" + name) }
            rmdir(inner)
        }
        let store = try LMDBQueueStore(directory: inner, options: .small)
        store.close()
        var status = stat()
        stat(inner, &status)
        #expect(status.st_mode & 0o777 == 0o700)
        for name in ["data.mdb", "lock.mdb", "martlet.lock"] {
            stat(inner + "/" + name, &status)
            #expect(status.st_mode & 0o777 == 0o600, "\(name)")
        }
    }

    @Test func `cannot be opened twice, and the error names the process`() throws {
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        let expected = StoreError.inUse(
            directory: directory.path, processIdentifier: getpid())
        #expect(throws: expected) {
            _ = try LMDBQueueStore(directory: directory.path, options: .small)
        }
        #expect(throws: expected) { _ = try LMDBQueueStore.verify(directory: directory.path) }
        #expect(expected.description.contains("process \(getpid())"))
        store.close()
        _ = try LMDBQueueStore(directory: directory.path, options: .small)
    }

    @Test func `is free once it is closed, even if a child process has its files open`() throws {
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        // What fork(2) does to every descriptor until exec(2): a second one for the same open file.
        let lock = try #require(descriptor(of: directory.path + "/martlet.lock"))
        let inherited = dup(lock)
        defer { close(inherited) }
        store.close()
        _ = try LMDBQueueStore(directory: directory.path, options: .small)
    }

    private func descriptor(of path: String) -> Int32? {
        var wanted = stat()
        guard stat(path, &wanted) == 0 else { return nil }
        return (Int32(0)..<1024).first { descriptor in
            var found = stat()
            return fstat(descriptor, &found) == 0 && found.st_ino == wanted.st_ino
                && found.st_dev == wanted.st_dev
        }
    }

    /// LMDB writes into the file through a map: without room on the disk it would end the process.
    @Test func `has room on the disk for all of LMDB's lock file`() throws {
        try LMDBQueueStore(directory: directory.path, options: .small).close()
        let lock = directory.path + "/lock.mdb"
        unlink(lock)
        #expect(try LMDBQueueStore.verify(directory: directory.path).isSound)
        var status = stat()
        #expect(stat(lock, &status) == 0 && status.st_size == 8_192)
        #expect(status.st_blocks * 512 >= status.st_size)
    }

    /// Otherwise the broker could not open its store after a check by root.
    @Test(.enabled(if: geteuid() == 0, "only root can give files away"))
    func `of another user gets lock files of that user from root`() throws {
        try LMDBQueueStore(directory: directory.path, options: .small).close()
        let locks = ["lock.mdb", "martlet.lock"].map { directory.path + "/" + $0 }
        for lock in locks { unlink(lock) }
        chown(directory.path, 65_534, 65_533)
        #expect(try LMDBQueueStore.verify(directory: directory.path).isSound)
        for lock in locks {
            var status = stat()
            #expect(stat(lock, &status) == 0 && status.st_mode & 0o777 == 0o600, "\(lock)")
            #expect(status.st_uid == 65_534 && status.st_gid == 65_533, "\(lock)")
        }
    }

    @Test func `that cannot be created is named in the error`() {
        #expect(
            throws: StoreError.system(
                call: "mkdir", path: "/proc/no/such/place", errno: ENOENT)
        ) { _ = try LMDBQueueStore(directory: "/proc/no/such/place") }
    }

    @Test func `with an unfinished staging file gets a store`() throws {
        let folder = directory.path + "/new"
        func leaveStagingFile(_ bytes: [UInt8]) {
            mkdir(folder, 0o700)
            overwrite(folder + "/data.mdb", at: 0, bytes, flags: O_CREAT)
        }
        leaveStagingFile([UInt8](repeating: 0x5A, count: 5_000))
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(access(folder, F_OK) != 0)
        var batch = StoreBatch(at: 0)
        batch.send(1, "kept", to: [1], number: 1)
        _ = try store.carryOut(batch)
        store.close()
        // A staging file beside a store is a leftover.
        leaveStagingFile([1, 2, 3])
        var again = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(try again.texts(of: 1) == ["kept"])
        #expect(access(folder, F_OK) != 0)
    }

    @Test func `whose file has lost all its bytes is refused`() throws {
        do { _ = try LMDBQueueStore(directory: directory.path, options: .small) }
        try #require(truncate(directory.dataFile, 0) == 0)
        #expect(throws: StoreError.damagedPage(number: 0, finding: "the file is empty")) {
            _ = try LMDBQueueStore(directory: directory.path, options: .small)
        }
    }

    @Test func `of a newer format is refused`() throws {
        do {
            let store = try LMDBQueueStore(directory: directory.path, options: .small)
            let transaction = try WriteTransaction(
                environment: store.environment, tables: store.tables, scratch: store.scratch.bytes)
            try transaction.putMeta(.format, [2, 0, 0, 0])
            try transaction.commit()
        }
        #expect(throws: StoreError.newerFormat(found: 2, known: 1)) {
            _ = try LMDBQueueStore(directory: directory.path, options: .small)
        }
    }

    @Test func `of another program's LMDB is refused`() throws {
        do {
            let store = try LMDBQueueStore(directory: directory.path, options: .small)
            let transaction = try WriteTransaction(
                environment: store.environment, tables: store.tables, scratch: store.scratch.bytes)
            try transaction.deleteMeta(.format)
            try transaction.commit()
        }
        #expect(throws: StoreError.notAStore(directory: directory.path)) {
            _ = try LMDBQueueStore(directory: directory.path, options: .small)
        }
    }

    @Test func `keeps its identity, and a backup gets its own at its first opening`() throws {
        let copies = [TemporaryDirectory(), TemporaryDirectory()]
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        let identity = store.identity
        var batch = StoreBatch(at: 3)
        batch.send(1, "saved", to: [1], number: 1)
        batch.put(.users, "u", "saved too")
        _ = try store.carryOut(batch)
        try store.copy(to: copies[0].path)
        store.close()
        try LMDBQueueStore.copy(directory: directory.path, to: copies[1].path)
        #expect(
            try LMDBQueueStore(directory: directory.path, options: .small).identity == identity)

        var identities: Set = [identity]
        for copy in copies {
            #expect(try LMDBQueueStore.verify(directory: copy.path).findings == [])
            do {
                var restored = Restored()
                var opened = try LMDBQueueStore(directory: copy.path, options: .small)
                _ = try opened.restore(into: &restored)
                #expect(restored.records.count == 1)
                #expect(try opened.texts(of: 1) == ["saved"])
                #expect(identities.insert(opened.identity).inserted)
            }
            let again = try LMDBQueueStore(directory: copy.path, options: .small)
            #expect(identities.contains(again.identity))
        }
    }

    @Test func `is not overwritten by a backup`() throws {
        let other = TemporaryDirectory()
        _ = try LMDBQueueStore(directory: other.path, options: .small)
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        #expect(throws: StoreError.holdsStore(directory: other.path)) {
            try store.copy(to: other.path)
        }
        #expect(throws: StoreError.self) { try store.copy(to: directory.path) }
    }
}
