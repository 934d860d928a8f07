// The same operations in MRT, MQTT 3.1.1 and MQTT 5.0, as real packets, to count their bytes.

import PacketMeanings
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
            mqtt3: connect(.v311) + subscribe(.v311),
            mqtt5: connect(.v5) + subscribe(.v5)),
        WireSizes(
            job: "login again after a lost connection",
            mrt: [connect(again: true), accepted],
            mqtt3: connect(.v311),
            mqtt5: connect(.v5)),
        unicast("unicast, acknowledged (durable, QoS 1)", .durable),
        unicast("unicast, exactly once (once, QoS 2)", .once),
        WireSizes(
            job: "group message to one member, acknowledged",
            mrt: [
                Vector["send-group"].bytes, Vector["result-sent"].bytes,
                Vector["deliver-group"].bytes, Vector["ack-inbox"].bytes,
            ],
            mqtt3: publish(.v311, qos: 1, topic: "$g/fleet-7", payload: json)
                + publish(.v311, qos: 1, topic: "$g/fleet-7", payload: envelope(true)),
            mqtt5: publish(.v5, qos: 1, topic: "$g/fleet-7", payload: json)
                + publish(.v5, qos: 1, topic: "$g/fleet-7", payload: envelope(true))),
        WireSizes(
            job: "ping", mrt: [Vector["pingreq"].bytes, Vector["pingresp"].bytes],
            mqtt3: ping, mqtt5: ping),
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
            mqtt3: publish(.v311, qos: qos, topic: "$u/bob", payload: json)
                + publish(.v311, qos: qos, topic: "$u/bob", payload: envelope(false)),
            mqtt5: publish(.v5, qos: qos, topic: "$u/bob", payload: json)
                + publish(.v5, qos: qos, topic: "$u/bob", payload: envelope(false)))
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

    private static let ping = [
        encode(MQTT.Ping(isResponse: false)), encode(MQTT.Ping(isResponse: true)),
    ]
    private static let token = [UInt8](repeating: UInt8(ascii: "x"), count: 32)
    private static let json = #"{"t":"0","b":"hello"}"#

    private static func envelope(_ isGroup: Bool) -> String {
        #"{"msg":\#(json),"from":"alice","time":"1790000000000""#
            + (isGroup ? #","groupid":"fleet-7"}"# : "}")
    }

    /// CONNECT with client id, user name and password, keep-alive 300; CONNACK. In 5.0 with a
    /// session expiry asked for and a receive maximum granted.
    private static func connect(_ version: MQTT.Version) -> [[UInt8]] {
        var connect = MQTT.Connect(version)
        connect.keepAliveSeconds = 300
        connect.sessionExpirySeconds = 604_800
        connect.clientIdentifier = ByteRange(offset: 0, count: 4)
        connect.userName = ByteRange(offset: 4, count: 5)
        connect.password = ByteRange(offset: 9, count: 32)
        var connack = MQTT.Connack(version, .success)
        connack.receiveMaximum = 32
        return [encode(connect, Array("pumpalice".utf8) + token), encode(connack)]
    }

    /// SUBSCRIBE to one's own messages and to everybody's; SUBACK.
    private static func subscribe(_ version: MQTT.Version) -> [[UInt8]] {
        let list = [0, 8] + Array("$u/alice".utf8) + [1, 0, 2] + Array("$b".utf8) + [1]
        let subscribe = MQTT.Subscribe(
            version, 1, subscriptions: ByteRange(offset: 0, count: list.count), count: 2)
        let suback = MQTT.Suback(version, 1, codes: ByteRange(offset: 0, count: 2))
        return [encode(subscribe, list), encode(suback, [1, 1])]
    }

    /// PUBLISH and what acknowledges it: one packet, or three.
    private static func publish(
        _ version: MQTT.Version, qos: UInt8, topic: String, payload: String
    ) -> [[UInt8]] {
        let packet = MQTT.Publish(
            version, topic: ByteRange(offset: 0, count: topic.utf8.count),
            payload: ByteRange(offset: topic.utf8.count, count: payload.utf8.count),
            qos: MQTT.QoS(rawValue: qos)!, packetIdentifier: 1)
        let steps: [MQTT.Acknowledgement.Step] =
            qos == 1 ? [.puback] : [.pubrec, .pubrel, .pubcomp]
        return [encode(packet, Array((topic + payload).utf8))]
            + steps.map { encode(MQTT.Acknowledgement(version, $0, identifier: 1)) }
    }
}
