// Reads WebSocket frames of connections. Frames are decoded in the buffer of the read, so that the
// handler sees only the payload, as if it had come over TCP.
//
//     in the arena:   payload, unconsumed and new    | start of a frame, not decoded
//     shown:          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     kept:           what is unconsumed of it, and the start of the frame
import BrokerTerms
import Glibc
import Primitives
import WireFormat

extension EventLoop {
    /// Begins to speak WebSocket on a connection, as the server. Bytes appended before are sent
    /// without a frame; bytes appended later are sent in frames, one for each flush.
    ///
    /// Call it from `received` with everything consumed: a client sends no frame before it has the
    /// response to its handshake.
    ///
    /// - Parameter form: of text, the handler is shown each frame after four bytes, little-endian:
    ///   its length, and ``WebSocketFrame/lastFrameMark`` if it ends its message; and it appends
    ///   whole frames.
    public mutating func startWebSocket(_ connection: ConnectionID, _ form: WebSocketForm) {
        guard let slot = slot(of: connection), slots[slot].phase == .open else { return }
        precondition(
            !slots[slot].flags.contains(.framed), "\(connection) speaks WebSocket already")
        (frames + slot).initialize(to: FrameState(form))
        (frames + slot).pointee.framedCount = slots[slot].outgoingByteCount
        set(.framed, slot)
        counters.webSocketsOpened += 1
        if slots[slot].outgoing != nil { openFrame(slot) }
    }

    /// Reads one burst of frames and passes their payload to the handler.
    mutating func readFrames<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        if let bytes = receiveFrames(slot) {
            let raw = Int((frames + slot).pointee.rawCount)
            let connection = name(of: slot)
            let consumption = handler.received(bytes, from: connection, in: &self)
            guard self.slot(of: connection) != nil, slots[slot].phase == .open else { return }
            let whole = ByteRange(offset: Int(bytes.offset), count: Int(bytes.count) + raw)
            keepRest(slot, of: whole, consumption, undecoded: raw)
        }
        endAfterFrames(slot)
    }

    /// Receives a burst. Returns the payload for the handler, which the start of an incomplete
    /// frame follows in the arena; nil if there is no new payload.
    private mutating func receiveFrames(_ slot: Int) -> ByteRange? {
        let keptCount = slots[slot].kept == nil ? 0 : details[slot].keptCount
        let raw = Int((frames + slot).pointee.rawCount)
        let base = arenaMemory.baseAddress! + arenaUsed
        if let kept = slots[slot].kept {
            if !slots[slot].flags.contains(.showKept), keptCount - raw < details[slot].keptAwaited {
                return receiveAwaitedFrames(slot)
            }
            base.copyMemory(from: kept, byteCount: keptCount)
        }
        if slots[slot].flags.contains(.showKept) {
            clear(.showKept, slot)
            listPending(slot)
            guard keptCount > raw else { return nil }
            _ = takeArena(keptCount)
            return ByteRange(offset: arenaUsed - keptCount, count: keptCount - raw)
        }
        guard let decoded = receiveFrames(slot, into: base, payload: keptCount - raw, raw: raw)
        else { return nil }
        let range = takeArena(decoded.payload + decoded.raw)
        guard decoded.payload > keptCount - raw else {
            // The burst contained only headers and control frames: the handler has seen the rest.
            let awaited = slots[slot].kept == nil ? 0 : details[slot].keptAwaited
            keepRest(
                slot, of: range, Consumption(consumed: 0, awaiting: awaited),
                undecoded: decoded.raw)
            return nil
        }
        return ByteRange(offset: Int(range.offset), count: decoded.payload)
    }

    /// Receives more of a packet of known length into the kept block.
    private mutating func receiveAwaitedFrames(_ slot: Int) -> ByteRange? {
        let keptCount = details[slot].keptCount
        let raw = Int((frames + slot).pointee.rawCount)
        growKept(slot, to: keptCount + TransportLimits.burstMaximum)
        guard let kept = slots[slot].kept,
            let decoded = receiveFrames(slot, into: kept, payload: keptCount - raw, raw: raw)
        else { return nil }
        (details + slot).pointee.keptCount = decoded.payload + decoded.raw
        guard decoded.payload >= details[slot].keptAwaited else { return nil }
        let range = takeArena(decoded.payload + decoded.raw)
        (arenaMemory.baseAddress! + Int(range.offset)).copyMemory(
            from: kept, byteCount: Int(range.count))
        return ByteRange(offset: Int(range.offset), count: decoded.payload)
    }

    /// Receives a burst after `payload` decoded and `raw` undecoded bytes, and decodes it.
    private mutating func receiveFrames(
        _ slot: Int, into base: UnsafeMutableRawPointer, payload: Int, raw: Int
    ) -> (payload: Int, raw: Int)? {
        guard (frames + slot).pointee.ending == .none else { return nil }
        let lastActivity = slots[slot].lastActivity
        let count = receiveBurst(slot, into: base + payload + raw)
        guard count > 0, slots[slot].phase == .open else { return nil }
        let decoded = decode(
            UnsafeMutableRawBufferPointer(start: base, count: payload + raw + count), slot,
            from: payload)
        guard slots[slot].phase == .open else { return nil }
        // The keep-alive of MQTT counts packets, and WebSocket pings are none.
        if decoded == payload { slots[slot].lastActivity = lastActivity }
        return (decoded, Int((frames + slot).pointee.rawCount))
    }

    /// Decodes the frames of `bytes` from `start` on, in place: the payload comes first, then the
    /// start of an incomplete frame. Answers control frames. Returns the end of the payload.
    private mutating func decode(
        _ bytes: UnsafeMutableRawBufferPointer, _ slot: Int, from start: Int
    ) -> Int {
        let base = bytes.baseAddress!
        var span = bytes.mutableBytes
        var end = start
        var offset = start
        var emptyFrameCount = 0
        do throws(WebSocketFault) {
            while let piece = try (frames + slot).pointee.decoder.next(
                in: &span, at: &offset, frameMaximum: configuration.packetMaximum)
            {
                switch piece {
                case .frame(let byteCount, let isLast):
                    // The header, of which this call has read all bytes, has left the room.
                    let mark = isLast ? WebSocketFrame.lastFrameMark : 0
                    (base + end).storeBytes(
                        of: (UInt32(byteCount) | mark).littleEndian, as: UInt32.self)
                    end += MemoryLayout<UInt32>.size
                    if byteCount > 0 { continue }
                case .payload(let range):
                    if end != Int(range.offset) {
                        memmove(base + end, base + Int(range.offset), Int(range.count))
                    }
                    end += Int(range.count)
                    continue
                case .ping(let payload):
                    takePing(payload.bytes(in: span.bytes), slot)
                    guard slots[slot].phase == .open else { return end }
                case .pong, .empty:
                    break
                case .close:
                    (frames + slot).pointee.ending = .peerClose
                }
                emptyFrameCount += 1
                if emptyFrameCount > WebLimits.emptyFrameCountMaximum { throw .emptyFrames }
            }
        } catch {
            (frames + slot).pointee.ending = .fault
            (frames + slot).pointee.fault = error
            counters.webSocketFaults += 1
            offset = bytes.count
        }
        let raw = bytes.count - offset
        if raw > 0 { memmove(base + end, base + offset, raw) }
        (frames + slot).pointee.rawCount = UInt8(raw)
        return end
    }

    /// Ends a connection because of its close frame or a fault, after the handler has read what
    /// came before, as at the end of a TCP connection.
    private mutating func endAfterFrames(_ slot: Int) {
        guard slots[slot].phase == .open, !slots[slot].flags.contains(.readPaused) else { return }
        switch (frames + slot).pointee.ending {
        case .none: return
        case .fault: close(slot, .webSocketFault, afterFlush: true)
        case .peerClose: close(slot, .peerClosed, afterFlush: true)
        }
    }
}
