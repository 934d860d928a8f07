// Commands of LeanMessage in, the events of the JSON messages with the same meaning out; effects
// in, events of LeanMessage out.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite struct `A message of LeanMessage` {
    private static let random: UInt64 = 0x0102_0304_0506_0708

    /// Each with the JSON message of the same meaning.
    static let meanings: [(String, String)] = [
        (
            #"{"command":"send","i":1,"convId":"user/bob","text":"x"}"#,
            #"{"type":"send","number":1,"users":["bob"],"b":"x","history":true,"reference":true}"#
        ),
        (
            #"{"command":"send","i":2,"convId":"g","type":-2,"url":"u","receipt":true}"#,
            #"{"type":"send","number":2,"group":"g","t":1,"b":"u","history":true,"reference":true,"#
                + #""receipts":["delivered","applied"]}"#
        ),
        (
            #"{"command":"send","i":2,"convId":"g","type":-6,"text":"u","options":1}"#,
            #"{"type":"send","number":2,"group":"g","t":6,"b":"u","history":true,"reference":true,"#
                + #""receipts":["delivered","applied"]}"#
        ),
        (
            #"{"command":"send","i":3,"convId":"g","type":77,"text":"","options":2,"#
                + #""priority":"high"}"#,
            #"{"type":"send","grade":"transient","group":"g","t":77,"b":"","priority":"high"}"#
        ),
        (
            #"{"command":"send","i":3,"convId":"g","text":"@","mentionList":["bob","al"],"#
                + #""mentionAll":true,"attributes":{"a":"b"}}"#,
            #"{"type":"send","number":3,"group":"g","b":"@","mentions":["bob","al"],"#
                + #""mentionsAll":true,"attributes":{"a":"b"},"history":true,"reference":true}"#
        ),
        (
            #"{"command":"send","i":4,"convId":"user/bob","text":"bye","will":true}"#,
            #"{"type":"setWill","request":4,"users":["bob"],"b":"bye"}"#
        ),
        (#"{"command":"clearWill","i":5}"#, #"{"type":"clearWill","request":5}"#),
        (#"{"command":"ack","n":7,"i":2}"#, #"{"type":"ack","number":7,"resultsSeen":2}"#),
        (
            #"{"command":"read","i":1,"convId":"user/bob","index":19}"#,
            #"{"type":"read","request":1,"user":"bob","number":19}"#
        ),
        (
            #"{"command":"read","i":1,"messageId":"00000000000000a1"}"#,
            #"{"type":"applied","request":1,"reference":"00000000000000a1"}"#
        ),
        (
            #"{"command":"query","i":1,"convId":"g","before":9,"limit":3}"#,
            #"{"type":"history","request":1,"group":"g","before":9,"count":3}"#
        ),
        (
            #"{"command":"query","i":1,"convId":"g"}"#,
            #"{"type":"history","request":1,"group":"g","count":20}"#
        ),
        (
            #"{"command":"conversations","i":1,"unread":true}"#,
            #"{"type":"conversations","request":1,"unread":true,"messages":true,"count":50}"#
        ),
        (
            #"{"command":"watchUnread","i":1,"clientId":"alice"}"#,
            #"{"type":"subscribe","request":1,"filter":"$unread/alice","grade":"transient"}"#
        ),
        (
            #"{"command":"join","i":1,"convId":"g"}"#,
            #"{"type":"joinGroup","request":1,"group":"g"}"#
        ),
        (
            #"{"command":"quit","i":1,"convId":"g"}"#,
            #"{"type":"leaveGroup","request":1,"group":"g"}"#
        ),
        (
            #"{"command":"kick","i":1,"convId":"g","clientId":"bob"}"#,
            #"{"type":"kickMember","request":1,"group":"g","user":"bob"}"#
        ),
        (
            #"{"command":"recall","i":1,"messageId":"00000000000000a1","reason":"r"}"#,
            #"{"type":"recall","request":1,"reference":"00000000000000a1","detail":"r"}"#
        ),
        (
            #"{"command":"update","i":1,"messageId":"00000000000000a1","type":-1,"text":"r"}"#,
            #"{"type":"replace","request":1,"reference":"00000000000000a1","t":0,"b":"r"}"#
        ),
        (#"{"command":"close"}"#, #"{"type":"disconnect"}"#),
    ]

    @Test(arguments: meanings)
    func `is the event of the JSON message`(lean: String, json: String) {
        let wanted = TestLoop.json(user: "alice").receive(framed(json))
        #expect(!wanted.isEmpty && !wanted.contains("fault malformedPacket"), "\(wanted)")
        let loop = TestLoop.json(.leanMessage, user: "alice")
        #expect(loop.receive(framed(lean)) == wanted)
        #expect(loop.messages() == [])
        // The same in frames of three bytes.
        #expect(
            TestLoop.json(.leanMessage, user: "alice").receive(framed(lean, step: 3)) == wanted)
    }

    @Test func `creates a conversation with a new key`() throws {
        let packet = try JSONPacketReader.packet(
            ofLeanMessage: Array(
                #"{"command":"createConversation","i":1,"name":"n","members":["bob"]}"#.utf8
            ).span.bytes, random: Self.random)
        let wanted = try JSONPacketReader.packet(
            of: Array(
                (#"{"type":"createGroup","request":1,"title":"n","allowed":["bob"],"#
                    + #""key":"0102030405060708"}"#).utf8
            ).span.bytes)
        #expect(packet == wanted)
    }

    @Test func `is never shorter than its packet`() {
        let number = String(WireLimits.varIntMaximum)
        for lean in [
            #"{"command":"open","token":"x"}"#, #"{"command":"open","token":"x","sync":"pull"}"#,
            #"{"command":"open","appId":"","appKey":"k","clientId":"","reconnect":true}"#,
            #"{"command":"ping"}"#, #"{"command":"close"}"#, #"{"command":"ack","i":\#(number)}"#,
            #"{"command":"send","i":\#(number),"convId":"","text":""}"#,
            #"{"command":"send","i":1,"convId":"user/","text":"","options":1}"#,
            #"{"command":"send","i":1,"convId":"g","text":"","options":4}"#,
            #"{"command":"createConversation","i":\#(number)}"#,
            #"{"command":"createConversation","i":1,"members":[]}"#,
            #"{"command":"watchUnread","i":1,"clientId":""}"#,
            #"{"command":"query","i":1,"convId":""}"#,
            #"{"command":"conversations","i":\#(number)}"#,
            #"{"command":"join","i":1,"convId":""}"#,
            #"{"command":"update","i":\#(number),"messageId":"0000000000000001","text":""}"#,
        ] {
            let packet = try? JSONPacketReader.packet(
                ofLeanMessage: Array(lean.utf8).span.bytes, random: Self.random)
            #expect(packet.map { $0.count <= lean.utf8.count } ?? false, "\(lean)")
        }
    }

    @Test func `of no command is explained, and ends the connection`() {
        for lean in [
            "{}", #"{"command":"dance"}"#, #"{"type":"ping"}"#, #"{"command":"send","i":1}"#,
            #"{"command":"send","i":1,"convId":"g","text":"x","type":4}"#,
            #"{"command":"send","i":1,"convId":"g","text":"x","type":-0}"#,
            #"{"command":"send","i":1,"convId":"g","text":"x","url":"y"}"#,
            #"{"command":"send","i":1,"convId":"g","text":"x","options":8}"#,
            #"{"command":"send","i":1,"convId":"g","text":"x","options":3}"#,
            #"{"command":"send","i":1,"convId":"g","text":"x","options":4,"mentionAll":true}"#,
            #"{"command":"read","i":1,"convId":"g"}"#, #"{"command":"ack"}"#,
        ] {
            let loop = TestLoop.json(.leanMessage)
            #expect(loop.receive(framed(lean)) == ["fault malformedPacket"], "\(lean)")
            let messages = loop.messages()
            #expect(messages.count == 1 && messages[0].hasPrefix(#"{"event":"ERROR""#), "\(lean)")
        }
    }

    @Test func `logs in with a tag, a device, or neither`() {
        for (members, device) in [
            (#""tag":"t","deviceId":"d""#, "t"), (#""deviceId":"d""#, "d"), (#""tag":"""#, ""),
        ] {
            let loop = TestLoop.json(.leanMessage, isEstablished: false)
            let lines = loop.receive(
                framed("{\"command\":\"open\",\"token\":\"s3cr3t\",\(members)}"))
            #expect(lines.count == 1 && lines[0].contains(" device \(device) "), "\(lines)")
        }
    }

    @Test func `that another client's login ends has the code 4111 in both places`() {
        let loop = TestLoop.json(.leanMessage)
        loop.carryOut { $0.append(.close(loop.connection, .sessionTakenOver)) }
        let bytes = loop.written()
        #expect(Array(bytes.suffix(4)) == [0x88, 2, 0x10, 0x0F])
        let text = String(decoding: bytes.dropLast(4).dropFirst(2), as: UTF8.self)
        #expect(text.hasPrefix(#"{"event":"CONFLICT","code":4111,"reason":"#), "\(text)")
    }
}
