// Attributes of a message: keys with values beside its content, for which MRT has a run of pairs,
// MQTT 5.0 user properties, and JSON an object. They have a limit of their own.
//
//     | string8 key | string8 value | …

import BrokerTerms
import Primitives

/// Functions on the attributes of a message.
public enum MessageAttributes {
    /// Why a run is refused, or nil: ``ReasonCode/packetTooLarge`` where there are too many or they
    /// have too many bytes, ``ReasonCode/payloadFormatInvalid`` where one breaks a rule or a key
    /// occurs twice.
    public static func fault(_ run: RawSpan) -> ReasonCode? {
        var reader = AttributeReader(run)
        var chosen = Choice()
        do throws(WireError) {
            while let (key, value) = try reader.next() {
                let (key, value) = (key.bytes(in: run), value.bytes(in: run))
                guard isKey(key), isValue(value), !chosen.contains(key) else {
                    return .payloadFormatInvalid
                }
                guard chosen.takes(key, value) else { return .packetTooLarge }
                chosen.add(key, value)
            }
        } catch {
            return .payloadFormatInvalid
        }
        return nil
    }

    /// Whether text can be a key: 1 to 64 bytes without control characters, and not the name of a
    /// user property that has a meaning for the broker.
    public static func isKey(_ text: RawSpan) -> Bool {
        guard (1...WireLimits.attributeKeyByteCountMaximum).contains(text.byteCount) else {
            return false
        }
        return TextRules.isUTF8(text) && !TextRules.hasControlCharacter(text) && !isReserved(text)
    }

    /// Whether text can be a value: at most 255 bytes, without U+0000, which MQTT forbids.
    public static func isValue(_ text: RawSpan) -> Bool {
        guard text.byteCount <= UInt8.max, TextRules.isUTF8(text) else { return false }
        for offset in text.byteOffsets where text[offset] == 0 { return false }
        return true
    }

    /// Calls `body` with each attribute of a run that was checked.
    public static func forEach(inRun run: RawSpan, _ body: (RawSpan, RawSpan) -> Void) {
        var reader = AttributeReader(run)
        while let (key, value) = try? reader.next() {
            body(key.bytes(in: run), value.bytes(in: run))
        }
    }

    /// Calls `body` with each user property of a publication of MQTT 5.0 that is an attribute: in
    /// their order those whose key and value obey the rules and fit within the limits; of two with
    /// the same key the first. Only the first ``WireLimits/attributePropertiesMaximum`` properties
    /// are looked at: the walk is made for each receiver.
    ///
    /// - Parameter properties: the carried properties, as the codec wrote them.
    public static func forEach(inProperties properties: RawSpan, _ body: (RawSpan, RawSpan) -> Void)
    {
        let whole = ByteRange(offset: 0, count: properties.byteCount)
        var reader = MQTT.PropertyReader(
            MQTT.PropertySection(carried: whole), of: .publish, in: properties)
        var chosen = Choice()
        var count = 0
        // They were checked when they were read, so this cannot fail.
        while count < WireLimits.attributePropertiesMaximum, let property = try? reader.next() {
            count += 1
            guard property.identifier == .userProperty else { continue }
            let (key, value) = (
                property.text.bytes(in: properties), property.value.bytes(in: properties)
            )
            guard isKey(key), isValue(value), !chosen.contains(key), chosen.takes(key, value) else {
                continue
            }
            chosen.add(key, value)
            body(key, value)
        }
    }

    /// Whether a user property is the broker's, or tells the broker what to do: it is no attribute,
    /// so that no sender can name its message's sender or time.
    private static func isReserved(_ key: RawSpan) -> Bool {
        let prefix: StaticString = "martlet-"
        let count = prefix.utf8CodeUnitCount
        if key.byteCount >= count, key.extracting(first: count).isEqual(prefix) { return true }
        let names: [StaticString] = [
            "from", "time", "groupid", "to", "mid", "history", "reference", "receipts", "collapse",
            "mention", "mention-all", "mention-only", "mentioned", "possible-duplicate", "wake",
            "push",
        ]
        return names.contains { key.isEqual($0) }
    }

    /// What was taken so far.
    private struct Choice {
        private var keys: [[UInt8]] = []
        private var byteCount = 0

        func contains(_ key: RawSpan) -> Bool {
            key.withUnsafeBytes { key in keys.contains { $0.elementsEqual(key) } }
        }

        /// Whether another attribute is within the limits.
        func takes(_ key: RawSpan, _ value: RawSpan) -> Bool {
            keys.count < WireLimits.attributeCountMaximum
                && byteCount + key.byteCount + value.byteCount
                    <= WireLimits.attributesByteCountMaximum
        }

        mutating func add(_ key: RawSpan, _ value: RawSpan) {
            keys.append(key.withUnsafeBytes { Array($0) })
            byteCount += key.byteCount + value.byteCount
        }
    }
}

/// Walks over a run of attributes. Ranges are within the run.
public struct AttributeReader: ~Escapable {
    private var reader: PacketReader

    @_lifetime(copy run)
    public init(_ run: RawSpan) {
        reader = PacketReader(run)
    }

    /// The next attribute; nil at the end.
    public mutating func next() throws(WireError) -> (key: ByteRange, value: ByteRange)? {
        if reader.isAtEnd { return nil }
        return (try reader.readString8(), try reader.readString8())
    }
}
