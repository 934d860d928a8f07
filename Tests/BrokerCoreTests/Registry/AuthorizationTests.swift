// Who may name whom: every way to name receivers gets the decision of one function, and so does the
// operator who asks.

import BrokerTerms
import Testing

@testable import BrokerCore

extension World {
    /// Logs a device in with a token of these rights, which bears the device's name.
    @discardableResult
    fileprivate func enter(
        _ name: String, rights: [String]?, expiry: UInt32 = 3600,
        dialect: SessionDialect = .mrt
    ) -> ConnectionID {
        let user = String(name.split(separator: "/")[0])
        if broker.registry.tokens.find(Array(name.utf8)) == nil {
            addToken(name, user: user, rights: rights)
        }
        return connect(
            name, expiry: expiry, outbox: (epoch: 7, seen: 0, used: 0), dialect: dialect
        ) {
            .token(identifier: $0.appendRange(name), digest: World.tokenDigest)
        }
    }
}

@Suite struct `A will that is judged` {
    let world = World()

    init() {
        world.showsNotes = true
        for user in ["bob", "eve", "panel"] { world.addUser(user) }
        world.settle()
    }

    private func lines() -> [String] {
        world.settle()
        return world.lines().filter { $0.contains("response") || $0.contains("refused") }
    }

    @Test(arguments: [SessionDialect.mrt, .mqtt3, .mqtt5])
    func `for a list is refused where one receiver may not be sent to`(
        _ dialect: SessionDialect
    ) {
        world.enter("ann/d", rights: ["send:bob", "publish:only/this"], dialect: dialect)
        world.settle()
        _ = world.lines()
        world.setWill("ann/d", to: .users(["bob", "eve"]), "gone")
        world.settle()
        #expect(world.gauges.wills == 0)
        #expect(world.lines().contains { $0.contains("notAuthorized") })
        world.enter("ann/d", rights: nil, dialect: dialect)
        world.settle()
        world.setWill("ann/d", to: .users(["bob"]), "gone")
        world.settle()
        #expect(world.gauges.wills == 1)
    }

    @Test func `is sent to whom the token still allows when it is due`() {
        world.enter("ann/d", rights: nil)
        world.begin("bob/d", "eve/d")
        world.setWill("ann/d", to: .users(["bob", "eve"]), "gone", delay: 10)
        world.settle()
        world.lose("ann/d")
        world.settle()
        _ = world.lines()
        world.setRights("send:bob")
        world.pass(seconds: 10)
        world.settle()
        #expect(world.lines().filter { $0.contains("gone") }.map { $0.prefix(5) } == ["bob/d"])
        #expect(world.counters.willsSent == 1)
    }

    @Test(arguments: [false, true])
    func `of a revoked token is not sent, even if its delay is running`(_ isAway: Bool) {
        world.enter("ann/d", rights: ["send:*"])
        world.begin("bob/d")
        world.setWill("ann/d", to: .user("bob"), "gone", delay: isAway ? 10 : 0)
        world.settle()
        if isAway { world.lose("ann/d") }
        world.settle()
        _ = world.lines()
        let revocation = world.revoke("ann/d")
        #expect(revocation.tokenCount == 1)
        #expect(revocation.connectionCount == (isAway ? 0 : 1))
        world.settle()
        world.pass(seconds: 3600)
        world.settle()
        #expect(!world.lines().contains { $0.contains("gone") })
        #expect(world.gauges.wills == 0)
        #expect(world.counters.willsRefused == (isAway ? 1 : 0))
    }

    @Test func `of a revoked token is not sent after a restart either`() {
        world.enter("ann/d", rights: ["send:*"])
        world.setWill("ann/d", to: .user("bob"), "gone")
        world.settle()
        world.crash()
        world.begin("bob/d")
        world.revoke("ann/d")
        world.settle()
        world.pass(seconds: 3600)
        world.settle()
        #expect(!world.lines().contains { $0.contains("gone") })
        #expect(world.counters.willsRefused == 1)
        world.crash()
        #expect(world.gauges.wills == 0)
    }

    @Test func `is bound to the token that its device used last`() {
        world.enter("ann/d", rights: nil)
        world.begin("bob/d")
        world.setWill("ann/d", to: .user("bob"), "gone")
        world.settle()
        world.exchangeToken("fresh", of: "ann/d")
        world.revoke("ann/d")
        world.settle()
        world.crash()
        world.begin("bob/d")
        world.pass(seconds: 3600)
        world.settle()
        #expect(world.lines().contains { $0.contains("gone") })
    }

    @Test(arguments: [true, false])
    func `of a client that an operator kicks is sent as the operator says`(_ sendsWills: Bool) {
        world.begin("ann/d", "bob/d")
        world.setWill("ann/d", to: .user("bob"), "gone")
        world.settle()
        _ = world.lines()
        world.kick("ann", sendsWills: sendsWills)
        world.settle()
        #expect(world.lines().contains { $0.contains("gone") } == sendsWills)
        #expect(world.gauges.wills == 0)
    }

    @Test func `that is set and fired within one commit leaves nothing in the store`() {
        world.enter("ann/d", rights: nil)
        world.begin("bob/d")
        world.setWill("ann/d", to: .user("bob"), "gone")
        world.settle()
        // Its row is written again, with another token, in the batch that fires it.
        world.exchangeToken("fresh", of: "ann/d")
        world.lose("ann/d")
        world.settle()
        world.crash()
        #expect(world.gauges.wills == 0)
    }
}

/// A kind of thing to ask for, with what it is about.
private struct Question: Sendable, CustomTestStringConvertible {
    enum Kind: CaseIterable { case publish, subscribe, presence }

    let kind: Kind
    let subject: String

    var testDescription: String { "\(kind) \(subject)" }
}

/// Rights, and who bears them, against addresses of every kind.
@Suite struct `The decision that an operator is told` {
    private static let principals = ["ann/d", "$SYS/$SYS", "ann/$SYS", "ann/a+b", "ann/"]
    private static let rights: [[String]] = [
        [], ["send:*"], ["send:bob"], ["send:%u"], ["send:a*", "broadcast"], ["publish:#"],
        ["publish:$SYS/#", "subscribe:$SYS/#"], ["publish:%u/#", "subscribe:%u/#"],
        ["publish:%d/#", "subscribe:%d/#"], ["subscribe:#"], ["subscribe:+/+"],
        ["subscribe:$SYS/%u/#"], ["presence:*"], ["presence:bob"], ["presence:%u"],
        ["send:*", "publish:#", "subscribe:#", "presence:*", "broadcast", "group:create"],
    ]
    private static let subjects = [
        "$u/ann", "$u/bob", "$u/nobody", "$u/$SYS", "$u", "$u/", "$u/a/b", "$u/+", "$g/GROUP",
        "$g/OTHER", "$g/none", "$g/", "$b", "$b/x", "$SYS", "$SYS/broker/uptime", "$SYS/#",
        "$SYS/ann/x", "$share/s/a/b", "$share/s/#", "$share/s/$SYS/#", "$share/s/$u/ann",
        "$share/s", "$presence/bob", "$presence/ann", "$presence/+", "$presence/#", "$presence",
        "a/b", "#", "+/b", "ann/x", "ann/#", "d/x", "d/#", "bob/x", "+/#",
    ]

    @Test(arguments: rights)
    func `is what the same request gets, for all rights and addresses`(_ rights: [String]) {
        for name in Self.principals {
            let world = World()
            for user in ["bob", "eve", "$SYS"] { world.addUser(user) }
            let group = world.operatorGroup(owner: "ann")
            let other = world.operatorGroup(owner: "bob", allowed: ["bob"])
            world.settle()
            world.enter(name, rights: rights, dialect: .mqtt5)
            world.settle()
            _ = world.lines()
            for subject in Self.subjects {
                let subject = subject.replacing("GROUP", with: group)
                    .replacing("OTHER", with: other)
                for kind in Question.Kind.allCases {
                    compare(world, name, Question(kind: kind, subject: subject))
                }
            }
            // A token's rights are told also while its device is away.
            let told = Self.subjects.map { ask(world, name, .init(kind: .publish, subject: $0)) }
            world.lose(name)
            let away = Self.subjects.map { ask(world, name, .init(kind: .publish, subject: $0)) }
            #expect(told == away)
        }
    }

    private func ask(_ world: World, _ name: String, _ question: Question) -> Bool {
        Array(question.subject.utf8).withUnsafeBytes { subject in
            let action: RightsAction =
                switch question.kind {
                case .publish: .publish(topic: subject)
                case .subscribe: .subscribe(filter: subject)
                case .presence: .presence(user: subject)
                }
            return world.explain(name, action).decision.isAllowed
        }
    }

    /// Asks, does it, and compares.
    private func compare(_ world: World, _ name: String, _ question: Question) {
        let isAllowed = ask(world, name, question)
        let isDone: Bool
        switch question.kind {
        case .publish:
            guard let target = Self.target(question.subject) else { return }
            let refused = world.counters.rightsRefusals
            world.publish(name, 7, to: target, "x")
            world.settle()
            let lines = world.lines()
            isDone =
                world.counters.rightsRefusals == refused
                && !lines.contains {
                    $0.contains("notAuthorized") || $0.contains("topicNameInvalid")
                }
                // Nobody knows that user, which is no question of rights.
                || question.subject == "$u/nobody" && world.counters.rightsRefusals == refused
        case .subscribe:
            // The dialect refuses filters that break MQTT's rules before anybody is asked.
            if question.subject == "$share/s" { return }
            let answer = world.subscribeMQTT(name, question.subject)
            isDone = answer != [ReasonCode.notAuthorized.rawValue]
            if isDone { world.unsubscribe(name, question.subject) }
        case .presence:
            guard PrincipalNames.isSpellable(question.subject.utf8) else { return }
            let refused = world.counters.rightsRefusals
            var bytes: [UInt8] = []
            let user = bytes.appendRange(question.subject)
            world.step(
                .presenceQueried(world.connections[name]!, requestIdentifier: 1, user: user),
                bytes: bytes)
            isDone = world.counters.rightsRefusals == refused
        }
        world.settle()
        _ = world.lines()
        #expect(isAllowed == isDone, "\(name) \(question.testDescription)")
    }

    /// What the dialect makes of a topic; nil where it refuses it before the core is asked.
    private static func target(_ topic: String) -> Target? {
        if topic.contains("+") || topic.contains("#") { return nil }
        return Array(topic.utf8).withUnsafeBytes { bytes in
            switch AddressedTopic(bytes) {
            case .user(let name)?:
                PrincipalNames.isSpellable(name)
                    ? .user(String(decoding: name, as: UTF8.self)) : nil
            case .group(let name)?: .group(String(decoding: name, as: UTF8.self))
            case .everybody?: .everybody
            case .list?: nil
            case nil: .topic(topic)
            }
        }
    }
}

/// A login whose turn comes later than its credential's end.
@Suite struct `A login that is held while others take turns` {
    enum Withdrawal: CaseIterable, Sendable {
        case key, otherKey, revocation, expiry, nothing
    }

    let world = World()
    private static let key = VoucherTrust.WebTokenKey(
        app: World.app, voucher: Array("k1".utf8))

    private func login(_ withdrawal: Withdrawal, key: UInt64 = 1) {
        let end = world.now.unixMilliseconds / 1000 + (withdrawal == .expiry ? 1 : 600)
        let reference = world.identities.append(
            VerifiedIdentity(
                proof: .webToken, app: World.app, user: Array("ann".utf8),
                expiresUnixSeconds: end, voucher: Array("k1".utf8), key: .mark(key)))
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5) { bytes in
            withdrawal == .revocation
                ? .token(identifier: bytes.appendRange("t1"), digest: World.tokenDigest)
                : .verified(reference)
        }
        world.identities.endTurn()
        world.settle()
    }

    @Test(arguments: Withdrawal.allCases)
    func `is let in only if its credential is believed then`(_ withdrawal: Withdrawal) {
        let believed = VoucherTrust(
            webTokenKeys: [Self.key: 1], preSharedIdentities: [:], revokedCertificates: [])
        #expect(world.replaceTrust(believed) == 0)
        world.addToken("t1", user: "ann", rights: nil)
        for _ in 0..<7 { login(withdrawal) }
        #expect(world.counters.connectsDelayed == 1)
        _ = world.lines()
        switch withdrawal {
        case .key:
            let none = VoucherTrust(
                webTokenKeys: [:], preSharedIdentities: [:], revokedCertificates: [])
            #expect(world.replaceTrust(none) == 1)
        case .otherKey:
            let other = VoucherTrust(
                webTokenKeys: [Self.key: 2], preSharedIdentities: [:], revokedCertificates: [])
            #expect(world.replaceTrust(other) == 1)
        case .revocation: #expect(world.revoke("t1").connectionCount == 1)
        case .expiry, .nothing: break
        }
        world.pass(seconds: 2)
        world.settle()
        let lines = world.lines()
        let isRefused = lines.contains { $0.contains("refused, badUserNameOrPassword") }
        #expect(isRefused == (withdrawal != .nothing), "\(lines)")
        #expect(lines.contains { $0.contains("accepted") } == (withdrawal == .nothing))
    }

    @Test(arguments: [VerifiedIdentity.Proof.webToken, .certificate, .preSharedKey])
    func `and nobody is believed before somebody says who is`(_ proof: VerifiedIdentity.Proof) {
        let reference = world.identities.append(
            VerifiedIdentity(
                proof: proof, app: World.app, user: Array("ann".utf8), voucher: Array("k1".utf8),
                key: .mark(1)))
        world.connect("ann/phone", expiry: 0, claim: { _ in .verified(reference) })
        #expect(world.lines() == ["ann/phone: refused, badUserNameOrPassword"])
    }

    @Test func `and one that was verified with a key that was replaced is not let in`() {
        let believed = VoucherTrust(
            webTokenKeys: [Self.key: 2], preSharedIdentities: [:], revokedCertificates: [])
        _ = world.replaceTrust(believed)
        login(.otherKey)
        #expect(world.lines() == ["ann/phone: refused, badUserNameOrPassword"])
    }

    @Test func `and one that was verified before the keys were withdrawn is not let in`() {
        let none = VoucherTrust(
            webTokenKeys: [:], preSharedIdentities: [:], revokedCertificates: [])
        _ = world.replaceTrust(none)
        login(.key)
        #expect(world.lines() == ["ann/phone: refused, badUserNameOrPassword"])
    }
}
