// The log of wake-ups at the broker: what relays report, who may, and what makes room.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

/// An entry of a report, in the form of MRT.
private func entry(
    _ user: String, target: UInt8 = 7, kind: UInt8 = 6, step: UInt8 = 1, wake: UInt8 = 41,
    detail: String = ""
) -> [UInt8] {
    [UInt8(user.utf8.count)] + user.utf8 + [target, kind, step, 0xAC, 0x02, wake, 3]
        + [UInt8(detail.utf8.count)] + detail.utf8
}

@Suite struct `Reports of wake-ups` {
    let world = World()

    init() {
        world.allowWakes()
        world.begin("bob/pc", "relay/1")
    }

    private func report(_ entries: [UInt8]) -> [String] {
        world.wake("relay/1") {
            let start = $0.count
            $0 += entries
            return .report(entries: ByteRange(offset: start, count: entries.count))
        }
        world.broker.checkInvariants()
        return world.lines().filter { $0.hasPrefix("relay/1") }
    }

    private func reports(
        _ user: String = "bob", after: UInt64? = nil, limit: Int = 100
    ) -> [WakeReport] {
        let page = world.broker.wakeReports(
            app: World.app, user: Array(user.utf8), after: after, limit: limit)
        return page?.reports ?? []
    }

    @Test func `are kept for their users, oldest first`() {
        world.setRights("wake:*")
        world.addUser("eve")
        #expect(
            report(entry("bob", step: 0) + entry("eve") + entry("bob", detail: "410"))
                == ["relay/1: response 1, success"])
        let found = reports()
        #expect(found.map(\.step) == [.asked, .sent])
        #expect(found.map(\.number) == [1, 3])
        #expect(found[1].time == 300 && found[1].wake == 41 && found[1].count == 3)
        #expect(found[1].kind == .udp && found[1].detail == Array("410".utf8))
        #expect(reports("eve").map(\.number) == [2])
        #expect(reports(after: 1).map(\.number) == [3])
        #expect(reports(limit: 1).map(\.number) == [3])
        #expect(reports(after: 0, limit: 1).map(\.number) == [1])
        // Numbers begin again when the broker starts.
        #expect(reports(after: 99).map(\.number) == [1, 3])
        #expect(world.broker.counters.wakeReports == 3)
    }

    @Test func `need the right to all their users, also to the own one`() {
        world.setRights("send:*")
        #expect(report(entry("relay")) == ["relay/1: response 1, notAuthorized"])
        world.setRights("wake:bob")
        #expect(report(entry("bob") + entry("eve")) == ["relay/1: response 1, notAuthorized"])
        #expect(reports().isEmpty)
        #expect(report(entry("bob")) == ["relay/1: response 1, success"])
        #expect(reports().count == 1)
    }

    @Test func `of unknown users are left out, and of unknown steps and kinds refused`() {
        world.setRights("wake:*")
        #expect(report(entry("nobody") + entry("bob")) == ["relay/1: response 1, success"])
        #expect(reports().count == 1)
        for unknown in [entry("bob", step: 5), entry("bob", step: 99), entry("bob", kind: 0)] {
            #expect(
                report(entry("bob") + unknown)
                    == ["relay/1: response 1, implementationSpecificError"])
        }
        #expect(reports().count == 1)
        #expect(world.broker.wakeReports(app: World.app, user: [0x78], after: nil, limit: 1) == nil)
    }

    @Test func `make room for newer ones, which is counted`() {
        world.setRights("wake:*")
        for number in 0..<104 { _ = report(entry("bob", wake: UInt8(number))) }
        #expect(reports().count == 100)
        #expect(reports().first?.wake == 4 && reports().last?.wake == 103)
        #expect(world.broker.counters.wakeReportsDropped == 4)
    }

    @Test func `of an app make room for newer ones of others`() {
        var table = WakeReportTable()
        let report = WakeReport(
            target: 1, kind: .udp, step: .sent, time: 0, wake: 1, count: 1, detail: [])
        let app = Index<App>(place: 0)
        var dropped = 0
        for place in 0..<UInt32(CoreLimits.wakeReportsOfAppMaximum + 3) {
            // Two entries of each user.
            dropped += table.add(report, of: Index(place: place / 2), app: app)
        }
        table.checkInvariants()
        #expect(dropped == 3 && table.count == CoreLimits.wakeReportsOfAppMaximum)
        #expect(table.reports(of: Index(place: 0), after: nil, limit: 9).isEmpty)
        #expect(table.reports(of: Index(place: 1), after: nil, limit: 9).map(\.number) == [4])
        // Another app has room of its own.
        #expect(table.add(report, of: Index(place: 90_000), app: Index(place: 1)) == 0)
        table.removeAll(of: Index(place: 5))
        table.removeAll(of: Index(place: 5))
        table.checkInvariants()
        #expect(table.count == CoreLimits.wakeReportsOfAppMaximum - 1)
    }

    @Test func `are forgotten with a restart, and with their users`() {
        world.setRights("wake:*")
        _ = report(entry("bob"))
        world.settle()
        world.crash()
        #expect(reports().isEmpty)
        world.begin("relay/1")
        _ = report(entry("bob") + entry("relay"))
        #expect(reports().count == 1)
        var deletion = Deletion(of: DeletionScope(app: World.app, user: Array("bob".utf8)))
        while world.broker.delete(&deletion, at: world.now, effects: &world.effects) {
            world.settle()
        }
        world.settle()
        world.broker.checkInvariants()
        #expect(reports().isEmpty && reports("relay").count == 1)
    }

    @Test func `that end in the middle of an entry change nothing more`() {
        var run = [entry("bob"), entry("bob")].flatMap { $0 }
        run.removeLast(3)
        run.withUnsafeBytes { bytes in
            var entries = WakeReportRun(ByteRange(offset: 0, count: bytes.count))
            let first = entries.next(in: bytes.bytes)
            let second = entries.next(in: bytes.bytes)
            #expect(first?.report?.step == .sent && second == nil)
        }
    }
}
