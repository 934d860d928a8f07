// Writes WebSocket frames of connections. The bytes appended between two flushes are the payload of
// one binary frame. Its header is written when its length is known, into room that was reserved for
// it. Unsent bytes that have their frames precede that room. Where messages are text, the handler
// appends whole frames, and there is no room.
//
//     block:   sent | framed, unsent | room for a header | payload without a header
//                   ^ outgoingStart                        ^ outgoingEnd is after it
import BrokerTerms
import Primitives
import WireFormat

extension EventLoop {
    /// Unsent bytes without the room for a header.
    @usableFromInline
    func framedOutgoingByteCount(_ slot: Int) -> Int {
        guard slots[slot].outgoing != nil else { return 0 }
        return slots[slot].outgoingByteCount
            - ((frames + slot).pointee.hasRoom ? FrameState.roomByteCount : 0)
    }

    /// Writes the header of the appended bytes into its room; removes the room if nothing was
    /// appended.
    mutating func closeFrame(_ slot: Int) {
        guard (frames + slot).pointee.hasRoom, let block = slots[slot].outgoing else { return }
        (frames + slot).pointee.hasRoom = false
        let room = FrameState.roomByteCount
        let start = Int(slots[slot].outgoingStart)
        let framed = (frames + slot).pointee.framedCount
        let payload = slots[slot].outgoingByteCount - framed - room
        if payload == 0 {
            slots[slot].outgoingEnd -= UInt32(room)
            return
        }
        let headerByteCount = WebSocketFrame.headerByteCount(payloadByteCount: payload)
        let spare = room - headerByteCount
        let header = UnsafeMutableRawBufferPointer(
            start: block + start + framed + spare, count: headerByteCount)
        var writer = PacketWriter(header.mutableBytes)
        WebSocketFrame.writeHeader(.binary, payloadByteCount: payload, to: &writer)
        // For a slow reader: moves its unsent frames up to the new one.
        if framed > 0 { (block + start + spare).copyMemory(from: block + start, byteCount: framed) }
        slots[slot].outgoingStart = UInt32(start + spare)
        (frames + slot).pointee.framedCount = slots[slot].outgoingByteCount
    }

    /// Reserves room for the header of the next frame after the unsent bytes, all of which have
    /// frames. Closes the connection if the bytes do not fit, like other bytes that must not be
    /// lost.
    mutating func openFrame(_ slot: Int) {
        guard slots[slot].phase == .open, !(frames + slot).pointee.hasRoom,
            (frames + slot).pointee.decoder.form == .binary
        else { return }
        guard ensureCapacity(FrameState.roomByteCount, slot) else { return }
        (frames + slot).pointee.framedCount = slots[slot].outgoingByteCount
        slots[slot].outgoingEnd += UInt32(FrameState.roomByteCount)
        (frames + slot).pointee.hasRoom = true
    }

    /// Reserves the room at the start of a new block.
    mutating func openFirstFrame(_ slot: Int) {
        guard (frames + slot).pointee.decoder.form == .binary else { return }
        slots[slot].outgoingEnd = UInt32(FrameState.roomByteCount)
        (frames + slot).pointee.framedCount = 0
        (frames + slot).pointee.hasRoom = true
    }

    /// Ensures that the block has room for so many bytes after the unsent ones. Returns false if it
    /// cannot be made large enough.
    private mutating func ensureCapacity(_ byteCount: Int, _ slot: Int) -> Bool {
        if Int(slots[slot].outgoingEnd) + byteCount <= Int(slots[slot].outgoingCapacity) {
            return true
        }
        return makeRoom(byteCount, for: slot, traffic: .required) != nil
    }

    // MARK: - Control frames

    /// Answers a ping, or holds it.
    mutating func takePing(_ payload: RawSpan, _ slot: Int) {
        if configuration.mayAnswerPings?() ?? true { return answerPing(payload, slot) }
        heldPings[slot] = (name(of: slot), payload.withUnsafeBytes { [UInt8]($0) })
    }

    /// Whether ``answerHeldPings(where:)`` has something to do.
    public var hasHeldPings: Bool { !heldPings.isEmpty }

    /// Answers the pings that were held, of connections that are still open and for which `mayEmit`
    /// is true.
    public mutating func answerHeldPings(where mayEmit: (ConnectionID) -> Bool) {
        for (place, held) in heldPings where mayEmit(held.connection) {
            heldPings[place] = nil
            guard let slot = slot(of: held.connection), slots[slot].phase == .open else { continue }
            answerPing(held.payload.span.bytes, slot)
        }
    }

    /// Answers a ping with its payload. If the peer does not read, only a later ping is answered
    /// (RFC 6455, 5.5.3).
    private mutating func answerPing(_ payload: RawSpan, _ slot: Int) {
        let byteCount =
            WebSocketFrame.headerByteCount(payloadByteCount: payload.byteCount) + payload.byteCount
        if slots[slot].outgoing == nil { (frames + slot).pointee.pongByteCount = 0 }
        let waiting = Int((frames + slot).pointee.pongByteCount) + byteCount
        guard waiting <= WebLimits.waitingPongByteCountMaximum,
            slots[slot].outgoingByteCount <= Int(slots[slot].outgoingMaximum),
            let target = beginControl(byteCount, slot)
        else { return }
        (frames + slot).pointee.pongByteCount = UInt16(waiting)
        var writer = PacketWriter(target.mutableBytes)
        WebSocketFrame.writeHeader(.pong, payloadByteCount: payload.byteCount, to: &writer)
        writer.write(bytes: payload)
        openFrame(slot)
    }

    /// Appends the close frame with the reason. Nothing is appended after it.
    mutating func appendClose(_ slot: Int, _ cause: TransportCloseCause) {
        let code: WebSocketCloseCode
        switch cause {
        case .peerClosed:
            // The end of TCP without a close frame gets no answer.
            guard (frames + slot).pointee.ending == .peerClose else { return closeFrame(slot) }
            code = .normal
        case .webSocketFault: code = (frames + slot).pointee.fault.closeCode
        case .packetTooLarge: code = .tooLarge
        case .loopStopped: code = .goingAway
        case .closedByHandler, .networkFailure, .tlsFailure, .handshakeTimeout, .connectTimeout,
            .lingerTimeout, .outgoingOverflow, .proxyHeaderFault, .refused:
            code = .normal
        }
        guard let target = beginControl(WebSocketFrame.closeByteCount(), slot) else { return }
        var writer = PacketWriter(target.mutableBytes)
        WebSocketFrame.writeClose(code, to: &writer)
    }

    /// Reserves room for a control frame after the unsent bytes, and counts it as framed. Returns
    /// nil if the connection was closed for it.
    private mutating func beginControl(
        _ byteCount: Int, _ slot: Int
    ) -> UnsafeMutableRawBufferPointer? {
        if slots[slot].outgoing == nil {
            guard makeRoom(byteCount, for: slot, traffic: .required) != nil else { return nil }
        }
        closeFrame(slot)
        guard ensureCapacity(byteCount, slot), let block = slots[slot].outgoing else { return nil }
        let target = UnsafeMutableRawBufferPointer(
            start: block + Int(slots[slot].outgoingEnd), count: byteCount)
        slots[slot].outgoingEnd += UInt32(byteCount)
        (frames + slot).pointee.framedCount = slots[slot].outgoingByteCount
        if !slots[slot].flags.contains(.sendPending) {
            set(.sendPending, slot)
            toSend.append(slot)
        }
        return target
    }
}
