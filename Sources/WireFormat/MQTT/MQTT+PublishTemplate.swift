// One publication for many receivers. Its QoS 0 body is encoded once per version. For each receiver
// the fixed header and the receiver's own fields are added: packet identifier, topic alias,
// subscription identifier.
//
//     the template   | topic | varint property length | properties | payload |
//     a receiver's   | topic or alias only | packet id | varint length | alias | id |
//                    | properties | payload |

import Primitives

extension MQTT {
    /// What one receiver's copy of a publication differs in.
    public struct Receipt: Hashable, Sendable {
        public var qos = QoS.atMostOnce
        public var isDuplicate = false
        public var isRetained = false
        /// 0 exactly with QoS 0.
        public var packetIdentifier: UInt16 = 0
        /// In 5.0: the identifier of the subscription that the message matched; 0 for none.
        public var subscriptionIdentifier: UInt32 = 0
        /// In 5.0: this connection's number for the topic; 0 for none.
        public var topicAlias: UInt16 = 0
        /// The receiver knows the alias: the topic itself is left out.
        public var omitsTopic = false

        @inlinable
        public init() {}

        @inlinable
        var extraPropertyByteCount: Int {
            (topicAlias == 0 ? 0 : 3)
                + (subscriptionIdentifier == 0
                    ? 0 : 1 + VariableInteger.byteCount(subscriptionIdentifier))
        }
    }

    /// What is known of an encoded body. It holds no bytes, so that it can be kept beside them.
    public struct PublishTemplate: Sendable {
        /// Bytes of the encoded body.
        @usableFromInline let byteCount: Int
        /// Where the topic ends.
        @usableFromInline let topicEnd: Int
        /// Where the properties begin: behind their length. Equal to `topicEnd` before 5.0.
        @usableFromInline let propertyStart: Int
        @usableFromInline let propertyByteCount: Int

        /// - Parameter publish: of QoS 0 and without a topic alias.
        public init(_ publish: Publish) {
            precondition(
                publish.qos == .atMostOnce && publish.topicAlias == 0 && !publish.topic.isEmpty,
                "a template with QoS \(publish.qos.rawValue), alias \(publish.topicAlias)")
            byteCount = publish.bodyByteCount
            topicEnd = publish.topic.string16ByteCount
            if publish.version == .v5 {
                propertyByteCount = publish.propertyByteCount
                propertyStart = topicEnd + VariableInteger.byteCount(propertyByteCount)
            } else {
                propertyByteCount = 0
                propertyStart = topicEnd
            }
        }

        /// Bytes that no receiver's packet exceeds: a buffer of that size always suffices.
        @inlinable
        public var byteCountMaximum: Int {
            // Packet id; a longer property length; alias; subscription identifier.
            WireLimits.fixedHeaderByteCountMaximum + byteCount + 2 + 3 + 3 + 5
        }

        /// Bytes after the fixed header.
        @inlinable
        func bodyByteCount(_ receipt: Receipt) -> Int {
            let base = byteCount + (receipt.packetIdentifier == 0 ? 0 : 2)
            let extra = receipt.extraPropertyByteCount
            if extra == 0 { return base }
            let lengthByteCount = VariableInteger.byteCount(extra + propertyByteCount)
            return base + extra + lengthByteCount - (propertyStart - topicEnd)
                - (receipt.omitsTopic ? topicEnd - 2 : 0)
        }

        /// Bytes of the whole packet for one receiver.
        @inlinable
        public func byteCount(_ receipt: Receipt) -> Int {
            let count = bodyByteCount(receipt)
            return 1 + VariableInteger.byteCount(count) + count
        }

        /// Writes one receiver's whole packet.
        ///
        /// - Parameter body: what `writeBody(to:from:)` of the publication wrote.
        @inlinable
        public func write(_ receipt: Receipt, body: RawSpan, to writer: inout PacketWriter) {
            precondition(
                body.byteCount == byteCount,
                "a body of \(body.byteCount) bytes for a template of \(byteCount)")
            precondition(
                (receipt.qos == .atMostOnce) == (receipt.packetIdentifier == 0),
                "packet identifier \(receipt.packetIdentifier) with QoS \(receipt.qos.rawValue)")
            let first =
                PacketType.publish.rawValue << 4 | receipt.qos.rawValue << Publish.Flag.qosShift
                | (receipt.isRetained ? Publish.Flag.retain : 0)
                | (receipt.isDuplicate ? Publish.Flag.duplicate : 0)
            writer.write(typeAndFlags: first, bodyByteCount: bodyByteCount(receipt))
            let extra = receipt.extraPropertyByteCount
            if extra > 0 {
                writeWithExtras(receipt, extra, body: body, to: &writer)
            } else if receipt.packetIdentifier == 0 {
                writer.write(bytes: body)
            } else {
                writer.write(bytes: body.extracting(0..<topicEnd))
                writer.write(uint16: receipt.packetIdentifier)
                writer.write(bytes: body.extracting(topicEnd..<body.byteCount))
            }
        }

        @inlinable
        func writeWithExtras(
            _ receipt: Receipt, _ extra: Int, body: RawSpan, to writer: inout PacketWriter
        ) {
            precondition(
                propertyStart > topicEnd,
                "\(extra) bytes of alias and subscription identifiers before 5.0")
            if receipt.omitsTopic {
                precondition(receipt.topicAlias != 0, "a receiver without topic and alias")
                writer.write(uint16: 0)
            } else {
                writer.write(bytes: body.extracting(0..<topicEnd))
            }
            if receipt.packetIdentifier != 0 { writer.write(uint16: receipt.packetIdentifier) }
            writer.write(varInt: extra + propertyByteCount)
            if receipt.topicAlias != 0 {
                writer.write(byte: PropertyIdentifier.topicAlias.rawValue)
                writer.write(uint16: receipt.topicAlias)
            }
            if receipt.subscriptionIdentifier != 0 {
                writer.write(byte: PropertyIdentifier.subscriptionIdentifier.rawValue)
                writer.write(varInt: receipt.subscriptionIdentifier)
            }
            writer.write(bytes: body.extracting(propertyStart..<body.byteCount))
        }
    }
}
