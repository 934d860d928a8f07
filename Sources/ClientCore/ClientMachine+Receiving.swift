// Received bytes become packets, and packets become events.

import BrokerTerms
import Primitives
import WireFormat

extension ClientMachine {
    /// The memory for the next bytes of the transport; never empty once the events are read.
    public mutating func receiveSpace() -> UnsafeMutableRawBufferPointer {
        if parsed > 0 {
            let rest = UnsafeRawBufferPointer(rebasing: receive[parsed..<filled])
            receive.copyMemory(from: rest)
            filled -= parsed
            parsed = 0
        }
        return UnsafeMutableRawBufferPointer(rebasing: receive[filled...])
    }

    /// The transport wrote `byteCount` bytes, at least 1, into ``receiveSpace()``.
    public mutating func received(byteCount: Int, now: Instant) {
        precondition(
            byteCount > 0, "\(byteCount) bytes received; closed(now:) reports the end of the stream"
        )
        precondition(
            filled + byteCount <= receive.count,
            "\(byteCount) bytes in a space of \(receive.count - filled)")
        guard phase == .joining || phase == .joined || phase == .leaving else { return }
        filled += byteCount
        lastReceived = now
        pingDeadline = .never
    }

    /// The bytes of a range in the last event.
    public func bytes(_ range: ByteRange) -> UnsafeRawBufferPointer {
        range.bytes(in: eventBody)
    }

    /// The next event; nil if there is none. Call it until it returns nil.
    public mutating func nextEvent(now: Instant) -> ClientEvent? {
        if let disconnection {
            self.disconnection = nil
            return .disconnected(disconnection)
        }
        if wantsConnection {
            wantsConnection = false
            return .connectionWanted
        }
        if checksSizes, let event = nextOversizedEvent() { return event }
        while phase == .joining || phase == .joined || phase == .leaving {
            guard let frame = nextFrame(now) else { break }
            do throws(WireError) {
                if let event = try event(of: frame, now) { return event }
            } catch {
                lose(error.reason, now: now)
            }
        }
        guard let disconnection else { return nil }
        self.disconnection = nil
        return .disconnected(disconnection)
    }

    /// A complete packet.
    private mutating func nextFrame(_ now: Instant) -> PacketFrame? {
        let arrived = UnsafeRawBufferPointer(rebasing: receive[..<filled])
        switch PacketFrame.next(in: arrived.bytes, at: parsed, packetMaximum: receive.count) {
        case .packet(let frame):
            parsed = frame.endOffset
            eventBody = frame.body.bytes(in: arrived)
            return frame
        case .incomplete: return nil
        case .malformed: lose(.malformedPacket, now: now)
        case .tooLarge: lose(.packetTooLarge, now: now)
        }
        return nil
    }

    /// Refuses sends that were accepted before the broker's limits were known, and exceed them.
    private mutating func nextOversizedEvent() -> ClientEvent? {
        let limit = Int(clamping: accepted.packetMaximum)
        while let (kind, number) = log.removeOversized(limit) {
            switch kind {
            case .numbered:
                return .resolved(MRT.SendResult(number: number, reason: .packetTooLarge))
            case .request:
                return .answered(MRT.Response(identifier: number, reason: .packetTooLarge))
            case .transient: continue
            }
        }
        checksSizes = false
        return nil
    }

    private mutating func event(
        of frame: PacketFrame, _ now: Instant
    ) throws(WireError) -> ClientEvent? {
        let type = try MRT.PacketType(frame, from: .broker)
        guard (type == .connack) == (phase == .joining) else { throw .protocolError }
        let body = eventBody
        switch type {
        case .connack: return try connackReceived(MRT.Connack(body: body.bytes), now)
        case .deliver:
            return try deliverReceived(MRT.Deliver(flags: frame.flags, body: body.bytes), now)
        case .result:
            return try resultReceived(MRT.SendResult(flags: frame.flags, body: body.bytes))
        case .response:
            let response = try MRT.Response(body: body.bytes)
            return log.resolve(.request, response.identifier) ? .answered(response) : nil
        case .pingResponse:
            _ = try MRT.Ping(isResponse: true, body: body.bytes)
            return nil
        case .auth: return try authReceived(MRT.BrokerAuth(body: body.bytes))
        case .disconnect:
            lose(try MRT.BrokerDisconnect(body: body.bytes).reason, now: now)
            return nil
        case .channel: return .carried(try MRT.Channel(body: body.bytes))
        case .connect, .send, .ack, .request, .pingRequest: throw .protocolError
        }
    }

    private mutating func connackReceived(_ connack: MRT.Connack, _ now: Instant) -> ClientEvent? {
        switch connack {
        case .refused(let refused):
            lose(
                refused.reason, retryAfterSeconds: refused.retryAfterSeconds, text: refused.text,
                now: now)
            return nil
        case .accepted(let accepted):
            self.accepted = accepted
            phase = .joined
            phaseDeadline = .never
            connectedAt = now
            cookie = accepted.resumeCookie
            isFirstConnect = false
            isReconnect = true
            checksSizes = true
            let isNewInbox = inbox?.epoch != accepted.sessionEpoch
            if isNewInbox {
                inbox = MRT.Resume(epoch: accepted.sessionEpoch, lastNumber: 0)
                highestDelivered = 0
                highestReceived = 0
                acknowledgedThrough = 0
            }
            return .connected(ClientConnected(accepted: accepted, isNewInbox: isNewInbox))
        }
    }

    private mutating func deliverReceived(_ deliver: MRT.Deliver, _ now: Instant) -> ClientEvent? {
        // After a DISCONNECT nothing is processed; numbered messages are delivered again on the
        // next connection.
        if phase == .leaving { return nil }
        if deliver.number == 0 { return event(of: deliver) }
        // All of these are unacknowledged from the broker's view, so they must be within the
        // window; otherwise the broker could fill the program's memory.
        guard unacknowledgedCount < UInt32(accepted.inboxWindow) else {
            lose(.receiveMaximumExceeded, now: now)
            return nil
        }
        unacknowledgedCount += 1
        highestReceived = max(highestReceived, deliver.number)
        if deliver.number <= highestDelivered {
            // Seen before. If it was processed too, the acknowledgement was lost.
            if deliver.number <= inbox?.lastNumber ?? 0 { scheduleAcknowledgement(now) }
            return nil
        }
        highestDelivered = deliver.number
        return event(of: deliver)
    }

    /// An event that cannot be decoded is passed to the program as it is: a refusal would only make
    /// the broker deliver it again.
    private func event(of deliver: MRT.Deliver) -> ClientEvent {
        guard deliver.kind == .groupEvent,
            let change = try? MRT.GroupEvent(deliver.payload, in: eventBody.bytes)
        else { return .delivered(deliver) }
        return .groupChanged(deliver, change)
    }

    /// The answer to a credential of this client; the broker sends no other AUTH.
    private mutating func authReceived(_ auth: MRT.BrokerAuth) throws(WireError) -> ClientEvent {
        guard unansweredAuthCount > 0 else { throw .protocolError }
        unansweredAuthCount -= 1
        return .credentialAnswered(auth.reason)
    }

    private mutating func resultReceived(_ result: MRT.SendResult) -> ClientEvent? {
        if result.number == 0 { return .resolved(result) }
        return log.resolve(.numbered, result.number) ? .resolved(result) : nil
    }

    /// All messages up to `number` have been processed, and the record is stored: the broker may
    /// discard them. A number at or below that of an earlier call has no effect.
    public mutating func acknowledge(through number: UInt64, now: Instant) {
        precondition(
            number <= highestDelivered,
            "acknowledges #\(number), #\(highestDelivered) was the last delivery")
        guard var record = inbox, number > record.lastNumber else { return }
        record.lastNumber = number
        inbox = record
        scheduleAcknowledgement(now)
    }

    private mutating func scheduleAcknowledgement(_ now: Instant) {
        guard phase == .joined, !acknowledgesInbox else { return }
        acknowledgesInbox = true
        acknowledgementDeadline = now.advanced(
            byMilliseconds: options.acknowledgementDelayMilliseconds)
    }
}
