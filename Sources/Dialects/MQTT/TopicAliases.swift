// Numbers that stand for topics on one connection (MQTT 5.0 section 3.3.2.3.4), in each direction.
// They live and die with the connection; what they may hold of the broker's memory is bounded.

import Primitives

/// The bounds of what one connection's aliases hold.
public enum TopicAliasLimits {
    /// Aliases of one connection in one direction: a device publishes on a few topics, over and
    /// over.
    public static let countMaximum: UInt16 = 16
    /// Bytes of all topics that a client has given aliases, and of all that the broker has: with
    /// both, a connection holds at most 8 KiB.
    public static let byteCountMaximum = 4_096
    /// Bytes that aliases may add to one burst of packets: each topic once.
    public static let burstByteCountMaximum = byteCountMaximum
}

/// Topics that a client has given numbers.
struct IncomingAliases {
    /// By alias less one; empty where none was given.
    private var topics: [[UInt8]] = []
    private var byteCount = 0
    /// Where a topic lies behind the burst that is being read; by alias less one.
    private var places: [ByteRange] = []

    /// What became of an alias.
    enum Outcome {
        case noted
        /// The topics would take more room than a connection has.
        case noRoom
        /// It is above what the broker said it takes [MQTT-3.3.2-9].
        case outOfRange
    }

    /// Lets an alias stand for a topic, in place of the one before; it lies at `place` in the
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

    /// The topic that an alias stands for; nil where it stands for none.
    func topic(of alias: UInt16) -> [UInt8]? {
        let index = Int(alias) - 1
        guard index < topics.count, !topics[index].isEmpty else { return nil }
        return topics[index]
    }

    /// Where the topic of an alias lies in the buffer of the burst; empty before it was put there.
    func place(of alias: UInt16) -> ByteRange { places[Int(alias) - 1] }

    mutating func setPlace(_ place: ByteRange, of alias: UInt16) { places[Int(alias) - 1] = place }

    /// Another burst begins, in another place.
    mutating func forgetPlaces() {
        for index in places.indices { places[index] = .empty }
    }
}

/// Topics that the broker has given numbers, as many as the client takes. The first that come get
/// one and keep it: a client that hears more topics than that hears the rest in full.
struct OutgoingAliases {
    /// The most that the client takes; 0 for none.
    let maximum: UInt16
    /// By alias less one.
    private var topics: [(hash: UInt64, name: [UInt8])] = []
    private var byteCount = 0

    init(maximum: UInt16) { self.maximum = min(maximum, TopicAliasLimits.countMaximum) }

    /// The alias of a topic; nil where it has none.
    func alias(of topic: UnsafeRawBufferPointer, hash: UInt64) -> UInt16? {
        for index in topics.indices
        where topics[index].hash == hash && topics[index].name.elementsEqual(topic) {
            return UInt16(index + 1)
        }
        return nil
    }

    /// The alias that a topic may get; nil where there is none left for it.
    func nextAlias(for topic: UnsafeRawBufferPointer) -> UInt16? {
        guard topics.count < Int(maximum),
            byteCount + topic.count <= TopicAliasLimits.byteCountMaximum
        else { return nil }
        return UInt16(topics.count + 1)
    }

    /// The client has been told of the next alias.
    mutating func append(_ topic: UnsafeRawBufferPointer, hash: UInt64) {
        topics.append((hash, Array(topic)))
        byteCount += topic.count
    }

    /// Tells topics apart quickly; equal ones have equal hashes (FNV-1a).
    static func hash(_ topic: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in topic { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return hash
    }
}
