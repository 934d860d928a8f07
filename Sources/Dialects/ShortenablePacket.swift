// The parts of a packet that the broker omits if the packet is larger than its client accepts. All
// packets to a client are here except DELIVER and PUBLISH: a message that is too large is not
// delivered.

import Primitives
import WireFormat

/// A packet to a client.
protocol ShortenablePacket: WirePacket {
    /// Omits what the client can do without. False if more than `byteCount` bytes remain.
    ///
    /// - Parameter source: the bytes that the packet's ranges refer to.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool
}

/// A packet of which nothing can be omitted.
protocol IndivisiblePacket: ShortenablePacket {}

extension IndivisiblePacket {
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        encodedByteCount <= byteCount
    }
}

// MARK: - MRT

extension MRT.ConnectAccepted: IndivisiblePacket {}
extension MRT.BrokerAuth: IndivisiblePacket {}
extension MRT.Ping: IndivisiblePacket {}

extension MRT.ConnectRefused: ShortenablePacket {
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        text = .empty
        return encodedByteCount <= byteCount
    }
}

extension MRT.BrokerDisconnect: ShortenablePacket {
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        text = .empty
        return encodedByteCount <= byteCount
    }
}

extension MRT.Response: ShortenablePacket {
    /// Without its result, a client would treat the answer as a fault of the broker and ask again:
    /// the answer reports that it is too large.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        if !reason.isFailure { reason = .packetTooLarge }
        content = .empty
        return encodedByteCount <= byteCount
    }
}

extension MRT.SendResult: ShortenablePacket {
    /// Names as many refused receivers as fit. All are counted.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        var list = MRT.RefusalList(refusals, in: source.bytes)
        var fitting = ByteRange(offset: Int(refusals.offset), count: 0)
        refusals = fitting
        guard encodedByteCount <= byteCount else { return false }
        while let refusal = list.next() {
            refusals = ByteRange(
                offset: Int(fitting.offset), count: Int(fitting.count) + refusal.byteCount)
            if encodedByteCount > byteCount { break }
            fitting = refusals
        }
        refusals = fitting
        return true
    }
}

// MARK: - MQTT

extension MQTT.Ping: IndivisiblePacket {}
extension MQTT.Auth: IndivisiblePacket {}

extension MQTT.Connack: ShortenablePacket {
    /// The reason string may be omitted [MQTT-3.2.2-19], and user properties [MQTT-3.2.2-20]. A
    /// client that is not told of topic aliases uses none.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        reasonString = nil
        if encodedByteCount > byteCount { properties = .empty }
        if encodedByteCount > byteCount { topicAliasMaximum = 0 }
        return encodedByteCount <= byteCount
    }
}

extension MQTT.Acknowledgement: ShortenablePacket {
    /// [MQTT-3.4.2-2], [MQTT-3.4.2-3], and the same for the other steps.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        reasonString = nil
        properties = .empty
        return encodedByteCount <= byteCount
    }
}

extension MQTT.Suback: ShortenablePacket {
    /// [MQTT-3.9.2-1]
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        reasonString = nil
        return encodedByteCount <= byteCount
    }
}

extension MQTT.Unsuback: ShortenablePacket {
    /// [MQTT-3.11.2-1]
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        reasonString = nil
        return encodedByteCount <= byteCount
    }
}

extension MQTT.Disconnect: ShortenablePacket {
    /// [MQTT-3.14.2-3]
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        reasonString = nil
        return encodedByteCount <= byteCount
    }
}
