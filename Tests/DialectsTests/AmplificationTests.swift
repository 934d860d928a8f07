// The effect of one packet of a client, for each kind of packet: bytes written because of it,
// memory of its effects, its cost in a turn, and bytes for the store. docs/operating/sizing.md has
// the table, which this test checks; MARTLET_UPDATE_DOCS=1 writes it.

import BrokerTerms
import Foundation
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite struct `The amplification table` {
    @Test func `has a row with the largest cost of each request`() throws {
        let table = AmplificationTable()
        let lines = table.lines()
        let path = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "docs/operating/sizing.md")
        let page = try String(contentsOf: path, encoding: .utf8)
        let begin = "<!-- table amplification -->\n"
        let parts = page.components(separatedBy: begin)
        let rest = try #require(parts.count == 2 ? parts[1] : nil, "no place for the table")
        let end = try #require(rest.range(of: "<!-- end -->"))
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
            let text = parts[0] + begin + lines.joined(separator: "\n") + "\n"
            try (text + rest[end.lowerBound...]).write(to: path, atomically: true, encoding: .utf8)
        }
        let written = rest[..<end.lowerBound].split(separator: "\n").map(String.init)
        #expect(written == lines, "run this test with MARTLET_UPDATE_DOCS=1")
        // Nothing that a packet causes is free.
        for (name, cost) in table.rows {
            #expect(cost.work * 256 + 4_096 >= cost.effectBytes, "\(name): \(cost)")
            #expect(cost.work * 2_048 + 65_536 >= cost.writtenBytes, "\(name): \(cost)")
        }
    }
}

/// Measures each kind of request at its worst, in a loop where 100 users are there, who are all
/// members of one group and subscribe to the topic `t`.
private final class AmplificationTable {
    static let receiverCount = 100
    private let loop = {
        var limits = CoreLimits()
        limits.appPolicy.wake = WakePolicy(relay: Array("relay".utf8))
        return CoreLoop(limits: limits)
    }()
    private(set) var rows: [(name: String, cost: RequestCost)] = []
    private var clientCount = 0
    private var groupName = ""
    private var owner = ConnectionID(rawValue: 0)
    private var members: [ConnectionID] = []

    init() {
        prepare()
        for code in UInt8.min...15 {
            if let type = MRT.PacketType(rawValue: code) { measure(type) }
        }
        for code in UInt8.min...15 {
            if let type = MQTT.PacketType(rawValue: code) { measure(type) }
        }
    }

    func lines() -> [String] {
        let head = [
            "| request | its bytes | written | effects | work | store |",
            "|---|---|---|---|---|---|",
        ]
        return head
            + rows.map { name, cost in
                "| \(name) | \(grouped(cost.requestBytes)) | \(grouped(cost.writtenBytes)) | "
                    + "\(grouped(cost.effectBytes)) | \(grouped(cost.work)) | "
                    + "\(grouped(cost.storeBytes)) |"
            }
    }

    private func grouped(_ number: Int) -> String {
        let digits = Array(String(number))
        return String(
            digits.indices.flatMap { index in
                let isGroup = (digits.count - index) % 3 == 0 && index > 0
                return isGroup ? [",", digits[index]] : [digits[index]]
            })
    }

    // MARK: - The scene

    private static let longName = String(repeating: "n", count: 56)
    private static let text = [0] + [UInt8](repeating: 0x62, count: 1_006)

    private func name(_ number: Int) -> String { Self.longName + "\(10_000 + number)" }

    private func prepare() {
        owner = loop.client("owner")
        groupName = makeGroup(owner, key: 1, title: 128, meta: 5_120)
        for number in 0..<Self.receiverCount {
            let member = loop.client(name(number))
            loop.exchange(
                Packets.request(.groupJoin, Packets.string8(groupName))
                    + Packets.request(.subscribe, [2] + "t".utf8, id: 2), member)
            members.append(member)
        }
        loop.exchange(
            Packets.publish("kept", [UInt8](repeating: 1, count: 262_000), isRetained: true),
            loop.client("keeper", .mqtt5))
    }

    /// Frees the windows of all who receive.
    private func acknowledgeAll() {
        for member in members + [owner] {
            while let through = loop.sentThrough(member) {
                loop.exchange(Packets.packet(0x61, Packets.varint(through)), member)
            }
        }
    }

    /// Creates a group and says its name.
    private func makeGroup(
        _ owner: ConnectionID, key: UInt8, title: Int, meta: Int
    ) -> String {
        let before = Set(groupNames)
        loop.exchange(Self.creation(key: key, title: title, meta: meta, id: Int(key)), owner)
        return groupNames.first { !before.contains($0) }!
    }

    private var groupNames: [String] {
        loop.broker.groupTable.groups.places.filter { loop.broker.groupTable.groups.contains($0) }
            .map { String(decoding: loop.broker.groupTable.groups[$0].name, as: UTF8.self) }
    }

    private static func creation(key: UInt8, title: Int, meta: Int, id: Int = 1) -> [UInt8] {
        Packets.request(
            .groupCreate,
            [0, 0, 0, 0, 0, 0, 0, key]
                + Packets.string8(String(repeating: "t", count: title)) + Packets.varint(meta)
                + [UInt8](repeating: 0x6D, count: meta) + [0], id: id)
    }

    private func client(_ dialect: SessionDialect = .mrt) -> ConnectionID {
        clientCount += 1
        return loop.client("client-\(clientCount)", dialect)
    }

    private func row(_ name: String, _ packets: [UInt8], _ connection: ConnectionID) {
        acknowledgeAll()
        rows.append((name, loop.exchange(packets, connection)))
    }

    // MARK: - MRT

    /// A packet type without a row is an error of the compiler.
    private func measure(_ type: MRT.PacketType) {
        switch type {
        case .connect:
            row(
                "MRT CONNECT, 128 messages of 1 KB wait",
                Packets.connect(fill("sleeper"), .mrt), loop.open())
        case .send:
            let target = [4] + Packets.string8("t")
            row("MRT SEND, grade 0, to 100 on a topic", Packets.send(target, Self.text), client())
            row(
                "MRT SEND, durable, to 100 on a topic",
                Packets.send(target, Self.text, grade: 1), client())
            row(
                "MRT SEND, durable, 64 KB, to 100 on a topic",
                Packets.send(target, [UInt8](repeating: 1, count: 65_536), grade: 1, isRaw: true),
                client())
            let names = (0..<256).flatMap { Packets.string8(name($0 % Self.receiverCount)) }
            row(
                "MRT SEND, durable, to a list of 256",
                Packets.send([1] + Packets.varint(256) + names, Self.text, grade: 1), client())
            row(
                "MRT SEND, durable, to a group of 100",
                Packets.send([2] + Packets.string8(groupName), Self.text, grade: 1), memberClient())
            row("MRT SEND, durable, to everybody", Packets.send([3], Self.text, grade: 1), client())
        case .ack:
            let receiver = loop.open()
            loop.exchange(Packets.connect(fill("late"), .mrt), receiver)
            row("MRT ACK of 64, with more behind", Packets.packet(0x61, [64]), receiver)
        case .request:
            for code in UInt8.min...UInt8.max {
                if let operation = MRT.Operation(rawValue: code) { measure(operation) }
            }
        case .channel:
            row(
                "MRT CHANNEL, with a CONNECT",
                Packets.packet(0xA0, [1] + Packets.connectChannel("sensor")), client())
        case .pingRequest: row("MRT PINGREQ", [0xC0, 0], client())
        case .disconnect: row("MRT DISCONNECT", Packets.packet(0xE0, [0]), client())
        case .auth:
            row("MRT AUTH", Packets.packet(0xF0, [1] + Packets.string8("token")), client())
            measureDeepRights()
        case .connack, .result, .deliver, .response, .pingResponse:
            break  // The broker's own.
        }
    }

    /// Rights of 60 levels each, which differ in the last one.
    private func measureDeepRights() {
        let deep = [String](repeating: "l", count: 60).joined(separator: "/")
        let client = client()
        let texts =
            (0..<32).map { "subscribe:\(deep)/x\($0)" } + (0..<30).map { "publish:\(deep)/x\($0)" }
            + ["subscribe:l/#", "publish:l/#"]
        let isNew = try? loop.broker.addToken(
            Token(
                identifier: Array("deep".utf8), digest: Digest(words: (0, 0, 0, 0)),
                app: loop.broker.anonymousApp, user: Array("client-\(clientCount)".utf8),
                device: nil, expiresUnixSeconds: .max,
                rights: try? Rights(texts.map { Array($0.utf8) })))
        precondition(isNew == true, "a token that is there already")
        for number in 0..<1_000 {
            loop.exchange(
                Packets.request(.subscribe, [2] + "\(deep)/\(number)".utf8, id: number + 1), client)
        }
        row(
            "MRT AUTH, 64 new rights and 1,000 filters of 60 levels",
            Packets.packet(0xF0, [1] + Packets.string8("deep")), client)
        row(
            "MRT SEND, grade 0, judged by 31 rights of 60 levels",
            Packets.send([4] + Packets.string8(deep + "/y"), Self.text), client)
        // The row of the token, which was used, goes with the next commit.
        loop.exchange(Packets.request(.clearWill, []), client)
    }

    private func measure(_ operation: MRT.Operation) {
        let group = Packets.string8(groupName)
        switch operation {
        case .subscribe:
            row("subscribe", Packets.request(operation, [2] + "a/+/#".utf8), client())
        case .unsubscribe:
            let client = client()
            loop.exchange(Packets.request(.subscribe, [2] + "a/+/#".utf8), client)
            row("unsubscribe", Packets.request(operation, Array("a/+/#".utf8), id: 2), client)
        case .setWill:
            row(
                "set will, to a list of 256",
                Packets.request(
                    operation,
                    [0, 0, 1] + Packets.varint(256)
                        + (0..<256).flatMap { Packets.string8(name($0)) } + Self.text), client())
        case .clearWill:
            row("clear will", Packets.request(operation, []), client())
        case .presence:
            for number in 0..<64 {
                let device = Self.longName + "\(1_000 + number)"
                loop.exchange(Packets.connect("many", device: device), loop.open())
            }
            row(
                "presence of 64 devices", Packets.request(operation, Packets.string8("many")),
                client())
        case .groupCreate:
            row("create a group", Self.creation(key: 9, title: 128, meta: 5_120), client())
        case .groupJoin:
            row("join a group of 100", Packets.request(operation, group), client())
        case .groupLeave:
            row("leave a group of 100", Packets.request(operation, group), memberClient())
        case .groupKick:
            row(
                "kick out of a group of 100",
                Packets.request(operation, group + Packets.string8(name(1))), owner)
        case .groupBan:
            row(
                "ban from a group of 100",
                Packets.request(operation, group + Packets.string8(name(2)), id: 2), owner)
        case .groupList:
            let client = client()
            for key in UInt8(1)...120 {
                loop.exchange(Self.creation(key: key, title: 128, meta: 0), client)
            }
            row("list groups", Packets.request(operation, [0]), client)
        case .groupDescribe:
            row("describe a group", Packets.request(operation, group + [0], id: 3), owner)
        case .history:
            let query = [0] + Packets.string8("nobody") + [0, 100]
            row("history with nobody", Packets.request(operation, query, id: 6), owner)
        case .searchHistory:
            let query = [0] + Packets.string8("nobody") + [0, 100, 0, 0, 0, 0x78]
            row("search with nobody", Packets.request(operation, query, id: 6), owner)
        case .conversations:
            row("no conversations", Packets.request(operation, [0, 0, 100], id: 6), owner)
        case .markRead:
            let mark = [0] + Packets.string8("nobody") + [1]
            row("read of nobody", Packets.request(operation, mark, id: 6), owner)
        case .hideHistory:
            let mark = [0] + Packets.string8("nobody") + [1]
            row("hide of nobody", Packets.request(operation, mark, id: 6), owner)
        case .groupSetHistory:
            row(
                "set history of a group of 100",
                Packets.request(operation, group + [1, 5], id: 7), owner)
        case .groupHistory:
            row("history of a group", Packets.request(operation, group, id: 8), owner)
        case .applied:
            let told: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 1, 0] + Array(repeating: 0x61, count: 128)
            row("applied, of nobody", Packets.request(operation, told, id: 6), owner)
        case .recall:
            row("recall of nothing", Packets.request(operation, [1, 1, 0x78], id: 6), owner)
        case .replace:
            row(
                "replacement of nothing",
                Packets.request(operation, [1, 1, 0x78, 0, 0] + Array("text".utf8), id: 6), owner)
        case .setWakeTarget:
            let target = Packets.string8("phone") + [1, 0, 0] + "https://".utf8
            let address = Array(repeating: UInt8(ascii: "a"), count: 2_040)
            row("set a wake target", Packets.request(operation, target + address, id: 9), owner)
        case .listWakeTargets:
            row("list wake targets", Packets.request(operation, [0], id: 10), owner)
        case .groupSetWake:
            row(
                "set wake of a group of 100", Packets.request(operation, group + [0], id: 12), owner
            )
        case .groupMute:
            row("mute a group", Packets.request(operation, group + [1], id: 13), owner)
        case .removeWakeTarget:
            row("remove no wake target", Packets.request(operation, [0, 1], id: 11), owner)
        case .reportWakes:
            let entry = Packets.string8(name(1)) + [1, 2, 0, 1, 1, 1, 0]
            let entries = [[UInt8]](repeating: entry, count: 32).flatMap { $0 }
            row("report 32 wake-ups", Packets.request(operation, entries, id: 14), owner)
        case .groupSetMeta:
            row(
                "set meta of a group of 100",
                Packets.request(operation, group + [UInt8](repeating: 0x6E, count: 5_120), id: 4),
                owner)
        case .groupSetAllowList:
            let names = (0..<1_000).flatMap { Packets.string8(name($0)) }
            row(
                "set allow list of a group of 100",
                Packets.request(operation, group + [1] + names, id: 5), owner)
        }
    }

    private func memberClient() -> ConnectionID {
        let member = client()
        loop.exchange(Packets.request(.groupJoin, Packets.string8(groupName), id: 9), member)
        return member
    }

    /// Leaves 128 messages of 1 KB for a user who is away, and says its name.
    private func fill(_ name: String) -> String {
        let receiver = loop.client(name)
        loop.decoder.closed(receiver, .lost)
        loop.enter()
        loop.commit()
        let sender = client()
        for number in 1...128 {
            loop.exchange(
                Packets.send([0] + Packets.string8(name), Self.text, grade: 1, number: number),
                sender)
            loop.exchange(Packets.packet(0x62, Packets.varint(number)), sender)
        }
        return name
    }

    // MARK: - MQTT

    private func measure(_ type: MQTT.PacketType) {
        let text = [UInt8](repeating: 0x62, count: 1_024)
        switch type {
        case .connect:
            row("MQTT CONNECT", Packets.connect("fresh", .mqtt5), loop.open())
        case .publish:
            row("MQTT PUBLISH, QoS 0, empty, to 100", Packets.publish("t"), client(.mqtt5))
            for qos in UInt8(0)...2 {
                row(
                    "MQTT PUBLISH, QoS \(qos), to 100", Packets.publish("t", text, qos: qos),
                    client(.mqtt5))
            }
            let aliased = client(.mqtt5)
            loop.exchange(
                Packets.publish(String(repeating: "x", count: 4_000), properties: [0x23, 0, 1]),
                aliased)
            row(
                "MQTT PUBLISH, with an alias for 4,000 bytes",
                Packets.publish("", properties: [0x23, 0, 1]), aliased)
            measureWorstFilters()
        case .puback: row("MQTT PUBACK", [0x40, 2, 0, 1], client(.mqtt5))
        case .pubrec: row("MQTT PUBREC", [0x50, 2, 0, 1], client(.mqtt5))
        case .pubrel: row("MQTT PUBREL", [0x62, 2, 0, 1], client(.mqtt5))
        case .pubcomp: row("MQTT PUBCOMP", [0x70, 2, 0, 1], client(.mqtt5))
        case .subscribe:
            row(
                "MQTT SUBSCRIBE, one retained message of 262 KB", Packets.subscribe(["kept"]),
                client(.mqtt5))
            row(
                "MQTT SUBSCRIBE, 5,000 times that filter",
                Packets.subscribe([String](repeating: "kept", count: 5_000)), client(.mqtt5))
            row(
                "MQTT SUBSCRIBE, 1,000 filters",
                Packets.subscribe((0..<1_000).map { "f/\($0)" }), client(.mqtt5))
        case .unsubscribe:
            let subscriber = client(.mqtt5)
            loop.exchange(Packets.subscribe((0..<1_000).map { "f/\($0)" }), subscriber)
            row(
                "MQTT UNSUBSCRIBE, 1,000 filters",
                Packets.unsubscribe((0..<1_000).map { "f/\($0)" }), subscriber)
        case .pingreq: row("MQTT PINGREQ", [0xC0, 0], client(.mqtt5))
        case .disconnect: row("MQTT DISCONNECT", [0xE0, 0], client(.mqtt5))
        case .auth: row("MQTT AUTH", [0xF0, 2, 0x19, 0], client(.mqtt5))
        case .connack, .suback, .unsuback, .pingresp:
            break  // The broker's own.
        }
    }

    /// Publications against all that the limits let filters be. Those who subscribe go away again.
    private func measureWorstFilters() {
        let limits = CoreLimits()
        // Filters of 64 levels that match but for the last one, each with a `+` or two elsewhere.
        let walker = client(.mqtt5)
        for second in 0..<63 {
            let filters = (second..<63).map { first -> String in
                let levels = (0..<63).map { $0 == first || $0 == second ? "+" : "a" }
                return (levels + ["z"]).joined(separator: "/")
            }
            loop.exchange(Packets.subscribe(Array(filters.prefix(1_000))), walker)
        }
        row(
            "MQTT PUBLISH, QoS 0, past all shapes of filters",
            Packets.publish([String](repeating: "a", count: 64).joined(separator: "/")),
            client(.mqtt5))
        loop.exchange(Packets.packet(0xE0, [0, 5, 0x11, 0, 0, 0, 0]), walker)
        // 1,000 filters that all match, with identifiers, of each of ten sessions.
        let overlapping = (0..<10).map { _ in client(.mqtt5) }
        for number in 0..<1_000 {
            let filter = (0..<10).map { number >> $0 & 1 == 1 ? "+" : "b" }.joined(separator: "/")
            let packet = Packets.packet(
                0x82,
                [0, 1] + [UInt8(1 + Packets.varint(number + 1).count), 0x0B]
                    + Packets.varint(number + 1) + Packets.string16(filter) + [0])
            for client in overlapping { loop.exchange(packet, client) }
        }
        row(
            "MQTT PUBLISH, QoS 0, to 10 with 1,000 filters and identifiers",
            Packets.publish([String](repeating: "b", count: 10).joined(separator: "/")),
            client(.mqtt5))
        for client in overlapping {
            loop.exchange(Packets.packet(0xE0, [0, 5, 0x11, 0, 0, 0, 0]), client)
        }
        // As many shares as an app may have, each of one session that is there, or away.
        var sharers: [ConnectionID] = []
        for first in stride(
            from: 0, to: limits.sharesPerAppMaximum, by: limits.sharesPerSessionMaximum)
        {
            let end = min(first + limits.sharesPerSessionMaximum, limits.sharesPerAppMaximum)
            let sharer = client(.mqtt5)
            loop.exchange(
                Packets.subscribe((first..<end).map { "$share/\($0)/s" }, qos: 1), sharer)
            sharers.append(sharer)
        }
        row(
            "MQTT PUBLISH, QoS 0, to 4,096 shares", Packets.publish("s"), client(.mqtt5))
        for sharer in sharers {
            loop.decoder.closed(sharer, .lost)
            loop.enter()
            loop.commit()
        }
        row(
            "MQTT PUBLISH, QoS 0, to 4,096 shares of sessions that are away",
            Packets.publish("s"), client(.mqtt5))
        row(
            "MQTT PUBLISH, QoS 1, to 4,096 shares of sessions that are away",
            Packets.publish("s", qos: 1), client(.mqtt5))
    }
}
