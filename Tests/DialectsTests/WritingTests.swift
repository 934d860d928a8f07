// Effects in, bytes out: every packet that the broker sends, compared with the vectors.

import BrokerTerms
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite("Effects")
struct WritingTests {
    private let loop: TestLoop

    init() {
        loop = TestLoop()
        loop.establish()
    }

    @Test func `accept a login`() {
        let loop = TestLoop()
        loop.receive("connect-token")
        let user = loop.text("alice")
        loop.carryOut { $0.append(.accept(loop.connection, acceptance(user: user))) }
        #expect(loop.written() == packet("connack-new-session"))
        // One and a half times the keep-alive.
        #expect(loop.host.silenceMilliseconds == 450_000)
        #expect(loop.phase == .established)
    }

    @Test func `report an existing will`() throws {
        let loop = TestLoop()
        loop.receive("connect-token")
        let user = loop.text("alice")
        loop.carryOut {
            $0.append(.accept(loop.connection, acceptance(user: user, hasWill: true)))
        }
        #expect(loop.written()[3] == 0x03)
    }

    @Test func `refuse a login, with an advised wait`() {
        let loop = TestLoop()
        loop.receive("connect-token")
        loop.carryOut {
            $0.append(.refuse(loop.connection, .connectionRateExceeded, retryAfterSeconds: 42))
        }
        #expect(loop.written() == worded(0x20, [0x9F, 42], .connectionRateExceeded))
        #expect(loop.host.isClosed)
        #expect(loop.phase == .closing)
    }

    @Test(arguments: [
        ("deliver-unicast", MessageKind.unicast, "", "\u{0}hello", UInt64(1742)),
        ("deliver-group", .group, "fleet-7", "\u{0}hello", 1743),
        ("deliver-broadcast", .broadcast, "", "\u{4}http://x/", 1744),
        ("deliver-kicked-out", .kicked, "7h1g2k3m4n5p6", "", 1745),
        ("deliver-group-event", .groupEvent, "7h1g2k3m4n5p6", "\u{1}bob", 1746),
        ("deliver-topic-text", .topic, "a/b", "\u{0}on", 9),
    ])
    func `deliver a message`(
        name: String, kind: MessageKind, address: String, payload: String, number: UInt64
    ) {
        let publication = loop.publish(kind, address: address, payload: Array(payload.utf8))
        deliver(publication, number: number, .durable)
        #expect(loop.written() == packet(name))
    }

    @Test func `deliver transient messages and possible duplicates`() {
        let hello = loop.publish(.unicast, payload: Array("\u{0}hello".utf8))
        deliver(hello, number: 0, .transient)
        #expect(loop.written() == packet("deliver-unicast-transient"))
        let doubtful = loop.publish(
            .unicast, marks: .possibleDuplicate, payload: Array("\u{0}x".utf8))
        deliver(doubtful, number: 1, .once)
        #expect(loop.written() == packet("deliver-unicast-once-possible-duplicate"))
        let raw = loop.publish(.topic, address: "a/b", marks: .raw, payload: [0xFF])
        deliver(raw, number: 0, .transient)
        #expect(loop.written() == packet("deliver-topic-raw"))
    }

    @Test func `drop only transient messages for a slow reader`() {
        loop.host.hasRoom = false
        let hello = loop.publish(.unicast, payload: Array("\u{0}hello".utf8))
        deliver(hello, number: 0, .transient)
        #expect(loop.written() == [])
        let again = loop.publish(.unicast, payload: Array("\u{0}hello".utf8))
        deliver(again, number: 1742, .durable)
        #expect(loop.written() == packet("deliver-unicast"))
    }

    @Test func `report a delivery that is larger than the client accepts`() {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        let large = loop.publish(.unicast, payload: [UInt8](repeating: 0, count: 128))
        let delivery = Delivery(
            connection: loop.connection, number: 7, publication: large, grade: .durable)
        #expect(loop.carryOut { $0.append(.deliver(delivery)) } == ["too large 7"])
        #expect(loop.written() == [])
    }

    @Test func `deliver the notice of a new member to every client, without its texts at worst`() {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        let long = [UInt8](repeating: 0x74, count: 64)
        let notice = loop.publish(
            .groupEvent, address: "7h1g2k3m4n5p6",
            payload: [7, 0, 2, 0, 0, 0, 64] + long + [64] + long)
        let delivery = Delivery(
            connection: loop.connection, number: .max >> 1, publication: notice, grade: .durable)
        #expect(loop.carryOut { $0.append(.deliver(delivery)) } == [])
        let written = loop.written()
        #expect(written.count <= 128)
        #expect(written.suffix(8) == [7, 1, 2, 0, 0, 0, 0, 0])
    }

    @Test func `tell a client that pulls how many conversations have unread messages`() {
        let loop = TestLoop()
        loop.receive("connect-pull")
        var accepted = acceptance(user: loop.text("alice"))
        (accepted.isSessionPresent, accepted.unreadCount) = (true, 3)
        loop.carryOut { $0.append(.accept(loop.connection, accepted)) }
        #expect(loop.written() == packet("connack-pull"))
    }

    @Test func `report the result of a send`() {
        report(17, .sent)
        #expect(loop.written() == packet("result-sent"))
        report(18, .sent, id: "m-1")
        #expect(loop.written() == packet("result-sent-with-message-id"))
        report(17, .quotaExceeded)
        #expect(loop.written() == packet("result-refused"))
        report(0, .notAuthorized)
        #expect(loop.written() == packet("result-refused-transient"))
        loop.effects.refusals.append(Refusal(index: 0, reason: .topicNameInvalid))
        loop.effects.refusals.append(Refusal(index: 200, reason: .quotaExceeded))
        report(20, .sent, refused: 2, named: 2)
        #expect(loop.written() == packet("result-some-refused"))
        report(20, .sent, refused: 1000)
        #expect(loop.written() == packet("result-group-some-refused"))
    }

    @Test func `answer requests`() {
        let granted = [UInt8(1)].withUnsafeBytes { loop.effects.bytes.append($0) }
        loop.carryOut {
            $0.append(
                .mrt(.respond(loop.connection, requestIdentifier: 1, .success, body: granted)))
        }
        #expect(loop.written() == packet("response-subscribed"))
        loop.carryOut {
            $0.append(
                .mrt(.respond(loop.connection, requestIdentifier: 7, .kickedOut, body: .empty)))
        }
        #expect(loop.written() == packet("response-group-kicked"))
        let devices = loop.run("pump", "")
        loop.carryOut {
            $0.append(
                .mrt(
                    .reportPresence(
                        loop.connection, requestIdentifier: 300, isOnline: true,
                        sinceUnixMilliseconds: 1_790_000_000_000, devices: devices, count: 2)))
        }
        #expect(loop.written() == packet("response-presence"))
    }

    @Test func `answer questions about groups`() {
        var entries: [UInt8] = []
        for (name, title, own) in [
            ("7h1g2k3m4n5p6", "Pump house 7", 1), ("9q8r7s6t5v4w3", "", 0),
        ] {
            entries += [UInt8(name.utf8.count)] + name.utf8
            entries += [UInt8(title.utf8.count)] + title.utf8 + [UInt8(own)]
        }
        let range = entries.withUnsafeBytes { loop.effects.bytes.append($0) }
        loop.carryOut {
            $0.append(
                .mrt(
                    .reportGroups(
                        loop.connection, requestIdentifier: 8, hasMore: false, entries: range)))
        }
        #expect(loop.written() == packet("response-group-listed"))
        let report = describe()
        loop.carryOut {
            $0.append(.mrt(.reportGroup(loop.connection, requestIdentifier: 9, report)))
        }
        #expect(loop.written() == packet("response-group-described"))
    }

    @Test func `answer a request for history`() {
        let range = loop.history([
            ("bob", 19, 1_790_000_000_005, "done"), ("alice", 17, 1_790_000_000_000, "open"),
        ])
        loop.carryOut {
            $0.append(
                .mrt(
                    .reportHistory(
                        loop.connection, requestIdentifier: 12, next: 17, entries: range,
                        hasFields: false, isTopic: false)))
        }
        #expect(loop.written() == packet("response-history"))
    }

    @Test func `answer a request for the history of a topic, with the form of each message`() {
        let range = loop.history([("bob", 19, 1_790_000_000_005, "done")])
        loop.carryOut {
            $0.append(
                .mrt(
                    .reportHistory(
                        loop.connection, requestIdentifier: 12, next: 0, entries: range,
                        hasFields: false, isTopic: true)))
        }
        #expect(loop.written() == packet("response-history-of-topic"))
    }

    @Test func `answer a request for conversations`() {
        let range = loop.conversations([
            ("bob", false, 19, 17, 1), ("fleet-7", true, 300, 0, 255),
        ])
        loop.carryOut {
            $0.append(
                .mrt(
                    .reportConversations(
                        loop.connection, requestIdentifier: 13, next: 0, entries: range)))
        }
        #expect(loop.written() == packet("response-conversations"))
    }

    @Test func `replace an answer that is larger than the client accepts`() {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        let body = loop.text(String(repeating: "x", count: 128))
        loop.carryOut {
            $0.append(.mrt(.respond(loop.connection, requestIdentifier: 5, .success, body: body)))
        }
        #expect(loop.written() == [0x80, 2, 5, 0x95])
        #expect(loop.phase == .established)
    }

    @Test func `send DISCONNECT, and close`() {
        loop.carryOut { $0.append(.confirmDisconnect(loop.connection)) }
        #expect(loop.written() == packet("disconnected-normal"))
        #expect(loop.host.isClosed)
        let other = TestLoop()
        other.establish()
        other.carryOut { $0.append(.close(other.connection, .sessionTakenOver)) }
        #expect(other.written() == worded(0xE0, [0x8E], .sessionTakenOver))
        #expect(other.phase == .closing)
    }

    @Test func `announce the stop of the broker to clients that are logged in`() {
        loop.encoder.writeShutdown(conversations: &loop.decoder.conversations, host: &loop.host)
        #expect(loop.written() == [0xE0, 1, 0x8B])
        let early = TestLoop()
        early.encoder.writeShutdown(conversations: &early.decoder.conversations, host: &early.host)
        #expect(early.written() == [])
    }

    @Test func `for a connection that is gone do no harm`() {
        loop.decoder.conversations.close(loop.connection)
        loop.host.isClosed = true
        let hello = loop.publish(.unicast, payload: [0])
        deliver(hello, number: 1, .durable)
        let user = loop.text("alice")
        loop.carryOut {
            $0.append(.accept(loop.connection, acceptance(user: user)))
            $0.append(.close(loop.connection, .sessionTakenOver))
            $0.append(.mrt(.respond(loop.connection, requestIdentifier: 1, .success, body: .empty)))
        }
        #expect(loop.written() == [])
    }

    @Test func `keep their order`() {
        let hello = loop.publish(.unicast, payload: Array("\u{0}hello".utf8))
        let delivery = Delivery(
            connection: loop.connection, number: 1742, publication: hello, grade: .durable)
        loop.carryOut {
            $0.append(.mrt(.respond(loop.connection, requestIdentifier: 6, .success, body: .empty)))
            $0.append(.deliver(delivery))
            $0.append(.confirmDisconnect(loop.connection))
        }
        #expect(
            loop.written()
                == packet("response-group-joined") + packet("deliver-unicast")
                + packet("disconnected-normal"))
    }

    // MARK: - Tools

    private func deliver(_ publication: UInt32, number: UInt64, _ grade: BrokerCore.Grade) {
        let delivery = Delivery(
            connection: loop.connection, number: number, publication: publication, grade: grade)
        loop.carryOut { $0.append(.deliver(delivery)) }
    }

    private func report(
        _ number: UInt64, _ reason: ReasonCode, id: String = "", refused: UInt32 = 0,
        named: UInt32 = 0
    ) {
        let result = SendResult(
            connection: loop.connection, number: number, reason: reason,
            messageIdentifier: loop.text(id), refusedCount: refused, firstRefusal: 0,
            namedRefusalCount: named)
        loop.carryOut { $0.append(.reportResult(result)) }
    }

    private func describe() -> GroupReport {
        GroupReport(
            hasAllowList: true, isOwn: true, hasMoreMembers: false, memberCount: 2,
            owner: loop.text("alice"), title: loop.text("Pump house 7"),
            meta: loop.text("{\"rate\":60}"), members: loop.run("alice", "bob"))
    }
}
