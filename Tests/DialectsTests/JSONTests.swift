// JSON messages in, events out, as of the packets with the same meaning; effects in, JSON out.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

/// A message as the transport shows it, in frames of `step` bytes.
func framed(_ json: String, step: Int = .max) -> [UInt8] {
    let text = Array(json.utf8)
    var bytes: [UInt8] = []
    var start = 0
    repeat {
        let end = min(text.count, start.addingReportingOverflow(step).partialValue)
        let stop = end < start ? text.count : end
        let mark = stop == text.count ? WebSocketFrame.lastFrameMark : 0
        withUnsafeBytes(of: (UInt32(stop - start) | mark).littleEndian) { bytes += $0 }
        bytes += text[start..<stop]
        start = stop
    } while start < text.count
    return bytes
}

extension TestLoop {
    static func json(
        _ form: JSONForm = .socket, isEstablished: Bool = true, user: String = ""
    ) -> TestLoop {
        let loop = TestLoop()
        loop.decoder.closed(loop.connection, .lost, isTold: false)
        loop.decoder.conversations.open(loop.connection, terms: 0, json: form)
        if isEstablished {
            let login = form == .leanMessage ? #""command":"open""# : #""type":"connect""#
            loop.receive(framed("{\(login),\"token\":\"s3cr3t\"}"))
            let user = loop.text(user)
            loop.carryOut { $0.append(.accept(loop.connection, acceptance(user: user))) }
            loop.host.written = []
        }
        return loop
    }

    /// What was written, without the frames.
    func messages() -> [String] {
        let bytes = written()
        var messages: [String] = []
        var offset = 0
        while offset < bytes.count {
            #expect(bytes[offset] == 0x81)
            let short = Int(bytes[offset + 1])
            let start = offset + (short == 126 ? 4 : 2)
            let count =
                short == 126 ? Int(bytes[offset + 2]) << 8 | Int(bytes[offset + 3]) : short
            messages.append(String(decoding: bytes[start..<start + count], as: UTF8.self))
            offset = start + count
        }
        return messages
    }
}

@Suite("A JSON message")
struct JSONReadingTests {
    static let connects: [(String, String)] = [
        (
            #"{"type":"connect","token":"s3cr3t","device":"pump","keepAliveSeconds":300,"#
                + #""window":16}"#,
            "connect-token"
        ),
        (
            #"{"type":"connect","token":"s3cr3t","device":"pump","keepAliveSeconds":300,"#
                + #""window":16,"sync":"pull"}"#,
            "connect-pull"
        ),
        (
            #"{ "app":"demo","key":"secret","user":"alice","type":"connect","keepAliveSeconds":60,"#
                + #""cleanStart":true,"window":65535 }"#,
            "connect-app-key"
        ),
        (
            #"{"type":"connect","token":"s3cr3t","device":"pump","keepAliveSeconds":300,"#
                + #""window":16,"isReconnect":true,"#
                + #""resume":{"epoch":"0123456789abcdef","number":1742},"#
                + #""cookie":"fedcba9876543210","outbox":{"epoch":"00000000000000ff","#
                + #""resultsSeen":16,"highestUsed":18}}"#,
            "connect-again"
        ),
    ]

    @Test(arguments: connects)
    func `to log in is the event of the packet`(json: String, packet: String) {
        let loop = TestLoop.json(isEstablished: false)
        #expect(loop.receive(framed(json)) == TestLoop().receive(packet))
        #expect(loop.phase == .awaitingAnswer)
    }

    private static func request(
        _ operation: MRT.Operation, _ part: some RequestPart, _ source: String
    ) -> [UInt8] {
        encode(MRT.OutgoingRequest(identifier: 7, operation: operation, part: part), source)
    }

    /// Messages and the packets with the same meaning.
    static let meanings: [(String, [UInt8])] = [
        (
            #"{"type":"send","number":17,"users":["bob"],"b":"hello"}"#,
            packet("send-user-durable")
        ),
        (
            #"{"type":"send","mid":"m-1","grade":"once","number":18,"users":["bob"],"#
                + #""t":0,"b":"on"}"#,
            packet("send-user-once-with-message-id")
        ),
        (
            #"{"type":"send","number":1,"users":["a","bb","\u00FC"],"t":4,"b":"http:\/\/x/"}"#,
            packet("send-list")
        ),
        (
            #"{"type":"send","number":28,"topic":"a/b","payload":"40","isRetained":true}"#,
            packet("send-retained")
        ),
        (#"{"type":"ack","number":1742}"#, packet("ack-inbox")),
        (#"{"type":"ack","number":9223372036854775807,"resultsSeen":128}"#, packet("ack-both")),
        (
            #"{"type":"subscribe","request":7,"filter":"a/#","grade":"durable"}"#,
            request(
                .subscribe,
                MRT.Subscribe(
                    highestGrade: .durable, filter: ByteRange(offset: 0, count: 3)), "a/#")
        ),
        (
            #"{"type":"presence","request":7,"user":"bob"}"#,
            request(.presence, MRT.PresenceQuery(user: ByteRange(offset: 0, count: 3)), "bob")
        ),
        (
            #"{"type":"setWill","request":7,"delaySeconds":5,"topic":"gone","base64":"/wA="}"#,
            encode(
                MRT.OutgoingRequest(
                    identifier: 7, operation: .setWill,
                    part: MRT.Will(
                        delaySeconds: 5, target: .topic(ByteRange(offset: 0, count: 4)),
                        isRaw: true, payload: ByteRange(offset: 4, count: 2))),
                Array("gone".utf8) + [0xFF, 0])
        ),
        (
            #"{"type":"kickMember","request":7,"group":"g","user":"bob"}"#,
            request(
                .groupKick,
                MRT.GroupMember(
                    group: ByteRange(offset: 0, count: 1), user: ByteRange(offset: 1, count: 3)),
                "gbob")
        ),
        (
            #"{"type":"history","request":7,"user":"g","search":"g","since":5}"#,
            request(
                .searchHistory,
                MRT.HistorySearchQuery(
                    query: MRT.HistoryQuery(
                        party: .user(ByteRange(offset: 0, count: 1)), count: 100),
                    since: 5, text: ByteRange(offset: 0, count: 1)), "g")
        ),
        (
            #"{"type":"setGroupHistory","request":7,"group":"g","history":true,"shown":9}"#,
            request(
                .groupSetHistory,
                MRT.GroupSetHistory(
                    group: ByteRange(offset: 0, count: 1), isKept: true, shownCount: 9), "g")
        ),
        (
            #"{"type":"setGroupAllowed","request":7,"group":"g","allowed":["b"]}"#,
            request(
                .groupSetAllowList,
                MRT.GroupSetAllowList(
                    group: ByteRange(offset: 0, count: 1),
                    allowList: .only(count: 1, ids: ByteRange(offset: 1, count: 2))), "g\u{1}b")
        ),
        (
            #"{"type":"history","request":12,"topic":"plant/1/alarm","before":18,"count":2}"#,
            packet("request-history-of-topic")
        ),
        (
            #"{"type":"history","request":12,"user":"bob","before":18,"count":2}"#,
            packet("request-history")
        ),
        (
            #"{"type":"conversations","request":13,"unread":true,"count":50}"#,
            packet("request-conversations")
        ),
        (
            #"{"type":"conversations","request":15,"messages":true,"count":20}"#,
            packet("request-conversations-newest")
        ),
        (
            #"{"type":"joinGroup","request":11,"group":"7h1g2k3m4n5p6","backlog":20}"#,
            packet("request-group-join-backlog")
        ),
        (
            #"{"type":"groupHistory","request":7,"group":"g","message":true}"#,
            request(
                .groupHistory,
                MRT.GroupHistoryQuery(group: ByteRange(offset: 0, count: 1), wantsMessage: true),
                "g")
        ),
        (#"{"type":"read","request":14,"user":"bob","number":19}"#, packet("request-read")),
        (
            #"{"type":"recall","request":14,"reference":"7a3c0f9e5b2d4861","#
                + #""detail":"wrong valve"}"#,
            packet("request-recall")
        ),
        (#"{"type":"recall","request":15,"mid":"m-2"}"#, packet("request-recall-id")),
        (
            #"{"type":"replace","request":16,"mid":"m-2","t":0,"b":"close"}"#,
            packet("request-replace")
        ),
        (
            #"{"type":"send","number":34,"users":["bob"],"collapse":"valve1","b":"open"}"#,
            packet("send-collapse")
        ),
    ]

    @Test(arguments: meanings)
    func `is the event of its packet`(json: String, packet: [UInt8]) {
        let plain = TestLoop()
        plain.establish()
        let wanted = plain.receive(packet)
        #expect(!wanted.isEmpty)
        #expect(TestLoop.json().receive(framed(json)) == wanted)
        // The same in frames of three bytes, and behind another message.
        let loop = TestLoop.json()
        #expect(loop.receive(framed(#"{"type":"ping"}"#) + framed(json, step: 3)) == wanted)
        #expect(loop.messages() == [#"{"type":"pong"}"#])
    }

    @Test func `is never shorter than its packet`() throws {
        // Each member alone and with its shortest value, and the longest numbers.
        let number = String(WireLimits.varIntMaximum)
        let objects = [
            #"{"type":"connect"}"#, #"{"type":"connect","token":"x"}"#, #"{"type":"ping"}"#,
            #"{"type":"connect","app":"","key":"k","user":""}"#, #"{"type":"disconnect"}"#,
            #"{"type":"connect","resume":{"epoch":"0000000000000001"}}"#,
            #"{"type":"connect","outbox":{"epoch":"0000000000000001"}}"#,
            #"{"type":"connect","cookie":"0000000000000000"}"#,
            #"{"type":"ack","resultsSeen":1}"#, #"{"type":"ack","number":\#(number)}"#,
            #"{"type":"send","number":\#(number),"topic":"a","payload":""}"#,
            #"{"type":"send","grade":"transient","everybody":true,"b":""}"#,
            #"{"type":"send","grade":"transient","group":"","t":9}"#,
            #"{"type":"send","number":1,"everybody":true,"t":0,"time":\#(number)}"#,
            #"{"type":"send","number":1,"users":["",""],"b":"","mid":"m","expirySeconds":1}"#,
            #"{"type":"send","number":1,"topic":"a","payload":"","isRetained":true}"#,
            #"{"type":"clearWill","request":1}"#, #"{"type":"listGroups","request":\#(number)}"#,
            #"{"type":"createGroup","request":1,"key":"0000000000000000","title":"","allowed":[]}"#,
            #"{"type":"setGroupAllowed","request":1,"group":""}"#,
            #"{"type":"disconnect","sendsWill":true,"sessionExpirySeconds":1}"#,
            #"{"type":"history","request":1,"user":"","before":\#(number)}"#,
            #"{"type":"conversations","request":1,"after":\#(number)}"#,
            #"{"type":"read","request":1,"group":"","number":\#(number)}"#,
            #"{"type":"recall","request":1,"mid":"m"}"#,
            #"{"type":"replace","request":\#(number),"mid":"m","b":""}"#,
            #"{"type":"replace","request":1,"reference":"0000000000000001","t":1}"#,
            #"{"type":"send","number":1,"users":["",""],"b":"","collapse":"k"}"#,
        ]
        for json in objects {
            let packet = try JSONPacketReader.packet(of: Array(json.utf8).span.bytes)
            #expect(packet.count < json.utf8.count, "\(json)")
        }
        // The handshake has named the user, which is not in the packet.
        let keyed = #"{"type":"connect","key":"k","app":""}"#
        let packet = try JSONPacketReader.packet(
            of: Array(keyed.utf8).span.bytes, hasActingUser: true)
        #expect(packet.count < keyed.utf8.count)
        #expect(throws: JSONFault.self) {
            try JSONPacketReader.packet(of: Array(keyed.utf8).span.bytes)
        }
        let renewed = #"{"type":"authenticate","key":"k","app":""}"#
        let renewal = try JSONPacketReader.packet(
            of: Array(renewed.utf8).span.bytes, hasActingUser: true)
        #expect(renewal.count < renewed.utf8.count)
        #expect(throws: JSONFault.self) {
            try JSONPacketReader.packet(of: Array(renewed.utf8).span.bytes)
        }
    }

    static let faults: [(String, String)] = [
        ("", "not a JSON object"), ("[]", "not a JSON object"), ("{", "not a JSON object"),
        (#"{"type":"ping"} {}"#, "not a JSON object"), (#"{"type":"ping","type":"ping"}"#, "not a"),
        (#"{"type":1}"#, "is not a string"), ("{}", "is missing"),
        (#"{"type":"connected"}"#, "names no message"),
        (#"{"type":"ping","extra":null}"#, #""member":"extra""#),
        (#"{"type":"send","number":1,"users":["a"],"group":"g","b":""}"#, "exactly one of users"),
        (#"{"type":"send","number":1,"users":[],"b":""}"#, "1 to 256"),
        (#"{"type":"send","number":1,"users":[1],"b":""}"#, "not a JSON object"),
        (#"{"type":"send","number":1,"users":["a"]}"#, "exactly one of b"),
        (#"{"type":"send","number":1,"users":["a"],"payload":"x"}"#, "are for topics"),
        (#"{"type":"send","number":1,"topic":"x","base64":"AA"}"#, "base64"),
        (#"{"type":"send","number":1,"topic":"x","base64":"AB=="}"#, "base64"),
        (
            #"{"type":"send","number":1,"users":["a"],"b":"","isRetained":true}"#,
            #""member":"isRetained""#
        ),
        (#"{"type":"send","users":["a"],"b":""}"#, #""member":"number""#),
        (#"{"type":"send","grade":"transient","number":1,"users":["a"],"b":""}"#, "no meaning"),
        (#"{"type":"send","number":1,"users":["a"],"t":256,"b":""}"#, "of its range"),
        (#"{"type":"send","number":-1,"users":["a"],"b":""}"#, "whole number"),
        (#"{"type":"send","number":1.5,"users":["a"],"b":""}"#, "not a JSON object"),
        (#"{"type":"send","number":01,"users":["a"],"b":""}"#, "not a JSON object"),
        (#"{"type":"ack"}"#, "is missing"),
        (#"{"type":"subscribe","filter":"a"}"#, #""member":"request""#),
        (#"{"type":"subscribe","request":1,"filter":"a","grade":"best"}"#, "transient, durable"),
        (#"{"type":"createGroup","request":1,"title":"t","key":"1"}"#, "16 hexadecimal"),
        (
            #"{"type":"joinGroup","request":1,"group":"\#(String(repeating: "g", count: 256))"}"#,
            "255"
        ),
        (#"{"type":"history","request":1,"user":"u","group":"g"}"#, "exactly one of user"),
        (#"{"type":"history","request":1,"user":"u","topic":"t"}"#, "one of user, group and topic"),
        (#"{"type":"history","request":1,"topic":""}"#, "1 to 65,535 bytes"),
        (#"{"type":"read","request":1,"topic":"t","number":1}"#, "exactly one of user"),
        (#"{"type":"read","request":1,"number":1}"#, "exactly one of user"),
        (#"{"type":"read","request":1,"user":"u","number":0}"#, "of its range"),
        (#"{"type":"conversations","request":1,"count":101}"#, "of its range"),
        (#"{"type":"recall","request":1}"#, "exactly one of reference"),
        (
            #"{"type":"recall","request":1,"mid":"m","reference":"0000000000000001"}"#,
            "exactly one of reference"
        ),
        (#"{"type":"recall","request":1,"mid":""}"#, "1 to 64"),
        (#"{"type":"recall","request":1,"reference":"0000000000000000"}"#, "names no message"),
        (#"{"type":"replace","request":1,"mid":"m"}"#, "exactly one of b"),
        (#"{"type":"replace","request":1,"mid":"m","payload":"x"}"#, "are for topics"),
        (#"{"type":"send","number":1,"users":["a"],"collapse":"","b":""}"#, "1 to 64"),
        (#"{"type":"ping","a":{"b":{"c":{}}}}"#, "not a JSON object"),
    ]

    @Test(arguments: faults)
    func `that is wrong is explained, and ends the connection`(json: String, part: String) {
        let loop = TestLoop.json()
        let lines = loop.receive(framed(json))
        #expect(lines == ["fault 0x81"] || lines.count == 1, "\(lines)")
        let messages = loop.messages()
        #expect(messages.count == 1 && messages[0].contains(part), "\(messages)")
        #expect(loop.phase == .closing)
    }

    @Test func `with a search or a text that is too long is refused, and goes on`() {
        let long = String(repeating: "x", count: 129)
        for json in [
            #"{"type":"history","request":7,"user":"bob","search":"\#(long)"}"#,
            #"{"type":"history","request":7,"user":"bob","search":"\#(long + long)"}"#,
            #"{"type":"applied","request":7,"reference":"00000000000000a1","text":"\#(long)"}"#,
        ] {
            let loop = TestLoop.json()
            #expect(loop.receive(framed(json)) == ["faulted 7 packetTooLarge"])
            #expect(loop.phase == .established)
        }
    }

    @Test func `before the login is refused, whatever it is`() {
        let loop = TestLoop.json(isEstablished: false)
        loop.receive(framed(#"{"type":"ping"}"#))
        #expect(loop.messages().last?.contains(#""type":"refused","reason":130"#) == true)
        #expect(loop.host.isClosed)
    }

    @Test func `that is incomplete is waited for`() {
        let message = framed(#"{"type":"ack","number":5}"#, step: 9)
        for count in 0..<message.count {
            let loop = TestLoop.json()
            var consumed = 0
            #expect(loop.receive(Array(message[..<count]), consumed: &consumed) == [])
            #expect(consumed == 0)
            #expect(loop.phase == .established)
        }
    }

    @Test func `has at most 64 frames, and the size of a packet`() {
        let loop = TestLoop.json()
        loop.receive(framed(#"{"type":"ping"}"# + String(repeating: " ", count: 64), step: 1))
        #expect(loop.messages().first?.contains("too many frames") == true)
        let large = TestLoop.json()
        var consumed = 0
        var length = framed(String(repeating: " ", count: 65_537))
        length.removeLast(65_000)
        large.receive(length, consumed: &consumed)
        #expect(large.messages().first?.contains("too large") == true)
    }
}

@Suite("JSON for a client")
struct JSONWritingTests {
    private static func deliver(
        _ loop: TestLoop, _ publication: UInt32, number: UInt64 = 5
    ) -> Delivery {
        Delivery(
            connection: loop.connection, number: number, publication: publication, grade: .durable,
            dialect: .json)
    }

    @Test func `says what a delivery contains`() {
        let loop = TestLoop.json()
        let cases: [(MessageKind, String, MessageMarks, [UInt8], String)] = [
            (.unicast, "", [], [7] + Array("ü\"\n".utf8), #""kind":"user","from":"alice""#),
            (.unicast, "", [], [7] + Array("ü\"\n".utf8), #""t":7,"b":"ü\"\n"}"#),
            (.group, "fleet", .possibleDuplicate, [0], #""isDuplicate":true,"group":"fleet""#),
            (.topic, "a/b", .raw, Array("42".utf8), #""topic":"a/b","payload":"42"}"#),
            (.topic, "a/b", .raw, [0xFF], #""base64":"/w=="}"#),
            (.topic, "a/b", .raw, [], #""payload":""}"#),
            // Escapes would make them six times as long.
            (.topic, "a/b", .raw, [0, 1, 2, 3], #""base64":"AAECAw=="}"#),
            (.groupEvent, "g", [], [1] + Array("bob".utf8), #""event":"joined","user":"bob"}"#),
            (.groupEvent, "g", [], [5], #""event":"meta-updated"}"#),
            (.groupEvent, "g", [], [99], #""event":"unknown"}"#),
            (
                .groupEvent, "g", [], [7, 0, 2, 1, 0, 0, 1, 0x61, 1, 0x74, 0x6D],
                #""event":"added","owner":"a","title":"t","meta":"m","memberCount":258}"#
            ),
            (
                .groupEvent, "g", [], [7, 1, 2, 0, 0, 0, 0, 0],
                #""event":"added","owner":"","title":"","isCut":true,"memberCount":2}"#
            ),
            (.groupEvent, "g", [], [8], #""event":"removed"}"#),
            (.kicked, "g", [], [], #""kind":"kickedOut""#),
        ]
        for (kind, address, marks, payload, part) in cases {
            let publication = loop.publish(kind, address: address, marks: marks, payload: payload)
            loop.carryOut { $0.append(.deliver(Self.deliver(loop, publication))) }
            let messages = loop.messages()
            #expect(messages.count == 1 && messages[0].contains(part), "\(messages) \(part)")
            #expect(messages[0].hasPrefix(#"{"type":"message","number":5,"grade":"durable""#))
        }
    }

    @Test func `ends an event stream when its window is used up`() {
        let loop = TestLoop.json(.eventStream, isEstablished: false)
        var connect = MRT.Connect()
        connect.inboxWindow = 2
        connect.credential = .token(ByteRange(offset: 0, count: 6))
        loop.receive(encode(connect, "s3cr3t"))
        var accepted = acceptance(user: .empty)
        accepted.inboxWindow = 2
        loop.carryOut { $0.append(.accept(loop.connection, accepted)) }
        let head = String(decoding: loop.written(), as: UTF8.self)
        #expect(head.hasPrefix("HTTP/1.1 200 OK\r\n"))
        #expect(head.contains("Content-Type: text/event-stream\r\n"))
        for number in [UInt64(0), 1, 2] {
            #expect(!loop.host.isClosed)
            let publication = loop.publish(.topic, address: "t", payload: [0])
            let events = loop.carryOut {
                $0.append(.deliver(Self.deliver(loop, publication, number: number)))
            }
            // The core is told at once.
            #expect(events == (number == 2 ? ["closed closedByBroker"] : []))
            let text = String(decoding: loop.written(), as: UTF8.self)
            #expect(text.hasSuffix("\"}\n\n"))
            #expect(
                text.hasPrefix(number == 0 ? "data: {" : "id: 0123456789abcdef-\(number)\ndata"))
        }
        #expect(loop.host.isClosed)
    }

    @Test func `refuses an event stream with a status of HTTP`() {
        let cases: [(ReasonCode, Int)] = [
            (.badUserNameOrPassword, 401), (.serverBusy, 503), (.quotaExceeded, 429),
            (.banned, 403), (.clientIdentifierNotValid, 400), (.sessionTakenOver, 409),
        ]
        for (reason, status) in cases {
            let loop = TestLoop.json(.eventStream, isEstablished: false)
            loop.carryOut {
                $0.append(.refuse(loop.connection, reason, retryAfterSeconds: 3))
            }
            let text = String(decoding: loop.written(), as: UTF8.self)
            #expect(text.hasPrefix("HTTP/1.1 \(status) "), "\(text)")
            #expect(text.contains("Retry-After: 3\r\n"))
            #expect(text.contains(#""code":{"number":\#(reason.rawValue)"#))
            #expect(loop.host.isClosed)
        }
    }

    @Test func `answers each request`() {
        let loop = TestLoop.json()
        let grade = [UInt8(1)].withUnsafeBytes { loop.effects.bytes.append($0) }
        let group = loop.text("37h1g2k3m4n5p")
        let recalled = [UInt8](arrayLiteral: 0xAC, 2, 2, 3, 0x62, 0x6F, 0x62).withUnsafeBytes {
            loop.effects.bytes.append($0)
        }
        let likeGroup = [UInt8](arrayLiteral: 0x30, 0x31).withUnsafeBytes {
            loop.effects.bytes.append($0)
        }
        let devices = loop.run("a", "b")
        let groups = loop.run("g1", "Title")
        let own = [UInt8(1)].withUnsafeBytes { loop.effects.bytes.append($0) }
        let entries = ByteRange(
            offset: Int(groups.offset), count: Int(groups.count) + Int(own.count))
        let answers: [(MRTEffect, String)] = [
            (
                .respond(loop.connection, requestIdentifier: 1, .success, body: grade),
                #"{"type":"response","request":1,"reason":0,"name":"success","grade":"durable"}"#
            ),
            (
                .respond(loop.connection, requestIdentifier: 2, .success, body: group),
                #"{"type":"response","request":2,"reason":0,"name":"success","#
                    + #""group":"37h1g2k3m4n5p"}"#
            ),
            (
                .reportRecall(loop.connection, requestIdentifier: 7, answer: recalled),
                #"{"type":"response","request":7,"reason":0,"name":"success","withdrawn":300,"#
                    + #""late":2,"lateUsers":["bob"]}"#
            ),
            (
                // Its bytes are no grade and could be the beginning of a group's id.
                .reportRecall(loop.connection, requestIdentifier: 8, answer: likeGroup),
                #"{"type":"response","request":8,"reason":0,"name":"success","withdrawn":48,"#
                    + #""late":49,"lateUsers":[]}"#
            ),
            (
                .reportPresence(
                    loop.connection, requestIdentifier: 3, isOnline: true,
                    sinceUnixMilliseconds: 9, devices: devices, count: 2),
                #"{"type":"response","request":3,"reason":0,"name":"success","isOnline":true,"#
                    + #""since":9,"devices":["a","b"]}"#
            ),
            (
                .reportGroups(
                    loop.connection, requestIdentifier: 4, hasMore: false, entries: entries),
                #"{"type":"response","request":4,"reason":0,"name":"success","hasMore":false,"#
                    + #""groups":[{"group":"g1","title":"Title","isOwn":true}]}"#
            ),
            (
                .reportHistory(
                    loop.connection, requestIdentifier: 5, next: 3,
                    entries: loop.history([("bob", 3, 7, "\"on\"")]), hasFields: true,
                    isTopic: false),
                #"{"type":"response","request":5,"reason":0,"name":"success","next":3,"#
                    + #""messages":[{"number":3,"from":"bob","time":7,"t":0,"b":"\"on\""}]}"#
            ),
            (
                .reportConversations(
                    loop.connection, requestIdentifier: 6, next: 0,
                    entries: loop.conversations([("bob", false, 3, 1, 2), ("g1", true, 9, 9, 0)])),
                #"{"type":"response","request":6,"reason":0,"name":"success","#
                    + #""conversations":[{"user":"bob","last":3,"read":1,"unread":2},"#
                    + #"{"group":"g1","last":9,"read":9,"unread":0}]}"#
            ),
        ]
        loop.carryOut { effects in for (answer, _) in answers { effects.append(.mrt(answer)) } }
        #expect(loop.messages() == answers.map(\.1))
        loop.carryOut { $0.append(.close(loop.connection, .sessionTakenOver)) }
        #expect(loop.messages()[0].contains(#"{"type":"closed","reason":142"#))
    }
}
