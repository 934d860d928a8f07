// Sensors behind a gateway, as the core sees them: who may be attached, what an attached session
// may do, and what becomes of it when its gateway changes or is gone.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A session that a gateway attaches` {
    let world = World()

    init() {
        world.setRights("attach:plant7-*", "send:*", "subscribe:site/%u/#")
        world.begin("gate/", "bob/pc")
    }

    private func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    private func attach(_ names: String..., gateway: String = "gate/") {
        for name in names {
            world.connect(name, outbox: (epoch: 7, seen: 0, used: 0), gateway: gateway)
        }
        _ = lines()
    }

    @Test func `is let in where the gateway's right covers its user`() {
        world.connect("plant7-1/", gateway: "gate/")
        #expect(lines() == ["plant7-1/: accepted, new"])
        world.connect("plant8-1/", gateway: "gate/")
        #expect(lines() == ["plant8-1/: refused, notAuthorized"])
        #expect(world.counters.rightsRefusals == 1)
    }

    @Test func `is refused when its gateway is gone`() {
        world.lose("gate/")
        world.connect("plant7-1/", gateway: "gate/")
        #expect(lines() == ["plant7-1/: refused, notAuthorized"])
    }

    @Test func `sends and receives as itself, in windows of its own`() {
        attach("plant7-1/", "plant7-2/")
        world.send("plant7-1/", 1, to: .user("bob"), "20.5")
        world.send("plant7-2/", 1, to: .user("bob"), "21.5")
        #expect(
            lines() == [
                "bob/pc: #1 \"20.5\" from plant7-1", "bob/pc: #2 \"21.5\" from plant7-2",
                "plant7-1/: result 1, sent", "plant7-2/: result 1, sent",
            ])
        world.send("bob/pc", 1, to: .user("plant7-2"), "on")
        #expect(lines() == ["plant7-2/: #1 \"on\" from bob", "bob/pc: result 1, sent"])
    }

    @Test func `bears its gateway's rights, with its own name in them`() {
        attach("plant7-1/")
        world.subscribe("plant7-1/", "site/plant7-1/#")
        #expect(lines() == ["plant7-1/: response 1, success"])
        world.subscribe("plant7-1/", "site/gate/#", id: 2)
        #expect(lines() == ["plant7-1/: response 2, notAuthorized"])
    }

    @Test func `moves to whoever attaches it next`() {
        world.begin("other/")
        attach("plant7-1/")
        let late = world.connections["plant7-1/"]!
        world.connect("plant7-1/", gateway: "other/")
        #expect(
            lines() == ["plant7-1/: closed, sessionTakenOver", "plant7-1/: accepted, present"])
        // What the old gateway still says in its name is nobody's.
        world.step(.inboxAcknowledged(late, throughNumber: 99))
        world.step(.connectionClosed(late, .lost))
        #expect(lines() == [])
        world.send("bob/pc", 1, to: .user("plant7-1"), "on")
        #expect(lines() == ["plant7-1/: #1 \"on\" from bob", "bob/pc: result 1, sent"])
    }

    @Test func `is detached when its gateway may not attach it any more`() {
        attach("plant7-1/", "plant7-2/")
        world.setRights("attach:plant7-2", "send:*")
        #expect(lines() == ["plant7-1/: closed, notAuthorized"])
        world.setRights("attach:plant7-2")
        world.send("plant7-2/", 1, to: .user("bob"), "x")
        #expect(lines() == ["plant7-2/: result 1, notAuthorized"])
    }

    @Test func `follows a new credential of its gateway`() {
        let token = Token(
            identifier: Array("t1".utf8), digest: Digest(words: (9, 9, 9, 9)), app: World.app,
            user: Array("gate".utf8), device: nil, expiresUnixSeconds: .max,
            rights: try! Rights([Array("attach:plant7-2".utf8)]))
        #expect(world.addToken(token))
        attach("plant7-1/", "plant7-2/")
        var bytes: [UInt8] = []
        let claim = Claim.token(identifier: bytes.appendRange("t1"), digest: token.digest)
        world.step(.credentialPresented(world.connections["gate/"]!, claim), bytes: bytes)
        #expect(
            lines() == ["plant7-1/: closed, notAuthorized", "gate/: credential, success"])
    }
}
