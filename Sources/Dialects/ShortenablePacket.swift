// What the broker leaves out of a packet that is larger than its client takes. Every kind of packet
// to a client is here, but DELIVER and PUBLISH: a message that is too large is not delivered.

import Primitives
import WireFormat

/// A packet to a client.
protocol ShortenablePacket: WirePacket {
    /// Leaves out what the client can do without. False where more than `byteCount` bytes are left.
    ///
    /// - Parameter source: what the packet's ranges are in.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool
}

/// A packet of which the client needs everything.
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
    /// Without its result an answer would be taken for a fault of the broker's, and asked for
    /// again: it says that it is too large.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        if !reason.isFailure { reason = .packetTooLarge }
        content = .empty
        return encodedByteCount <= byteCount
    }
}

extension MRT.SendResult: ShortenablePacket {
    /// Names as many refused receivers as there is room for. All are counted.
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
    /// Words may be left out [MQTT-3.2.2-19]. A client that is not told of topic aliases sends
    /// none.
    mutating func shorten(to byteCount: Int, _ source: UnsafeRawBufferPointer) -> Bool {
        reasonString = nil
        if encodedByteCount > byteCount { topicAliasMaximum = 0 }
        return encodedByteCount <= byteCount
    }
}

extension MQTT.Acknowledgement: ShortenablePacket {
    /// [MQTT-3.4.2-2], [MQTT-3.4.2-3], and the same of the other steps.
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
