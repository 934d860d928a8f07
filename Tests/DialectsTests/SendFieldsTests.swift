// Attributes, mentions, priorities and late readings in each dialect, of sends and of deliveries.

import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

private let text = #"{"t":"0","b":"hot"}"#

@Suite("A send with fields")
struct SendFieldsTests {
    @Test(arguments: [
        (#""users":["bob"],"attributes":{"site":"7"}"#, "to bob attributes [site,7]", ""),
        (#""group":"g","mentions":["bob","é"]"#, "to group g mentions [bob,é]", ""),
        (#""group":"g","mentionsAll":true"#, "to group g mentions all []", ""),
        (
            #""group":"g","mentions":["bob"],"onlyMentioned":true"#,
            "to group g mentions only [bob]", ""
        ),
        (#""users":["bob"],"isLate":true,"time":5"#, "late to bob time 5", ""),
        (#""users":["bob"],"collapse":"valve""#, "to bob key valve", ""),
        (
            #""users":["bob"],"attributes":{"from":"7"}"#, "to bob attributes [from,7]",
            "payloadFormatInvalid"
        ),
        (#""group":"g","mentions":["a/b"]"#, "to group g mentions [a/b]", "topicNameInvalid"),
        (
            #""group":"g","onlyMentioned":true"#, "to group g mentions only []",
            "payloadFormatInvalid"
        ),
    ])
    func `of JSON is that of MRT`(members: String, words: String, fault: String) {
        let loop = TestLoop.json()
        let json = #"{"type":"send","number":4,\#(members),"b":"hot"}"#
        let line = "send #4 durable \(words) 19 bytes" + (fault.isEmpty ? "" : " fault \(fault)")
        #expect(loop.receive(framed(json)) == [line])
    }

    @Test func `of JSON has a priority as a word`() {
        let loop = TestLoop.json()
        for (word, line) in [("low", "low priority "), ("normal", ""), ("high", "high priority ")] {
            let json =
                #"{"type":"send","grade":"transient","topic":"a","priority":"\#(word)","b":"hot"}"#
            #expect(loop.receive(framed(json)) == ["send #0 transient \(line)on a 19 bytes"])
        }
    }

    @Test(arguments: [
        #""attributes":["a"]"#, #""attributes":{"a":1}"#, #""attributes":{"a":{"b":"c"}}"#,
        #""mentions":"bob""#, #""priority":"urgent""#, #""late":true"#,
    ])
    func `of JSON with another form is a fault`(member: String) {
        let loop = TestLoop.json()
        let json = #"{"type":"send","number":4,"group":"g",\#(member),"b":"hot"}"#
        #expect(loop.receive(framed(json)) == ["fault malformedPacket"])
    }

    @Test
    func `of JSON with attributes far above the limit is a fault, and slightly above refused`() {
        func line(_ count: Int) -> [String] {
            let value = String(repeating: "v", count: 250)
            let pairs = (0..<count).map { #""key-\#($0)":"\#(value)""# }.joined(separator: ",")
            let loop = TestLoop.json()
            return loop.receive(
                framed(
                    #"{"type":"send","number":4,"users":["bob"],"attributes":{\#(pairs)},"b":"x"}"#)
            )
        }
        #expect(line(3).first?.hasSuffix("fault packetTooLarge") == true)
        #expect(line(4) == ["fault malformedPacket"])
    }

    @Test func `of MQTT has user properties, and those for the broker are not passed on`() {
        let loop = mqttLoop()
        #expect(
            loop.receive(
                publish(
                    "$g/g", text,
                    [
                        ("mention", "bob"), ("site", "7"), ("mention", "ann"),
                        ("mention-only", "1"), ("mentioned", "all"), ("martlet-late", "12"),
                    ])) == [
                    "send #0 durable packet 9 late to group g time 12 mentions only [bob,ann] "
                        + "19 bytes properties 10"
                ])
        #expect(
            loop.receive(publish("$g/g", text, [("mention-all", "1"), ("mention-only", "0")])) == [
                "send #0 durable packet 9 to group g mentions all [] 19 bytes"
            ])
        // On a plain topic all of them belong to the publisher.
        #expect(
            loop.receive(publish("a", "x", [("martlet-late", "12"), ("mention", "bob")])) == [
                "send #0 durable packet 9 late on a time 12 raw 1 properties 34"
            ])
    }

    @Test func `of MQTT has a collapse key beside receivers and mentions`() {
        let loop = mqttLoop()
        #expect(
            loop.receive(
                publish("$u", text, [("to", "bob"), ("collapse", "valve"), ("site", "7")])) == [
                    "send #0 durable packet 9 to 1 [bob] key valve 19 bytes properties 10"
                ])
        #expect(
            loop.receive(
                publish("$g/g", text, [("collapse", "a"), ("mention", "bob"), ("collapse", "b")]))
                == ["send #0 durable packet 9 to group g mentions [bob] key a 19 bytes"])
        // On a plain topic it is the publisher's own.
        #expect(
            loop.receive(publish("a", "x", [("collapse", "valve")])) == [
                "send #0 durable packet 9 on a raw 1 properties 18"
            ])
        for key in ["", String(repeating: "k", count: 65), "a\u{1}"] {
            let lines = loop.receive(publish("$u/bob", text, [("collapse", key)]))
            #expect(lines.first?.hasSuffix("fault payloadFormatInvalid") == true, "\(lines)")
        }
    }

    @Test(arguments: [
        (("mention", "a/b"), "topicNameInvalid"), (("martlet-late", "1x"), ""),
    ])
    func `of MQTT that breaks a rule is refused`(pair: (String, String), fault: String) {
        let loop = mqttLoop()
        let lines = loop.receive(publish("$g/g", text, [pair]))
        // A late time that is none is one that the core refuses.
        #expect(lines.first?.hasSuffix(fault.isEmpty ? "19 bytes" : "fault \(fault)") == true)
        #expect(lines.first?.contains("late") == fault.isEmpty)
    }

    @Test func `of MQTT mentions at most 256`() {
        let loop = mqttLoop()
        let pairs = (0..<257).map { ("mention", "user-\($0)") }
        #expect(
            loop.receive(publish("$g/g", text, pairs)).first?.hasSuffix("fault quotaExceeded")
                == true)
        #expect(
            loop.receive(publish("$g/g", text, pairs.dropLast())).first?.hasSuffix("19 bytes")
                == true)
    }
}

@Suite("A delivery with fields")
struct DeliveryFieldsTests {
    private func fields(_ change: (inout MessageFields) -> Void) -> [UInt8] {
        var fields = MessageFields()
        change(&fields)
        return fields.section()
    }

    private let attributes = Array("\u{4}site\u{1}7".utf8)

    private func properties(_ pairs: [(String, String)]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in pairs {
            bytes.append(0x26)
            for text in [name, value] {
                bytes += [0, UInt8(text.utf8.count)]
                bytes += Array(text.utf8)
            }
        }
        return bytes
    }

    private func deliver(
        _ publication: UInt32, to loop: TestLoop, _ dialect: SessionDialect, number: UInt64 = 1749
    ) {
        loop.carryOut {
            $0.append(
                .deliver(
                    Delivery(
                        connection: loop.connection, number: number, publication: publication,
                        grade: number == 0 ? .transient : .durable, dialect: dialect,
                        packetIdentifier: number == 0 ? 0 : 7)))
        }
    }

    private func mrtLoop(accepts: Bool, user: String) -> TestLoop {
        let loop = TestLoop()
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        connect.credential = .token(ByteRange(offset: 0, count: 6))
        if accepts { connect.accepts = .fields }
        loop.receive(encode(connect, "s3cr3t"))
        let name = loop.text(user)
        loop.carryOut { $0.append(.accept(loop.connection, acceptance(user: name))) }
        loop.host.written = []
        return loop
    }

    private func message(in loop: TestLoop, of names: [UInt8]) -> UInt32 {
        loop.publish(
            .group, address: "fleet-7", marks: .fields, payload: Array("\0look".utf8),
            properties: fields {
                $0.mentionedNames = names
                $0.attributes = attributes
                $0.isLate = true
            })
    }

    @Test func `of MRT is for clients that accept them, and tells whom it mentions`() {
        let bob = Array("\u{3}bob".utf8)
        let loop = mrtLoop(accepts: true, user: "bob")
        deliver(message(in: loop, of: bob), to: loop, .mrt)
        #expect(loop.written() == packet("deliver-attributes"))
        // Another receiver is not mentioned: three bytes less.
        let other = mrtLoop(accepts: true, user: "ann")
        deliver(message(in: other, of: bob), to: other, .mrt)
        #expect(other.written().count == packet("deliver-attributes").count - 3)
        let plain = mrtLoop(accepts: false, user: "bob")
        deliver(message(in: plain, of: bob), to: plain, .mrt)
        let whole = plain.written()
        #expect(whole.count == packet("deliver-attributes").count - 16)
        #expect(whole[4] == 3)
    }

    @Test func `of a publication of MQTT 5 has its user properties as attributes`() {
        let pairs = properties([("site", "7"), ("from", "x"), ("site", "8")])
        let loop = mrtLoop(accepts: true, user: "bob")
        let publication = loop.publish(
            .topic, address: "a", marks: .raw, payload: [1], properties: pairs)
        deliver(publication, to: loop, .mrt)
        let written = loop.written()
        let tail: [UInt8] = [9, 8, 7] + attributes + [1]
        #expect(Array(written.suffix(tail.count)) == tail)
        let json = TestLoop.json(user: "bob")
        deliver(
            json.publish(.topic, address: "a", marks: .raw, payload: [0x31], properties: pairs),
            to: json, .json)
        #expect(
            json.messages() == [
                #"{"type":"message","number":1749,"grade":"durable","kind":"topic","from":"alice","#
                    + #""time":1790000000000,"topic":"a","attributes":{"site":"7"},"payload":"1"}"#
            ])
    }

    @Test(arguments: [
        ("bob", #","mentioned":"name""#), ("ann", ""), ("carl", #","mentioned":"name""#),
    ])
    func `of JSON has them as members`(user: String, mentioned: String) {
        let loop = TestLoop.json(user: user)
        let names = Array("\u{3}bob\u{4}carl".utf8)
        deliver(message(in: loop, of: names), to: loop, .json)
        #expect(
            loop.messages() == [
                #"{"type":"message","number":1749,"grade":"durable","kind":"group","from":"alice","#
                    + #""time":1790000000000,"group":"fleet-7","attributes":{"site":"7"}"#
                    + #"\#(mentioned),"isLate":true,"t":0,"b":"look"}"#
            ])
    }

    /// The bytes as text, where they are.
    private func text(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.filter { $0 >= 0x20 && $0 < 0x7F }, as: UTF8.self)
    }

    @Test func `of MQTT 5 has user properties, and of 3.1.1 members of the JSON`() {
        let bob = Array("\u{3}bob".utf8)
        let five = mqttLoop(user: "bob")
        deliver(message(in: five, of: bob), to: five, .mqtt5)
        let properties = text(five.written())
        for part in ["site", "mentionedname", "martlet-late1790000000000"] {
            #expect(properties.replacing("&", with: "").contains(part), "\(properties)")
        }
        #expect(properties.contains(#""groupid":"fleet-7"}"#))
        let three = mqttLoop(.v311, user: "bob")
        deliver(message(in: three, of: bob), to: three, .mqtt3)
        let json = text(three.written())
        #expect(
            json.hasSuffix(
                #""groupid":"fleet-7","attributes":{"site":"7"}"#
                    + #","mentioned":"name","isLate":true}"#),
            "\(json)")
        let other = mqttLoop(.v311, user: "ann")
        deliver(message(in: other, of: bob), to: other, .mqtt3)
        #expect(!text(other.written()).contains("mentioned"))
    }

    @Test func `that is dropped for a slow reader has the class of its priority`() {
        for (dialect, loop) in [
            (SessionDialect.mrt, mrtLoop(accepts: false, user: "bob")),
            (.mqtt5, mqttLoop(user: "bob")), (.json, TestLoop.json(user: "bob")),
        ] {
            let classes: [(MessageMarks, PacketPriority)] = [
                (.low, .droppedFirst), ([], .droppable), (.high, .droppedLast),
            ]
            for (marks, priority) in classes {
                let payload = Array("\0x".utf8)
                deliver(
                    loop.publish(.unicast, marks: marks, payload: payload), to: loop, dialect,
                    number: 0)
                #expect(loop.host.lastPriority == priority, "\(dialect) \(marks)")
                deliver(
                    loop.publish(.unicast, marks: marks, payload: payload), to: loop, dialect)
                #expect(loop.host.lastPriority == .required)
            }
        }
    }
}
