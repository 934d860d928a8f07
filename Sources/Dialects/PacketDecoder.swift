// From bytes to events: packets are framed, the first one chooses the dialect, and each becomes an
// event for the core in the order of the stream. Nothing is answered here but a ping; faults become
// events too, so that their answers keep their place.

import BrokerCore
import Primitives
import WireFormat

/// Turns the bytes of a loop's connections into events.
public struct PacketDecoder: ~Copyable {
    public var conversations: ConversationTable
    /// Events of this turn, in order; their ranges are in the buffer the bytes came from.
    public var events: ContiguousArray<Event> = []
    /// Which of them came from one burst, and where its bytes are.
    var runs: ContiguousArray<EventRun> = []
    /// Where the bytes of the burst end that is being read, with what was added to them.
    var burstEnd = 0
    /// By index, as ``ConversationTable/open(_:terms:)`` names them.
    public var terms: [ListenerTerms]
    /// Bytes of the largest packet that is accepted after CONNECT.
    public let packetMaximum: Int

    public init(loop: UInt8, terms: [ListenerTerms], packetMaximum: Int) {
        conversations = ConversationTable(loop: loop)
        self.terms = terms
        self.packetMaximum = packetMaximum
        events.reserveCapacity(1024)
    }

    /// What became of received bytes.
    public struct Outcome: Sendable {
        /// Bytes, from the front, that are done with.
        public var consumed: Int
        /// Bytes needed, from the first that is not done with, before it is worth asking again.
        public var awaited: Int
        /// How much was asked of the core; only counted where there is a maximum.
        public var work = 0
        /// Whether packets were left because the maximum of work was reached.
        public var leavesRest = false
        /// Whether packets were left because there were enough for one turn.
        public var isCut = false
    }

    /// Reads as many packets of `range` as are complete.
    ///
    /// - Parameters:
    ///   - buffer: what `range`, and the ranges of all events of this turn, point into.
    ///   - workMaximum: how many messages and requests are read, except that a packet with several
    ///     is read whole. Acknowledgements and pings do not count: they make work go away.
    ///   - packetCountMaximum: how many packets of any kind are read; one that makes several events
    ///     counts for as many.
    public mutating func receive(
        _ range: ByteRange, of buffer: UnsafeRawBufferPointer, from connection: ConnectionID,
        workMaximum: Int = .max, packetCountMaximum: Int = .max,
        host: inout some ConnectionHost & ~Copyable,
        authenticator: inout some Authenticator & ~Copyable,
        log: inout some LogSink & ~Copyable
    ) -> Outcome {
        let firstEvent = events.count
        burstEnd = range.endOffset
        conversations.beginBurst(of: connection)
        let outcome = readPackets(
            range, of: buffer, connection, workMaximum, packetCountMaximum, &host, &authenticator,
            &log)
        if events.count > firstEvent {
            let count = burstEnd - Int(range.offset)
            runs.append(
                EventRun(
                    owner: connection, events: firstEvent..<events.count,
                    bytes: ByteRange(offset: Int(range.offset), count: count)))
        }
        return outcome
    }

    private mutating func readPackets(
        _ range: ByteRange, of buffer: UnsafeRawBufferPointer, _ connection: ConnectionID,
        _ workMaximum: Int, _ packetCountMaximum: Int,
        _ host: inout some ConnectionHost & ~Copyable,
        _ authenticator: inout some Authenticator & ~Copyable,
        _ log: inout some LogSink & ~Copyable
    ) -> Outcome {
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<range.endOffset])
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
            if offset < range.endOffset, work >= workMaximum || packetCount >= packetCountMaximum {
                return Outcome(
                    consumed: offset - start, awaited: 0, work: work,
                    leavesRest: work >= workMaximum, isCut: packetCount >= packetCountMaximum)
            }
            let firstEvent = events.count
            let isFirst = conversation.phase == .awaitingConnect
            let maximum = isFirst ? firstPacketMaximum : packetMaximum
            switch PacketFrame.next(in: bytes, at: offset, packetMaximum: maximum) {
            case .incomplete(let minimum):
                // What cannot be a packet is not waited for.
                guard let fault = startFault(bytes, offset, conversation) else {
                    return Outcome(consumed: offset - start, awaited: minimum, work: work)
                }
                fail(connection, fault.reason, &host, &log)
            case .malformed:
                fail(connection, .malformedPacket, &host, &log)
            case .tooLarge:
                if let fault = startFault(bytes, offset, conversation) {
                    fail(connection, fault.reason, &host, &log)
                } else if !isFirst {
                    fail(connection, .packetTooLarge, &host, &log)
                } else if let minimum = refuseLarge(connection, bytes, offset, &host, &log) {
                    return Outcome(consumed: offset - start, awaited: minimum, work: work)
                }
            case .packet(let frame):
                offset = frame.endOffset
                if conversation.phase == .awaitingConnect {
                    begin(frame, bytes, connection, &host, &authenticator, &log)
                } else {
                    read(frame, bytes, connection, &host, &authenticator, &log)
                }
            }
            // The filters of a SUBSCRIBE are events of their own.
            packetCount += max(1, events.count - firstEvent)
            // To verify a credential costs as much as to read hundreds of packets.
            if let last = events.last, events.count > firstEvent, last.hasCredential {
                packetCount += ScheduleLimits.packetsPerCredential
            }
            if workMaximum != .max { work += events[firstEvent...].count { $0.asksForWork } }
        }
    }

    /// Bytes of the largest CONNECT that is accepted.
    private var firstPacketMaximum: Int {
        min(packetMaximum, WireLimits.connectByteCountMaximum)
    }

    /// What is wrong with a packet whose first byte is all that need have arrived; nil for nothing,
    /// or where not even that is there.
    private func startFault(
        _ bytes: UnsafeRawBufferPointer, _ offset: Int, _ conversation: Conversation
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

    /// Ends an established connection for a fault of its peer's, behind what it has sent so far.
    public mutating func fail(_ connection: ConnectionID, _ reason: ReasonCode) {
        precondition(conversations[connection]?.phase == .established, "nobody is there to fail")
        conversations[connection]!.phase = .closing
        events.append(.peerFaulted(connection, reason))
    }

    // MARK: - The first packet

    private mutating func begin(
        _ frame: PacketFrame, _ bytes: UnsafeRawBufferPointer, _ connection: ConnectionID,
        _ host: inout some ConnectionHost & ~Copyable,
        _ authenticator: inout some Authenticator & ~Copyable,
        _ log: inout some LogSink & ~Copyable
    ) {
        let body = frame.body.bytes(in: bytes)
        guard frame.type == MRT.PacketType.connect.rawValue,
            let name = try? ProtocolName.read(body)
        else {
            if connection.isChannel {
                refuse(connection, .malformedPacket, &host, &log)
            } else {
                // Not a client of ours: there is no dialect to answer in.
                leave(connection, .protocolError, &host, &log)
            }
            return
        }
        if connection.isChannel, name != .mrt(level: MRT.level) {
            refuse(connection, .unsupportedProtocolVersion, &host, &log)
            return
        }
        switch name {
        case .mrt:
            conversations[connection]!.dialect = .mrt
            do throws(WireError) {
                guard frame.flags == 0, frame.hasMinimalLength else { throw .malformed }
                let connect = try MRT.Connect(body: body)
                let base = Int(frame.body.offset)
                let listener = terms[Int(conversations[connection]!.terms)]
                conversations.setClientPacketMaximum(connect.packetMaximum, for: connection)
                switch MRTDecoder.event(
                    connect, bodyOffset: base, bytes, connection,
                    gateway: conversations.gateway(of: connection), listener, &authenticator)
                {
                case .success(let event):
                    conversations[connection]!.phase = .awaitingAnswer
                    // A channel waits by itself: its gateway has others to be read.
                    if !connection.isChannel { host.holdConnection(connection) }
                    events.append(event)
                case .failure(let refusal):
                    log.takeNames(
                        connection, user: connect.credential.user.bytes(in: body),
                        device: connect.device.bytes(in: body))
                    refuse(connection, refusal.reason, &host, &log)
                }
            } catch {
                refuse(connection, error.reason, &host, &log)
            }
        case .mqtt, .mqisdp:
            guard let version = MQTT.Version(name) else {
                // A level that does not exist here is answered as the oldest one that has an
                // answer for it [MQTT-3.1.2-2].
                conversations[connection]!.dialect = .mqtt(.v311)
                refuse(connection, .unsupportedProtocolVersion, &host, &log)
                return
            }
            conversations[connection]!.dialect = .mqtt(version)
            beginMQTT(frame, version, bytes, connection, &host, &authenticator, &log)
        case .unknown:
            leave(connection, .unsupportedProtocolVersion, &host, &log)
        }
    }

    /// Refuses a CONNECT that is too large in the dialect that it names, whether or not all of it
    /// has arrived.
    ///
    /// - Returns: the bytes of the packet that have to be there first; nil where it is refused.
    private mutating func refuseLarge(
        _ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer, _ offset: Int,
        _ host: inout some ConnectionHost & ~Copyable, _ log: inout some LogSink & ~Copyable
    ) -> Int? {
        // Behind the last byte of the remaining length.
        var start = offset + 2
        while bytes[start - 1] & 0x80 != 0 { start += 1 }
        let body = UnsafeRawBufferPointer(rebasing: bytes[start...])
        guard body.count >= ProtocolName.byteCountMaximum else {
            return start - offset + ProtocolName.byteCountMaximum
        }
        switch try? ProtocolName.read(body) {
        case .mrt: conversations[connection]!.dialect = .mrt
        case .mqtt(let level) where level >= MQTT.Version.v5.rawValue:
            conversations[connection]!.dialect = .mqtt(.v5)
        case .mqtt, .mqisdp, .unknown, nil:
            // There is no return code for it before 5.0, and no dialect in which to answer others.
            leave(connection, .packetTooLarge, &host, &log)
            return nil
        }
        refuse(connection, .packetTooLarge, &host, &log)
        return nil
    }

    /// Sends a client away in its dialect, before the core has heard of it; without an answer where
    /// it has not said which one that is.
    mutating func refuse(
        _ connection: ConnectionID, _ reason: ReasonCode,
        _ host: inout some ConnectionHost & ~Copyable, _ log: inout some LogSink & ~Copyable
    ) {
        switch conversations[connection]!.dialect {
        case .unknown: break
        case .mrt: conversations.write(MRT.ConnectRefused(reason: reason), to: connection, &host)
        case .mqtt(let version):
            MQTTEncoder.refuse(connection, reason, version, conversations, &host)
        }
        leave(connection, reason, &host, &log)
    }

    mutating func leave(
        _ connection: ConnectionID, _ reason: ReasonCode,
        _ host: inout some ConnectionHost & ~Copyable, _ log: inout some LogSink & ~Copyable
    ) {
        log.takeRefusal(connection, reason)
        if connection.isChannel {
            conversations.close(connection)
            return
        }
        conversations[connection]!.phase = .closing
        host.closeConnection(connection)
    }

    // MARK: - Later packets

    private mutating func read(
        _ frame: PacketFrame, _ bytes: UnsafeRawBufferPointer, _ connection: ConnectionID,
        _ host: inout some ConnectionHost & ~Copyable,
        _ authenticator: inout some Authenticator & ~Copyable,
        _ log: inout some LogSink & ~Copyable
    ) {
        do throws(WireError) {
            if let version = conversations[connection]!.version {
                try readMQTT(frame, version, bytes, connection, &host, &authenticator)
                return
            }
            switch try MRT.PacketType(frame, from: .client) {
            case .auth:
                let auth = try MRT.ClientAuth(body: frame.body.bytes(in: bytes))
                events.append(
                    MRTDecoder.event(
                        auth, bodyOffset: Int(frame.body.offset), bytes, connection,
                        gateway: conversations.gateway(of: connection), &authenticator))
            case .pingRequest:
                _ = try MRT.Ping(isResponse: false, body: frame.body.bytes(in: bytes))
                conversations.write(MRT.Ping(isResponse: true), to: connection, &host)
            case .channel:
                let channel = try MRT.Channel(body: frame.body.bytes(in: bytes))
                readChannel(
                    channel.channel, channel.inner.shifted(by: Int(frame.body.offset)), bytes,
                    of: connection, &host, &authenticator, &log)
            case let type:
                try MRTDecoder.read(
                    type, frame, bytes, connection,
                    clientPacketMaximum: conversations[connection]!.clientPacketMaximum,
                    &authenticator, into: &events)
            }
        } catch {
            fail(connection, error.reason, &host, &log)
        }
    }

    /// Reads one packet of a conversation that a gateway carries. What comes on a channel that is
    /// not open, CONNECT apart, was on its way when the channel ended: it is nobody's any more.
    private mutating func readChannel(
        _ number: UInt32, _ inner: ByteRange, _ buffer: UnsafeRawBufferPointer,
        of gateway: ConnectionID, _ host: inout some ConnectionHost & ~Copyable,
        _ authenticator: inout some Authenticator & ~Copyable,
        _ log: inout some LogSink & ~Copyable
    ) {
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<inner.endOffset])
        guard
            case .packet(let frame) = PacketFrame.next(
                in: bytes, at: Int(inner.offset), packetMaximum: packetMaximum)
        else { preconditionFailure("an inner packet that the codec should have refused") }
        if let channel = conversations.channels.channel(number, of: gateway) {
            // Nothing may overtake CONNACK, and a gateway cannot be made to wait for one channel.
            if conversations[channel]!.phase == .awaitingAnswer {
                fail(channel, .protocolError, &host, &log)
            } else if conversations[channel]!.phase == .established {
                read(frame, bytes, channel, &host, &authenticator, &log)
            }
            return
        }
        guard frame.type == MRT.PacketType.connect.rawValue else { return }
        let channel = conversations.openChannel(number, of: gateway)
        if conversations.channels.count(of: gateway) > ChannelLimits.countMaximum {
            refuse(channel, .quotaExceeded, &host, &log)
        } else if frame.byteCount > firstPacketMaximum {
            refuse(channel, .packetTooLarge, &host, &log)
        } else {
            begin(frame, bytes, channel, &host, &authenticator, &log)
        }
    }

    /// A connection is gone, and what it carried with it.
    ///
    /// - Parameter isTold: whether the core hears of it.
    public mutating func closed(
        _ connection: ConnectionID, _ cause: CloseCause, isTold: Bool = true
    ) {
        guard conversations[connection] != nil else { return }
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

    /// Ends a connection for a fault of its peer's.
    private mutating func fail(
        _ connection: ConnectionID, _ reason: ReasonCode,
        _ host: inout some ConnectionHost & ~Copyable, _ log: inout some LogSink & ~Copyable
    ) {
        let phase = conversations[connection]!.phase
        if phase == .established || phase == .awaitingAnswer {
            // The core closes it. A channel may still wait for its answer, which is the refusal
            // then.
            if phase == .established { conversations[connection]!.phase = .closing }
            events.append(.peerFaulted(connection, reason))
        } else {
            refuse(connection, reason, &host, &log)
        }
    }
}

/// Why a CONNECT goes no further than its dialect.
struct DialectRefusal: Error {
    let reason: ReasonCode
}

extension Event {
    /// Whether something was verified for it.
    fileprivate var hasCredential: Bool {
        switch self {
        case .connectReceived, .credentialPresented, .credentialRefused: true
        default: false
        }
    }

    /// Whether a client asks for something to be done.
    fileprivate var asksForWork: Bool {
        switch self {
        case .sendReceived, .subscribeReceived, .unsubscribeReceived, .presenceQueried,
            .groupRequested, .willSet, .willCleared, .requestFaulted, .credentialPresented,
            .credentialRefused:
            true
        case .connectReceived, .connectionClosed, .inboxAcknowledged, .resultsSeen, .packetAnswered,
            .disconnectReceived, .deliveryTooLarge, .outgoingDrained, .peerFaulted:
            false
        }
    }
}
