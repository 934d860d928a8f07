// SUBSCRIBE and UNSUBSCRIBE: a packet identifier and a list of filters.
//
//     SUBSCRIBE    | packet identifier | properties (5.0) | filter, options | filter, options | ...
//     UNSUBSCRIBE  | packet identifier | properties (5.0) | filter | filter | ...
//     options      7-6: 0   5-4: retain handling   3: retain as published   2: no local   1-0: QoS
//                  before 5.0 only the QoS

import Primitives

extension MQTT {
    /// What a client wants of one filter.
    public struct SubscriptionOptions: Hashable, Sendable {
        /// Raw values are on the wire.
        public enum RetainHandling: UInt8, Hashable, Sendable {
            /// Retained messages are sent [MQTT-3.3.1-9].
            case send = 0
            /// They are sent if the subscription is a new one [MQTT-3.3.1-10].
            case sendIfNew = 1
            /// They are not sent [MQTT-3.3.1-11].
            case doNotSend = 2
        }

        public var maximumQoS: QoS
        /// What this session publishes itself does not come back [MQTT-3.8.3-3].
        public var isNoLocal = false
        /// The RETAIN flag arrives as it was published [MQTT-3.3.1-13].
        public var retainsAsPublished = false
        public var retainHandling = RetainHandling.send

        public init(maximumQoS: QoS) {
            self.maximumQoS = maximumQoS
        }

        init(_ byte: UInt8, _ version: Version, isShared: Bool) throws(WireError) {
            guard version == .v5 else {
                // [MQTT-3-8.3-4] of 3.1.1. 3.1 leaves the upper bits unused.
                let isClean = byte & 0xFC == 0 || version == .v31
                guard isClean, let qos = QoS(rawValue: byte & 0x03) else { throw .malformed }
                maximumQoS = qos
                return
            }
            // [MQTT-3.8.3-5]
            guard byte & 0xC0 == 0 else { throw .malformed }
            // Both are protocol errors by section 3.8.3.1.
            guard let qos = QoS(rawValue: byte & 0x03),
                let handling = RetainHandling(rawValue: byte >> 4)
            else { throw .protocolError }
            maximumQoS = qos
            isNoLocal = byte & 0x04 != 0
            retainsAsPublished = byte & 0x08 != 0
            retainHandling = handling
            // [MQTT-3.8.3-4]
            guard !isNoLocal || !isShared else { throw .protocolError }
        }

        public var byte: UInt8 {
            maximumQoS.rawValue | (isNoLocal ? 0x04 : 0) | (retainsAsPublished ? 0x08 : 0)
                | retainHandling.rawValue << 4
        }
    }

    public struct Subscribe: Hashable, Sendable, Packet {
        public var version: Version
        public var packetIdentifier: UInt16
        /// In 5.0: comes back in what the subscriptions bring; 0 for none.
        public var subscriptionIdentifier: UInt32 = 0
        public var properties = PropertySection.empty
        /// One or more filters with their options; see ``SubscriptionList``.
        public var subscriptions: ByteRange
        public var subscriptionCount: Int

        /// - Parameter subscriptions: as ``SubscriptionList`` lays them out.
        public init(
            _ version: Version, _ packetIdentifier: UInt16, subscriptions: ByteRange, count: Int
        ) {
            self.version = version
            self.packetIdentifier = packetIdentifier
            self.subscriptions = subscriptions
            self.subscriptionCount = count
        }

        /// Decodes, and checks every filter and its options.
        public init(_ version: Version, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            let identifier = try reader.readPacketIdentifier()
            self.init(version, identifier, subscriptions: .empty, count: 0)
            if version == .v5 {
                var section = try PropertyReader(&reader, of: .subscribe)
                while let property = try section.next() {
                    if property.identifier == .subscriptionIdentifier {
                        subscriptionIdentifier = property.number
                    }
                }
                properties = section.section
            }
            // [MQTT-3.8.3-2]; in 3.1.1 [MQTT-3.8.3-3].
            guard !reader.isAtEnd else { throw .protocolError }
            let start = reader.offset
            while !reader.isAtEnd {
                // [MQTT-3.8.3-1]
                let filter = try reader.readTopicFilter()
                let isShared = TopicFilter(filter, in: body)!.isShared
                _ = try SubscriptionOptions(try reader.readByte(), version, isShared: isShared)
                subscriptionCount += 1
            }
            subscriptions = ByteRange(offset: start, count: body.byteCount - start)
        }

        public var typeAndFlags: UInt8 { PacketType.subscribe.firstByte }
        public var bodyByteCount: Int {
            2 + (version == .v5 ? propertySectionByteCount : 0) + Int(subscriptions.count)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(subscriptionCount > 0, "a SUBSCRIBE with \(subscriptionCount) filters")
            writer.write(uint16: packetIdentifier)
            if version == .v5 { writePropertySection(to: &writer, from: source) }
            writer.write(bytes: subscriptions.bytes(in: source))
        }
    }

    /// Walks over the filters of a ``Subscribe``: filter with its length, one byte of options.
    public struct SubscriptionList: ~Escapable {
        private var reader: PacketReader
        private let version: Version

        /// - Parameter bytes: what the packet's ranges are within.
        @_lifetime(copy bytes)
        public init(_ packet: Subscribe, in bytes: RawSpan) {
            let range = packet.subscriptions
            reader = PacketReader(bytes.extracting(..<range.endOffset), from: Int(range.offset))
            version = packet.version
        }

        public mutating func next() -> (filter: ByteRange, options: SubscriptionOptions)? {
            // The list was checked when the packet was read, so no error is possible.
            guard !reader.isAtEnd, let filter = try? reader.readBinary(),
                let byte = try? reader.readByte(),
                let options = try? SubscriptionOptions(byte, version, isShared: false)
            else { return nil }
            return (filter, options)
        }
    }

    public struct Unsubscribe: Hashable, Sendable, Packet {
        public var version: Version
        public var packetIdentifier: UInt16
        public var properties = PropertySection.empty
        /// One or more filters; see ``FilterList``.
        public var filters: ByteRange
        public var filterCount: Int

        /// - Parameter filters: as ``FilterList`` lays them out.
        public init(
            _ version: Version, _ packetIdentifier: UInt16, filters: ByteRange, count: Int
        ) {
            self.version = version
            self.packetIdentifier = packetIdentifier
            self.filters = filters
            self.filterCount = count
        }

        public init(_ version: Version, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            let identifier = try reader.readPacketIdentifier()
            self.init(version, identifier, filters: .empty, count: 0)
            if version == .v5 {
                var section = try PropertyReader(&reader, of: PropertyOwner(.unsubscribe))
                while try section.next() != nil {}
                properties = section.section
            }
            // [MQTT-3.10.3-2]
            guard !reader.isAtEnd else { throw .protocolError }
            let start = reader.offset
            while !reader.isAtEnd {
                // [MQTT-3.10.3-1]
                _ = try reader.readTopicFilter()
                filterCount += 1
            }
            filters = ByteRange(offset: start, count: body.byteCount - start)
        }

        public var typeAndFlags: UInt8 { PacketType.unsubscribe.firstByte }
        public var bodyByteCount: Int {
            2 + (version == .v5 ? propertySectionByteCount : 0) + Int(filters.count)
        }
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(filterCount > 0, "an UNSUBSCRIBE with \(filterCount) filters")
            writer.write(uint16: packetIdentifier)
            if version == .v5 { writePropertySection(to: &writer, from: source) }
            writer.write(bytes: filters.bytes(in: source))
        }
    }

    /// Walks over the filters of an ``Unsubscribe``: each with its length.
    public struct FilterList: ~Escapable {
        private var reader: PacketReader

        /// - Parameter bytes: what the packet's ranges are within.
        @_lifetime(copy bytes)
        public init(_ packet: Unsubscribe, in bytes: RawSpan) {
            let range = packet.filters
            reader = PacketReader(bytes.extracting(..<range.endOffset), from: Int(range.offset))
        }

        public mutating func next() -> ByteRange? {
            reader.isAtEnd ? nil : try? reader.readBinary()
        }
    }
}

extension MQTT.Subscribe: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(.subscriptionIdentifier, subscriptionIdentifier, default: 0 as UInt32)
        sink.put(properties, of: .subscribe)
    }
}

extension MQTT.Unsubscribe: MQTT.PacketWithProperties {
    func putProperties(into sink: inout some MQTT.PropertySink & ~Copyable & ~Escapable) {
        sink.put(properties, of: MQTT.PropertyOwner(.unsubscribe))
    }
}
