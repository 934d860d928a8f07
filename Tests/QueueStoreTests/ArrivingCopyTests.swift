// A copy of a node's store that another node gets in parts.

import BrokerCore
import Glibc
import Primitives
import Testing

@testable import QueueStore

@Suite struct `A copy in parts` {
    /// A node's store with messages in one queue.
    private func makeNode(_ directory: TemporaryDirectory, texts: [String]) throws {
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        try store.join(at: .founding(store.identity))
        var batch = StoreBatch(at: 1)
        for (index, text) in texts.enumerated() {
            batch.send(UInt64(index + 1), text, to: [1], number: UInt64(index + 1))
        }
        var result = StoreResult()
        guard try store.decide(batch, into: &result) != nil else { return }
        _ = try store.commitDecided(at: store.position!.following(term: 1), into: &result)
    }

    private func copy(_ directory: TemporaryDirectory) throws -> UnnamedCopy {
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        let snapshot = try store.snapshot()
        defer { snapshot.end() }
        return try snapshot.copyForNode(in: directory.path, progress: CopyProgress())
    }

    @Test func `is the same store, and leaves no file`() throws {
        let (source, target) = (TemporaryDirectory(), TemporaryDirectory())
        try makeNode(source, texts: (0..<500).map { "message \($0)" })
        let copy = try copy(source)
        #expect(access(source.path + "/copy", F_OK) != 0)
        do {
            var arriving = try ArrivingCopy(
                directory: target.path, byteCount: UInt64(copy.byteCount))
            while arriving.byteCount < copy.byteCount {
                try arriving.append(copy.read(at: arriving.byteCount, count: 10_000))
            }
            #expect(try copy.read(at: copy.byteCount, count: 1) == [])
            try arriving.publish()
        }
        let original = try LMDBQueueStore(directory: source.path, options: .small)
        let other = try LMDBQueueStore(directory: target.path, options: .small)
        #expect(other.position == original.position && other.position != nil)
        #expect(other.identity == original.identity)
        #expect(try other.rows() == original.rows())
    }

    @Test func `replaces a store only when it is complete and sound`() throws {
        let (source, target) = (TemporaryDirectory(), TemporaryDirectory())
        try makeNode(source, texts: (0..<500).map { "message \($0)" })
        try makeNode(target, texts: ["old"])
        let before = try rows(target)
        let bytes = try { try $0.read(at: 0, count: $0.byteCount) }(copy(source))
        let length = UInt64(bytes.count)
        var damaged = bytes
        // Behind the meta pages: the first page of a tree.
        damaged[2 * 4_096 + 12] ^= 0xFF
        for content in [Array(bytes.prefix(bytes.count / 2)), damaged, []] {
            #expect(throws: StoreError.self) {
                var arriving = try ArrivingCopy(directory: target.path, byteCount: length)
                try arriving.append(content)
                try arriving.publish()
            }
            #expect(access(target.path + "/new", F_OK) != 0)
            #expect(try rows(target) == before)
        }
        var arriving = try ArrivingCopy(directory: target.path, byteCount: length)
        // Nobody opens the store meanwhile.
        #expect(throws: StoreError.self) { _ = try rows(target) }
        try arriving.append(bytes)
        try arriving.publish()
        _ = consume arriving
        #expect(try rows(target) == rows(source))
    }

    /// A node that claims more would fill the disk of the store.
    @Test func `begins only where the disk has room, and ends where it is longer than was said`()
        throws
    {
        let target = TemporaryDirectory()
        try makeNode(target, texts: ["old"])
        for byteCount in [1 << 60, UInt64.max] {
            #expect {
                _ = try ArrivingCopy(directory: target.path, byteCount: byteCount)
            } throws: { error in
                guard case StoreError.noRoomForCopy(_, byteCount, _) = error else { return false }
                return true
            }
        }
        var arriving = try ArrivingCopy(directory: target.path, byteCount: 10)
        try arriving.append([UInt8](repeating: 1, count: 10))
        #expect(throws: StoreError.self) { try arriving.append([1]) }
        _ = consume arriving
        #expect(try rows(target).isEmpty == false)
    }

    private func rows(_ directory: TemporaryDirectory) throws -> [String: [[UInt8]]] {
        let store = try LMDBQueueStore(directory: directory.path, options: .small)
        return try store.rows()
    }
}
