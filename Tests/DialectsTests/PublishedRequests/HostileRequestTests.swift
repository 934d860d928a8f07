// Requests of MQTT clients that are wrong: each has a reply that says what is wrong, and none ends
// the connection or makes it keep more than its limits.

import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite("A wrong request of an MQTT client")
struct HostileRequestTests {
    private static func nested(_ depth: Int) -> String {
        String(repeating: #"{"a":"#, count: depth) + "1" + String(repeating: "}", count: depth)
    }

    /// Operations, payloads, and what the replies contain.
    static let faults: [(String, String, String)] = [
        ("presence", "", #""reason":129,"name":"malformed-packet","detail":"is missing""#),
        ("presence", "{}", #""detail":"is missing","member":"user"}"#),
        ("presence", "user=bob", #""detail":"the payload is not a JSON object of its form"}"#),
        ("presence", #"["bob"]"#, #""reason":129"#),
        ("presence", #"{"user":"bob"}x"#, #""reason":129"#),
        ("presence", #"{"user":7}"#, #""detail":"is not a string","member":"user"}"#),
        ("presence", #"{"request":3,"user":null}"#, #"{"type":"response","request":3,"reason""#),
        ("presence", #"{"request":"a","user":"bob"}"#, #""member":"request"}"#),
        ("presence", #"{"request":0,"user":"bob"}"#, #""member":"request"}"#),
        ("presence", #"{"user":"bob","users":"x"}"#, #""member":"users"}"#),
        ("presence", #"{"type":"history","user":"bob"}"#, #""member":"type"}"#),
        ("presence", #"{"user":"a","user":"b"}"#, #""reason":129"#),
        ("presence", nested(2_000), #""reason":129"#),
        ("history", #"{"user":"a","group":"b"}"#, "exactly one of user and group"),
        ("history", #"{"user":"a","count":101}"#, #""member":"count"}"#),
        ("createGroup", #"{"key":"1","title":"x"}"#, #""member":"key"}"#),
        ("setWill", #"{"topic":"x","base64":"?"}"#, #""member":"base64"}"#),
        ("teleport", #"{"request":4}"#, #""request":4,"reason":131"#),
        ("", "{}", #""detail":"the topic names no operation"}"#),
        ("reply", "{}", #""reason":131"#),
        ("presence/x", "{}", #""reason":131"#),
        ("send", #"{"users":["bob"],"b":"x"}"#, "publish to the address or the topic itself"),
        ("subscribe", #"{"filter":"a"}"#, "use the packets of MQTT"),
        ("connect", #"{"token":"x"}"#, "MQTT has a packet for it"),
        ("authenticate", "{}", #""reason":131"#), ("ack", "{}", #""reason":131"#),
        ("ping", "{}", #""reason":131"#), ("disconnect", "{}", #""reason":131"#),
    ]

    @Test(arguments: faults, [MQTT.Version.v311, .v5])
    func `is replied to with what is wrong`(
        fault: (String, String, String), version: MQTT.Version
    ) throws {
        let loop = mqttLoop(version)
        let form = RequestForm(version: version, qos: .atLeastOnce)
        let lines = loop.receive(form.publish(fault.0, fault.1))
        let number = requestNumber(1, 9, .durable)
        #expect(lines.count == 1 && lines[0].hasPrefix("faulted \(number) "), "\(lines)")
        loop.respond(to: number, .malformedPacket)
        let replies = try loop.replies(version)
        #expect(replies.count == 1)
        #expect(replies.first?.payload.contains(fault.2) == true, "\(replies)")
        #expect(loop.phase == .established && !loop.host.isClosed)
    }

    @Test func `may contain any bytes`() throws {
        let texts: [[UInt8]] = [
            [0xFF, 0xFE], Array(#"{"user":""#.utf8) + [0xC0, 0x80] + Array("\"}".utf8),
            Array(#"{"user":"a"#.utf8) + [0] + Array("\"}".utf8), [0],
            Array(#"{"user":"\u0000"}"#.utf8), Array(#"{"user":"\uD800"}"#.utf8),
            Array(repeating: UInt8(ascii: "{"), count: 60_000),
            Array(repeating: UInt8(ascii: "\""), count: 60_000),
        ]
        let loop = mqttLoop()
        for text in texts {
            let lines = loop.receive(RequestForm().publish("presence", text))
            #expect(lines.count == 1)
            #expect(loop.phase == .established, "\(text.prefix(20))")
        }
    }

    @Test func `has its fault repeated only within limits`() throws {
        // The name of a member is repeated, and counts for the limit.
        let loop = mqttLoop()
        let name = String(repeating: "n", count: 40_000)
        loop.receive(RequestForm().publish("clearWill", #"{"\#(name)":1}"#))
        #expect(try loop.replies() == [])
        loop.receive(RequestForm().publish("clearWill", #"{"\#(name)":1}"#))
        let replies = try loop.replies()
        #expect(replies.count == 1)
        #expect(replies.first?.payload.contains(#""reason":151,"name":"quota-exceeded""#) == true)
    }

    @Test(arguments: [0, 1_000])
    func `beyond the limit of a connection is refused at once`(correlationCount: Int) throws {
        let loop = mqttLoop()
        let count = 2_000
        var form = RequestForm()
        form.correlation = [UInt8](repeating: 7, count: correlationCount)
        let request = form.publish("presence", #"{"request":5,"user":"bob"}"#)
        var lines: [String] = []
        for _ in 0..<count { lines += loop.receive(request) }
        let accepted = lines.filter { $0.hasPrefix("presence") }.count
        #expect(
            accepted
                == (correlationCount == 0
                    ? AwaitedReplyLimits.countMaximum
                    : AwaitedReplyLimits.byteCountMaximum / correlationCount))
        #expect(lines.filter { $0.hasSuffix("quotaExceeded") }.count == count - accepted)
        let replies = try loop.replies()
        #expect(replies.count == count - accepted)
        #expect(
            replies.allSatisfy {
                $0.payload.contains(#""request":5,"reason":151"#)
                    && $0.correlation == form.correlation
            })
        // Replies make room.
        loop.respond(to: requestNumber(1), .success)
        #expect(try loop.replies().count == 1)
        #expect(loop.receive(request).first?.hasPrefix("presence") == true)
    }
}

@Suite("Requests of MQTT clients and the core")
struct RequestLoopTests {
    /// A request in 5.0.
    private func request(_ operation: String, _ payload: String, qos: UInt8 = 1) -> [UInt8] {
        Packets.publish(
            "$api/\(operation)", Array(payload.utf8), qos: qos, identifier: 7)
    }

    @Test func `leave nothing behind once they are answered`() {
        let loop = CoreLoop()
        let client = loop.client("ann", .mqtt5)
        loop.exchange(request("createGroup", #"{"key":"00000000000000aa","title":"T"}"#), client)
        loop.exchange(request("listGroups", "{}"), client)
        loop.exchange(request("conversations", "{}"), client)
        loop.exchange(request("presence", #"{"user":"nobody"}"#), client)
        loop.exchange(request("history", #"{"user":"ann"}"#), client)
        loop.exchange(request("nothing", "{}"), client)
        for _ in 0..<3 { loop.exchange(request("clearWill", "{}", qos: 2), client) }
        #expect(loop.decoder.conversations.awaitedReplies[client]?.count == 0)
        #expect(loop.broker.counters.requestsPublished == 9)
        #expect(loop.decoder.conversations[client]?.phase == .established)
    }

    @Test func `cost what those of MRT cost`() {
        let loop = CoreLoop()
        let mrt = loop.client("ann")
        let mqtt = loop.client("bob", .mqtt5)
        let list = loop.exchange(Packets.request(.groupList, [0]), mrt)
        #expect(loop.exchange(request("listGroups", "{}", qos: 0), mqtt).work == list.work)
        #expect(loop.exchange(request("listGroups", "{}", qos: 1), mqtt).work <= list.work + 1)
    }
}
