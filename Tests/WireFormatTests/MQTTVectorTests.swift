// The MQTT vectors, and the properties of decoding random bytes.

import PacketMeanings
import Primitives
import Testing

@testable import WireFormat

extension Vector {
    /// Every vector of every version of MQTT.
    static let mqtt = load(
        ["mqtt/connect", "mqtt/messages", "mqtt/subscriptions", "mqtt/endings", "mqtt/invalid"])
    static let validMQTT = mqtt.filter { !$0.meaning.hasPrefix("error=") }

    /// What the fourth character of the dialect says.
    var version: MQTT.Version { MQTT.Version(rawValue: UInt8(dialect.suffix(1))!)! }

    func understood(_ bytes: [UInt8]) -> Meaning {
        understandMQTT(bytes, version, isFromClient: isFromClient)
    }

    /// The meaning without the marks that are for people.
    var plainMeaning: String {
        meaning.split(separator: " ")
            .filter { $0 != "loose" && !$0.hasPrefix("breaks=") }.joined(separator: " ")
    }
}

@Suite("The MQTT vectors")
struct MQTTVectorTests {
    @Test func `have names of their own`() {
        #expect(Set(Vector.mqtt.map(\.name)).count == Vector.mqtt.count)
        #expect(Vector.mqtt.count > 250)
    }

    @Test(arguments: Vector.mqtt)
    func `decode to their meanings`(vector: Vector) {
        #expect(vector.understood(vector.bytes).text == vector.plainMeaning)
    }

    @Test(arguments: Vector.validMQTT.filter { !$0.meaning.contains(" loose") })
    func `are the output of the encoder`(vector: Vector) {
        #expect(vector.understood(vector.bytes).encoded == vector.bytes)
    }

    @Test func `name the statement that an invalid packet breaks`() {
        for vector in Vector.mqtt where vector.meaning.hasPrefix("error=") {
            let isCut = vector.meaning.hasPrefix("error=incomplete")
            #expect(vector.meaning.contains(" breaks=") != isCut, "\(vector.name)")
        }
    }

    @Test func `cover every packet type of every version, and every property`() {
        for version: MQTT.Version in [.v31, .v311, .v5] {
            let valid = Vector.validMQTT.filter { $0.version == version }
            let types = Set(valid.map { $0.bytes[0] >> 4 })
            #expect(types == Set(1...(version == .v5 ? 15 : 14)), "\(version)")
        }
        var seen: Set<MQTT.PropertyIdentifier> = []
        for vector in Vector.validMQTT where vector.version == .v5 {
            for identifier in MQTT.PropertyIdentifier.allCases
            where vector.name.hasPrefix("property-\(identifier.rawValue)-") {
                seen.insert(identifier)
            }
        }
        #expect(seen == Set(MQTT.PropertyIdentifier.allCases))
    }
}

@Suite("The MQTT decoder")
struct MQTTDecoderTests {
    @Test(arguments: Vector.validMQTT)
    func `waits for the rest of an incomplete packet`(vector: Vector) {
        for count in 0..<vector.bytes.count {
            let cut = vector.understood(Array(vector.bytes[..<count]))
            #expect(cut.text.hasPrefix("error=incomplete:"))
        }
    }

    /// The body ends early, and the remaining length says so: nothing may be read beyond it.
    @Test(arguments: Vector.validMQTT)
    func `never reads beyond the end of a body`(vector: Vector) throws {
        let header = try #require(frame(vector.bytes)).headerByteCount
        let body = vector.bytes[Int(header)...]
        for count in 0..<body.count {
            expectStable([vector.bytes[0]] + varInt(count) + body.prefix(count), like: vector)
        }
    }

    @Test(arguments: Vector.validMQTT)
    func `decodes or refuses every changed byte`(vector: Vector) {
        var random = SeededBytes(seed: 0x6d61_7274_6c65_7421)
        for offset in vector.bytes.indices {
            for _ in 0..<8 {
                var changed = vector.bytes
                changed[offset] = random.next()
                expectStable(changed, like: vector)
            }
        }
    }

    /// Every property in every packet: what the table of the specification allows is understood,
    /// and nothing else is.
    @Test(arguments: MQTT.PropertyIdentifier.allCases)
    func `knows which packets may carry a property`(identifier: MQTT.PropertyIdentifier) {
        let name = "property-\(identifier.rawValue)-"
        let vector = Vector.validMQTT.first { $0.name.hasPrefix(name) }!
        let property = Self.sole(vector)
        for place in PropertyPlace.all {
            let meaning = understandMQTT(
                place.packet(property), .v5, isFromClient: place.isFromClient)
            let isAllowed = identifier.owners.contains(place.owner)
            // Authentication data needs its method, and an AUTH its own.
            if isAllowed && identifier == .authenticationData { continue }
            let isBroker = place.owner == .publish && identifier == .subscriptionIdentifier
            if isBroker || place.owner == .disconnect && identifier == .sessionExpiryInterval {
                continue
            }
            if isAllowed && place.owner == .auth && identifier != .authenticationMethod { continue }
            #expect(
                meaning.text.hasPrefix("error=") != isAllowed,
                "\(identifier) in \(place.owner): \(meaning.text)")
        }
    }

    /// The bytes of the one property that a vector named after it is about.
    private static func sole(_ vector: Vector) -> [UInt8] {
        let identifier = UInt8(vector.name.split(separator: "-")[1])!
        let number: [UInt8]
        switch MQTT.PropertyIdentifier(rawValue: identifier)!.form {
        case .flag: number = [1]
        case .uint16: number = [0, 1]
        case .uint32: number = [0, 0, 0, 1]
        case .variableInteger: number = [1]
        case .text, .binary: number = [0, 1, 0x78]
        case .textPair: number = [0, 1, 0x78, 0, 1, 0x79]
        }
        return [identifier] + number
    }

    /// What is understood is understood the same way after it was encoded again.
    private func expectStable(_ bytes: [UInt8], like vector: Vector) {
        let meaning = vector.understood(bytes)
        if meaning.text.hasPrefix("error=") { return }
        let again = vector.understood(meaning.encoded)
        #expect(again.text == meaning.text)
        #expect(again.encoded == meaning.encoded)
        #expect(meaning.encoded.count <= bytes.count)
    }
}

@Suite("The MQTT decoder and random bytes")
struct MQTTRandomTests {
    @Test(arguments: UInt8(0)...15, [MQTT.Version.v31, .v311, .v5])
    func `decodes or refuses random bodies`(type: UInt8, version: MQTT.Version) {
        var random = SeededBytes(seed: UInt64(type) << 8 | UInt64(version.rawValue))
        let flags = MQTT.PacketType(rawValue: type)?.fixedFlags ?? 0
        for round in 0..<4000 {
            let count = round % 40
            let first = type << 4 | (type == 3 ? random.next() & 0x0F : flags)
            // Small values make structure likely: lengths that fit, known properties, short texts.
            var body = (0..<count).map { _ in
                random.next() < 160 ? random.next() & 0x07 : random.next()
            }
            if type == 1 && round % 4 > 0 { body = Self.connectHeader(version) + body }
            let bytes = [first] + varInt(body.count) + body
            let isFromClient = round.isMultiple(of: 2)
            let meaning = understandMQTT(bytes, version, isFromClient: isFromClient)
            if meaning.text.hasPrefix("error=") { continue }
            let again = understandMQTT(meaning.encoded, version, isFromClient: isFromClient)
            #expect(again.text == meaning.text)
        }
    }

    private static func connectHeader(_ version: MQTT.Version) -> [UInt8] {
        let name = version == .v31 ? "MQIsdp" : "MQTT"
        return [0, UInt8(name.utf8.count)] + Array(name.utf8) + [version.rawValue]
    }
}

/// A packet of 5.0 around one property.
struct PropertyPlace: Sendable {
    var owner: MQTT.PropertyOwner
    var isFromClient: Bool
    /// The first byte, what precedes the properties, and what follows them.
    var parts: (first: UInt8, before: [UInt8], after: [UInt8])

    func packet(_ property: [UInt8]) -> [UInt8] {
        let body = parts.before + varInt(property.count) + property + parts.after
        return [parts.first] + varInt(body.count) + body
    }

    static let all: [PropertyPlace] = {
        let name: [UInt8] = [0, 4, 0x4D, 0x51, 0x54, 0x54, 5]
        func place(
            _ owner: MQTT.PropertyOwner, isFromClient: Bool, first: UInt8, before: [UInt8],
            after: [UInt8] = []
        ) -> PropertyPlace {
            PropertyPlace(
                owner: owner, isFromClient: isFromClient, parts: (first, before, after))
        }
        return [
            place(
                .connect, isFromClient: true, first: 0x10, before: name + [2, 0, 0], after: [0, 0]),
            place(
                .will, isFromClient: true, first: 0x10, before: name + [6, 0, 0, 0, 0, 0],
                after: [0, 1, 0x74, 0, 0]),
            place(.connack, isFromClient: false, first: 0x20, before: [0, 0]),
            place(.publish, isFromClient: true, first: 0x30, before: [0, 1, 0x74]),
            place(MQTT.PropertyOwner(.puback), isFromClient: true, first: 0x40, before: [0, 1, 0]),
            place(MQTT.PropertyOwner(.pubrec), isFromClient: true, first: 0x50, before: [0, 1, 0]),
            place(MQTT.PropertyOwner(.pubrel), isFromClient: true, first: 0x62, before: [0, 1, 0]),
            place(
                MQTT.PropertyOwner(.pubcomp), isFromClient: true, first: 0x70, before: [0, 1, 0]),
            place(
                .subscribe, isFromClient: true, first: 0x82, before: [0, 1],
                after: [0, 1, 0x74, 0]),
            place(
                MQTT.PropertyOwner(.suback), isFromClient: false, first: 0x90, before: [0, 1],
                after: [0]),
            place(
                MQTT.PropertyOwner(.unsubscribe), isFromClient: true, first: 0xA2, before: [0, 1],
                after: [0, 1, 0x74]),
            place(
                MQTT.PropertyOwner(.unsuback), isFromClient: false, first: 0xB0, before: [0, 1],
                after: [0]),
            place(.disconnect, isFromClient: false, first: 0xE0, before: [0]),
            place(.auth, isFromClient: true, first: 0xF0, before: [0x18]),
        ]
    }()
}
