// CONNECT and CONNACK of MQTT: accepted and refused logins, and their codes.

import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct ConnectTests {
        /// A client id that the broker does not take.
        private static let tooLong = String(repeating: "n", count: 256)

        // [MQTT-3.1.0-1] [MQTT-3.1.0-1/311] [MQTT-4.8.0-1/311]
        @Test(arguments: [[0xC0, 0], [0x30, 3, 0, 1, 0x61], [0xE0, 0]] as [[UInt8]])
        func `a first packet other than CONNECT ends the connection`(bytes: [UInt8]) throws {
            let peer = try MQTTPeer(.v311)
            try peer.wire.send(bytes)
            #expect(try peer.expectClose() == nil)
        }

        // [MQTT-3.1.0-2] [MQTT-3.1.0-2/311]
        @Test(arguments: everyVersion)
        func `a second CONNECT ends the connection`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version, "connect-twice")
            try peer.wire.send(MQTTPeer.connectBytes(version, "connect-twice", .init()))
            #expect(try peer.expectClose() == (version == .v5 ? 0x82 : nil))
        }

        // [MQTT-3.1.2-1] [MQTT-3.1.2-1/311]
        @Test func `an unknown protocol name is refused`() throws {
            let peer = try MQTTPeer(.v311)
            try peer.send(
                0x10, MQTTBytes.text("MQTTX") + [4, 2, 0, 0] + MQTTBytes.text("other-name"))
            #expect(try peer.expectClose() == nil)
        }

        // [MQTT-3.1.2-2] [MQTT-3.1.2-2/311]
        @Test(arguments: [3, 6, 0x84] as [UInt8])
        func `an unknown protocol level is answered with return code 1`(level: UInt8) throws {
            let peer = try MQTTPeer(.v311)
            try peer.send(
                0x10, MQTTBytes.text("MQTT") + [level, 2, 0, 0] + MQTTBytes.text("other-level"))
            #expect(try peer.nextConnack() == .init(flags: 0, code: 1, properties: []))
            try peer.expectClose()
        }

        // [MQTT-3.1.2-3] [MQTT-3.1.4-1] [MQTT-3.1.2-3/311] [MQTT-3.1.4-1/311]
        @Test(arguments: laterVersions)
        func `the reserved flag of CONNECT must be 0`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version)
            try peer.wire.send(
                MQTTPeer.connectBytes(version, "reserved-flag", .init(flags: 0x03)))
            if version == .v5 { #expect(try peer.nextConnack().code == 0x81) }
            #expect(try peer.expectClose() == nil)
        }

        // [MQTT-3.1.3-4] [MQTT-1.5.4-1] [MQTT-3.1.3-4/311] [MQTT-1.5.3-1/311]
        @Test(arguments: everyVersion)
        func `a client id that is not UTF-8 ends the connection`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version)
            let name = version == .v31 ? "MQIsdp" : "MQTT"
            try peer.send(
                0x10,
                MQTTBytes.text(name) + [version.rawValue, 2, 0, 0]
                    + MQTTBytes.section([], version) + MQTTBytes.binary([0xED, 0xA0, 0x80]))
            if version == .v5 { #expect(try peer.nextConnack().code == 0x81) }
            #expect(try peer.expectClose() == nil)
        }

        // [MQTT-3.1.3-5] [MQTT-3.1.3-3] [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.2-1]
        // [MQTT-3.1.3-5/311] [MQTT-3.1.3-3/311] [MQTT-3.1.4-4/311] [MQTT-3.2.0-1/311]
        @Test(arguments: everyVersion)
        func `client ids of 1 to 23 letters and digits are accepted`(version: MQTT.Version) throws {
            for name in ["Z", "0123456789abcdefghijklm", "NOPQRSTUVWXYZnopqrstuvw"] {
                let peer = try MQTTPeer(version)
                let connack = try peer.connect(name)
                #expect(connack.flags == 0 && connack.code == 0)
                try peer.disconnect()
            }
        }

        // [MQTT-3.1.3-5] [MQTT-3.1.3-2] [MQTT-3.1.3-5/311] [MQTT-3.1.3-2/311]
        @Test(arguments: everyVersion)
        func `client ids of any characters are accepted, each with a session of its own`(
            version: MQTT.Version
        ) throws {
            let long = String(repeating: "é/", count: 84)
            let names = ["any/7", "any+7", "#", "$any", "any 7", "any\t7", long, long + "x"]
            let peers = try names.map { try MQTTPeer(version, $0) }
            for (peer, name) in zip(peers, names) {
                try peer.subscribe(("any/heard", 1))
                try peer.publish("any/said/\(names.firstIndex(of: name)!)", "x", qos: 1)
            }
            try peers[0].sendPublish("any/heard", "to all", qos: 0)
            for peer in peers {
                #expect(try peer.nextMessage().payload == "to all")
                try peer.expectSilence()
            }
        }

        // [MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.2.2-16]
        @Test(arguments: [true, false])
        func `a client without an id is told the assigned one`(isClean: Bool) throws {
            var names: Set<String> = []
            // Both are connected: a name that nobody has any more may be another client's.
            let peers = [try MQTTPeer(.v5), try MQTTPeer(.v5)]
            for peer in peers {
                let connack = try peer.connect("", .init(isClean: isClean))
                guard
                    case .binary(_, let name)? = connack.properties.first(where: {
                        $0.identifier == 18
                    })
                else {
                    Issue.record("no id in \(connack)")
                    return
                }
                names.insert(String(decoding: name, as: UTF8.self))
            }
            #expect(names.count == 2 && !names.contains(""))
            for peer in peers { try peer.disconnect() }
        }

        // [MQTT-3.1.3-7] [MQTT-3.1.3-2] [MQTT-3.1.3-2/311]
        @Test func `the assigned id identifies the session`() throws {
            let first = try MQTTPeer(.v5)
            let connack = try first.connect("", .init(properties: [.sessionExpiry(60)]))
            guard
                case .binary(_, let name)? = connack.properties.first(where: {
                    $0.identifier == 18
                })
            else { throw TestFailure("no id") }
            try first.subscribe(("assigned/id", 1))
            try first.disconnect()
            let user = String(decoding: name, as: UTF8.self)
            // Where client ids are users, an id of the broker's is that user's device.
            let again = try MQTTPeer(.v5)
            #expect(try again.connect(user, .init(isClean: false)).code == 0)
        }

        // [MQTT-3.1.3-6/311]
        @Test func `an empty id with a clean session is accepted`() throws {
            for _ in 0..<2 {
                let peer = try MQTTPeer(.v311, "")
                try peer.expectSilence()
            }
        }

        // [MQTT-3.1.3-8/311] [MQTT-3.2.2-4/311] [MQTT-3.2.2-5/311]
        @Test func `an empty id without a clean session is answered with return code 2`() throws {
            let peer = try MQTTPeer(.v311)
            let connack = try peer.connect("", .init(isClean: false))
            #expect(connack == .init(flags: 0, code: 2, properties: []))
            try peer.expectClose()
        }

        // [MQTT-3.1.3-8] [MQTT-3.1.4-2] [MQTT-3.2.2-6] [MQTT-3.2.2-7] [MQTT-3.2.2-8]
        // [MQTT-4.13.2-1] [MQTT-3.14.0-1]
        // [MQTT-3.1.3-9/311] [MQTT-3.2.2-4/311] [MQTT-3.2.2-5/311]
        @Test(arguments: everyVersion)
        func `a refused client id has its reason code`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version)
            let connack = try peer.connect(Self.tooLong, .init(isClean: false))
            #expect(connack.flags == 0 && connack.code == (version == .v5 ? 0x85 : 2))
            #expect(try peer.expectClose() == nil)
        }

        // [MQTT-3.1.4-6] [MQTT-3.1.4-5/311]
        @Test(arguments: everyVersion)
        func `nothing after a refused CONNECT is processed`(version: MQTT.Version) throws {
            let topic = "refused/\(version.rawValue)"
            let listener = try MQTTPeer(.v311, "refused-listener")
            try listener.subscribe((topic, 0))
            let peer = try MQTTPeer(version)
            let publish =
                MQTTBytes.text(topic) + MQTTBytes.section([], version) + Array("x".utf8)
            try peer.wire.send(
                MQTTPeer.connectBytes(version, Self.tooLong, .init())
                    + MQTTBytes.packet(0x30, publish))
            #expect(try peer.nextConnack().code != 0)
            try peer.expectClose()
            try listener.expectSilence()
        }

        // [MQTT-3.1.4-3] [MQTT-4.13.2-1] [MQTT-3.1.4-2/311]
        @Test(arguments: everyVersion)
        func `a second client with the same id takes the session over`(
            version: MQTT.Version
        ) throws {
            let name = "taken-\(version.rawValue)"
            let first = try MQTTPeer(version, name)
            let second = try MQTTPeer(version, name)
            #expect(try first.expectClose() == (version == .v5 ? 0x8E : nil))
            try second.expectSilence()
        }

        // [MQTT-3.1.2-22] [MQTT-3.1.2-24/311]
        @Test func `a client that is silent for too long is disconnected`() throws {
            // Long enough for a talker that a busy machine lets stand still for some seconds.
            let talker = try MQTTPeer(.v5, "talker", .init(keepAlive: 4))
            let silent = try everyVersion.map {
                try MQTTPeer($0, "silent-\($0.rawValue)", .init(keepAlive: 4))
            }
            while !silent.allSatisfy(\.wire.isClosed) {
                try talker.expectSilence()
                for peer in silent { try peer.wire.wait(milliseconds: 60) }
            }
            for peer in silent {
                #expect(try peer.expectClose() == (peer.version == .v5 ? 0x8D : nil))
            }
            try talker.expectSilence()
        }

        // [MQTT-3.2.2-22] [MQTT-4.12.0-6] [MQTT-3.1.2-28]
        @Test func `CONNACK has no property that was not requested`() throws {
            let peer = try MQTTPeer(.v5)
            let options = MQTTPeer.ConnectOptions(
                keepAlive: 60, properties: [.responseInformation(0)])
            let connack = try peer.connect("plain-connack", options)
            let identifiers = Set(connack.properties.map(\.identifier))
            #expect(identifiers.isDisjoint(with: [19, 21, 22, 26]), "\(connack)")
        }

        // [MQTT-4.12.0-1] [MQTT-4.12.0-4]
        @Test func `an unknown authentication method is refused`() throws {
            let peer = try MQTTPeer(.v5)
            let connack = try peer.connect(
                "method", .init(properties: [.method("no-such-method")]))
            #expect(connack.code == 0x8C)
            try peer.expectClose()
        }

        // [MQTT-4.12.0-7]
        @Test func `AUTH without a method in CONNECT is an error`() throws {
            let peer = try MQTTPeer(.v5, "auth-uninvited")
            try peer.send(0xF0, [0x19] + MQTTBytes.section([.method("token")], .v5))
            #expect(try peer.expectClose() == 0x82)
        }

        // [MQTT-4.12.0-5] [MQTT-4.12.1-1] [MQTT-4.12.1-2]
        @Test func `re-authentication with another method than in CONNECT ends the connection`()
            throws
        {
            let options = MQTTPeer.ConnectOptions(
                password: try SharedBroker.current!.variable("MARTLET_TOKEN_ALICE"),
                properties: [.method("token")])
            let peer = try MQTTPeer(.v5)
            let connack = try peer.connect("reauthenticating", options)
            #expect(connack.code == 0 && connack.properties.contains(.method("token")))
            let token = MQTTProperty.authenticationData(Array(options.password!.utf8))
            try peer.send(0xF0, [0x19] + MQTTBytes.section([.method("token"), token], .v5))
            var answer = MQTTByteReader(try peer.next(0xF0))
            // An AUTH of success may leave its reason out, but not its method.
            #expect(try answer.byte() == 0)
            #expect(try answer.properties(.v5).contains(.method("token")))
            for section in [
                [MQTTProperty.method("other"), token],
                [.method("token"), .authenticationData(Array("wrong".utf8))],
            ] {
                let other = try MQTTPeer(.v5)
                #expect(try other.connect("reauthenticating", options).code == 0)
                try other.send(0xF0, [0x19] + MQTTBytes.section(section, .v5))
                #expect(try other.expectClose() ?? 0 >= 0x80)
            }
        }

        // [MQTT-3.15.1-1] [MQTT-3.15.2-1]
        @Test(arguments: [[0xF1, 0x00], [0xF0, 0x02, 0x30, 0x00]] as [[UInt8]])
        func `an AUTH with wrong flags or an unknown reason ends the connection`(
            bytes: [UInt8]
        ) throws {
            let peer = try MQTTPeer(.v5, "auth-malformed")
            try peer.wire.send(bytes)
            // Without a method in CONNECT every AUTH is an error, whatever else is wrong with it.
            let reason = try peer.expectClose()
            #expect(reason == 0x81 || reason == 0x82)
        }

        // [MQTT-3.1.2-17] [MQTT-3.1.2-19] [MQTT-3.1.3-1] [MQTT-3.1.3-12]
        // [MQTT-3.1.2-19/311] [MQTT-3.1.2-21/311] [MQTT-3.1.3-1/311] [MQTT-3.1.3-11/311]
        @Test(arguments: everyVersion)
        func `client id, will, user name and password have this order`(
            version: MQTT.Version
        ) throws {
            let peer = try MQTTPeer(version)
            let options = MQTTPeer.ConnectOptions(
                will: .init(topic: "order/will"), userName: "demo/orderly",
                password: try appKey())
            #expect(try peer.connect("ordered", options).code == 0)
            try peer.disconnect()
        }

        // [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT-3.1.2-18] [MQTT-3.1.2-19] [MQTT-3.1.4-1]
        // [MQTT-3.1.2-18/311] [MQTT-3.1.2-19/311] [MQTT-3.1.2-20/311] [MQTT-3.1.2-21/311]
        // [MQTT-3.1.2-22/311] [MQTT-3.1.4-1/311] [MQTT-3.2.2-6/311]
        @Test(arguments: laterVersions)
        func `user name and password are present if and only if their flags are set`(
            version: MQTT.Version
        ) throws {
            var wrong: [(UInt8, String?, String?)] = [
                (0x02, "name", nil), (0x82, nil, nil), (0xC2, "name", nil),
                (0x82, "name", "word"),
            ]
            // 5.0 lets a password come alone.
            if version == .v311 { wrong.append((0x42, nil, "word")) }
            for (flags, name, password) in wrong {
                let peer = try MQTTPeer(version)
                let options = MQTTPeer.ConnectOptions(
                    userName: name, password: password, flags: flags)
                try peer.wire.send(MQTTPeer.connectBytes(version, "flagged", options))
                if version == .v5 { #expect(try peer.nextConnack().code == 0x81) }
                #expect(try peer.expectClose() == nil)
            }
        }

        // [MQTT-3.2.0-2] [MQTT-3.12.4-1] [MQTT-3.12.4-1/311]
        @Test(arguments: everyVersion)
        func `PINGREQ is answered, and CONNACK came once`(version: MQTT.Version) throws {
            let peer = try MQTTPeer(version, "pinging")
            for _ in 0..<3 { try peer.expectSilence() }
        }

        private func appKey() throws -> String {
            try SharedBroker.current!.variable("MARTLET_APP_KEY")
        }
    }
}
