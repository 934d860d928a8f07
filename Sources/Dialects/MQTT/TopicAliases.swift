// Topic aliases of one connection (MQTT 5.0 section 3.3.2.3.4), in each direction. They end with
// the connection, and their memory is bounded.

import Primitives

/// Limits of one connection's aliases.
public enum TopicAliasLimits {
    /// Aliases of one connection in one direction: a device publishes repeatedly on a few topics.
    public static let countMaximum: UInt16 = 16
    /// Bytes of all topics with an alias, for each direction: a connection holds at most 8 KiB for
    /// both.
    public static let byteCountMaximum = 4_096
    /// Bytes that aliases may add to one burst of packets: each topic once.
    public static let burstByteCountMaximum = byteCountMaximum
}

/// Topics for which a client has set aliases.
struct IncomingAliases {
    /// By alias less one; empty if the alias is not set.
    private var topics: [[UInt8]] = []
    private var byteCount = 0
    /// The position of a topic after the burst that is being read; by alias less one.
    private var places: [ByteRange] = []

    /// The result of setting an alias.
    enum Outcome {
        case noted
        /// The topics would exceed the limit of a connection.
        case noRoom
        /// The alias is above the maximum that the broker announced [MQTT-3.3.2-9].
        case outOfRange
    }

    /// Sets an alias for a topic, in place of its previous one. The topic is at `place` in the
    /// buffer of the burst.
    mutating func set(
        _ alias: UInt16, to topic: UnsafeRawBufferPointer, at place: ByteRange
    ) -> Outcome {
        guard alias <= TopicAliasLimits.countMaximum else { return .outOfRange }
        let index = Int(alias) - 1
        while topics.count <= index {
            topics.append([])
            places.append(.empty)
        }
        let newCount = byteCount - topics[index].count + topic.count
        guard newCount <= TopicAliasLimits.byteCountMaximum else { return .noRoom }
        byteCount = newCount
        topics[index] = Array(topic)
        places[index] = place
        return .noted
    }

    /// The topic of an alias; nil if it is not set.
    func topic(of alias: UInt16) -> [UInt8]? {
        let index = Int(alias) - 1
        guard index < topics.count, !topics[index].isEmpty else { return nil }
        return topics[index]
    }

    /// The position of an alias's topic in the buffer of the burst; empty before it was copied
    /// there.
    func place(of alias: UInt16) -> ByteRange { places[Int(alias) - 1] }

    mutating func setPlace(_ place: ByteRange, of alias: UInt16) { places[Int(alias) - 1] = place }

    /// Another burst begins, at another position.
    mutating func forgetPlaces() {
        for index in places.indices { places[index] = .empty }
    }
}

/// Topics for which the broker has set aliases, up to the client's maximum. The first topics keep
/// their aliases; all further topics are sent in full.
struct OutgoingAliases {
    /// The client's topic alias maximum; 0 for none.
    let maximum: UInt16
    /// By alias less one.
    private var topics: [(hash: UInt64, name: [UInt8])] = []
    private var byteCount = 0

    init(maximum: UInt16) { self.maximum = min(maximum, TopicAliasLimits.countMaximum) }

    /// The alias of a topic; nil if it has none.
    func alias(of topic: UnsafeRawBufferPointer, hash: UInt64) -> UInt16? {
        for index in topics.indices
        where topics[index].hash == hash && topics[index].name.elementsEqual(topic) {
            return UInt16(index + 1)
        }
        return nil
    }

    /// The alias that a topic may get; nil if none is left.
    func nextAlias(for topic: UnsafeRawBufferPointer) -> UInt16? {
        guard topics.count < Int(maximum),
            byteCount + topic.count <= TopicAliasLimits.byteCountMaximum
        else { return nil }
        return UInt16(topics.count + 1)
    }

    /// The next alias was sent to the client.
    mutating func append(_ topic: UnsafeRawBufferPointer, hash: UInt64) {
        topics.append((hash, Array(topic)))
        byteCount += topic.count
    }

    /// Distinguishes topics quickly; equal topics have equal hashes (FNV-1a).
    static func hash(_ topic: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in topic { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return hash
    }
}
