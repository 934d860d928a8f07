// The same jobs in MRT, MQTT 3.1.1 and MQTT 5.0, as real packets, to count their bytes. The MQTT
// packets are written out by hand after their specifications.

import Primitives
import Testing

@testable import WireFormat

/// One job and its bytes in each protocol, all packets in both directions.
struct WireSizes: CustomTestStringConvertible, Sendable {
    var job: String
    var mrt: [[UInt8]]
    var mqtt3: [[UInt8]]
    var mqtt5: [[UInt8]]

    var testDescription: String { job }

    /// The row in docs/PROTOCOL.md.
    var row: String {
        func count(_ packets: [[UInt8]]) -> Int { packets.reduce(0) { $0 + $1.count } }
        return "| \(job) | \(count(mrt)) | \(count(mqtt3)) | \(count(mqtt5)) |"
    }

    static let all: [WireSizes] = [
        WireSizes(
            job: "first login, ready to receive",
            mrt: [connect(), accepted],
            mqtt3: connect3 + subscribe([]),
            mqtt5: connect5 + subscribe([0])),
        WireSizes(
            job: "login again after a lost connection",
            mrt: [connect(again: true), accepted],
            mqtt3: connect3,
            mqtt5: connect5),
        unicast("unicast, acknowledged (durable, QoS 1)", .durable),
        unicast("unicast, exactly once (once, QoS 2)", .once),
        WireSizes(
            job: "group message to one member, acknowledged",
            mrt: [
                Vector["send-group"].bytes, Vector["result-sent"].bytes,
                Vector["deliver-group"].bytes, Vector["ack-inbox"].bytes,
            ],
            mqtt3: publish(1, "$g/fleet-7", json, [])
                + publish(1, "$g/fleet-7", envelope(true), []),
            mqtt5: publish(1, "$g/fleet-7", json, [0])
                + publish(1, "$g/fleet-7", envelope(true), [0])),
        WireSizes(
            job: "ping", mrt: [Vector["pingreq"].bytes, Vector["pingresp"].bytes],
            mqtt3: [[0xC0, 0], [0xD0, 0]], mqtt5: [[0xC0, 0], [0xD0, 0]]),
    ]

    private static func unicast(_ job: String, _ grade: MRT.Grade) -> WireSizes {
        let qos = grade.rawValue
        var send = Vector["send-user-durable"].bytes
        var deliver = Vector["deliver-unicast"].bytes
        send[0] = send[0] & 0xFC | qos
        deliver[0] = deliver[0] & 0xFC | qos
        return WireSizes(
            job: job,
            mrt: [send, Vector["result-sent"].bytes, deliver, Vector["ack-inbox"].bytes],
            mqtt3: publish(qos, "$u/bob", json, []) + publish(qos, "$u/bob", envelope(false), []),
            mqtt5: publish(qos, "$u/bob", json, [0])
                + publish(qos, "$u/bob", envelope(false), [0]))
    }

    // MARK: MRT

    private static func connect(again: Bool = false) -> [UInt8] {
        var packet = MRT.Connect()
        packet.keepAliveSeconds = 300
        packet.inboxWindow = 16
        packet.device = ByteRange(offset: 0, count: 4)
        packet.credential = .token(ByteRange(offset: 4, count: 32))
        packet.outbox = MRT.Outbox(
            epoch: 1, resultsSeen: again ? 16 : 0, highestUsed: again ? 18 : 0)
        packet.isReconnect = again
        packet.resume = again ? MRT.Resume(epoch: 2, lastNumber: 1742) : nil
        packet.cookie = again ? 3 : nil
        return encode(packet, Array("pump".utf8) + token)
    }

    private static let accepted = Vector["connack-new-session"].bytes

    // MARK: MQTT

    private static let token = [UInt8](repeating: UInt8(ascii: "x"), count: 32)
    private static let json = #"{"t":"0","b":"hello"}"#

    private static func envelope(_ isGroup: Bool) -> String {
        #"{"msg":\#(json),"from":"alice","time":"1790000000000""#
            + (isGroup ? #","groupid":"fleet-7"}"# : "}")
    }

    private static func packet(_ first: UInt8, _ body: [UInt8]) -> [UInt8] {
        [first] + varInt(body.count) + body
    }

    /// Two bytes of length, then the bytes.
    private static func string(_ text: String) -> [UInt8] {
        [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 0xFF)] + Array(text.utf8)
    }

    /// CONNECT with client id, user name and password, keep-alive 300; CONNACK.
    private static let connect3: [[UInt8]] = {
        let header = string("MQTT") + [4, 0xC0, 0x01, 0x2C]
        let payload = string("pump") + string("alice") + [0, 32] + token
        return [packet(0x10, header + payload), [0x20, 2, 0, 0]]
    }()

    /// The same; session expiry (0x11) asked for, receive maximum (0x21) granted.
    private static let connect5: [[UInt8]] = {
        let expiry: [UInt8] = [0x11, 0x00, 0x09, 0x3A, 0x80]
        let header = string("MQTT") + [5, 0xC0, 0x01, 0x2C, 5] + expiry
        let payload = string("pump") + string("alice") + [0, 32] + token
        return [packet(0x10, header + payload), [0x20, 6, 0, 0, 3, 0x21, 0, 32]]
    }()

    /// SUBSCRIBE to one's own messages and to everybody's; SUBACK.
    private static func subscribe(_ properties: [UInt8]) -> [[UInt8]] {
        let filters = string("$u/alice") + [1] + string("$b") + [1]
        let granted: [UInt8] = [1, 1]
        return [
            packet(0x82, [0, 1] + properties + filters),
            packet(0x90, [0, 1] + properties + granted),
        ]
    }

    /// PUBLISH and what acknowledges it: one packet, or three.
    private static func publish(
        _ qos: UInt8, _ topic: String, _ payload: String, _ properties: [UInt8]
    ) -> [[UInt8]] {
        let body = string(topic) + [0, 1] + properties + Array(payload.utf8)
        let first = packet(0x30 | qos << 1, body)
        return qos == 1
            ? [first, [0x40, 2, 0, 1]]
            : [first, [0x50, 2, 0, 1], [0x62, 2, 0, 1], [0x70, 2, 0, 1]]
    }
}
