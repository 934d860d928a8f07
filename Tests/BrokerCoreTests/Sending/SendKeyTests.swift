// Keys that make sends safe to repeat.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A send with a key` {
    let world = World()

    init() {
        world.addUser("ops")
        world.addUser("ann")
        world.settle()
    }

    private func key(_ name: UInt64, content: UInt64 = 1, isOfUser: Bool = false) -> SendKey {
        SendKey(
            name: Digest(words: (name, 7, 0, 0)), content: Digest(words: (content, 0, 0, 0)),
            isOfUser: isOfUser)
    }

    private func send(
        _ key: SendKey?, _ text: String = "x", as user: String = "ops",
        to target: Target = .user("ann"), grade: Grade = .durable
    ) -> OperatorSend? {
        world.send(
            as: user, to: target, text, grade: grade, isRaw: false, isRetained: false,
            byteCount: nil, key: key)
    }

    private func result(of send: OperatorSend?) -> OperatorSendResult? {
        switch send {
        case .pending(let number)?: world.broker.takeResult(ofOperatorSend: number)
        case .complete(let result)?: result
        case .held?, .otherContent?, .underWay?, nil: nil
        }
    }

    /// What waits for ann.
    private var waitingCount: UInt64 { world.gauges.queuedMessages }

    @Test(arguments: [Grade.durable, .once])
    func `is made once, and its repeats have its result, also after a crash`(grade: Grade) throws {
        let target = Target.users(["ann", "nobody"])
        let first = send(key(1), to: target, grade: grade)
        #expect(send(key(1), to: target, grade: grade) == .underWay)
        #expect(send(key(1, content: 2), to: target, grade: grade) == .otherContent)
        world.settle()
        let answer = try #require(result(of: first))
        #expect(answer.receiverCount == 1 && answer.refusals.count == 1)
        #expect(send(key(1), to: target, grade: grade) == .complete(answer))
        #expect(send(key(1, content: 2), to: target, grade: grade) == .otherContent)
        world.crash()
        #expect(send(key(1), to: target, grade: grade) == .complete(answer))
        #expect(send(key(1, content: 2), to: target, grade: grade) == .otherContent)
        world.settle()
        #expect(waitingCount == 1)
        #expect(world.broker.counters.sendsRepeated == 1)
        #expect(world.broker.counters.sendKeysRefused == 1)
    }

    @Test func `has no result before its key is stored, whatever its receivers do`() {
        world.begin("ann/phone")
        let first = send(key(1))
        world.acknowledge("ann/phone", through: 1)
        #expect(result(of: first) == nil)
        let nobody = send(key(2), to: .topic("site/1"))
        let transient = send(key(3), to: .everybody, grade: .transient)
        #expect(result(of: nobody) == nil && result(of: transient) == nil)
        world.settle()
        #expect(result(of: first)?.reason == .sent)
        #expect(result(of: nobody)?.reason == .noMatchingSubscribers)
        #expect(result(of: transient)?.receiverCount == 1)
        world.crash()
        #expect(result(of: send(key(1)))?.reason == .sent)
        #expect(result(of: send(key(3), to: .everybody, grade: .transient))?.receiverCount == 1)
    }

    /// The crash comes before the commit, in it, or after it: the message and its key are both
    /// there or neither is, so that the repeat leaves one message in any case.
    @Test(arguments: [false, true])
    func `and its message are stored together`(isCommitted: Bool) {
        _ = send(key(1))
        if isCommitted { world.settle() }
        world.crash()
        #expect(waitingCount == (isCommitted ? 1 : 0))
        let again = send(key(1))
        world.settle()
        #expect(result(of: again)?.receiverCount == 1)
        #expect(waitingCount == 1)
    }

    @Test func `that is refused may be made again`() {
        #expect(result(of: send(key(1), to: .group("none")))?.reason == .topicNameInvalid)
        #expect(world.broker.sendKeys.count == 0)
        let taken = send(key(1))
        world.store.isFull = true
        world.settle()
        #expect(result(of: taken)?.limit == .store)
        #expect(world.broker.sendKeys.count == 0)
        world.store.isFull = false
        world.forgetFullStore()
        let again = send(key(1))
        world.settle()
        #expect(result(of: again)?.reason == .sent)
        #expect(waitingCount == 1)
    }

    /// A receiver has acknowledged the message, and the store has no room for the key.
    @Test func `is refused when its key is not stored`() {
        world.begin("ann/phone")
        let sent = send(key(1))
        world.acknowledge("ann/phone", through: 1)
        world.store.isFull = true
        world.settle()
        #expect(
            result(of: sent) == OperatorSendResult(reason: .quotaExceeded, limit: .store))
        #expect(world.broker.sendKeys.count == 0)
    }

    @Test func `beyond the limit is refused, and no key is forgotten for it`() {
        world.limits.sendKeysPerAppMaximum = 3
        let answers = (1...3).map { send(key($0)) }
        world.settle()
        #expect(answers.allSatisfy { result(of: $0)?.reason == .sent })
        #expect(
            send(key(4))
                == .complete(OperatorSendResult(reason: .quotaExceeded, limit: .sendKeys)))
        #expect(result(of: send(key(1)))?.reason == .sent)
        #expect(world.broker.counters.sendKeysRefused == 1)
        // Without a key it is made.
        _ = send(nil)
        world.settle()
        #expect(waitingCount == 4)
    }

    /// Of a user, and what answers those beyond a limit.
    private func usersSend(_ name: UInt64, as user: String) -> OperatorSend? {
        send(key(name, isOfUser: true), as: user)
    }

    private func refusal(_ limit: LimitName) -> OperatorSend {
        .complete(OperatorSendResult(reason: .quotaExceeded, limit: limit))
    }

    @Test func `of a user beyond that user's limit is refused, also after a restart`() {
        world.limits.sendKeysPerUserMaximum = 3
        let answers = (1...3).map { usersSend($0, as: "ann") }
        #expect(usersSend(4, as: "ann") == refusal(.sendKeysOfUser))
        world.settle()
        #expect(answers.allSatisfy { result(of: $0)?.reason == .sent })
        world.crash()
        #expect(usersSend(4, as: "ann") == refusal(.sendKeysOfUser))
        #expect(result(of: usersSend(2, as: "ann"))?.reason == .sent)
        #expect(world.broker.counters.sendKeysRefused == 1)
        // Others have their own, also an app key that sends as the user.
        let others = [usersSend(5, as: "ops"), send(key(6), as: "ann")]
        world.settle()
        #expect(others.allSatisfy { result(of: $0)?.reason == .sent })
        world.pass(seconds: CoreLimits.sendKeySeconds + 30)
        world.settle()
        let again = usersSend(4, as: "ann")
        world.settle()
        #expect(result(of: again)?.reason == .sent)
    }

    @Test func `of a user leaves the reserve to app keys and operators`() {
        world.limits.sendKeysPerAppMaximum = 5
        world.limits.sendKeysReservedPerApp = 2
        let answers = (1...3).map { usersSend($0, as: $0 == 1 ? "ann" : "ops") }
        #expect(usersSend(4, as: "ann") == refusal(.sendKeysOfUsers))
        let reserved = [send(key(5)), send(key(6))]
        #expect(send(key(7)) == refusal(.sendKeys))
        world.settle()
        #expect((answers + reserved).allSatisfy { result(of: $0)?.reason == .sent })
        world.crash()
        world.limits.sendKeysPerAppMaximum = 6
        world.limits.sendKeysReservedPerApp = 3
        #expect(usersSend(4, as: "ann") == refusal(.sendKeysOfUsers))
        let last = send(key(7))
        world.settle()
        #expect(result(of: last)?.reason == .sent)
    }

    /// A row of version 2 is one of version 1 with the user's name. Stores have both.
    @Test func `has a row with its owner only if that is a user`() throws {
        _ = send(key(1), as: "ann")
        _ = usersSend(2, as: "ann")
        world.settle()
        let rows = world.lastBatch.records.filter { $0.table == .sendKeys }
            .sorted { $0.key.lexicographicallyPrecedes($1.key) }.compactMap(\.value)
        try #require(rows.count == 2)
        #expect(rows[0].first == 1 && rows[1].first == 2)
        #expect(rows[1].dropFirst() == (rows[0].dropFirst() + [3, 0] + Array("ann".utf8))[...])
        // As an earlier version wrote those of users.
        world.rewriteRows(of: .sendKeys) { $0 = rows[0] }
        world.crash()
        world.limits.sendKeysPerUserMaximum = 1
        #expect(world.broker.sendKeys.count == 2)
        let next = usersSend(3, as: "ann")
        world.settle()
        #expect(result(of: next)?.reason == .sent)
    }

    /// A row of version 3 has the owner, which is empty for none, and the reference.
    @Test func `answers with the reference of the message, also after a restart`() throws {
        func send(_ key: SendKey) -> OperatorSend? {
            world.send(
                as: "ann", to: .user("ann"), "x", grade: .durable, key: key, asks: .reference)
        }
        let answers = [send(key(1)), send(key(2, isOfUser: true))]
        world.settle()
        let rows = world.lastBatch.records.filter { $0.table == .sendKeys }
            .sorted { $0.key.lexicographicallyPrecedes($1.key) }.compactMap(\.value)
        try #require(rows.count == 2)
        #expect(rows[0].first == 3 && rows[1].first == 3)
        let before = try answers.map { try #require(result(of: $0)).reference }
        #expect(before.allSatisfy { $0 != 0 })
        world.crash()
        world.limits.sendKeysPerUserMaximum = 1
        let again = [send(key(1)), send(key(2, isOfUser: true))]
        #expect(try again.map { try #require(result(of: $0)).reference } == before)
        #expect(usersSend(3, as: "ann") == refusal(.sendKeysOfUser))
    }

    @Test func `is remembered for a day, also over a restart, and its row is deleted then`() {
        _ = send(key(1))
        world.settle()
        world.pass(seconds: CoreLimits.sendKeySeconds / 2)
        _ = send(key(2))
        world.settle()
        world.crash()
        world.pass(seconds: CoreLimits.sendKeySeconds / 2 - 1)
        #expect(result(of: send(key(1)))?.reason == .sent)
        #expect(waitingCount == 2)
        world.pass(seconds: 30)
        world.settle()
        #expect(world.broker.sendKeys.count == 1)
        _ = send(key(1))
        world.settle()
        #expect(waitingCount == 3)
        world.crash()
        #expect(world.broker.sendKeys.count == 2)
        world.pass(seconds: CoreLimits.sendKeySeconds + 30)
        world.settle()
        #expect(world.broker.sendKeys.count == 0)
        #expect(world.restarted().sendKeys.count == 0)
    }
}
