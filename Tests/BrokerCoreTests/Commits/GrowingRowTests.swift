// Requests that make the store grow ask for room first, and what lets a queue drain is let in.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A request that makes the store grow` {
    let world = World()
    let long = (0..<100).map { number in
        Array("\(number)".utf8) + [UInt8](repeating: 97, count: 60)
    }

    init() {
        world.begin("bob/pc", "ann/phone")
        _ = world.lines()
    }

    private func hasRoom(for byteCount: Int, _ purpose: GrowthPurpose = .request) -> Bool {
        world.broker.hasRoom(for: byteCount, purpose)
    }

    private func fill() {
        world.store.isFull = true
        world.fillStore()
    }

    /// The store tells with the next result that there is this much room.
    private func leaveRoom(_ byteCount: Int) {
        world.store.rowRoomByteCount = byteCount
        world.broker.writeIdentifierReservation()
        world.settle()
        _ = world.lines()
    }

    @Test func `is refused in a full store, whoever asks`() throws {
        let group = world.operatorGroup(owner: "bob")
        world.settle()
        fill()
        #expect(world.operate(group, .setAllowed(long)) == .quotaExceeded)
        #expect(world.operate(group, .setMeta([1])) == .quotaExceeded)
        #expect(world.operate(group, .join(user: Array("ann".utf8))) == .quotaExceeded)
        #expect(world.operate(group, .ban(user: Array("ann".utf8))) == .quotaExceeded)
        let made = world.broker.createGroup(
            app: World.app, owner: Array("bob".utf8), title: [], meta: [], allowed: nil, key: 9,
            seed: 9, at: world.now, effects: &world.effects)
        #expect(made.reason == .quotaExceeded)
        let token = Token(
            identifier: [1], digest: Digest(words: (0, 0, 0, 0)), app: World.app, user: [1],
            device: nil,
            expiresUnixSeconds: .max)
        #expect(throws: NoRoom()) {
            try world.broker.checkRoom(for: [token], ofApp: World.app)
        }
        for request in 0..<3 {
            #expect(throws: NoRoom()) {
                _ =
                    switch request {
                    case 0: try world.broker.addUser([1], app: World.app)
                    case 1: try world.broker.addApp([1], keyDigest: nil)
                    default: try world.broker.addToken(token)
                    }
            }
        }
        #expect(world.gauges.users == 2)
        // Rights are taken back all the same.
        world.setRights("send:ann")
        world.settle()
        #expect(world.store.isFull)
    }

    @Test func `is refused before the store has told that it is full`() {
        let groups = (0..<10).map { _ in world.operatorGroup(owner: "bob") }
        leaveRoom(50_000)
        // Some in the batch that is under way, and some in the one that gathers meanwhile.
        var reasons = groups[..<5].map { world.operate($0, .setAllowed(long)) }
        world.beginCommit()
        reasons += groups[5...].map { world.operate($0, .setAllowed(long)) }
        let granted = reasons.count { $0 == .success }
        #expect(granted > 3 && granted < 10)
        #expect(reasons.prefix(granted).allSatisfy { $0 == .success })
        world.finishCommit()
        world.settle()
        // With the next result there is room again.
        #expect(world.operate(groups[9], .setAllowed(long)) == .success)
    }

    @Test func `asks the store itself whether there is room, where nothing else would`() {
        leaveRoom(0)
        world.store.rowRoomByteCount = 100_000
        let ask = { try world.broker.addUser(Array("new".utf8), app: World.app) }
        #expect(throws: NoRoom()) { try ask() }
        #expect(world.hasBatch)
        world.settle()
        #expect(throws: Never.self) { try ask() }
    }

    @Test func `is taken in a full store where it makes a row shorter`() {
        let group = world.operatorGroup(owner: "bob")
        #expect(world.operate(group, .setAllowed(long)) == .success)
        #expect(world.operate(group, .setMeta([1, 2, 3])) == .success)
        world.settle()
        fill()
        #expect(world.operate(group, .ban(user: long[0])) == .noSubscriptionExisted)
        #expect(world.operate(group, .setMeta([])) == .success)
        #expect(world.operate(group, .setAllowed(nil)) == .success)
        #expect(world.operate(group, .setAllowed([[1]])) == .quotaExceeded)
    }

    /// A client that brings a will with its login must be able to drain its queue.
    @Test func `is taken in a full store for the wills of logins, up to a bound`() {
        fill()
        let bound = CoreLimits.upkeepBytesMaximum
        #expect(hasRoom(for: bound, .upkeep))
        #expect(!hasRoom(for: bound + 1, .upkeep))
        _ = world.broker.admitGrowth(of: bound, for: .upkeep)
        #expect(!hasRoom(for: 1, .upkeep))
        // What a will takes is given back with it.
        world.broker.commits.room.giveBack(100)
        #expect(hasRoom(for: 100, .upkeep))
        #expect(!hasRoom(for: 1))
        #expect(hasRoom(for: 0))
    }

    /// One will in place of another takes nothing of the reserve, and so gives nothing back.
    @Test func `gives back no more of the reserve than was taken`() {
        let text = String(repeating: "x", count: 3_000)
        world.setWill("ann/phone", to: .user("bob"), text)
        world.settle()
        fill()
        let bound = CoreLimits.upkeepBytesMaximum
        _ = world.broker.admitGrowth(of: bound - 50_000, for: .upkeep)
        for _ in 0..<20 {
            world.setWill("ann/phone", to: .user("bob"), text)
            world.settle()
        }
        #expect(world.lines().contains { $0.contains("success") })
        #expect(hasRoom(for: 50_000, .upkeep))
        #expect(!hasRoom(for: 50_001, .upkeep))
    }

    /// The credential of a login is part of its will's row, and may name 64 rights.
    @Test(arguments: [false, true])
    func `keeps in a full store what the will was set with`(isFull: Bool) throws {
        world.setWill("ann/phone", to: .user("bob"), "gone", delay: 60)
        world.settle()
        world.lose("ann/phone")
        if isFull {
            fill()
            _ = world.broker.admitGrowth(of: CoreLimits.upkeepBytesMaximum, for: .upkeep)
        }
        let key = VoucherTrust.WebTokenKey(app: World.app, voucher: Array("k1".utf8))
        let trust = VoucherTrust(
            webTokenKeys: [key: 1], preSharedIdentities: [:], revokedCertificates: [])
        _ = world.replaceTrust(trust)
        let long = String(repeating: "x", count: 900)
        let rights = try Rights((0..<64).map { Array("publish:\($0)/\(long)".utf8) })
        let reference = world.identities.append(
            VerifiedIdentity(
                proof: .webToken, app: World.app, user: Array("ann".utf8), rights: rights,
                voucher: Array("k1".utf8), key: .mark(1)))
        world.connect("ann/phone", claim: { _ in .verified(reference) })
        world.identities.endTurn()
        world.settle()
        #expect(world.lines().contains("ann/phone: accepted, present"))
        func isVerified(_ broker: borrowing Broker) -> Bool {
            for will in broker.willTable.wills.places where broker.willTable.wills.contains(will) {
                if case .verified = broker.willTable.wills[will].authority.credential {
                    return true
                }
            }
            return false
        }
        let inMemory = isVerified(world.broker)
        #expect(inMemory)
        let stored = isVerified(world.restarted())
        #expect(stored == !isFull)
    }

    /// The session is in memory only, so what it asks for is new in the store.
    @Test func `is refused for a session that is to be stored from now on`() {
        world.begin("ann/pad", expiry: 0)
        fill()
        world.connect("ann/pad", expiry: 60)
        world.settle()
        #expect(world.lines().contains("ann/pad: refused, quotaExceeded"))
        world.connect("ann/phone", clean: true)
        world.settle()
        #expect(world.lines().contains("ann/phone: accepted, new"))
    }

    @Test func `counts pages as the store takes them`() {
        func growth(_ value: Int) -> Int { RecordChange.pageByteCount(key: 8, value: value) }
        #expect(growth(0) == 112)
        #expect(growth(1_992) == 4_096)
        #expect(growth(1_993) == 4_096 + 112)
        #expect(growth(4_041) == 2 * 4_096 + 112)
    }
}
