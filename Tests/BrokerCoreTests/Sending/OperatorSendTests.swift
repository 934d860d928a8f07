// Messages that operators send as users, without a session.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An operator's message` {
    let world = World()

    private func send(
        as user: String = "ops", to target: Target, _ text: String, grade: Grade = .durable,
        isRaw: Bool = false, isRetained: Bool = false, byteCount: UInt32? = nil
    ) -> OperatorSend? {
        world.send(
            as: user, to: target, text, grade: grade, isRaw: isRaw, isRetained: isRetained,
            byteCount: byteCount)
    }

    private func result(of send: OperatorSend?) -> OperatorSendResult? {
        switch send {
        case nil, .held, .otherContent, .underWay: nil
        case .complete(let result): result
        case .pending(let number): world.broker.takeResult(ofOperatorSend: number)
        }
    }

    init() { world.addUser("ops") }

    @Test func `to a user is complete when it is committed`() {
        world.begin("ann/phone")
        let sent = send(to: .user("ann"), "x")
        #expect(result(of: sent) == nil)
        world.settle()
        #expect(
            result(of: sent)
                == OperatorSendResult(reason: .sent, receiverCount: 1))
        #expect(result(of: sent) == nil)
        #expect(world.lines() == ["ann/phone: #1 \"x\" from ops"])
    }

    @Test func `goes on when its result is forgotten`() {
        world.begin("ann/phone")
        let sent = send(to: .user("ann"), "x")
        guard case .pending(let number) = sent else {
            Issue.record("\(String(describing: sent)) is not pending")
            return
        }
        world.broker.forgetResult(ofOperatorSend: number)
        world.settle()
        #expect(result(of: sent) == nil)
        #expect(world.lines() == ["ann/phone: #1 \"x\" from ops"])
        // A result that is final is forgotten too.
        let second = send(to: .user("ann"), "y")
        world.settle()
        guard case .pending(let number) = second else { return }
        world.broker.forgetResult(ofOperatorSend: number)
        #expect(result(of: second) == nil)
    }

    @Test func `is complete at once when its receivers acknowledge before the commit`() {
        world.begin("ann/phone")
        let sent = send(to: .user("ann"), "x")
        world.acknowledge("ann/phone", through: 1)
        #expect(result(of: sent)?.reason == .sent)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `waits for a user who is away, also after a crash`() {
        world.addUser("ann")
        let sent = send(to: .user("ann"), "x", grade: .once)
        world.settle()
        #expect(result(of: sent)?.receiverCount == 1)
        world.crash()
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines().contains("ann/phone: #1 \"x\" from ops, once"))
    }

    @Test func `reaches users, a group, everybody and topics`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.operatorGroup(owner: "ops")
        #expect(world.operate(group, .join(user: Array("ann".utf8))) == .success)
        world.subscribe("bob/pc", "site/#")
        world.settle()
        world.acknowledge("ann/phone", through: 1)
        _ = world.lines()
        // The owner of the group is the sender, and has an offline queue.
        let sends = [
            send(to: .users(["ann", "bob", "nobody"]), "list"), send(to: .group(group), "group"),
            send(to: .everybody, "all"), send(to: .topic("site/1"), "t", isRaw: true),
            send(to: .topic("other"), "nobody"),
        ]
        world.settle()
        let results = sends.map { result(of: $0) }
        #expect(results.map { $0?.reason } == [.sent, .sent, .sent, .sent, .noMatchingSubscribers])
        #expect(results.map { $0?.receiverCount ?? 0 } == [2, 2, 2, 1, 0])
        #expect(results[0]?.refusals == [Refusal(index: 2, reason: .topicNameInvalid)])
        let lines = world.unnumberedLines()
        for text in ["list", "group", "all"] {
            #expect(lines.contains { $0.hasPrefix("ann/phone") && $0.contains("\"\(text)\"") })
        }
    }

    @Test func `of the grade transient is complete at once`() {
        world.begin("ann/phone")
        #expect(
            send(to: .user("ann"), "x", grade: .transient)
                == .complete(OperatorSendResult(reason: .sent, receiverCount: 1)))
        #expect(!world.commit())
    }

    /// Without it, a session of the same name would be the sender, and a token would decide.
    @Test func `needs a user, and no right of the app`() {
        world.setRights("send:bob")
        world.begin("ann/phone")
        #expect(send(as: "nobody", to: .user("ann"), "x") == nil)
        _ = send(to: .everybody, "x")
        world.settle()
        #expect(world.lines() == ["ann/phone: #1 \"x\" from ops by broadcast"])
        let group = world.operatorGroup(owner: "ann")
        #expect(result(of: send(to: .group(group), "x"))?.reason == .notAuthorized)
        #expect(result(of: send(to: .group("none"), "x"))?.reason == .topicNameInvalid)
        #expect(result(of: send(to: .topic("$SYS/x"), "x"))?.reason == .topicNameInvalid)
        #expect(
            result(of: send(to: .user("ann"), "x", byteCount: 2_000))?.reason == .packetTooLarge)
    }

    @Test func `is retained on its topic when it is committed`() {
        let sent = send(to: .topic("site/1"), "on", isRaw: true, isRetained: true)
        #expect(result(of: sent) == nil)
        world.settle()
        #expect(result(of: sent)?.reason == .noMatchingSubscribers)
        #expect(world.gauges.retainedMessages == 1)
        world.crash()
        #expect(world.gauges.retainedMessages == 1)
    }

    @Test func `to a full store is refused, and taken back if the store becomes full`() {
        world.begin("ann/phone")
        world.fillStore()
        #expect(
            result(of: send(to: .user("ann"), "x"))
                == OperatorSendResult(reason: .quotaExceeded, limit: .store))
        world.forgetFullStore()
        world.addUser("bob")
        let sent = send(to: .user("bob"), "y")
        world.store.isFull = true
        world.settle()
        #expect(result(of: sent)?.reason == .quotaExceeded)
        #expect(world.broker.counters.sendsTakenBack == 1)
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `to a full queue is refused`() {
        world.limits.queueCountMaximum = 1
        world.addUser("ann")
        _ = send(to: .user("ann"), "x")
        let sent = send(to: .user("ann"), "y")
        #expect(result(of: sent)?.reason == .quotaExceeded)
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
    }
}

/// The service that waits for an operator's send traps if it has no result after its commit:
/// whatever happens to the receivers meanwhile, there is one.
@Suite struct `An operator's message beside everything else` {
    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func `has a result when the changes that were pending are committed`(seed: UInt64) {
        var random = seed &* 0x9E37_79B9_7F4A_7C15
        func draw(_ count: Int) -> Int {
            random ^= random << 13
            random ^= random >> 7
            random ^= random << 17
            return Int(random % UInt64(count))
        }
        let world = World()
        let devices = ["ann/phone", "ann/tv", "bob/pc", "cy/d"]
        for user in ["ann", "bob", "cy", "ops"] { world.addUser(user) }
        let group = world.operatorGroup(owner: "ops")
        world.settle()
        var numbers: [String: UInt64] = [:]
        /// By the number of the batch that was pending at the send.
        var pending: [(number: UInt64, sequence: UInt64)] = []
        var isConnected: [String: Bool] = [:]
        /// Results of all sends up to a batch.
        func take(through sequence: UInt64) {
            for send in pending where send.sequence <= sequence {
                let result = world.broker.takeResult(ofOperatorSend: send.number)
                #expect(result != nil, "send \(send.number) of seed \(seed)")
            }
            pending.removeAll { $0.sequence <= sequence }
        }
        for _ in 0..<250 {
            let device = devices[draw(devices.count)]
            let user = String(device.prefix { $0 != "/" })
            let isThere = isConnected[device] ?? false
            switch draw(16) {
            case 0...5:
                let targets: [Target] = [
                    .user(user), .users(["ann", "bob", "nobody"]), .group(group), .everybody,
                    .topic("site/1"),
                ]
                let target = targets[draw(targets.count)]
                var isTopic = false
                if case .topic = target { isTopic = true }
                let sent = world.send(
                    as: "ops", to: target, "x", grade: draw(2) == 0 ? .durable : .once,
                    isRaw: isTopic, isRetained: isTopic && draw(3) == 0, byteCount: nil)
                if case .pending(let number)? = sent {
                    pending.append((number, world.broker.pendingSequence))
                }
            case 6, 7:
                guard !isThere else { continue }
                world.connect(
                    device, expiry: [0, 60, nil][draw(3)], outbox: (epoch: 7, seen: 0, used: 0))
                if draw(2) == 0 { world.subscribe(device, "site/#") }
                isConnected[device] = true
                numbers[device] = 0
            case 8: if isThere { world.lose(device) }; isConnected[device] = false
            case 9:
                if isThere { world.disconnect(device, expiry: draw(2) == 0 ? 0 : nil) }
                isConnected[device] = false
            case 10, 11:
                guard isThere else { continue }
                let through = world.sentThrough(device)
                if through > 0 { world.acknowledge(device, through: through) }
            case 12:
                world.deleteSessions(
                    matching: SessionFilter(app: World.app, user: Array(user.utf8)))
                for name in devices where name.hasPrefix(user + "/") { isConnected[name] = false }
            case 13:
                _ = world.operate(
                    group,
                    draw(2) == 0 ? .join(user: Array(user.utf8)) : .leave(user: Array(user.utf8)))
            case 14:
                world.store.isFull = draw(4) == 0
                if world.commit() { take(through: world.broker.pendingSequence - 1) }
                world.store.isFull = false
                world.forgetFullStore()
            default:
                world.settle()
                take(through: .max)
            }
            world.broker.checkInvariants()
        }
        world.settle()
        take(through: .max)
    }
}
