// Decodes bytes into events. It finds the ends of packets; the first packet selects the dialect,
// and each packet becomes an event for the core in the order of the stream. Only pings are answered
// here. Faults become events too, so that their answers keep their order.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// Decodes the bytes of a loop's connections into events.
public struct PacketDecoder: ~Copyable {
    public var conversations: ConversationTable
    /// Events of this turn, in order; their ranges refer to the buffer of the bytes.
    public var events: ContiguousArray<Event> = []
    /// The burst that each event came from, and the range of its bytes.
    var runs: ContiguousArray<EventRun> = []
    /// The end of the bytes of the current burst, including those that were appended to it.
    var burstEnd = 0
    /// Whether the packet that was decoded last has to be decoded again: a CONNECT whose password
    /// is being verified.
    var isStalled = false
    /// Whether pings are answered later: a node of a cluster without a lease lets nothing leave.
    public var holdsPings = false
    /// Those whose clients wait for an answer. At most one for each connection and channel.
    public internal(set) var heldPings: Set<ConnectionID> = []
    /// By index, as passed to ``ConversationTable/open(_:terms:json:cors:)``.
    public var terms: [ListenerTerms]
    /// The largest packet that is accepted after CONNECT.
    public let packetMaximum: Int

    public init(loop: UInt8, terms: [ListenerTerms], packetMaximum: Int) {
        conversations = ConversationTable(loop: loop)
        self.terms = terms
        self.packetMaximum = packetMaximum
        events.reserveCapacity(1024)
    }

    /// The result of decoding received bytes.
    public struct Outcome: Sendable {
        /// Bytes from the front that were decoded.
        public var consumed: Int
        /// Bytes from the first undecoded one that must be present before another call makes sense.
        public var awaited: Int
        /// The number of messages and requests; only counted if there is a maximum.
        public var work = 0
        /// Whether packets remain because the maximum of work was reached.
        public var leavesRest = false
        /// Whether packets remain because the maximum of packets per turn was reached.
        public var isCut = false
    }

    /// Decodes the complete packets of `range`.
    ///
    /// - Parameters:
    ///   - arena: the bytes that `range` and the ranges of all events of this turn refer to. The
    ///     bytes of `range` may be rewritten.
    ///   - workMaximum: the maximum of messages and requests; a packet with several is decoded as a
    ///     whole. Acknowledgements and pings do not count, because they reduce the load.
    ///   - packetCountMaximum: the maximum of packets of any kind; one with several filters counts
    ///     as several.
    public mutating func receive(
        _ range: ByteRange, of arena: UnsafeMutableRawBufferPointer,
        from connection: ConnectionID, workMaximum: Int = .max, packetCountMaximum: Int = .max,
        host: inout some ConnectionHost & ~Copyable,
        authenticator: inout some Authenticator & ~Copyable,
        log: inout some LogSink & ~Copyable
    ) -> Outcome {
        let firstEvent = events.count
        burstEnd = range.endOffset
        conversations.beginBurst(of: connection)
        let limits = BurstLimits(work: workMaximum, packetCount: packetCountMaximum)
        let outcome = withUnsafeMutablePointer(to: &host) { host in
            withUnsafeMutablePointer(to: &authenticator) { authenticator in
                withUnsafeMutablePointer(to: &log) { log in
                    var context = DriverContext(host: host, authenticator: authenticator, log: log)
                    return readPackets(
                        range, of: arena, from: connection, limits: limits, in: &context)
                }
            }
        }
        if events.count > firstEvent {
            let count = burstEnd - Int(range.offset)
            runs.append(
                EventRun(
                    owner: connection, events: firstEvent..<events.count,
                    bytes: ByteRange(offset: Int(range.offset), count: count)))
        }
        return outcome
    }

    /// The reason why decoding of a burst ends although packets remain.
    private struct BurstLimits {
        let work: Int
        let packetCount: Int
    }

    private mutating func readPackets(
        _ range: ByteRange, of arena: UnsafeMutableRawBufferPointer,
        from connection: ConnectionID, limits: BurstLimits,
        in context: inout some DecodingContext & ~Copyable
    ) -> Outcome {
        let arena = UnsafeMutableRawBufferPointer(rebasing: arena[..<range.endOffset])
        let bytes = UnsafeRawBufferPointer(arena)
        let start = Int(range.offset)
        var offset = start
        var packetCount = 0
        var work = 0
        while true {
            guard let conversation = conversations[connection] else {
                return Outcome(consumed: Int(range.count), awaited: 0, work: work)
            }
            switch conversation.phase {
            case .closing:
                return Outcome(consumed: Int(range.count), awaited: 0, work: work)
            case .awaitingAnswer:
                return Outcome(consumed: offset - start, awaited: 0, work: work)
            case .awaitingConnect, .established:
                break
            }
            if offset < range.endOffset, work >= limits.work || packetCount >= limits.packetCount {
                return Outcome(
                    consumed: offset - start, awaited: 0, work: work,
                    leavesRest: work >= limits.work, isCut: packetCount >= limits.packetCount)
            }
            let firstEvent = events.count
            let isFirst = conversation.phase == .awaitingConnect
            let maximum = isFirst ? firstPacketMaximum : packetMaximum
            if case .json(let form) = conversation.dialect, form.isSocket {
                switch nextMessage(
                    in: arena, at: offset, packetMaximum: maximum, from: connection,
                    random: form == .leanMessage ? context.makeRandomNumber() : 0)
                {
                case .incomplete(let minimum):
                    return Outcome(consumed: offset - start, awaited: minimum, work: work)
                case .fault(let fault):
                    explain(fault, to: connection, in: &context)
                    fail(connection, fault.reason, in: &context)
                case .packet(let frame, let endOffset):
                    offset = endOffset
                    read(
                        ReceivedPacket(frame, from: connection, in: arena), isFirst: isFirst,
                        in: &context)
                }
                count(eventsFrom: firstEvent, packetCount: &packetCount, work: &work, limits)
                continue
            }
            switch PacketFrame.next(in: bytes.bytes, at: offset, packetMaximum: maximum) {
            case .incomplete(let minimum):
                // Bytes that cannot become a packet are not waited for.
                guard let fault = startFault(of: conversation, in: bytes, at: offset) else {
                    return Outcome(consumed: offset - start, awaited: minimum, work: work)
                }
                fail(connection, fault.reason, in: &context)
            case .malformed:
                fail(connection, .malformedPacket, in: &context)
            case .tooLarge:
                if let fault = startFault(of: conversation, in: bytes, at: offset) {
                    fail(connection, fault.reason, in: &context)
                } else if !isFirst {
                    fail(connection, .packetTooLarge, in: &context)
                } else if let minimum = refuseLarge(
                    connection, packetAt: offset, of: bytes, in: &context)
                {
                    return Outcome(consumed: offset - start, awaited: minimum, work: work)
                }
            case .packet(let frame):
                let beginning = offset
                offset = frame.endOffset
                read(
                    ReceivedPacket(frame, from: connection, in: arena), isFirst: isFirst,
                    in: &context)
                if isStalled {
                    isStalled = false
                    return Outcome(consumed: beginning - start, awaited: 0, work: work)
                }
            }
            count(eventsFrom: firstEvent, packetCount: &packetCount, work: &work, limits)
        }
    }

    @inline(__always)
    private mutating func read(
        _ packet: ReceivedPacket, isFirst: Bool, in context: inout some DecodingContext & ~Copyable
    ) {
        if isFirst {
            begin(packet, in: &context)
        } else {
            read(packet, in: &context)
        }
    }

    /// Counts a packet by its events.
    @inline(__always)
    private func count(
        eventsFrom firstEvent: Int, packetCount: inout Int, work: inout Int,
        _ limits: BurstLimits
    ) {
        if firstEvent == events.count { packetCount += 1 }
        for index in firstEvent..<events.count {
            packetCount += events[index].partCount
            // Verifying a credential costs as much as decoding hundreds of packets.
            if events[index].hasCredential {
                packetCount += ScheduleLimits.packetsPerCredential
            }
            if limits.work != .max { work += events[index].requestCount }
        }
    }

    /// The largest CONNECT that is accepted.
    private var firstPacketMaximum: Int {
        min(packetMaximum, WireLimits.connectByteCountMaximum)
    }

    /// The fault of a packet that its first byte shows; nil if there is none, or if that byte has
    /// not arrived.
    private func startFault(
        of conversation: Conversation, in bytes: UnsafeRawBufferPointer, at offset: Int
    ) -> WireError? {
        guard offset < bytes.count else { return nil }
        do throws(WireError) {
            if conversation.phase == .awaitingConnect {
                guard bytes[offset] >> 4 == MRT.PacketType.connect.rawValue else {
                    throw .protocolError
                }
            } else if let version = conversation.version {
                _ = try MQTT.PacketType(firstByte: bytes[offset], version, from: .client)
            } else {
                _ = try MRT.PacketType(firstByte: bytes[offset], from: .client)
            }
            return nil
        } catch {
            return error
        }
    }

    /// Ends an established connection because of its peer's fault, after its earlier packets.
    public mutating func fail(_ connection: ConnectionID, _ reason: ReasonCode) {
        let phase = conversations[connection]?.phase
        precondition(
            phase == .established,
            "\(connection) ends for \(reason) in phase \(String(describing: phase))")
        end(connection, for: reason)
    }

    /// Stops decoding a connection, which the core ends with a reason.
    mutating func end(_ connection: ConnectionID, for reason: ReasonCode) {
        conversations[known: connection].phase = .closing
        events.append(.peerFaulted(connection, reason))
    }

    // MARK: - The first packet

    private mutating func begin(
        _ packet: ReceivedPacket, in context: inout some DecodingContext & ~Copyable
    ) {
        let connection = packet.connection
        if case .json = conversations[known: connection].dialect {
            guard packet.frame.type == MRT.PacketType.connect.rawValue else {
                refuse(connection, .protocolError, in: &context)
                return
            }
            beginMRT(packet, in: &context)
            return
        }
        guard packet.frame.type == MRT.PacketType.connect.rawValue,
            let name = try? ProtocolName.read(packet.body.bytes)
        else {
            if connection.isChannel {
                refuse(connection, .malformedPacket, in: &context)
            } else {
                // Not a client of this broker: no dialect is known to answer in.
                leave(connection, .protocolError, in: &context)
            }
            return
        }
        if connection.isChannel, name != .mrt(level: MRT.level) {
            refuse(connection, .unsupportedProtocolVersion, in: &context)
            return
        }
        let dialects = terms(of: connection).dialects
        switch name {
        case .mrt:
            conversations[known: connection].dialect = .mrt
            guard dialects.contains(.mrt) else {
                refuse(connection, .unsupportedProtocolVersion, in: &context)
                return
            }
            beginMRT(packet, in: &context)
        case .mqtt, .mqisdp:
            guard let version = MQTT.Version(name), dialects.contains(.mqtt) else {
                // An unknown level is answered like the oldest one that has an answer for it
                // [MQTT-3.1.2-2].
                conversations[known: connection].dialect = .mqtt(MQTT.Version(name) ?? .v311)
                refuse(connection, .unsupportedProtocolVersion, in: &context)
                return
            }
            conversations[known: connection].dialect = .mqtt(version)
            beginMQTT(packet, version, in: &context)
        case .unknown:
            leave(connection, .unsupportedProtocolVersion, in: &context)
        }
    }

    /// Refuses a CONNECT that is too large, in the dialect that it names, even if it has not
    /// arrived completely.
    ///
    /// - Returns: the number of bytes that must arrive first; nil if it is refused.
    private mutating func refuseLarge(
        _ connection: ConnectionID, packetAt offset: Int, of bytes: UnsafeRawBufferPointer,
        in context: inout some DecodingContext & ~Copyable
    ) -> Int? {
        // The offset after the last byte of the remaining length.
        var start = offset + 2
        while bytes[start - 1] & 0x80 != 0 { start += 1 }
        let body = UnsafeRawBufferPointer(rebasing: bytes[start...])
        guard body.count >= ProtocolName.byteCountMaximum else {
            return start - offset + ProtocolName.byteCountMaximum
        }
        switch try? ProtocolName.read(body.bytes) {
        case .mrt: conversations[known: connection].dialect = .mrt
        case .mqtt(let level) where level >= MQTT.Version.v5.rawValue:
            conversations[known: connection].dialect = .mqtt(.v5)
        case .mqtt, .mqisdp, .unknown, nil:
            // Versions before 5.0 have no return code for it, and unknown protocols no answer at
            // all.
            leave(connection, .packetTooLarge, in: &context)
            return nil
        }
        refuse(connection, .packetTooLarge, in: &context)
        return nil
    }

    /// Refuses a client in its dialect, before the core has an event of it; without an answer if
    /// the dialect is unknown.
    mutating func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: inout some DecodingContext & ~Copyable
    ) {
        switch conversations[known: connection].dialect {
        case .unknown: break
        case .mrt:
            conversations.write(
                MRT.ConnectRefused(reason: reason), to: connection, through: &context)
        case .mqtt(let version):
            conversations.refuse(connection, reason, version: version, through: &context)
        case .json:
            JSONMessage.refuse(connection, reason, in: conversations, through: &context)
        }
        leave(connection, reason, in: &context)
    }

    mutating func leave(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: inout some DecodingContext & ~Copyable
    ) {
        context.takeRefusal(connection, reason)
        if connection.isChannel {
            conversations.close(connection)
            return
        }
        conversations[known: connection].phase = .closing
        context.closeConnection(connection)
    }

    // MARK: - Later packets

    private mutating func read(
        _ packet: ReceivedPacket, in context: inout some DecodingContext & ~Copyable
    ) {
        do throws(WireError) {
            if let version = conversations[known: packet.connection].version {
                try readMQTT(packet, version, in: &context)
            } else {
                try readMRT(packet, in: &context)
            }
        } catch {
            fail(packet.connection, error.reason, in: &context)
        }
    }

    /// Decodes one packet of a channel. A packet for a channel that is not open, except CONNECT,
    /// was sent before its end was known, and is discarded.
    mutating func readChannel(
        _ number: UInt32, _ inner: ByteRange, within outer: ReceivedPacket,
        in context: inout some DecodingContext & ~Copyable
    ) {
        let gateway = outer.connection
        let arena = UnsafeMutableRawBufferPointer(rebasing: outer.arena[..<inner.endOffset])
        let framing = PacketFrame.next(
            in: UnsafeRawBufferPointer(arena).bytes, at: Int(inner.offset),
            packetMaximum: packetMaximum)
        guard case .packet(let frame) = framing else {
            preconditionFailure("the codec has taken an inner packet that is \(framing)")
        }
        if let channel = conversations.channels.channel(number, of: gateway) {
            // No packet may overtake CONNACK, and a gateway cannot wait for one channel.
            switch conversations[known: channel].phase {
            case .awaitingAnswer: fail(channel, .protocolError, in: &context)
            case .established:
                read(ReceivedPacket(frame, from: channel, in: arena), in: &context)
            case .awaitingConnect, .closing: break
            }
            return
        }
        guard frame.type == MRT.PacketType.connect.rawValue else { return }
        let channel = conversations.openChannel(number, of: gateway)
        if conversations.channels.count(of: gateway) > ChannelLimits.countMaximum {
            refuse(channel, .quotaExceeded, in: &context)
        } else if frame.byteCount > firstPacketMaximum {
            refuse(channel, .packetTooLarge, in: &context)
        } else {
            begin(ReceivedPacket(frame, from: channel, in: arena), in: &context)
        }
    }

    /// A connection has ended, and its channels with it.
    ///
    /// - Parameter isTold: whether the core gets an event.
    public mutating func closed(
        _ connection: ConnectionID, _ cause: CloseCause, isTold: Bool = true
    ) {
        guard conversations[connection] != nil else { return }
        if !heldPings.isEmpty { heldPings.remove(connection) }
        let eventCount = events.count
        conversations.closeChannels(of: connection, cause, into: &events)
        conversations.close(connection)
        events.append(.connectionClosed(connection, cause))
        if !isTold {
            events.removeSubrange(eventCount...)
        } else {
            runs.append(
                EventRun(
                    owner: connection, events: eventCount..<events.count, bytes: .empty))
        }
    }

    /// Ends a connection because of its peer's fault.
    private mutating func fail(
        _ connection: ConnectionID, _ reason: ReasonCode,
        in context: inout some DecodingContext & ~Copyable
    ) {
        switch conversations[known: connection].phase {
        case .established: end(connection, for: reason)
        case .awaitingAnswer:
            // A channel still waits for CONNACK, which is then the refusal: the core sends it.
            events.append(.peerFaulted(connection, reason))
        case .awaitingConnect, .closing: refuse(connection, reason, in: &context)
        }
    }
}

/// The reason why a CONNECT is refused by its decoder.
struct DialectRefusal: Error {
    let reason: ReasonCode
    /// Whether it is not refused yet: its password is being verified, and the packet is decoded
    /// again afterwards.
    var isPending = false
}

extension Event {
    /// Whether a credential was verified for it.
    fileprivate var hasCredential: Bool {
        switch self {
        case .connectReceived, .credentialPresented, .credentialRefused: true
        default: false
        }
    }

    /// The number of packets that it counts for: several filters, or a will, cost as much as
    /// several packets.
    fileprivate var partCount: Int {
        switch self {
        case .connectReceived(_, let request): request.will == nil ? 1 : 2
        case .subscribeReceived(_, let request): request.filters.count
        case .unsubscribeReceived(_, let request): request.filters.count
        default: 1
        }
    }

    /// The number of requests in a packet.
    fileprivate var requestCount: Int {
        switch self {
        case .subscribeReceived, .unsubscribeReceived: partCount
        case .sendReceived, .presenceQueried, .groupRequested, .historyRequested,
            .conversationsRequested, .markReadRequested, .appliedReported, .recallRequested,
            .wakeRequested,
            .willSet, .willCleared, .requestFaulted, .credentialPresented, .credentialRefused:
            1
        case .connectReceived(_, let request): request.will == nil ? 0 : 1
        case .connectionClosed, .inboxAcknowledged, .resultsSeen, .packetAnswered,
            .disconnectReceived, .deliveryTooLarge, .outgoingDrained, .peerFaulted:
            0
        }
    }
}
