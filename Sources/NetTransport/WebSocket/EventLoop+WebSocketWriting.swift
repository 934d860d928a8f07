// Connections with WebSocket frames, outwards: what is appended between two flushes is the payload
// of one binary frame. Its header is written when its length is known, into room that was left for
// it; what has a frame and was not sent stands before that room.
//
//     block:   sent | framed, unsent | room for a header | payload without a header
//                   ^ outgoingStart                        ^ outgoingEnd is behind it
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

    /// Gives what has been appended its header, and takes away the room for the next one.
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
        // A slow reader's unsent frames close up to the new one.
        if framed > 0 { (block + start + spare).copyMemory(from: block + start, byteCount: framed) }
        slots[slot].outgoingStart = UInt32(start + spare)
        (frames + slot).pointee.framedCount = slots[slot].outgoingByteCount
    }

    /// Leaves room for the header of the next frame behind what is unsent, all of which has frames.
    /// The connection may be closed for it, as for any bytes that must not be missing.
    mutating func openFrame(_ slot: Int) {
        guard slots[slot].phase == .open, !(frames + slot).pointee.hasRoom else { return }
        guard ensureCapacity(FrameState.roomByteCount, slot) else { return }
        (frames + slot).pointee.framedCount = slots[slot].outgoingByteCount
        slots[slot].outgoingEnd += UInt32(FrameState.roomByteCount)
        (frames + slot).pointee.hasRoom = true
    }

    /// The first block of a flush: the room comes first.
    mutating func openFirstFrame(_ slot: Int) {
        slots[slot].outgoingEnd = UInt32(FrameState.roomByteCount)
        (frames + slot).pointee.framedCount = 0
        (frames + slot).pointee.hasRoom = true
    }

    /// Whether the block has so many bytes behind the unsent ones, after it was made larger if need
    /// be.
    private mutating func ensureCapacity(_ byteCount: Int, _ slot: Int) -> Bool {
        if Int(slots[slot].outgoingEnd) + byteCount <= Int(slots[slot].outgoingCapacity) {
            return true
        }
        return makeRoom(byteCount, for: slot, traffic: .required) != nil
    }

    // MARK: - Control frames

    /// Answers a ping with its payload. Where the peer does not read, a later ping is answered
    /// instead (RFC 6455, 5.5.3).
    mutating func answerPing(_ payload: RawSpan, _ slot: Int) {
        guard slots[slot].outgoingByteCount <= Int(slots[slot].outgoingMaximum) else { return }
        let header = WebSocketFrame.headerByteCount(payloadByteCount: payload.byteCount)
        guard let target = beginControl(header + payload.byteCount, slot) else { return }
        var writer = PacketWriter(target.mutableBytes)
        WebSocketFrame.writeHeader(.pong, payloadByteCount: payload.byteCount, to: &writer)
        writer.write(bytes: payload)
        openFrame(slot)
    }

    /// Says why a connection is closed. Nothing is appended behind it.
    mutating func appendClose(_ slot: Int, _ cause: TransportCloseCause) {
        let code: WebSocketCloseCode
        switch cause {
        case .peerClosed:
            // An end of TCP without a close frame is answered by nothing.
            guard (frames + slot).pointee.ending == .peerClose else { return closeFrame(slot) }
            code = .normal
        case .webSocketFault: code = (frames + slot).pointee.fault.closeCode
        case .packetTooLarge: code = .tooLarge
        case .loopStopped: code = .goingAway
        case .closedByHandler, .networkFailure, .tlsFailure, .handshakeTimeout, .connectTimeout,
            .lingerTimeout, .outgoingOverflow:
            code = .normal
        }
        guard let target = beginControl(WebSocketFrame.closeByteCount(), slot) else { return }
        var writer = PacketWriter(target.mutableBytes)
        WebSocketFrame.writeClose(code, to: &writer)
    }

    /// Room for a control frame behind everything that is unsent, which counts as framed then. Nil
    /// where the connection was closed for it.
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
