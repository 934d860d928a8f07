// Outgoing packets: the program's sends and requests, and the packets of the machine itself.

import BrokerTerms
import Primitives
import WireFormat

extension ClientMachine {
    // MARK: Calls

    /// Sends a message. The machine assigns its number; `message.number` is ignored.
    ///
    /// For exactly-once delivery across its own losses of power, a client stores (outbox epoch,
    /// number, message) after this call and before the next ``transmit(into:now:)``.
    ///
    /// - Parameter source: the bytes that the ranges of `message` refer to; only used during the
    ///   call.
    /// - Returns: the number that ``ClientEvent/resolved(_:)`` will have; 0 for a transient send,
    ///   for which only a refusal is reported.
    public mutating func send(
        _ message: MRT.Send, from source: UnsafeRawBufferPointer
    ) throws(ClientError) -> UInt64 {
        if message.grade == .transient {
            guard phase == .joined else { throw .notConnected }
            try append(message, number: 0, source)
            return 0
        }
        try append(message, number: outbox.highestUsed + 1, source)
        outbox.highestUsed += 1
        return outbox.highestUsed
    }

    /// Sends stored messages again after a restart: numbers in rising order, before the first
    /// ``start(now:)``, none above the record's highest used.
    public mutating func resend(
        _ message: MRT.Send, number: UInt64, from source: UnsafeRawBufferPointer
    ) throws(ClientError) {
        precondition(
            isFirstConnect && phase == .stopped,
            "stored send #\(number) after the first start(now:)")
        precondition(
            number > outbox.resultsSeen && number <= outbox.highestUsed,
            "stored send #\(number), \(outbox.resultsSeen) to \(outbox.highestUsed) was expected")
        precondition(message.grade != .transient, "stored send #\(number) is transient")
        try append(message, number: number, source)
    }

    private mutating func append(
        _ message: MRT.Send, number: UInt64, _ source: UnsafeRawBufferPointer
    ) throws(ClientError) {
        var message = message
        message.number = number
        if let reason = refusal(message, source) { throw .refused(reason) }
        try append(
            number == 0 ? .transient : .numbered, number: number, packet: message, source)
    }

    /// Sends a request. A request without an answer when a connection ends is sent again on the
    /// next.
    ///
    /// - Returns: the id that ``ClientEvent/answered(_:)`` will have.
    public mutating func request<Part: RequestPart>(
        _ operation: MRT.Operation, _ part: Part, from source: UnsafeRawBufferPointer
    ) throws(ClientError) -> UInt64 {
        let identifier = nextRequestIdentifier
        try append(
            .request, number: identifier,
            packet: MRT.OutgoingRequest(identifier: identifier, operation: operation, part: part),
            source)
        nextRequestIdentifier += 1
        return identifier
    }

    /// The same, for an operation whose parameters are only bytes: a filter, or nothing.
    public mutating func request(
        _ operation: MRT.Operation, parameters: UnsafeRawBufferPointer
    ) throws(ClientError) -> UInt64 {
        let whole = ByteRange(offset: 0, count: parameters.count)
        let packet = MRT.Request(
            identifier: nextRequestIdentifier, operation: operation, parameters: whole)
        try append(.request, number: nextRequestIdentifier, packet: packet, parameters)
        nextRequestIdentifier += 1
        return nextRequestIdentifier - 1
    }

    private mutating func append<Packet: MRT.Packet>(
        _ kind: OutboxLog.Kind, number: UInt64, packet: Packet, _ source: UnsafeRawBufferPointer
    ) throws(ClientError) {
        let byteCount = packet.encodedByteCount
        if phase == .joined, byteCount > Int(clamping: accepted.packetMaximum) {
            throw .refused(.packetTooLarge)
        }
        guard let room = log.append(kind, number: number, byteCount: byteCount) else {
            throw .outboxFull
        }
        var writer = PacketWriter(room.mutableBytes)
        packet.write(to: &writer, from: source.bytes)
    }

    /// The reason for which the broker would refuse a message, as far as the client can know.
    private func refusal(_ message: MRT.Send, _ source: UnsafeRawBufferPointer) -> ReasonCode? {
        if let fault = message.target.fault(in: source.bytes) { return fault }
        if !message.messageIdentifier.isEmpty,
            !TextRules.isMessageIdentifier(message.messageIdentifier.bytes(in: source.bytes))
        {
            return .payloadFormatInvalid
        }
        let payload = message.payload.bytes(in: source)
        if message.isRaw {
            guard case .topic = message.target else { return .payloadFormatInvalid }
            return isFirstConnect || payload.count <= Int(clamping: accepted.payloadMaximum)
                ? nil : .packetTooLarge
        }
        let limit = isFirstConnect ? Int.max : Int(clamping: accepted.messageMaximum)
        return TextBody.fault(payload.bytes, messageMaximum: limit)
    }

    // MARK: Bytes

    /// The minimum size of the buffer of ``transmit(into:now:)``: the next CONNECT.
    public var transmitByteCountMinimum: Int {
        max(nextConnect.encodedByteCount, ClientLimits.controlPacketByteCountMaximum)
    }

    /// Writes the bytes to send now. Pass all of them to the transport before the next call; call
    /// it until it returns 0.
    ///
    /// - Returns: bytes written to the start of `buffer`.
    public mutating func transmit(
        into buffer: UnsafeMutableRawBufferPointer, now: Instant
    ) -> Int {
        guard phase == .joining || phase == .joined || phase == .leaving else { return 0 }
        // An incomplete packet continues first: no other bytes may be between its parts.
        var count = log.transmitRestOfPacket(buffer)
        if !log.isWithinPacket {
            var writer = PacketWriter(
                UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).mutableBytes)
            if phase == .joining {
                if writesConnect { writeConnect(&writer) }
            } else {
                writeOwedPackets(&writer, now)
            }
            count += writer.byteCount
        }
        if phase == .joined {
            count += log.transmit(
                UnsafeMutableRawBufferPointer(rebasing: buffer[count...]), through: lastAllowed)
        }
        if count > 0 { lastSent = now }
        return count
    }

    /// The highest number that the send window permits.
    private var lastAllowed: UInt64 { announcedResultsSeen + UInt64(accepted.sendWindow) }

    private var nextConnect: MRT.Connect {
        var connect = identity.connect
        if !isFirstConnect { connect.isCleanStart = false }
        connect.isReconnect = isReconnect
        connect.packetMaximum = UInt32(clamping: receive.count)
        connect.resume = inbox
        connect.cookie = cookie
        // A send that was never transmitted cannot be a duplicate.
        let seen = resultsSeen
        connect.outbox = MRT.Outbox(
            epoch: outbox.epoch, resultsSeen: seen, highestUsed: max(seen, log.highestSent))
        return connect
    }

    private mutating func writeConnect(_ writer: inout PacketWriter) {
        let connect = nextConnect
        precondition(
            writer.remainingByteCount >= connect.encodedByteCount,
            "a transmit buffer of \(writer.remainingByteCount) bytes for a CONNECT")
        connect.write(to: &writer, from: identity.bytes.bytes)
        announcedResultsSeen = resultsSeen
        highestReceived = inbox?.lastNumber ?? 0
        acknowledgedThrough = highestReceived
        writesConnect = false
    }

    /// Pings, acknowledgements, a new credential, the DISCONNECT: each when it is due and there is
    /// room.
    private mutating func writeOwedPackets(_ writer: inout PacketWriter, _ now: Instant) {
        if writesPing, writer.remainingByteCount >= ClientLimits.controlPacketByteCountMaximum {
            MRT.Ping(isResponse: false).write(to: &writer)
            writesPing = false
        }
        if writer.remainingByteCount >= ClientLimits.controlPacketByteCountMaximum {
            writeAcknowledgement(&writer, now)
        }
        if writesAuth {
            let auth = MRT.ClientAuth(credential: identity.connect.credential)
            if writer.remainingByteCount >= auth.encodedByteCount {
                auth.write(to: &writer, from: identity.bytes.bytes)
                writesAuth = false
                unansweredAuthCount += 1
            }
        }
        if let farewell, writer.remainingByteCount >= ClientLimits.controlPacketByteCountMaximum {
            farewell.write(to: &writer)
            self.farewell = nil
        }
    }

    /// One ACK for both numbers, as soon as one of them is due.
    private mutating func writeAcknowledgement(_ writer: inout PacketWriter, _ now: Instant) {
        let isLeaving = phase == .leaving
        let isInboxDue =
            acknowledgesInbox
            && (isLeaving || now >= acknowledgementDeadline
                || unacknowledgedCount * 2 >= UInt32(accepted.inboxWindow))
        // Half of the window keeps the broker's memory for results small and never makes sends wait
        // for it.
        let seen = resultsSeen
        let areResultsDue =
            seen - announcedResultsSeen >= (UInt64(accepted.sendWindow) + 1) / 2
        guard isInboxDue || areResultsDue else { return }
        // Messages that were processed on an earlier connection may not have been delivered again
        // on this one, and cannot be acknowledged before that (PROTOCOL.md section 8, "The inbox").
        let number = acknowledgesInbox ? min(inbox?.lastNumber ?? 0, highestReceived) : 0
        let ack = MRT.Ack(
            inboxNumber: number, resultsSeen: seen > announcedResultsSeen ? seen : 0)
        acknowledgesInbox = false
        if number > acknowledgedThrough {
            acknowledgedThrough = number
            unacknowledgedCount = 0
        }
        announcedResultsSeen = seen
        if ack.inboxNumber != 0 || ack.resultsSeen != 0 { ack.write(to: &writer) }
    }
}
