// Effects in, MQTT packets out.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite("Effects on MQTT connections")
struct MQTTWritingTests {
    private func delivery(
        _ loop: TestLoop, _ publication: UInt32, number: UInt64 = 0, _ grade: BrokerCore.Grade,
        _ dialect: SessionDialect = .mqtt5, options: EntryOptions = [], identifier: UInt32 = 0
    ) -> Effect {
        .deliver(
            Delivery(
                connection: loop.connection, number: number, publication: publication,
                grade: grade, options: options, dialect: dialect,
                packetIdentifier: UInt16(number), subscriptionIdentifier: identifier))
    }

    @Test func `accept a login, and report deviations from the request`() throws {
        let loop = TestLoop(allowsAnonymous: true)
        loop.receive("connect-5-empty-id-persistent")
        let user = loop.text("auto-1")
        var answer = acceptance(user: user)
        answer.assignedDevice = user
        loop.carryOut { $0.append(.accept(loop.connection, answer)) }
        let written = loop.written()
        let packet = try written.withUnsafeBytes { bytes in
            try MQTT.Connack(.v5, body: UnsafeRawBufferPointer(rebasing: bytes[2...]).bytes)
        }
        #expect(packet.sessionExpirySeconds == 604_800)
        #expect(packet.serverKeepAliveSeconds == 300)
        #expect(packet.receiveMaximum == 32)
        #expect(packet.packetMaximum == 65_536)
        #expect(packet.topicAliasMaximum == 16)
        #expect(packet.assignedClientIdentifier?.count == 6)
        #expect(loop.host.silenceMilliseconds == 450_000)
    }

    @Test func `tell a client that pulls how many conversations have unread messages`() throws {
        let loop = TestLoop(allowsAnonymous: true)
        var connect = MQTT.Connect(.v5)
        connect.clientIdentifier = ByteRange(offset: 0, count: 4)
        let property: [UInt8] = [0x26, 0, 4] + Array("sync".utf8) + [0, 4] + Array("pull".utf8)
        connect.properties = MQTT.PropertySection(
            carried: ByteRange(offset: 4, count: property.count))
        let text = String(decoding: Array("pump".utf8) + property, as: UTF8.self)
        #expect(loop.receive(encode(connect, text)).first?.contains(" pull ") == true)
        var answer = acceptance(user: loop.text("pump"))
        answer.unreadCount = 12
        loop.carryOut { $0.append(.accept(loop.connection, answer)) }
        let written = loop.written()
        let expected = [0x26, 0, 6] + Array("unread".utf8) + [0, 2] + Array("12".utf8)
        #expect(written.firstRange(of: expected) != nil, "\(written)")
    }

    @Test func `accept a login of 3.1.1 with four bytes`() {
        let loop = TestLoop(allowsAnonymous: true)
        loop.receive("connect-311-persistent")
        let user = loop.text("pump")
        loop.carryOut {
            $0.append(.accept(loop.connection, acceptance(user: user, hasWill: true)))
        }
        #expect(loop.written() == packet("connack-311-present"))
    }

    /// Found by the simulation: a client that closed its connection in the turn in which its
    /// publication was answered brought the broker down.
    @Test func `are discarded if the connection has ended meanwhile`() {
        let loop = mqttLoop()
        loop.decoder.closed(loop.connection, .lost)
        loop.carryOut {
            $0.append(
                .mqtt(.answerPacket(PacketAnswer(to: loop.connection, packet: 10, step: .accepted)))
            )
            $0.append(
                .mqtt(.answerFilters(filterAnswer(loop.connection, .subscribe, codes: .empty))))
            $0.append(.confirmDisconnect(loop.connection))
            $0.append(.close(loop.connection, .sessionTakenOver))
        }
        #expect(loop.written() == [])
    }

    @Test func `deliver a message to a topic unchanged`() {
        let loop = mqttLoop()
        let message = loop.publish(
            .topic, address: "a/b", marks: .raw, payload: Array("hello".utf8))
        loop.carryOut {
            $0.append(self.delivery(loop, message, .transient))
            $0.append(self.delivery(loop, message, number: 10, .durable))
            $0.append(self.delivery(loop, message, number: 10, .once))
            $0.append(self.delivery(loop, message, .transient, options: .retain))
            $0.append(self.delivery(loop, message, number: 10, .durable, options: .repeated))
        }
        let expected = ["publish-5-qos-0", "publish-5-qos-1", "publish-5-qos-2"].map(packet)
        var retained = expected[0]
        retained[0] |= 0x01
        var again = expected[1]
        again[0] |= 0x08
        #expect(loop.written() == (expected + [retained, again]).flatMap(\.self))
    }

    @Test func `encode a publication for each version that receives it`() {
        let loop = mqttLoop()
        let message = loop.publish(
            .topic, address: "a/b", marks: .raw, payload: Array("hello".utf8))
        loop.carryOut {
            $0.append(self.delivery(loop, message, .transient, .mqtt3))
            $0.append(self.delivery(loop, message, .transient))
            $0.append(self.delivery(loop, message, number: 10, .durable, .mqtt3))
        }
        #expect(
            loop.written()
                == packet("publish-311-qos-0") + packet("publish-5-qos-0")
                + packet("publish-311-qos-1"))
    }

    @Test func `contain properties, remaining time and subscription identifier in 5.0`() {
        let loop = mqttLoop()
        let property: [UInt8] = [0x26, 0, 1, 0x6B, 0, 1, 0x76]
        let message = loop.publish(
            .topic, address: "t", marks: [.raw, .expires, .possibleDuplicate], payload: [0x78],
            properties: property, deadline: Instant(milliseconds: 3_500))
        loop.carryOut {
            $0.append(self.delivery(loop, message, .transient, identifier: 5))
        }
        let doubt = [0x26, 0, 18] + Array("possible-duplicate".utf8) + [0, 1, 0x31]
        let properties = [0x0B, 5, 0x02, 0, 0, 0, 3] + property + doubt
        let body = [0, 1, 0x74, UInt8(properties.count)] + properties + [0x78]
        #expect(loop.written() == [0x30, UInt8(body.count)] + body)
    }

    @Test func `contain several subscription identifiers for the sessions concerned`() {
        let loop = mqttLoop()
        let message = loop.publish(
            .topic, address: "t", marks: .raw, payload: [0x78],
            properties: [0x26, 0, 1, 0x6B, 0, 1, 0x76])
        loop.effects.identifierLists = [[1], [5, 300]]
        loop.carryOut {
            $0.append(self.delivery(loop, message, .transient))
            $0.append(
                self.delivery(
                    loop, message, .transient, identifier: EntryState.severalIdentifiers + 1))
            $0.append(self.delivery(loop, message, .transient))
        }
        let plain = "300c000174" + "07" + "260001" + "6b000176" + "78"
        let several = "3011000174" + "0c" + "0b05" + "0bac02" + "260001" + "6b000176" + "78"
        #expect(hexadecimal(loop.written()) == plain + several + plain)
    }

    @Test(arguments: [
        (
            MessageKind.unicast, "", "$u/alice",
            #"{"msg":{"t":"0","b":"hi"},"from":"alice","time":"1790000000000"}"#
        ),
        (
            .group, "g1", "$g/g1",
            #"{"msg":{"t":"0","b":"hi"},"from":"alice","time":"1790000000000","groupid":"g1"}"#
        ),
        (
            .broadcast, "", "$b",
            #"{"msg":{"t":"0","b":"hi"},"from":"alice","time":"1790000000000"}"#
        ),
    ])
    func `deliver a message to an address as JSON`(
        kind: MessageKind, address: String, topic: String, payload: String
    ) {
        let loop = mqttLoop(.v311)
        let message = loop.publish(kind, address: address, payload: Array("\u{0}hi".utf8))
        loop.carryOut { $0.append(self.delivery(loop, message, .transient, .mqtt3)) }
        let expected = MQTT.Publish(
            .v311, topic: ByteRange(offset: 0, count: topic.utf8.count),
            payload: ByteRange(offset: topic.utf8.count, count: payload.utf8.count))
        #expect(loop.written() == encode(expected, topic + payload))
    }

    @Test(arguments: [
        (
            MessageKind.groupEvent, "\u{1}bob", "$g/g1",
            #"{"event":"joined","user":"bob","from":"alice","time":"1790000000000","groupid":"g1"}"#
        ),
        (
            .groupEvent, "\u{4}\u{1}\u{3}bob", "$g/g1",
            #"{"event":"allow-list-updated","from":"alice","time":"1790000000000","groupid":"g1"}"#
        ),
        (
            .groupEvent, "\u{7}\0\u{2}\0\0\0\u{1}a\u{1}tm", "$u/alice",
            #"{"event":"added","owner":"a","title":"t","meta":"m","memberCount":2,"#
                + #""from":"alice","time":"1790000000000","groupid":"g1"}"#
        ),
        (
            .groupEvent, "\u{8}", "$u/alice",
            #"{"event":"removed","from":"alice","time":"1790000000000","groupid":"g1"}"#
        ),
        (
            .kicked, "", "$u/alice",
            #"{"event":"kicked","user":"alice","from":"alice","time":"1790000000000","#
                + #""groupid":"g1"}"#
        ),
    ])
    func `report group events as JSON`(
        kind: MessageKind, data: String, topic: String, payload: String
    ) {
        let loop = mqttLoop(.v311)
        let message = loop.publish(kind, address: "g1", payload: Array(data.utf8))
        loop.carryOut { $0.append(self.delivery(loop, message, .transient, .mqtt3)) }
        let expected = MQTT.Publish(
            .v311, topic: ByteRange(offset: 0, count: topic.utf8.count),
            payload: ByteRange(offset: topic.utf8.count, count: payload.utf8.count))
        #expect(loop.written() == encode(expected, topic + payload))
    }

    @Test func `report a delivery that is larger than the client accepts`() {
        let loop = mqttLoop(packetMaximum: 20)
        let message = loop.publish(
            .topic, address: "t", marks: .raw, payload: [UInt8](repeating: 0, count: 20))
        let lines = loop.carryOut { $0.append(self.delivery(loop, message, number: 3, .durable)) }
        #expect(lines == ["too large 3"])
        #expect(loop.written() == [])
    }

    @Test(arguments: [
        (PacketStep.accepted, ReasonCode.success, "puback-5"),
        (.accepted, .noMatchingSubscribers, "puback-5-10"),
        (.received, .notAuthorized, "pubrec-5-87"),
        (.release, .packetIdentifierNotFound, "pubrel-5-92"), (.complete, .success, "pubcomp-5"),
        // Only DISCONNECT could say that it was too large.
        (.accepted, .packetTooLarge, "puback-5-97"), (.accepted, .serverBusy, "puback-5-80"),
    ])
    func `answer publications`(step: PacketStep, reason: ReasonCode, vector: String) {
        let loop = mqttLoop()
        loop.carryOut {
            $0.append(
                .mqtt(
                    .answerPacket(
                        PacketAnswer(to: loop.connection, packet: 10, step: step, reason: reason))))
        }
        #expect(loop.written() == packet(vector))
    }

    @Test func `answer publications of 3.1.1, and end the connection if one is refused`() {
        let loop = mqttLoop(.v311)
        loop.carryOut {
            $0.append(
                .mqtt(
                    .answerPacket(
                        PacketAnswer(
                            to: loop.connection, packet: 10, step: .accepted,
                            reason: .noMatchingSubscribers))))
        }
        #expect(loop.written() == packet("puback-311"))
        let lines = loop.carryOut {
            $0.append(
                .mqtt(
                    .answerPacket(
                        PacketAnswer(
                            to: loop.connection, packet: 10, step: .received, reason: .quotaExceeded
                        ))))
        }
        #expect(lines == ["fault quotaExceeded"])
        #expect(loop.written() == [])
    }

    @Test func `count a refused publication instead, if the app is configured so`() {
        let loop = mqttLoop(.v311, acknowledgesRefused: true)
        let lines = loop.carryOut {
            $0.append(
                .mqtt(
                    .answerPacket(
                        PacketAnswer(
                            to: loop.connection, packet: 10, step: .accepted, reason: .notAuthorized
                        ))))
        }
        #expect(lines == [])
        #expect(loop.written() == packet("puback-311"))
        loop.effects.appendResult(
            loop.connection, number: 0, reason: .notAuthorized,
            messageIdentifier: UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(loop.carryOut { _ in } == [])
        let strict = mqttLoop()
        strict.effects.appendResult(
            strict.connection, number: 0, reason: .notAuthorized,
            messageIdentifier: UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(strict.carryOut { _ in } == ["fault notAuthorized"])
    }

    @Test func `send nothing to a client that has left meanwhile`() {
        for version: MQTT.Version in [.v311, .v5] {
            let loop = mqttLoop(version)
            let message = loop.publish(.topic, address: "t", marks: .raw, payload: [0x78])
            loop.decoder.closed(loop.connection, .lost, isTold: false)
            let lines = loop.carryOut {
                $0.append(
                    .mqtt(
                        .answerPacket(
                            PacketAnswer(
                                to: loop.connection, packet: 10, step: .accepted,
                                reason: .notAuthorized
                            ))))
                $0.append(
                    self.delivery(loop, message, .transient, version == .v5 ? .mqtt5 : .mqtt3))
                $0.append(.close(loop.connection, .sessionTakenOver))
            }
            #expect(lines == [])
        }
    }

    @Test func `answer SUBSCRIBE and UNSUBSCRIBE with a code for each filter`() {
        for (version, suback, unsuback) in [
            (MQTT.Version.v5, "9007000100" + "02018797", "b0050001000011"),
            // Which failure it is cannot be told.
            (.v311, "90060001" + "02018080", "b0020001"),
        ] {
            let loop = mqttLoop(version)
            let codes: [UInt8] = [2, 1, 0x87, 0x97]
            let granted = codes.withUnsafeBytes { loop.effects.bytes.append($0) }
            loop.carryOut {
                $0.append(
                    .mqtt(.answerFilters(filterAnswer(loop.connection, .subscribe, codes: granted)))
                )
            }
            #expect(hexadecimal(loop.written()) == suback)
            let endings: [UInt8] = [0, 0x11]
            let ended = endings.withUnsafeBytes { loop.effects.bytes.append($0) }
            loop.carryOut {
                $0.append(
                    .mqtt(.answerFilters(filterAnswer(loop.connection, .unsubscribe, codes: ended)))
                )
            }
            #expect(hexadecimal(loop.written()) == unsuback)
        }
    }

    @Test func `end a connection with a reason if the version has one`() {
        let loop = mqttLoop()
        loop.carryOut { $0.append(.close(loop.connection, .sessionTakenOver)) }
        #expect(withoutText(loop.written()) == packet("disconnect-5-broker-8e"))
        #expect(loop.host.isClosed)
        let old = mqttLoop(.v311)
        old.carryOut { $0.append(.close(old.connection, .sessionTakenOver)) }
        #expect(old.written() == [])
        #expect(old.host.isClosed)
        // Before it has heard CONNACK.
        let waiting = TestLoop(allowsAnonymous: true)
        waiting.receive("connect-5-persistent")
        waiting.carryOut { $0.append(.close(waiting.connection, .notAuthorized)) }
        #expect(withoutText(waiting.written()) == [0x20, 3, 0, 0x87, 0])
    }

    @Test func `disconnect clients with a reason`() {
        let loop = mqttLoop()
        loop.encoder.writeShutdown(conversations: &loop.decoder.conversations, host: &loop.host)
        #expect(withoutText(loop.written()) == packet("disconnect-5-broker-8b"))
    }
}
