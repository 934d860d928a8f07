// Wake targets: set, listed and removed, by their users and by those who have the right.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

/// U+FDD0, which the compiler takes in no literal.
private let noncharacter = String(decoding: [0xEF, 0xB7, 0x90] as [UInt8], as: UTF8.self)

@Suite struct `Wake targets` {
    let world = World()

    private func lines(of name: String) -> [String] {
        world.settle()
        return world.lines().filter { $0.hasPrefix(name) }
    }

    private func set(_ name: String, kind: UInt8, _ address: String, device: String = "") {
        world.wake(name) {
            .set(
                device: $0.appendRange(device), kind: kind, environment: 0,
                language: $0.appendRange("de"), address: $0.appendRange(address))
        }
    }

    @Test func `need an app that has wake-ups`() {
        world.begin("bob/pc")
        #expect(world.setTarget("bob").limit == .wakesOff)
        set("bob/pc", kind: 6, "a:1")
        #expect(lines(of: "bob") == ["bob/pc: response 1, notAuthorized"])
    }

    @Test func `are set by their users, answered after the commit, and keep their ids`() {
        world.allowWakes()
        world.begin("bob/pc")
        set("bob/pc", kind: 6, "a:1")
        #expect(world.lines() == [])
        #expect(lines(of: "bob") == ["bob/pc: wake target 1"])
        set("bob/pc", kind: 6, "a:1")
        set("bob/pc", kind: 6, "a:2")
        #expect(lines(of: "bob") == ["bob/pc: wake target 1", "bob/pc: wake target 2"])
        let targets = world.broker.wakeTargets(app: World.app, user: Array("bob".utf8))!
        #expect(targets.map(\.address) == ["a:1", "a:2"].map { Array($0.utf8) })
        #expect(targets.allSatisfy { $0.language == Array("de".utf8) })
    }

    @Test func `are at most eight`() {
        world.allowWakes()
        world.begin("bob/pc")
        for port in 1...8 {
            #expect(world.setTarget("bob", .udp, "a:\(port)").reason == .success)
        }
        #expect(world.setTarget("bob", .udp, "a:9").limit == .wakeTargetsOfUser)
        #expect(world.setTarget("bob", .udp, "a:8", language: "en").reason == .success)
    }

    @Test func `of others need a right`() {
        world.allowWakes()
        world.begin("bob/pc", "relay/1")
        let identifier = world.setTarget("bob").identifier
        world.setRights("wake:bob")
        world.wake("relay/1") { .list(user: $0.appendRange("bob"), byteCountMaximum: 1_000) }
        world.wake("relay/1") { .list(user: $0.appendRange("eve"), byteCountMaximum: 1_000) }
        world.wake("relay/1") { .list(user: $0.appendRange("bob"), byteCountMaximum: 5) }
        world.wake("relay/1") { .remove(user: $0.appendRange("bob"), identifier: identifier) }
        world.wake("relay/1") { .remove(user: $0.appendRange("bob"), identifier: identifier) }
        let told = lines(of: "relay")
        #expect(told.first?.hasPrefix("relay/1: wake targets 1, ") == true)
        #expect(
            told.dropFirst() == [
                "relay/1: response 1, notAuthorized",
                "relay/1: response 1, packetTooLarge", "relay/1: response 1, success",
                "relay/1: response 2, noSubscriptionExisted",
            ])
        world.setRights("send:*")
        world.wake("relay/1") { .list(user: $0.appendRange("bob"), byteCountMaximum: 1_000) }
        world.wake("relay/1") { _ in .list(user: .empty, byteCountMaximum: 1_000) }
        #expect(
            lines(of: "relay") == [
                "relay/1: response 1, notAuthorized", "relay/1: wake targets 1, 0 bytes",
            ])
    }

    @Test func `survive a restart and are gone when they are removed`() {
        world.allowWakes()
        world.begin("bob/pc")
        let identifier = world.setTarget("bob", device: "pc", .fcm, "token").identifier
        world.setTarget("bob")
        world.settle()
        world.crash()
        func targets() -> [WakeTarget] {
            world.broker.wakeTargets(app: World.app, user: Array("bob".utf8))!
        }
        #expect(targets().map(\.kind) == [.fcm, .udp])
        #expect(targets()[0].identifier == identifier)
        #expect(
            world.broker.removeWakeTarget(
                identifier, app: World.app, user: Array("bob".utf8), at: world.now,
                effects: &world.effects) == true)
        world.settle()
        world.crash()
        #expect(targets().map(\.kind) == [.udp])
    }

    @Test(arguments: [
        (WakeTarget.Kind.webhook, "https://example.com/a", true), (.webhook, "http://[::1]/", true),
        (.webhook, "ftp://example.com", false), (.webhook, "https://", false),
        (.webhook, "https://a b", false), (.apns, "0123456789abcdef", true),
        (.apns, "0123456789abcde", false), (.apns, "0123456789abcdeg", false),
        (.fcm, "a:b_c-d", true), (.fcm, "a b", false), (.smsWebhook, "+4930123456", true),
        (.smsWebhook, "+123456", false), (.smsWebhook, "4930123456", false),
        (.smsWebhook, "+1234567890123456", false), (.mqtt, "pager/7", true),
        (.mqtt, "pager/+", false), (.mqtt, "$u/boss", false), (.mqtt, "$SYS/x", false),
        (.mqtt, "a/$b", true), (.mqtt, "a\u{80}", false), (.mqtt, "a" + noncharacter, false),
        (.mqtt, "a\u{7F}", false), (.mqtt, "caf\u{E9}", true), (.udp, "10.0.0.9:7000", true),
        (.udp, "[fd00::9]:7000", true),
        (.udp, "fd00::9", false), (.udp, "host:0", false), (.udp, "host:65536", false),
        (.udp, "host:", false), (.udp, ":7", false), (.udp, "", false), (.fcm, "", false),
    ])
    func `have addresses of their kinds`(
        _ kind: WakeTarget.Kind, _ address: String, _ isValid: Bool
    ) {
        world.allowWakes()
        world.addUser("bob")
        let result = world.setTarget("bob", kind, address)
        #expect((result.reason == .success) == isValid, "\(result)")
        if !isValid { #expect(result.limit == .wakeAddress) }
    }
}
