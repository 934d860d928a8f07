// A store that an earlier version wrote, opened by this one: an app had one key, in its own row.

import BrokerCore
import Primitives
import TestSurroundings
import Testing

@testable import QueueStore

@Suite struct `A store of the time of one key` {
    private typealias Site = `Rows that grow on a full disk`.Site

    private static let app = Array("plant".utf8)
    private static let digest = Digest(words: (1, 2, 3, 4))

    /// The row of version 2: whether there is a key, its digest, and the right `send:*`.
    private static var row: [UInt8] {
        var row: [UInt8] = [2, 1]
        for word in 1...4 as ClosedRange<UInt8> {
            row += [word]
            row += [UInt8](repeating: 0, count: 7)
        }
        row += [1, 6, 0]
        return row + Array("send:*".utf8)
    }

    private func writeOldStore(_ path: String) throws {
        var store = try LMDBQueueStore(directory: path, options: .small)
        var batch = StoreBatch()
        batch.moment = Site.now
        batch.records.append(RecordChange(table: .apps, key: Self.app, value: Self.row))
        var result = StoreResult()
        try store.carryOut(batch, into: &result)
    }

    private func start(_ path: String) throws -> (keys: [RegisteredKey], rights: [[UInt8]]?) {
        var site = try Site.start(path)
        try site.commit()
        return (
            site.broker.keys(ofApp: Self.app) ?? [],
            site.broker.appDescription(Self.app)?.rights.texts
        )
    }

    private func rows(_ path: String) throws -> Rows {
        var rows = Rows()
        var store = try LMDBQueueStore(directory: path, options: .small)
        _ = try store.restore(into: &rows)
        return rows
    }

    @Test func `starts, and its key is the one with the name default`() throws {
        let directory = TemporaryDirectory()
        try writeOldStore(directory.path)
        // The first start moves the key, and the second finds it where it is.
        for _ in 0..<2 {
            let (keys, rights) = try start(directory.path)
            #expect(keys.map(\.name) == [RegisteredKey.defaultName])
            #expect(keys.map(\.digest) == [Self.digest] && keys.map(\.role) == [.operate])
            #expect(rights == [Array("send:*".utf8)])
        }
        let rows = try rows(directory.path)
        #expect(rows.found[.appKeys]?.count == 1)
        let moved: [UInt8] = [2] + [UInt8](repeating: 0, count: 33) + Self.row.suffix(9)
        #expect(rows.found[.apps] == [moved])
        #expect(try LMDBQueueStore.verify(directory: directory.path).findings.isEmpty)
    }
}

/// The values of a store's rows.
private struct Rows: StoreVisitor {
    var found: [RecordTable: [[UInt8]]] = [:]

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        found[table, default: []].append(Array(value))
    }

    mutating func visitQueue(_ outline: QueueOutline) {}
}
