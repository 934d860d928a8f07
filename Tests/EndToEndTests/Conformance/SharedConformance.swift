// Shared subscriptions: each message goes to one of several members.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct SharedTests {
        // [MQTT-4.8.2-1] [MQTT-4.8.2-2]
        @Test(arguments: ["$share/name", "$share//a", "$share/a+b/c", "$share/a#/c", "$share/n/"])
        func `an invalid shared filter is refused`(filter: String) throws {
            let peer = try MQTTPeer(.v5, "share-malformed")
            try peer.sendSubscribe([(filter, 0)], identifier: 1)
            guard let packet = try? peer.next(), packet.firstByte == 0x90 else { return }
            #expect(packet.body.last! >= 0x80, "\(filter)")
        }

        // [MQTT-4.8.2-3]
        @Test func `each message is sent to one member, with the QoS of that member`() throws {
            let members = try [("share-0", 0), ("share-1", 1), ("share-2", 2)].map {
                (name, qos) in
                let member = try MQTTPeer(.v5, name)
                #expect(try member.subscribe(("$share/qos/shared/qos", UInt8(qos))) == [UInt8(qos)])
                return member
            }
            let sender = try MQTTPeer(.v5, "share-sender")
            for index in 0..<12 {
                #expect(try sender.publish("shared/qos", "\(index)", qos: 2) == 0)
            }
            var heard: [String] = []
            for (granted, member) in members.enumerated() {
                // In turn, since all of them have room.
                for _ in 0..<4 {
                    let message = try member.nextMessage()
                    #expect(message.qos == UInt8(granted))
                    heard.append(message.payload)
                }
                try member.expectSilence()
            }
            #expect(heard.sorted() == (0..<12).map(String.init).sorted())
        }

        // [MQTT-4.8.2-4]
        @Test func `a QoS 2 delivery that has begun waits for its client`() throws {
            let options = MQTTPeer.ConnectOptions(
                isClean: false, properties: [.sessionExpiry(60)])
            let first = try MQTTPeer(.v5, "share-back", options)
            try first.subscribe(("$share/back/shared/back", 2))
            let sender = try MQTTPeer(.v5, "share-back-sender")
            try sender.publish("shared/back", "begun", qos: 2)
            let sent = try first.nextMessage()
            let other = try MQTTPeer(.v5, "share-back-other")
            try other.subscribe(("$share/back/shared/back", 2))
            first.drop()
            try other.expectSilence()
            let second = try MQTTPeer(.v5, "share-back", options)
            let again = try second.takeMessage()
            #expect(again.payload == "begun" && again.identifier == sent.identifier)
            #expect(again.isDuplicate)
            try other.expectSilence()
        }

        // [MQTT-4.8.2-5]
        @Test func `a QoS 2 delivery that has begun ends with its session`() throws {
            let first = try MQTTPeer(.v5, "share-dead")
            try first.subscribe(("$share/dead/shared/dead", 2))
            let sender = try MQTTPeer(.v5, "share-dead-sender")
            try sender.publish("shared/dead", "begun", qos: 2)
            _ = try first.nextMessage()
            let other = try MQTTPeer(.v5, "share-dead-other")
            try other.subscribe(("$share/dead/shared/dead", 2))
            try first.disconnect()
            try other.expectSilence()
        }

        // [MQTT-4.8.2-6]
        @Test(arguments: [(1, 0x40), (2, 0x50)] as [(UInt8, UInt8)])
        func `a message that its receiver refused is sent to no other member`(
            qos: UInt8, firstByte: UInt8
        ) throws {
            let filter = "$share/no/shared/no/\(qos)"
            let first = try MQTTPeer(.v5, "share-no")
            try first.subscribe((filter, 2))
            let sender = try MQTTPeer(.v5, "share-no-sender")
            try sender.publish("shared/no/\(qos)", "unwanted", qos: qos)
            let message = try first.nextMessage()
            let other = try MQTTPeer(.v5, "share-no-other")
            try other.subscribe((filter, 2))
            try first.answer(firstByte, message.identifier, reason: 0x80)
            try first.expectSilence()
            try first.disconnect()
            try other.expectSilence()
        }
    }
}
