// Effects in, bytes out: every packet that the broker sends, held to the vectors.

import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite("Effects")
struct WritingTests {
    private let lane: Lane

    init() {
        lane = Lane()
        lane.establish()
    }

    @Test func `let a client in`() {
        let lane = Lane()
        lane.receive("connect-token")
        let user = lane.text("alice")
        lane.carryOut { $0.append(.accept(lane.connection, acceptance(user: user))) }
        #expect(lane.written() == packet("connack-new-session"))
        // One and a half times the keep-alive.
        #expect(lane.host.silenceMilliseconds == 450_000)
        #expect(lane.phase == .established)
    }

    @Test func `tell a client of the will it has`() throws {
        let lane = Lane()
        lane.receive("connect-token")
        let user = lane.text("alice")
        lane.carryOut {
            $0.append(.accept(lane.connection, acceptance(user: user, hasWill: true)))
        }
        #expect(lane.written()[3] == 0x03)
    }

    @Test func `send a client away, with advice when to come again`() {
        let lane = Lane()
        lane.receive("connect-token")
        lane.carryOut {
            $0.append(.refuse(lane.connection, .connectionRateExceeded, retryAfterSeconds: 42))
        }
        #expect(lane.written() == worded(0x20, [0x9F, 42], .connectionRateExceeded))
        #expect(lane.host.isClosed)
        #expect(lane.phase == .closing)
    }

    @Test(arguments: [
        ("deliver-unicast", MessageKind.unicast, "", "\u{0}hello", UInt64(1742)),
        ("deliver-group", .group, "fleet-7", "\u{0}hello", 1743),
        ("deliver-broadcast", .broadcast, "", "\u{4}http://x/", 1744),
        ("deliver-kicked-out", .kicked, "7h1g2k3m4n5p6", "", 1745),
        ("deliver-group-event", .groupEvent, "7h1g2k3m4n5p6", "\u{1}bob", 1746),
        ("deliver-topic-text", .topic, "a/b", "\u{0}on", 9),
    ])
    func `deliver`(
        name: String, kind: MessageKind, address: String, payload: String, number: UInt64
    ) {
        let publication = lane.publish(kind, address: address, payload: Array(payload.utf8))
        deliver(publication, number: number, .durable)
        #expect(lane.written() == packet(name))
    }

    @Test func `deliver what has no number, and what may be a duplicate`() {
        let hello = lane.publish(.unicast, payload: Array("\u{0}hello".utf8))
        deliver(hello, number: 0, .transient)
        #expect(lane.written() == packet("deliver-unicast-transient"))
        let doubtful = lane.publish(
            .unicast, marks: .possibleDuplicate, payload: Array("\u{0}x".utf8))
        deliver(doubtful, number: 1, .once)
        #expect(lane.written() == packet("deliver-unicast-once-possible-duplicate"))
        let raw = lane.publish(.topic, address: "a/b", marks: .raw, payload: [0xFF])
        deliver(raw, number: 0, .transient)
        #expect(lane.written() == packet("deliver-topic-raw"))
    }

    @Test func `leave out what a slow reader may miss, and nothing else`() {
        lane.host.hasRoom = false
        let hello = lane.publish(.unicast, payload: Array("\u{0}hello".utf8))
        deliver(hello, number: 0, .transient)
        #expect(lane.written() == [])
        let again = lane.publish(.unicast, payload: Array("\u{0}hello".utf8))
        deliver(again, number: 1742, .durable)
        #expect(lane.written() == packet("deliver-unicast"))
    }

    @Test func `tell the core of a delivery that is larger than the client takes`() {
        let lane = Lane()
        lane.establish(packetMaximum: 128)
        let large = lane.publish(.unicast, payload: [UInt8](repeating: 0, count: 128))
        let delivery = Delivery(
            connection: lane.connection, number: 7, publication: large, grade: .durable)
        #expect(lane.carryOut { $0.append(.deliver(delivery)) } == ["too large 7"])
        #expect(lane.written() == [])
    }

    @Test func `report what became of a send`() {
        report(17, .sent)
        #expect(lane.written() == packet("result-sent"))
        report(18, .sent, id: "m-1")
        #expect(lane.written() == packet("result-sent-with-message-id"))
        report(17, .quotaExceeded)
        #expect(lane.written() == packet("result-refused"))
        report(0, .notAuthorized)
        #expect(lane.written() == packet("result-refused-transient"))
        lane.effects.refusals.append(Refusal(index: 0, reason: .topicNameInvalid))
        lane.effects.refusals.append(Refusal(index: 200, reason: .quotaExceeded))
        report(20, .sent, refused: 2, named: 2)
        #expect(lane.written() == packet("result-some-refused"))
        report(20, .sent, refused: 1000)
        #expect(lane.written() == packet("result-group-some-refused"))
    }

    @Test func `answer requests`() {
        let granted = [UInt8(1)].withUnsafeBytes { lane.effects.bytes.append($0) }
        lane.carryOut {
            $0.append(
                .respond(lane.connection, requestIdentifier: 1, .success, body: granted))
        }
        #expect(lane.written() == packet("response-subscribed"))
        lane.carryOut {
            $0.append(.respond(lane.connection, requestIdentifier: 7, .kickedOut, body: .empty))
        }
        #expect(lane.written() == packet("response-group-kicked"))
        let devices = lane.run("pump", "")
        lane.carryOut {
            $0.append(
                .reportPresence(
                    lane.connection, requestIdentifier: 300, isOnline: true,
                    sinceUnixMilliseconds: 1_790_000_000_000, devices: devices, count: 2))
        }
        #expect(lane.written() == packet("response-presence"))
    }

    @Test func `answer questions about groups`() {
        var entries: [UInt8] = []
        for (name, title, own) in [
            ("7h1g2k3m4n5p6", "Pump house 7", 1), ("9q8r7s6t5v4w3", "", 0),
        ] {
            entries += [UInt8(name.utf8.count)] + name.utf8
            entries += [UInt8(title.utf8.count)] + title.utf8 + [UInt8(own)]
        }
        let range = entries.withUnsafeBytes { lane.effects.bytes.append($0) }
        lane.carryOut {
            $0.append(
                .reportGroups(
                    lane.connection, requestIdentifier: 8, hasMore: false, entries: range))
        }
        #expect(lane.written() == packet("response-group-listed"))
        let report = describe()
        lane.carryOut {
            $0.append(.reportGroup(lane.connection, requestIdentifier: 9, report))
        }
        #expect(lane.written() == packet("response-group-described"))
    }

    @Test func `refuse an answer that is larger than the client takes`() {
        let lane = Lane()
        lane.establish(packetMaximum: 128)
        let body = lane.text(String(repeating: "x", count: 128))
        lane.carryOut {
            $0.append(.respond(lane.connection, requestIdentifier: 5, .success, body: body))
        }
        #expect(lane.written() == [0x80, 2, 5, 0x95])
        #expect(lane.phase == .established)
    }

    @Test func `say good-bye, and close`() {
        lane.carryOut { $0.append(.confirmDisconnect(lane.connection)) }
        #expect(lane.written() == packet("disconnected-normal"))
        #expect(lane.host.isClosed)
        let other = Lane()
        other.establish()
        other.carryOut { $0.append(.close(other.connection, .sessionTakenOver)) }
        #expect(other.written() == worded(0xE0, [0x8E], .sessionTakenOver))
        #expect(other.phase == .closing)
    }

    @Test func `say that the broker stops, to those who are in`() {
        lane.carrier.sayGoodbye(conversations: &lane.desk.conversations, host: &lane.host)
        #expect(lane.written() == [0xE0, 1, 0x8B])
        let early = Lane()
        early.carrier.sayGoodbye(conversations: &early.desk.conversations, host: &early.host)
        #expect(early.written() == [])
    }

    @Test func `for a connection that is gone do no harm`() {
        lane.desk.conversations.close(lane.connection)
        lane.host.isClosed = true
        let hello = lane.publish(.unicast, payload: [0])
        deliver(hello, number: 1, .durable)
        let user = lane.text("alice")
        lane.carryOut {
            $0.append(.accept(lane.connection, acceptance(user: user)))
            $0.append(.close(lane.connection, .sessionTakenOver))
            $0.append(.respond(lane.connection, requestIdentifier: 1, .success, body: .empty))
        }
        #expect(lane.written() == [])
    }

    @Test func `keep their order`() {
        let hello = lane.publish(.unicast, payload: Array("\u{0}hello".utf8))
        let delivery = Delivery(
            connection: lane.connection, number: 1742, publication: hello, grade: .durable)
        lane.carryOut {
            $0.append(.respond(lane.connection, requestIdentifier: 6, .success, body: .empty))
            $0.append(.deliver(delivery))
            $0.append(.confirmDisconnect(lane.connection))
        }
        #expect(
            lane.written()
                == packet("response-group-joined") + packet("deliver-unicast")
                + packet("disconnected-normal"))
    }

    // MARK: - Tools

    private func deliver(_ publication: UInt32, number: UInt64, _ grade: BrokerCore.Grade) {
        let delivery = Delivery(
            connection: lane.connection, number: number, publication: publication, grade: grade)
        lane.carryOut { $0.append(.deliver(delivery)) }
    }

    private func report(
        _ number: UInt64, _ reason: ReasonCode, id: String = "", refused: UInt32 = 0,
        named: UInt32 = 0
    ) {
        let result = SendResult(
            connection: lane.connection, number: number, reason: reason,
            messageIdentifier: lane.text(id), refusedCount: refused, firstRefusal: 0,
            namedRefusalCount: named)
        lane.carryOut { $0.append(.reportResult(result)) }
    }

    private func describe() -> GroupReport {
        GroupReport(
            hasAllowList: true, isOwn: true, hasMoreMembers: false, memberCount: 2,
            owner: lane.text("alice"), title: lane.text("Pump house 7"),
            meta: lane.text("{\"rate\":60}"), members: lane.run("alice", "bob"))
    }
}
