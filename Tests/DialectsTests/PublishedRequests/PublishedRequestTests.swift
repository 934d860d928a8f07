// Publications on `$api/` and an operation: the events of the JSON messages of that operation, and
// the replies as publications.

import BrokerTerms
import Foundation
import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

/// What a request is published with besides its operation and its members.
struct RequestForm {
    var version = MQTT.Version.v5
    var qos = MQTT.QoS.atMostOnce
    var topic: String?
    var correlation: [UInt8]?
    var alias: UInt16 = 0
    var omitsTopic = false

    func publish(_ operation: String, _ payload: [UInt8]) -> [UInt8] {
        var source = omitsTopic ? [] : Array("$api/\(operation)".utf8)
        let name = ByteRange(offset: 0, count: source.count)
        source += payload
        let content = ByteRange(offset: Int(name.count), count: payload.count)
        let start = source.count
        func append(_ identifier: UInt8, _ value: [UInt8]) {
            source += [identifier, UInt8(value.count >> 8), UInt8(value.count & 0xFF)] + value
        }
        if let topic { append(0x08, Array(topic.utf8)) }
        if let correlation { append(0x09, correlation) }
        var packet = MQTT.Publish(
            version, topic: name, payload: content, qos: qos,
            packetIdentifier: qos == .atMostOnce ? 0 : 9)
        packet.topicAlias = alias
        packet.properties = MQTT.PropertySection(
            carried: ByteRange(offset: start, count: source.count - start))
        return encode(packet, source)
    }

    func publish(_ operation: String, _ payload: String) -> [UInt8] {
        publish(operation, Array(payload.utf8))
    }
}

/// A reply as its client gets it.
struct PublishedReply: Equatable {
    var topic: String
    var payload: String
    var correlation: [UInt8]?
}

extension TestLoop {
    /// Answers a request, as the core does.
    @discardableResult
    func respond(to number: UInt64, _ reason: ReasonCode) -> [String] {
        carryOut {
            $0.append(
                .mrt(.respond(connection, requestIdentifier: number, reason, body: .empty)))
        }
    }

    /// The replies among what was written, which is nothing else.
    func replies(_ version: MQTT.Version = .v5) throws -> [PublishedReply] {
        let bytes = written()
        return try bytes.withUnsafeBytes { bytes in
            var replies: [PublishedReply] = []
            var offset = 0
            while offset < bytes.count {
                guard
                    case .packet(let frame) = PacketFrame.next(
                        in: bytes.bytes, at: offset, packetMaximum: .max)
                else { preconditionFailure("\(bytes.count - offset) bytes are no packet") }
                #expect(frame.typeAndFlags == 0x30)
                offset = frame.endOffset
                let body = frame.body.bytes(in: bytes)
                let packet = try MQTT.Publish(
                    version, flags: frame.flags, body: body.bytes, from: .broker)
                func text(_ range: ByteRange) -> String {
                    String(decoding: range.bytes(in: body), as: UTF8.self)
                }
                var reply = PublishedReply(
                    topic: text(packet.topic), payload: text(packet.payload))
                if version == .v5 {
                    var reader = MQTT.PropertyReader(
                        packet.properties, of: .publish, in: body.bytes)
                    while let property = try reader.next() {
                        #expect(property.identifier == .correlationData)
                        reply.correlation = Array(property.text.bytes(in: body))
                    }
                }
                replies.append(reply)
            }
            return replies
        }
    }
}

/// The number of the n-th request of a loop.
func requestNumber(
    _ serial: UInt64, _ packet: UInt16 = 0, _ grade: Grade = .transient
) -> UInt64 {
    PublishedRequest(serial: serial, packetIdentifier: packet, grade: grade).number
}

@Suite("A publication on $api/")
struct PublishedRequestTests {
    /// Operations and their members.
    static let requests: [(String, String)] = [
        ("presence", #""user":"bob""#),
        ("setWill", #""delaySeconds":5,"topic":"gone","base64":"/wA=""#),
        ("setWill", #""users":["a","b"],"t":0,"b":"gone""#),
        ("clearWill", ""),
        ("createGroup", #""key":"0123456789abcdef","title":"Pumps","allowed":["a","b"]"#),
        ("joinGroup", #""group":"g""#), ("leaveGroup", #""group":"g""#),
        ("kickMember", #""group":"g","user":"bob""#), ("banMember", #""group":"g","user":"bob""#),
        ("listGroups", ""), ("listGroups", #""after":"g""#),
        ("describeGroup", #""group":"g","after":"bob""#),
        ("history", #""user":"bob","before":9,"count":3"#), ("history", #""group":"g""#),
        ("history", #""group":"g","search":"x","from":"bob","since":1,"until":9"#),
        ("conversations", ""), ("conversations", #""after":4,"unread":true,"count":2"#),
        ("read", #""user":"bob","number":4"#), ("hide", #""group":"g","number":4"#),
        ("recall", #""mid":"m-2","detail":"late""#), ("replace", #""mid":"m-2","t":9,"b":"x""#),
        ("recall", #""reference":"0123456789abcdef""#),
        ("setGroupHistory", #""group":"g","history":true,"shown":9"#),
        ("groupHistory", #""group":"g""#),
        ("setGroupMeta", #""group":"g","meta":"""#), ("setGroupAllowed", #""group":"g""#),
        ("setGroupAllowed", #""group":"g","allowed":[]"#),
    ]

    @Test(arguments: requests, [MQTT.Version.v31, .v311, .v5])
    func `is the event of the JSON message of its operation`(
        request: (String, String), version: MQTT.Version
    ) {
        let (operation, members) = request
        let more = members.isEmpty ? "" : ",\(members)"
        let message = #"{"type":"\#(operation)","request":777\#(more)}"#
        let expected = TestLoop.json().receive(framed(message))
        #expect(expected.first?.contains(" 777") == true, "\(expected)")
        let form = RequestForm(version: version)
        // Without a number, with one, with its type as well, and with nothing.
        var payloads = ["{\(members)}", #"{"request":8\#(more)}"#, message]
        if members.isEmpty { payloads.append("") }
        for payload in payloads {
            #expect(
                mqttLoop(version).receive(form.publish(operation, payload))
                    == expected.map {
                        $0.replacingOccurrences(of: " 777", with: " \(requestNumber(1))")
                    })
        }
    }

    @Test func `reaches every request that JSON.md names`() throws {
        let page = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../../docs/JSON.md"), encoding: .utf8)
        var operations: [String] = []
        for line in page.split(separator: "\n") where line.hasPrefix("| `") {
            let cells = line.split(separator: "|", omittingEmptySubsequences: true)
            guard cells.count == 3, cells[2].contains("`response`") else { continue }
            operations += cells[0].split(separator: "`").map(String.init).filter {
                $0.allSatisfy(\.isLetter) && !$0.isEmpty
            }
        }
        #expect(operations.count >= 17, "\(operations)")
        for operation in operations where operation != "subscribe" && operation != "unsubscribe" {
            let lines = mqttLoop().receive(RequestForm().publish(operation, "{}"))
            #expect(lines.count == 1, "\(operation)")
            #expect(lines.first?.contains("implementationSpecificError") == false, "\(operation)")
        }
    }

    @Test func `contains what the answer to the publication needs in its number`() {
        let loop = mqttLoop()
        for (index, (qos, grade)) in zip(
            [MQTT.QoS.atMostOnce, .atLeastOnce, .exactlyOnce],
            [Grade.transient, .durable, .once]
        ).enumerated() {
            let number = requestNumber(
                UInt64(index + 1), qos == .atMostOnce ? 0 : 9, grade)
            #expect(
                loop.receive(RequestForm(qos: qos).publish("presence", #"{"user":"bob"}"#))
                    == ["presence \(number) bob"])
        }
    }

    @Test func `may have a topic alias`() {
        let loop = mqttLoop()
        let named = RequestForm(alias: 1)
        let aliased = RequestForm(alias: 1, omitsTopic: true)
        let lines = loop.receive(
            named.publish("presence", #"{"user":"bob"}"#)
                + aliased.publish("presence", #"{"user":"carl"}"#))
        #expect(lines == ["presence \(requestNumber(1)) bob", "presence \(requestNumber(2)) carl"])
        #expect(
            loop.receive(aliased.publish("presence", #"{"user":"dora"}"#))
                == ["presence \(requestNumber(3)) dora"])
        // A PUBLISH of 8 bytes has room for few requests, and traps for none.
        loop.receive(RequestForm(alias: 2).publish("conversations", "{}"))
        loop.receive(RequestForm(alias: 2, omitsTopic: true).publish("conversations", ""))
    }

    @Test(arguments: ["$api", "$apis/presence", "$AP/presence", "api/presence"])
    func `has to begin with it`(topic: String) {
        let packet = MQTT.Publish(
            .v311, topic: ByteRange(offset: 0, count: topic.utf8.count), payload: .empty)
        let lines = mqttLoop(.v311).receive(encode(packet, topic))
        #expect(lines == ["send #0 transient on \(topic) raw 0"])
    }

    // MARK: - Replies

    @Test(arguments: [MQTT.Version.v31, .v311, .v5])
    func `is replied to with the JSON of its answer`(version: MQTT.Version) throws {
        let loop = mqttLoop(version)
        loop.receive(RequestForm(version: version).publish("presence", #"{"user":"bob"}"#))
        loop.receive(
            RequestForm(version: version).publish("presence", #"{"request":6,"user":"bob"}"#))
        for serial in UInt64(1)...2 {
            let devices = loop.run("phone", "")
            loop.carryOut {
                $0.append(
                    .mrt(
                        .reportPresence(
                            loop.connection, requestIdentifier: requestNumber(serial),
                            isOnline: true, sinceUnixMilliseconds: 5, devices: devices, count: 2)))
            }
        }
        let members =
            #""reason":0,"name":"success","isOnline":true,"since":5,"devices":["phone",""]}"#
        #expect(
            try loop.replies(version) == [
                PublishedReply(topic: "$api/reply", payload: #"{"type":"response",\#(members)"#),
                PublishedReply(
                    topic: "$api/reply", payload: #"{"type":"response","request":6,\#(members)"#),
            ])
        // Each request has one.
        loop.respond(to: requestNumber(1), .success)
        #expect(loop.written() == [])
    }

    @Test func `is replied to on its Response Topic, with its Correlation Data`() throws {
        let loop = mqttLoop()
        let form = RequestForm(topic: "mine/answers", correlation: [0, 0xFF, 7])
        loop.receive(form.publish("joinGroup", #"{"group":"g"}"#))
        loop.receive(RequestForm(correlation: []).publish("joinGroup", #"{"group":"g"}"#))
        for serial in UInt64(1)...2 {
            loop.respond(to: requestNumber(serial), .notAuthorized)
        }
        let payload =
            #"{"type":"response","reason":135,"name":"not-authorized","#
            + #""detail":"no right of this client allows the request"}"#
        #expect(
            try loop.replies() == [
                PublishedReply(
                    topic: "mine/answers", payload: payload, correlation: [0, 0xFF, 7]),
                PublishedReply(topic: "$api/reply", payload: payload, correlation: []),
            ])
    }

    @Test func `that repeats one of QoS 2 has no reply`() throws {
        let loop = mqttLoop()
        loop.receive(RequestForm(qos: .exactlyOnce).publish("clearWill", ""))
        let number = requestNumber(1, 9, .once)
        loop.carryOut {
            $0.append(.mqtt(.dropReply(loop.connection, requestIdentifier: number)))
            $0.append(
                .mrt(
                    .respond(
                        loop.connection, requestIdentifier: number, .success, body: .empty)))
        }
        #expect(try loop.replies() == [])
    }

    @Test func `has a reply that says where one is larger than its client accepts`() throws {
        let loop = mqttLoop(packetMaximum: 200)
        let lines = loop.receive(RequestForm().publish("listGroups", "{}"))
        #expect(lines.first?.contains("25") == true, "\(lines)")
        let long = loop.run("g", String(repeating: "x", count: 250))
        loop.carryOut {
            $0.append(
                .mrt(
                    .reportPresence(
                        loop.connection, requestIdentifier: requestNumber(1), isOnline: true,
                        sinceUnixMilliseconds: 1, devices: long, count: 2)))
        }
        let reply = try loop.replies()
        #expect(reply.count == 1)
        #expect(reply.first?.payload.contains(#""reason":149,"name":"packet-too-large""#) == true)
        // Not even that fits.
        let small = mqttLoop(packetMaximum: 60)
        small.receive(RequestForm().publish("listGroups", "{}"))
        let events = small.respond(to: requestNumber(1), .notAuthorized)
        #expect(events == ["fault packetTooLarge"])
        #expect(small.written() == [])
    }

    @Test func `is forgotten with its connection`() throws {
        let loop = mqttLoop()
        loop.receive(RequestForm().publish("listGroups", "{}"))
        #expect(loop.decoder.conversations.awaitedReplies.count == 1)
        loop.reopen()
        #expect(loop.decoder.conversations.awaitedReplies.isEmpty)
    }
}
