// The additions of MQTT 5.0: topic aliases, reason strings, authentication with a new token, and
// the meaning of user properties.

import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

/// A PUBLISH of 5.0 with an alias; without a topic where `topic` is empty.
private func publish(_ topic: String, alias: UInt16, _ payload: String = "x") -> [UInt8] {
    var packet = MQTT.Publish(
        .v5, topic: ByteRange(offset: 0, count: topic.utf8.count),
        payload: ByteRange(offset: topic.utf8.count, count: payload.utf8.count))
    packet.topicAlias = alias
    return encode(packet, topic + payload)
}

/// A PUBLISH with user properties, of QoS 1 with packet identifier 9.
func publish(_ topic: String, _ payload: String, _ pairs: [(String, String)]) -> [UInt8] {
    var source = Array((topic + payload).utf8)
    let start = source.count
    for (name, value) in pairs {
        source.append(0x26)
        for text in [name, value] {
            source += [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 0xFF)]
            source += Array(text.utf8)
        }
    }
    var packet = MQTT.Publish(
        .v5, topic: ByteRange(offset: 0, count: topic.utf8.count),
        payload: ByteRange(offset: topic.utf8.count, count: payload.utf8.count), qos: .atLeastOnce,
        packetIdentifier: 9)
    packet.properties = MQTT.PropertySection(
        carried: ByteRange(offset: start, count: source.count - start))
    return encode(packet, String(decoding: source, as: UTF8.self))
}

@Suite("A topic alias of a client")
struct IncomingAliasTests {
    @Test func `stands for its topic, in the same burst and in later ones`() {
        let loop = mqttLoop()
        #expect(
            loop.receive(publish("a/b", alias: 1) + publish("", alias: 1)) == [
                "send #0 transient on a/b raw 1", "send #0 transient on a/b raw 1",
            ])
        #expect(loop.receive(publish("", alias: 1)) == ["send #0 transient on a/b raw 1"])
        #expect(
            loop.receive(publish("", alias: 1) + publish("c", alias: 1) + publish("", alias: 1))
                == [
                    "send #0 transient on a/b raw 1", "send #0 transient on c raw 1",
                    "send #0 transient on c raw 1",
                ])
    }

    @Test func `may stand for an address`() {
        let loop = mqttLoop()
        let message = #"{"t":"0","b":"hi"}"#
        loop.receive(publish("$u/bob", alias: 2, message))
        let lines = loop.receive(publish("", alias: 2, message))
        #expect(lines.count == 1)
        #expect(lines.first?.hasSuffix("to bob 18 bytes") == true)
    }

    @Test(arguments: [
        (UInt16(17), "t", "fault topicAliasInvalid"), (17, "", "fault topicAliasInvalid"),
        (3, "", "fault protocolError"),
    ])
    func `that is too high or not set ends the connection`(
        alias: UInt16, topic: String, line: String
    ) {
        let loop = mqttLoop()
        #expect(loop.receive(publish(topic, alias: alias)) == [line])
    }

    @Test func `ends with its connection`() {
        let loop = mqttLoop()
        loop.receive(publish("a", alias: 1))
        loop.reopen()
        var connect = MQTT.Connect(.v5)
        connect.password = ByteRange(offset: 0, count: 6)
        loop.receive(encode(connect, "s3cr3t"))
        let name = loop.text("alice")
        loop.carryOut { $0.append(.accept(loop.connection, acceptance(user: name))) }
        #expect(loop.receive(publish("", alias: 1)) == ["fault protocolError"])
    }

    @Test func `uses a limited amount of memory`() {
        let loop = mqttLoop()
        let topic = String(repeating: "t", count: 4_000)
        #expect(loop.receive(publish(topic, alias: 1)).count == 1)
        #expect(loop.receive(publish(topic, alias: 1)).count == 1)
        #expect(loop.receive(publish(topic, alias: 2)) == ["fault quotaExceeded"])
    }
}

@Suite("A topic alias of the broker")
struct OutgoingAliasTests {
    private func deliver(_ loop: TestLoop, _ topic: String) -> [UInt8] {
        let message = loop.publish(.topic, address: topic, marks: .raw, payload: [0x78])
        loop.carryOut {
            $0.append(
                .deliver(
                    Delivery(
                        connection: loop.connection, number: 0, publication: message,
                        grade: .transient, dialect: .mqtt5)))
        }
        return loop.written()
    }

    private func expected(_ topic: String, alias: UInt16, omitsTopic: Bool) -> [UInt8] {
        publish(omitsTopic ? "" : topic, alias: alias)
    }

    @Test func `is sent with the topic and then replaces it, up to the client's maximum`() {
        let loop = mqttLoop { $0.topicAliasMaximum = 2 }
        #expect(deliver(loop, "long/topic") == publish("long/topic", alias: 1))
        #expect(deliver(loop, "long/topic") == publish("", alias: 1))
        #expect(deliver(loop, "other") == publish("other", alias: 2))
        #expect(deliver(loop, "third") == publish("third", alias: 0))
        #expect(deliver(loop, "other") == publish("", alias: 2))
    }

    @Test func `is not used for a client that accepts none`() {
        let loop = mqttLoop()
        #expect(deliver(loop, "long/topic") == publish("long/topic", alias: 0))
        #expect(deliver(loop, "long/topic") == publish("long/topic", alias: 0))
    }

    @Test func `that could not be sent is sent again`() {
        let loop = mqttLoop { $0.topicAliasMaximum = 2 }
        loop.host.hasRoom = false
        #expect(deliver(loop, "long/topic") == [])
        loop.host.hasRoom = true
        #expect(deliver(loop, "long/topic") == publish("long/topic", alias: 1))
    }
}

@Suite("A refusal in MQTT 5.0")
struct ReasonTextTests {
    @Test func `has a reason string if the client accepts one`() throws {
        let loop = mqttLoop { $0.requestsProblemInformation = true }
        loop.carryOut {
            $0.append(
                .mqtt(
                    .answerPacket(
                        PacketAnswer(
                            to: loop.connection, packet: 10, step: .accepted, reason: .notAuthorized
                        ))))
        }
        let written = loop.written()
        let answer = try written.withUnsafeBytes {
            try MQTT.Acknowledgement(
                .v5, .puback, body: UnsafeRawBufferPointer(rebasing: $0[2...]).bytes)
        }
        #expect(answer.reason == .notAuthorized)
        #expect(answer.reasonString?.isEmpty == false)
        let codes: [UInt8] = [1, 0x87]
        let body = codes.withUnsafeBytes { loop.effects.bytes.append($0) }
        loop.carryOut {
            $0.append(.mqtt(.answerFilters(filterAnswer(loop.connection, .subscribe, codes: body))))
        }
        let suback = try loop.written().withUnsafeBytes {
            try MQTT.Suback(.v5, body: UnsafeRawBufferPointer(rebasing: $0[2...]).bytes)
        }
        #expect(suback.reasonString?.isEmpty == false)
        #expect(suback.codes.count == 2)
    }

    @Test func `has no reason string if its packet would be too large`() {
        let loop = mqttLoop(packetMaximum: 22) { $0.requestsProblemInformation = true }
        loop.carryOut {
            $0.append(
                .mqtt(
                    .answerPacket(
                        PacketAnswer(
                            to: loop.connection, packet: 10, step: .accepted, reason: .notAuthorized
                        ))))
        }
        #expect(loop.written() == [0x40, 3, 0, 10, 0x87])
    }

    @Test func `contains the application's message id and the refused receivers of a list`() throws
    {
        let loop = mqttLoop { $0.requestsProblemInformation = true }
        var answer = PacketAnswer(
            to: loop.connection, packet: 10, step: .accepted, reason: .success)
        answer.result = .sent
        answer.messageIdentifier = loop.text("m1")
        loop.effects.refusals.append(Refusal(index: 2, reason: .topicNameInvalid))
        answer.namedRefusalCount = 1
        loop.carryOut { $0.append(.mqtt(.answerPacket(answer))) }
        let text = String(decoding: loop.written(), as: UTF8.self)
        #expect(text.contains("mid\u{0}\u{2}m1"))
        #expect(text.contains("reason\u{0}\u{1}1"))
        #expect(text.contains("refused\u{0}\u{5}2 144"))
    }
}

@Suite("A success in MQTT 5.0 that some receivers refused")
struct RefusedCountTests {
    private func written(packetMaximum: UInt32?, wantsWords: Bool = true) -> String {
        let loop =
            packetMaximum.map { maximum in
                mqttLoop(packetMaximum: maximum) { $0.requestsProblemInformation = wantsWords }
            } ?? mqttLoop { $0.requestsProblemInformation = wantsWords }
        var answer = PacketAnswer(
            to: loop.connection, packet: 10, step: .received, reason: .success)
        answer.refusedCount = 3
        loop.carryOut { $0.append(.mqtt(.answerPacket(answer))) }
        return String(decoding: loop.written(), as: UTF8.self)
    }

    @Test func `contains their number and a reason string`() {
        let text = written(packetMaximum: nil)
        #expect(text.contains("refused-count\u{0}\u{1}3"))
        #expect(text.contains("3 of its receivers did not get it"))
    }

    @Test func `omits what does not fit, the reason string first`() {
        let some = written(packetMaximum: 40)
        #expect(some.contains("refused-count") && !some.contains("receivers"))
        #expect(!written(packetMaximum: 20).contains("refused"))
    }

    @Test func `contains nothing of it without problem information`() {
        #expect(!written(packetMaximum: nil, wantsWords: false).contains("refused"))
    }
}

@Suite("A fresh token in MQTT 5.0")
struct AuthenticationTests {
    private func auth(_ token: String, _ method: String = "token") -> [UInt8] {
        var packet = MQTT.Auth(
            .reauthenticate, authenticationMethod: ByteRange(offset: 0, count: method.utf8.count))
        packet.authenticationData = ByteRange(
            offset: method.utf8.count, count: token.utf8.count)
        return encode(packet, method + token)
    }

    private func loop() -> TestLoop {
        mqttLoop { $0.authenticationMethod = ByteRange(offset: 15, count: 5) }
    }

    @Test func `replaces the old one, and is confirmed`() {
        let loop = loop()
        #expect(loop.receive(auth("new")) == ["new credential"])
        loop.carryOut { $0.append(.answerCredential(loop.connection, .success)) }
        // The shortest form of success would leave the method out.
        #expect(loop.written() == [0xF0, 10, 0, 8, 0x15, 0, 5] + Array("token".utf8))
    }

    @Test func `that is invalid ends the connection`() {
        let loop = loop()
        #expect(loop.receive(auth("bad")) == ["credential refused badUserNameOrPassword"])
        let lines = loop.carryOut {
            $0.append(.answerCredential(loop.connection, .badUserNameOrPassword))
        }
        #expect(lines == ["fault badUserNameOrPassword"])
        loop.carryOut { $0.append(.close(loop.connection, .badUserNameOrPassword)) }
        #expect(withoutText(loop.written()) == [0xE0, 1, 0x87])
    }

    @Test func `requires the method that the client named`() {
        #expect(loop().receive(auth("new", "other")) == ["fault protocolError"])
        #expect(mqttLoop().receive(auth("new")) == ["fault protocolError"])
    }

    @Test func `has its method named in CONNACK`() {
        let loop = TestLoop()
        var connect = MQTT.Connect(.v5)
        connect.authenticationMethod = ByteRange(offset: 0, count: 5)
        connect.authenticationData = ByteRange(offset: 5, count: 3)
        loop.receive(encode(connect, "tokenkey"))
        let name = loop.text("alice")
        loop.carryOut { $0.append(.accept(loop.connection, acceptance(user: name))) }
        let text = String(decoding: loop.written(), as: UTF8.self)
        #expect(text.contains("\u{15}\u{0}\u{5}token"))
    }
}

@Suite("User properties of a message to an address")
struct MessagePropertyTests {
    private let message = #"{"t":"0","b":"hi"}"#

    @Test func `name the receivers of a list`() {
        let loop = mqttLoop()
        let lines = loop.receive(
            publish("$u", message, [("to", "bob"), ("k", "v"), ("to", "carol")]))
        #expect(lines.count == 1)
        #expect(lines.first?.contains("to 2 [bob,carol]") == true, "\(lines)")
        #expect(lines.first?.contains("properties 7") == true, "\(lines)")
    }

    @Test(arguments: [
        ("$u", [("k", "v")]), ("$u", [("to", "a/b")]), ("$u/bob", [("to", "carol")]),
        ("$b", [("to", "carol")]),
    ])
    func `name receivers only if the topic names none`(
        topic: String, pairs: [(String, String)]
    ) {
        let loop = mqttLoop()
        let lines = loop.receive(publish(topic, message, pairs))
        #expect(lines.first?.hasSuffix("fault topicNameInvalid") == true, "\(lines)")
    }

    @Test func `name no more receivers than a list may have`() {
        let loop = mqttLoop()
        let pairs = (0..<257).map { ("to", "user\($0)") }
        let lines = loop.receive(publish("$u", message, pairs))
        #expect(lines.first?.hasSuffix("fault quotaExceeded") == true, "\(lines)")
    }

    @Test func `contain the application's message id, and are forwarded`() {
        let loop = mqttLoop()
        let lines = loop.receive(publish("$u/bob", message, [("mid", "m-1")]))
        #expect(lines.first?.contains("m-1") == true, "\(lines)")
        #expect(lines.first?.contains("properties 11") == true, "\(lines)")
        let long = String(repeating: "m", count: 65)
        let refused = loop.receive(publish("$u/bob", message, [("mid", long)]))
        #expect(refused.first?.hasSuffix("fault payloadFormatInvalid") == true, "\(refused)")
        // On a plain topic they are the publisher's own.
        let plain = loop.receive(publish("t", "x", [("mid", "m"), ("to", "bob")]))
        #expect(plain.first?.hasSuffix("on t raw 1 properties 19") == true, "\(plain)")
    }

    @Test(
        arguments: [
            ([("history", "1"), ("martlet-late", "5")], " kept late to", " time 5 "),
            ([("history", "true")], " kept to", nil),
            ([("history", "0")], " never kept to", nil),
            ([("history", "false")], " never kept to", nil),
            ([("martlet-late", "5"), ("history", "only")], " kept only late to", " time 5 "),
            ([("history", "only"), ("martlet-late", "x")], " kept only late to", nil),
        ] as [([(String, String)], String, String?)])
    func `say whether a message is kept, and the time of a late reading`(
        properties: [(String, String)], expected: String, time: String?
    ) {
        let lines = mqttLoop().receive(publish("$u/bob", message, properties))
        #expect(lines.first?.contains(expected) == true, "\(lines)")
        #expect(lines.first?.contains(time ?? " time ") == (time != nil), "\(lines)")
    }

    @Test(arguments: [
        ("history", "yes"), ("reference", "yes"), ("receipts", ""), ("receipts", "read"),
        ("receipts", "delivered;applied"),
    ])
    func `without a meaning refuse the message`(name: String, value: String) {
        let refused = mqttLoop().receive(publish("$u/bob", message, [(name, value)]))
        #expect(refused.first?.hasSuffix("fault payloadFormatInvalid") == true, "\(refused)")
        // On a plain topic they are the publisher's own.
        let plain = mqttLoop().receive(publish("t", "x", [(name, value)]))
        #expect(plain.first?.contains("fault") == false, "\(plain)")
    }

    @Test func `may have blanks between the receipts`() {
        let lines = mqttLoop().receive(
            publish("$u/bob", message, [("receipts", "delivered, applied")]))
        #expect(lines.count == 1 && lines.first?.contains("fault") == false, "\(lines)")
    }

    @Test func `cannot imitate those of the broker`() {
        let loop = mqttLoop()
        let lines = loop.receive(
            publish(
                "$u/bob", message,
                [("from", "eve"), ("time", "0"), ("groupid", "g"), ("possible-duplicate", "1")]))
        #expect(lines.first?.contains("properties") == false, "\(lines)")
    }

    @Test func `tell a receiver who sent it, when, and to which group`() {
        let loop = mqttLoop()
        let sent = loop.publish(.group, address: "g1", payload: Array("\u{0}hi".utf8))
        loop.carryOut {
            $0.append(
                .deliver(
                    Delivery(
                        connection: loop.connection, number: 0, publication: sent,
                        grade: .transient, dialect: .mqtt5)))
        }
        let text = String(decoding: loop.written(), as: UTF8.self)
        #expect(text.contains("&\u{0}\u{4}from\u{0}\u{5}alice"))
        #expect(text.contains("&\u{0}\u{4}time\u{0}\u{D}1790000000000"))
        #expect(text.contains("&\u{0}\u{7}groupid\u{0}\u{2}g1"))
    }
}
