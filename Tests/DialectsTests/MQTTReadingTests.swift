// MQTT packets in, events out.

import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

/// A loop with an established MQTT connection.
///
/// - Parameter change: what else the client asks for; without it, for no problem information, so
///   that answers are the shortest.
func mqttLoop(
    _ version: MQTT.Version = .v5, packetMaximum: UInt32 = 0, user: String = "alice",
    acknowledgesRefused: Bool = false, _ change: (inout MQTT.Connect) -> Void = { _ in }
) -> TestLoop {
    let loop = TestLoop()
    var connect = MQTT.Connect(version)
    if version == .v5 { connect.requestsProblemInformation = false }
    change(&connect)
    connect.isCleanStart = true
    connect.clientIdentifier = ByteRange(offset: 0, count: 4)
    connect.userName = ByteRange(offset: 4, count: 5)
    connect.password = ByteRange(offset: 9, count: 6)
    connect.packetMaximum = packetMaximum
    loop.receive(encode(connect, "pumpalices3cr3ttoken"))
    let name = loop.text(user)
    var accepted = acceptance(user: name)
    accepted.acknowledgesRefused = acknowledgesRefused
    loop.carryOut { $0.append(.accept(loop.connection, accepted)) }
    loop.host.written = []
    return loop
}

@Suite("A CONNECT of MQTT")
struct MQTTConnectTests {
    @Test(arguments: [
        (
            "connect-31-token",
            "connect app demo user alice device pump keepalive 300 window 65535 mqtt3 1,2"
        ),
        (
            "connect-311-persistent",
            "connect anonymous pump device  keepalive 60 window 65535 mqtt3 1,2"
        ),
        (
            "connect-311-smallest",
            "connect anonymous  device  keepalive 0 window 65535 clean mqtt3 nameless expiry 0 1,2"
        ),
        (
            "connect-5-persistent",
            "connect anonymous pump device  keepalive 60 window 65535 mqtt5 expiry 0 1,2"
        ),
        (
            "property-33-receive-maximum",
            "connect anonymous c device  keepalive 0 window 1 clean mqtt5 expiry 0 1,2"
        ),
    ])
    func `becomes a login`(vector: String, line: String) {
        let loop = TestLoop(allowsAnonymous: true)
        #expect(loop.receive(vector) == [line])
        #expect(loop.host.isHeld)
    }

    @Test func `treats the password as a token if the user name has no app`() {
        let loop = TestLoop()
        var connect = MQTT.Connect(.v311)
        connect.isCleanStart = true
        connect.userName = ByteRange(offset: 0, count: 5)
        connect.password = ByteRange(offset: 5, count: 3)
        #expect(
            loop.receive(encode(connect, "alicekey")) == [
                "connect token key device  keepalive 0 window 65535 clean mqtt3 nameless"
                    + " expiry 0 1,2"
            ])
    }

    @Test func `contains its will`() {
        let loop = TestLoop(allowsAnonymous: true)
        let lines = loop.receive("connect-5-will-properties-mixed")
        #expect(lines.count == 1)
        // The delay stood between the two user properties of 7 bytes each.
        #expect(
            lines[0].hasSuffix(" will after 1: #0 transient on w raw 1 properties 14"))
    }

    @Test(arguments: [
        // No credentials on a listener that wants some.
        ("connect-311-persistent", "20020005"), ("connect-5-persistent", "2003008700"),
        // An empty id for a session that is to be kept.
        ("connect-311-empty-id-persistent", "20020002"),
        // A version that there is not.
        ("connect-level-6-5", "20020001"),
        // An exchange that is not offered; what cannot be read.
        ("property-21-authentication-method", "2003008c00"),
        ("connect-reserved-flag-5", "2003008100"), ("connect-will-topic-wildcard-5", "2003009000"),
    ])
    func `is refused with a reason`(vector: String, answer: String) {
        let loop = TestLoop()
        #expect(loop.receive(vector) == [])
        #expect(hexadecimal(withoutText(loop.written())) == answer)
        #expect(loop.host.isClosed)
    }

    @Test(arguments: ["connect-reserved-flag-311", "connect-other-name-311"])
    func `that violates 3.1.1 is closed without an answer`(vector: String) {
        let loop = TestLoop(allowsAnonymous: true)
        #expect(loop.receive(vector) == [])
        #expect(loop.written() == [])
        #expect(loop.host.isClosed)
    }

    @Test func `with an invalid token is refused`() {
        let loop = TestLoop()
        var connect = MQTT.Connect(.v5)
        connect.password = ByteRange(offset: 0, count: 3)
        loop.receive(encode(connect, "bad"))
        #expect(withoutText(loop.written()) == [0x20, 3, 0, 0x86, 0])
    }

    @Test func `may name the method "token" with the token as its data`() {
        let loop = TestLoop()
        var connect = MQTT.Connect(.v5)
        connect.authenticationMethod = ByteRange(offset: 0, count: 5)
        connect.authenticationData = ByteRange(offset: 5, count: 3)
        let lines = loop.receive(encode(connect, "tokenkey"))
        #expect(lines.count == 1)
        #expect(lines.first?.hasPrefix("connect token key ") == true)
        connect.authenticationData = ByteRange(offset: 5, count: 3)
        loop.reopen()
        #expect(loop.receive(encode(connect, "tokenbad")) == [])
        #expect(withoutText(loop.written()) == [0x20, 3, 0, 0x86, 0])
    }
}

func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// A CONNACK or DISCONNECT of the broker without its reason string, which must be there in 5.0.
func withoutText(_ written: [UInt8]) -> [UInt8] {
    written.withUnsafeBytes { bytes in
        let body = UnsafeRawBufferPointer(rebasing: bytes[2...])
        if written[0] == 0x20, body.count > 2 {
            var packet = try! MQTT.Connack(.v5, body: body.bytes)
            // Before CONNECT has been read nobody knows whether words are too much.
            if packet.reason != .malformedPacket && packet.reason != .topicNameInvalid {
                #expect(packet.reasonString?.isEmpty == false)
            }
            packet.reasonString = nil
            packet.properties = .empty
            return encode(packet)
        }
        if written[0] == 0xE0, body.count > 0 {
            var packet = try! MQTT.Disconnect(.v5, body: body.bytes, from: .broker)
            #expect(packet.reasonString?.isEmpty == false)
            packet.reasonString = nil
            packet.properties = .empty
            return encode(packet)
        }
        return written
    }
}

@Suite("Packets of MQTT")
struct MQTTReadingTests {
    @Test(arguments: [
        ("publish-5-qos-0", ["send #0 transient on a/b raw 5"]),
        ("publish-5-qos-1", ["send #0 durable packet 10 on a/b raw 5"]),
        ("publish-5-qos-2", ["send #0 once packet 10 on a/b raw 5"]),
        ("publish-5-retain", ["send #0 transient retained on a/b raw 1"]),
        ("puback-5", ["accepted 10"]), ("pubrec-5", ["received 10"]),
        ("pubrel-5", ["release 10"]), ("pubcomp-5", ["complete 10"]),
        ("subscribe-5-identifier", ["subscribe 1 durable a by 128"]),
        ("subscribe-5-options-2e", ["subscribe 1 once a options 35"]),
        (
            "subscribe-5-three",
            ["subscribe 65535 transient #, durable +, once a/#"]
        ),
        ("unsubscribe-5-two", ["unsubscribe 1 #, $share/w/a"]),
        ("disconnect-5", ["disconnect"]), ("disconnect-5-with-will", ["disconnect with will"]),
        ("disconnect-5-expiry", ["disconnect, expiry 0"]), ("pingreq-5", []),
        ("auth-continue", ["fault protocolError"]),
        ("auth-again", ["fault protocolError"]),
        ("subscribe-hash-0-5", ["fault topicFilterInvalid"]),
        ("connect-5-smallest", ["fault protocolError"]),
    ])
    func `become events`(vector: String, lines: [String]) {
        let loop = mqttLoop()
        #expect(loop.receive(vector) == lines)
        #expect(loop.written() == (vector == "pingreq-5" ? [0xD0, 0] : []))
    }

    @Test func `of 3.1 have no meaning in undefined option bits`() {
        let loop = mqttLoop(.v31)
        let subscribe: [UInt8] = [0x82, 10, 0, 1, 0, 1, 0x61, 0xFD, 0, 1, 0x62, 0x02]
        #expect(loop.receive(subscribe) == ["subscribe 1 durable a, once b"])
    }

    @Test func `after a DISCONNECT are ignored`() {
        let loop = mqttLoop()
        #expect(loop.receive(packet("disconnect-5") + packet("pingreq-5")) == ["disconnect"])
        #expect(loop.written() == [])
    }

    @Test(arguments: [
        ("$u/bob", #"{"t":"0","b":"hi"}"#, "to bob 18 bytes"),
        ("$g/g1", #" { "b" : "\u00fc" , "t" : 17 } "#, "to group g1 19 bytes"),
        ("$b", #"{"t":"4","b":"http://x/"}"#, "to everybody 25 bytes"),
        ("$u/", #"{"t":"0","b":"x"}"#, "fault topicNameInvalid"),
        ("$u/bob", "on", "fault payloadFormatInvalid"),
        ("$u/bob", "", "fault payloadFormatInvalid"),
        // A list without receivers.
        ("$u", #"{"t":"0","b":"x"}"#, "fault topicNameInvalid"),
        ("$x/bob", "on", "on $x/bob raw 2"),
        ("$user", "on", "on $user raw 2"),
    ])
    func `to an address carry a message as JSON`(topic: String, payload: String, line: String) {
        let loop = mqttLoop()
        let publish = MQTT.Publish(
            .v5, topic: ByteRange(offset: 0, count: topic.utf8.count),
            payload: ByteRange(offset: topic.utf8.count, count: payload.utf8.count))
        let lines = loop.receive(encode(publish, topic + payload))
        #expect(lines.count == 1)
        #expect(lines[0].hasSuffix(line), "\(lines)")
    }

    @Test func `keep the forwarded properties together`() {
        let loop = mqttLoop()
        // Between the user properties stood the expiry, behind them nothing.
        let section: [UInt8] = [0x26, 0, 1, 0x61, 0, 1, 0x31, 2, 0, 0, 0, 60, 0x01, 1]
        let body: [UInt8] = [0, 1, 0x74, UInt8(section.count)] + section + [0x78]
        let lines = loop.receive([0x30, UInt8(body.count)] + body)
        #expect(lines == ["send #0 transient on t expiry 60 raw 1 properties 9"])
    }
}
