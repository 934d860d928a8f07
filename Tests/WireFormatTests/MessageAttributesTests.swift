// Attributes of a message: which runs are accepted, and which user properties of MQTT are
// attributes.

import BrokerTerms
import PacketMeanings
import Testing

@testable import WireFormat

/// A run of attributes.
private func run(_ attributes: [(String, String)]) -> [UInt8] {
    var run: [UInt8] = []
    for (key, value) in attributes {
        for text in [key, value] {
            run.append(UInt8(text.utf8.count))
            run += Array(text.utf8)
        }
    }
    return run
}

private func fault(_ attributes: [(String, String)]) -> ReasonCode? { fault(run(attributes)) }

private func fault(_ run: [UInt8]) -> ReasonCode? { MessageAttributes.fault(run.span.bytes) }

/// User properties as MQTT 5.0 has them.
private func properties(_ pairs: [(String, String)]) -> [UInt8] {
    var bytes: [UInt8] = []
    for (name, value) in pairs {
        bytes.append(MQTT.PropertyIdentifier.userProperty.rawValue)
        for text in [name, value] {
            bytes.append(UInt8(text.utf8.count >> 8))
            bytes.append(UInt8(text.utf8.count & 0xFF))
            bytes += Array(text.utf8)
        }
    }
    return bytes
}

/// The attributes of a publication with such properties, as `key=value`.
private func attributes(of bytes: [UInt8]) -> [String] {
    var found: [String] = []
    MessageAttributes.forEach(inProperties: bytes.span.bytes) { key, value in
        let name = key.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        let text = value.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        found.append("\(name)=\(text)")
    }
    return found
}

@Suite("The attributes of a message")
struct MessageAttributesTests {
    @Test func `are at most 16`() {
        let pairs = (0..<17).map { ("key-\($0)", "") }
        #expect(fault(Array(pairs.dropLast())) == nil)
        #expect(fault(pairs) == .packetTooLarge)
        #expect(fault([] as [UInt8]) == nil)
    }

    @Test func `have at most 512 bytes of keys and values`() {
        let long = String(repeating: "v", count: 255)
        #expect(fault([("a", long), ("b", long)]) == nil)
        #expect(fault([("a", long), ("bb", long)]) == .packetTooLarge)
        #expect(fault([("a", long), ("b", long), ("c", "")]) == .packetTooLarge)
    }

    @Test func `have keys of 1 to 64 bytes of text, each once`() {
        #expect(fault([(String(repeating: "k", count: 64), "é")]) == nil)
        #expect(fault([(String(repeating: "k", count: 65), "")]) == .payloadFormatInvalid)
        #expect(fault([("", "value")]) == .payloadFormatInvalid)
        #expect(fault([("a\nb", "")]) == .payloadFormatInvalid)
        #expect(fault([("a", "1"), ("b", "1"), ("a", "1")]) == .payloadFormatInvalid)
        #expect(fault([("a", "tab\tand\u{0}")]) == .payloadFormatInvalid)
        #expect(fault([("a", "tab\tand\nline")]) == nil)
        #expect(fault([1, 0xFF, 0] as [UInt8]) == .payloadFormatInvalid)
    }

    @Test(arguments: [
        "from", "time", "groupid", "to", "mid", "history", "reference", "receipts", "collapse",
        "mention", "mention-all", "mention-only", "mentioned", "possible-duplicate", "martlet-late",
        "martlet-anything",
    ])
    func `cannot have the name of a user property of the broker`(key: String) {
        #expect(fault([(key, "x")]) == .payloadFormatInvalid)
        #expect(attributes(of: properties([(key, "x"), ("own", "y")])) == ["own=y"])
    }

    @Test func `are refused wherever a run is cut off`() {
        let whole = run([("site", "7"), ("unit", "bar")])
        for count in 1..<whole.count where count != run([("site", "7")]).count {
            #expect(fault(Array(whole[..<count])) == .payloadFormatInvalid)
        }
    }

    @Test func `of a publication are the user properties that obey the rules and fit`() {
        let long = String(repeating: "v", count: 255)
        let found = attributes(
            of: [MQTT.PropertyIdentifier.contentType.rawValue, 0, 1, 0x61]
                + properties([
                    ("a", "1"), ("a", "2"), ("", "x"), (String(repeating: "k", count: 65), "x"),
                    ("too long", long + "v"), ("b", long), ("c", long), ("d", "3"),
                ]))
        #expect(found == ["a=1", "b=\(long)", "d=3"])
        let many = (0..<20).map { ("\($0)", "") }
        #expect(attributes(of: properties(many)).count == 16)
        #expect(attributes(of: []).isEmpty)
    }
}
