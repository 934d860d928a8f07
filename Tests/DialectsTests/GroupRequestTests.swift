// Requests about groups: the events for the core, and the requests that are refused before.

import BrokerCore
import Primitives
import Testing
import WireFormat

@testable import Dialects

@Suite("A request about groups")
struct GroupRequestTests {
    @Test(arguments: [
        (
            "request-group-create",
            "group 5 create 1122334455667788 'Pump house 7' '{\"rate\":60}' 2 [alice,bob] seed 3"
        ),
        ("request-group-join", "group 6 join 7h1g2k3m4n5p6"),
        ("request-group-join-backlog", "group 11 join 7h1g2k3m4n5p6 backlog 20"),
        ("request-group-kick", "group 7 kick 7h1g2k3m4n5p6 bob"),
        ("request-group-list", "group 8 list '' any"),
        ("request-group-describe", "group 9 describe 7h1g2k3m4n5p6 '' any"),
        ("request-group-set-allow-list", "group 10 allow 7h1g2k3m4n5p6 2 [bob,carol]"),
        ("request-history", "history 12: 2 of bob before 18"),
        ("request-history-of-topic", "history 12: 2 of topic plant/1/alarm before 18"),
        ("request-conversations", "conversations 13: 50 after 0 with unread messages"),
        ("request-conversations-newest", "conversations 15: 20 after 0 with newest messages"),
        ("request-read", "read 14: bob up to 19"),
    ])
    func `becomes an event`(name: String, event: String) {
        #expect(established().receive(name) == [event])
    }

    @Test func `of every other kind becomes an event too`() {
        let loop = established()
        let group = ByteRange(offset: 0, count: 1)
        let user = ByteRange(offset: 1, count: 3)
        #expect(ask(loop, .groupLeave, MRT.GroupName(group: group), "G") == ["group 1 leave G"])
        #expect(
            ask(loop, .groupHistory, MRT.GroupHistoryQuery(group: group, wantsMessage: true), "G")
                == ["group 1 history of G with message, any"])
        #expect(
            ask(loop, .groupBan, MRT.GroupMember(group: group, user: user), "Gbob")
                == ["group 1 ban G bob"])
        #expect(
            ask(loop, .groupSetMeta, MRT.GroupSetMeta(group: group, meta: user), "G{ }")
                == ["group 1 meta G '{ }'"])
        #expect(
            ask(
                loop, .groupSetAllowList,
                MRT.GroupSetAllowList(group: group, allowList: .everybody), "G")
                == ["group 1 allow G open"])
        #expect(
            ask(loop, .groupCreate, create(title: .empty, meta: .empty), "")
                == ["group 1 create 0 '' '' open seed 3"])
    }

    @Test func `for a list limits the answer to the client's maximum`() {
        let loop = TestLoop()
        loop.establish(packetMaximum: 512)
        // 15 bytes of a RESPONSE are not its content.
        #expect(loop.receive("request-group-list") == ["group 8 list '' 497"])
    }

    @Test func `with a title that is too long or missing is refused alone`() {
        let long = String(repeating: "x", count: 129)
        let title = ByteRange(offset: 0, count: 129)
        #expect(
            ask(.groupCreate, create(title: title, meta: .empty), long)
                == ["faulted 1 packetTooLarge"])
        let short = ByteRange(offset: 0, count: 3)
        #expect(
            ask(.groupCreate, create(title: short, meta: .empty), "a\u{7}b")
                == ["faulted 1 payloadFormatInvalid"])
        #expect(
            ask(.groupCreate, create(title: ByteRange(offset: 0, count: 128), meta: .empty), long)
                .first?.hasPrefix("group 1 create") == true)
    }

    @Test func `with a meta that is not UTF-8 is refused alone`() {
        let meta = ByteRange(offset: 0, count: 1)
        let loop = established()
        var bytes = packet(
            .groupSetMeta, MRT.GroupSetMeta(group: meta, meta: ByteRange(offset: 1, count: 1)),
            "Gx")
        bytes[bytes.count - 1] = 0xC0
        #expect(loop.receive(bytes) == ["faulted 1 payloadFormatInvalid"])
        #expect(loop.phase == .established)
    }

    @Test(arguments: ["a/b", "", String(repeating: "x", count: 65)])
    func `with an invalid user on an allow list is refused alone`(name: String) {
        let run = "\u{3}bob" + String(UnicodeScalar(UInt8(name.utf8.count))) + name
        let ids = ByteRange(offset: 0, count: run.utf8.count)
        let list = MRT.AllowList.only(count: 2, ids: ids)
        #expect(
            ask(.groupSetAllowList, MRT.GroupSetAllowList(group: ids, allowList: list), run)
                == ["faulted 1 topicNameInvalid"])
    }

    @Test func `that cannot be read ends the connection`() {
        let loop = established()
        #expect(
            loop.receive([0x70, 4, 1, MRT.Operation.groupJoin.rawValue, 5, 1])
                == ["fault malformedPacket"])
        #expect(established().receive([0x70, 3, 1, 4, 0]) == ["fault malformedPacket"])
    }

    @Test func `for a will that is invalid as a send is refused by the core, with the reason`() {
        let user = MRT.Target.user(ByteRange(offset: 0, count: 3))
        let will = MRT.Will(
            delaySeconds: 0, target: user, isRaw: false, payload: ByteRange(offset: 3, count: 2))
        #expect(
            ask(.setWill, will, "a/b\u{0}x")
                == ["will 1 after 0: #0 once to a/b 17 bytes fault topicNameInvalid"])
    }

    // MARK: - Tools

    private func established() -> TestLoop {
        let loop = TestLoop()
        loop.establish()
        return loop
    }

    private func create(title: ByteRange, meta: ByteRange) -> MRT.GroupCreate {
        MRT.GroupCreate(key: 0, title: title, meta: meta, allowList: .everybody)
    }

    private func packet(
        _ operation: MRT.Operation, _ part: some RequestPart, _ source: String
    ) -> [UInt8] {
        encode(MRT.OutgoingRequest(identifier: 1, operation: operation, part: part), source)
    }

    private func ask(
        _ operation: MRT.Operation, _ part: some RequestPart, _ source: String
    ) -> [String] {
        ask(established(), operation, part, source)
    }

    private func ask(
        _ loop: TestLoop, _ operation: MRT.Operation, _ part: some RequestPart, _ source: String
    ) -> [String] {
        loop.receive(packet(operation, part, source))
    }
}
