// What the rows of the store look like, as bytes. Brokers that are out there have written such
// rows: whoever changes a layout finds it here, and gives the store a new format with a step from
// this one (QueueStore/Records/StoreFormat.swift).

import Foundation
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Rows of format 1` {
    private static let directory = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Vectors")
    private static let path = directory.appending(path: "rows-1.txt").path

    /// A life that leaves rows of every table.
    private func world() -> World {
        let world = World()
        world.allowWakes()
        world.begin("ann/phone", "bob/pc", "carl/pad", "dora/pc")
        _ = world.addToken(
            Token(
                identifier: Array("0123456789".utf8), digest: Digest(words: (5, 6, 7, 8)),
                app: World.app, user: Array("ann".utf8), device: Array("phone".utf8),
                expiresUnixSeconds: 1_900_000_000, batch: Array("batch".utf8),
                rights: try! Rights([Array("publish:#".utf8)])))
        world.setPassword(
            "pump/1", user: "ann", device: "phone", rights: ["publish:#", "!publish:x"],
            expiresUnixSeconds: 1_900_000_000)
        let group = world.makeGroup(
            owner: "bob/pc", members: ["ann/phone"], allowed: ["ann", "carl"], meta: "meta")
        world.subscribe("ann/phone", "a/+/#")
        world.setWill("dora/pc", to: .user("ann"), "gone", delay: 30)
        world.beginMQTT("eve/sensor", "finn/sensor")
        world.publish("eve/sensor", 7, "a/kept", "21.5", isRetained: true)
        world.publish("finn/sensor", 8, to: .user("ann"), "twice no", grade: .once)
        world.settle()
        world.send("bob/pc", 1, to: .group(group), "once", grade: .once)
        world.addUser("known")
        world.send("bob/pc", 2, to: .user("known"), "waits")
        world.send("bob/pc", 3, to: .group(group), "kept", isKept: true)
        world.send("bob/pc", 4, to: .user("known"), "kept", isKept: true)
        world.send(
            "bob/pc", 5, to: .user("known"), "asks", id: "m-5", asks: [.delivered, .applied])
        _ = world.operate(group, .join(user: Array("carl".utf8)))
        _ = world.send(
            as: "bob", to: .users(["known", "unknown"]), "keyed", grade: .durable, isRaw: false,
            isRetained: false, byteCount: nil,
            key: SendKey(
                name: Digest(words: (1, 2, 3, 4)), content: Digest(words: (5, 6, 7, 8))))
        world.settle()
        world.disconnect("carl/pad", expiry: 3_600)
        world.setTarget("known", device: "phone", .apns, "0123456789abcdef", language: "de")
        _ = try! world.broker.setWakeTemplate(
            Array(#"{"alert":"${count} new"}"#.utf8), for: .apns, app: World.app)
        world.settle()
        world.pass(seconds: 30)
        world.settle()
        return world
    }

    @Test func `are written as they always were, and of every kind`() throws {
        var rows = RowTexts()
        _ = world().store.restore(into: &rows)
        // Leftovers are there only while a session's end is under way.
        #expect(
            rows.tables == Set(RecordTable.allCases).subtracting([.leftovers]),
            "the life above leaves some out")
        let head = "# Rows of the store, format 1: table, key, value. RowFormatTests reads them.\n"
        let text = head + rows.lines.map { $0 + "\n" }.joined()
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_ROWS"] != nil {
            try Data(text.utf8).write(to: URL(filePath: Self.path))
        }
        #expect(try String(contentsOfFile: Self.path, encoding: .utf8) == text)
    }

    /// The rows of today, those of the time when the rows of sends did not tell the length of the
    /// message, those before a message could be recalled, and those of the time when an app had one
    /// key, in its own row.
    @Test(arguments: [
        "rows-1.txt", "rows-1-no-length.txt", "rows-1-first-tracked.txt", "rows-1-one-key.txt",
    ])
    func `make the broker that wrote them`(file: String) throws {
        let world = world()
        var broker = Broker(at: world.now)
        let path = Self.directory.appending(path: file).path
        for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        where !line.hasPrefix("#") {
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
            let table = try #require(RecordTable.allCases.first { "\($0)" == fields[0] })
            let (key, value) = (bytes(fields[1]), bytes(fields[2]))
            key.withUnsafeBytes { key in
                value.withUnsafeBytes { broker.visitRecord(table: table, key: key, value: $0) }
            }
        }
        let state = RestoredState(
            identity: StoreIdentity(high: 0, low: 1), nextMessage: StoredMessageID(raw: 100),
            stamp: nil,
            damaged: [])
        try broker.finishRestoring(state, newEpochSeed: 1, at: world.now)
        broker.checkInvariants()
        let (found, wanted) = (broker.gauges(), world.gauges)
        #expect(found.users == wanted.users && found.sessions == wanted.sessions)
        #expect(broker.keys(ofApp: World.app)?.map(\.digest) == [World.keyDigest])
        #expect(found.groups == 1 && found.wills == 1 && found.tokens == 1)
        #expect(found.subscriptions == wanted.subscriptions)
        #expect(file == "rows-1-one-key.txt" || found.trackedSends == 1)
        #expect(found.retainedMessages == 1 && found.retainedBytes == wanted.retainedBytes)
    }

    private func bytes(_ hexadecimal: Substring) -> [UInt8] {
        let digits = Array(hexadecimal.utf8)
        return stride(from: 0, to: digits.count, by: 2).map {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
        }
    }
}

/// A store's rows as lines of text.
private struct RowTexts: StoreVisitor {
    var lines: [String] = []
    var tables: Set<RecordTable> = []

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        func text(_ bytes: UnsafeRawBufferPointer) -> String {
            bytes.map { String(0x100 + Int($0), radix: 16).dropFirst() }.joined()
        }
        tables.insert(table)
        lines.append("\(table)\t\(text(key))\t\(text(value))")
    }

    mutating func visitQueue(_ outline: QueueOutline) {}
}
