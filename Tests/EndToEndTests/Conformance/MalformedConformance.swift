// Invalid packets sent to a running broker: the connection ends, and another client is not
// affected.

import Foundation
import Testing
import WireFormat

extension EndToEndTests.MQTTConformance {
    @Suite struct MalformedTests {
        /// An invalid packet of Tests/Vectors/mqtt that a client sends.
        struct Vector: CustomTestStringConvertible, Sendable {
            var name: String
            var version: MQTT.Version
            var bytes: [UInt8]
            var meaning: String

            var testDescription: String { name }
            var isConnect: Bool { bytes[0] >> 4 == 1 }

            static let all: [Vector] = {
                let file = URL(filePath: #filePath).deletingLastPathComponent()
                    .appending(path: "../../Vectors/mqtt/invalid.txt").standardized
                let text = try! String(contentsOf: file, encoding: .utf8)
                return text.split(separator: "\n").compactMap(Vector.init)
            }()

            init?(_ line: Substring) {
                let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
                guard !line.hasPrefix("#"), fields[2] == "c>b", !fields[3].isEmpty,
                    !fields[4].hasPrefix("error=incomplete")
                else { return nil }
                name = String(fields[0])
                version = MQTT.Version(rawValue: UInt8(fields[1].dropFirst(4))!)!
                let digits = Array(fields[3])
                bytes = stride(from: 0, to: digits.count, by: 2).map {
                    UInt8(String(digits[$0...($0 + 1)]), radix: 16)!
                }
                meaning = String(fields[4])
            }
        }

        // [MQTT-4.13.1-1] [MQTT-4.13.2-1] [MQTT-3.1.4-1] [MQTT-2.1.3-1] [MQTT-3.14.1-1]
        // [MQTT-3.14.2-1] [MQTT-4.8.0-1/311] [MQTT-2.2.2-1/311] [MQTT-2.2.2-2/311]
        // [MQTT-3.14.1-1/311] [MQTT-3.1.4-1/311]
        @Test func `every invalid packet ends only its own connection`() throws {
            let bystander = try MQTTPeer(.v5, "bystander")
            try bystander.subscribe(("bystander", 1))
            #expect(Vector.all.count > 250)
            for vector in Vector.all {
                let peer: MQTTPeer
                if vector.isConnect && !vector.name.hasPrefix("wrong-way") {
                    peer = try MQTTPeer(vector.version)
                } else {
                    peer = try MQTTPeer(vector.version, "hostile")
                }
                try peer.wire.send(vector.bytes)
                try peer.wire.waitForClose()
                // What it is told, where it is told, is a failure.
                let last = peer.wire.untaken
                if !last.isEmpty {
                    #expect(last[0] == 0x20 || last[0] == 0xE0, "\(vector.name)")
                    let place = last[0] == 0x20 ? 3 : 2
                    #expect(last.count > place && last[place] > 0, "\(vector.name): \(last)")
                }
                if vector.version < .v5 { #expect(last.first != 0xE0, "\(vector.name)") }
            }
            try bystander.sendPublish("bystander", "unharmed", qos: 0)
            #expect(try bystander.nextMessage().payload == "unharmed")
        }

        // [MQTT-4.13.1-1] [MQTT-4.8.0-1/311]
        @Test func `random bytes end only their connections`() throws {
            let bystander = try MQTTPeer(.v5, "random-bystander")
            var generator = SystemRandomNumberGenerator()
            for round in 0..<60 {
                let peer = try MQTTPeer(.v5, "random-\(round % 3)")
                let bytes = (0..<64).map { _ in UInt8.random(in: 0...255, using: &generator) }
                try peer.wire.send(bytes)
                peer.drop()
            }
            try bystander.expectSilence()
        }
    }
}
