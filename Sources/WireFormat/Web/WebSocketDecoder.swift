// Decodes a client's frames from a stream. The payload of data frames is unmasked in place and
// returned as it arrives, so that a frame of any length needs no memory. Control frames are
// returned when they are complete.

import Primitives

/// The state of a connection between two reads: 12 bytes.
public struct WebSocketDecoder: Hashable, Sendable {
    /// The mask of the current frame, rotated so that the byte for the next payload byte is first
    /// in memory.
    private var mask: UInt32 = 0
    /// Bytes of the current frame's payload that have not arrived.
    private var remaining: UInt32 = 0
    private var state: State = []

    private struct State: OptionSet, Hashable {
        let rawValue: UInt8
        /// A message has begun, and its last frame has not.
        static let isWithinMessage = State(rawValue: 1 << 0)
        /// A close frame has arrived. Bytes after it are ignored.
        static let isClosed = State(rawValue: 1 << 1)
        /// Messages are text, and each frame of one is reported.
        static let isText = State(rawValue: 1 << 2)
    }

    public init(_ form: WebSocketForm = .binary) {
        if form == .text { state.insert(.isText) }
    }

    /// Whether messages are text.
    public var form: WebSocketForm { state.contains(.isText) ? .text : .binary }

    /// A part of a stream. The ranges refer to the bytes that were read.
    public enum Piece: Hashable, Sendable {
        /// The beginning of a data frame, if messages are text.
        case frame(byteCount: Int, isLast: Bool)
        /// Unmasked payload of data frames.
        case payload(ByteRange)
        case ping(ByteRange)
        case pong
        /// A data frame without payload.
        case empty
        /// A close frame; nil if it has no code.
        case close(code: UInt16?)
    }

    /// Decodes the next piece at `offset` and advances `offset` past it. Returns nil if more bytes
    /// are needed: the caller passes the bytes from `offset` on again, which are fewer than the
    /// longest control frame. Throws the fault that ends the connection.
    ///
    /// - Parameter frameMaximum: the maximum bytes of a data frame's payload.
    public mutating func next(
        in bytes: inout MutableRawSpan, at offset: inout Int, frameMaximum: Int
    ) throws(WebSocketFault) -> Piece? {
        if state.contains(.isClosed) {
            offset = bytes.byteCount
            return nil
        }
        if remaining > 0 { return takePayload(of: &bytes, at: &offset) }
        guard let header = try Header(bytes.bytes, at: offset, frameMaximum: frameMaximum)
        else { return nil }
        let start = offset + header.byteCount
        guard header.opcode.isControl else {
            try begin(header)
            offset = start
            if state.contains(.isText) {
                return .frame(byteCount: header.payloadByteCount, isLast: header.isFinal)
            }
            return remaining == 0 ? .empty : takePayload(of: &bytes, at: &offset)
        }
        guard bytes.byteCount - start >= header.payloadByteCount else { return nil }
        let payload = ByteRange(offset: start, count: header.payloadByteCount)
        Self.unmask(&bytes, payload.offsets, with: header.mask)
        offset = payload.endOffset
        return try control(header.opcode, payload, of: bytes.bytes)
    }

    /// Begins a data frame.
    private mutating func begin(_ header: Header) throws(WebSocketFault) {
        let isWithinMessage = state.contains(.isWithinMessage)
        switch header.opcode {
        case .continuation where !isWithinMessage: throw .continuationWithoutMessage
        case .text where !isWithinMessage && form == .binary,
            .binary where !isWithinMessage && form == .text:
            throw .otherForm
        case .text, .binary:
            if isWithinMessage { throw .messageWithinMessage }
        case .continuation, .close, .ping, .pong: break
        }
        if header.isFinal {
            state.remove(.isWithinMessage)
        } else {
            state.insert(.isWithinMessage)
        }
        mask = header.mask
        remaining = UInt32(header.payloadByteCount)
    }

    /// Takes the part of the payload that has arrived; nil if there is none.
    private mutating func takePayload(
        of bytes: inout MutableRawSpan, at offset: inout Int
    ) -> Piece? {
        let count = min(Int(remaining), bytes.byteCount - offset)
        guard count > 0 else { return nil }
        Self.unmask(&bytes, offset..<offset + count, with: mask)
        remaining -= UInt32(count)
        mask = Self.turned(mask, by: count)
        defer { offset += count }
        return .payload(ByteRange(offset: offset, count: count))
    }

    private mutating func control(
        _ opcode: WebSocketOpcode, _ payload: ByteRange, of bytes: RawSpan
    ) throws(WebSocketFault) -> Piece {
        switch opcode {
        case .ping: return .ping(payload)
        case .close:
            state.insert(.isClosed)
            let content = payload.bytes(in: bytes)
            guard content.byteCount != 1 else { throw .closePayload }
            guard content.byteCount >= 2 else { return .close(code: nil) }
            let code = UInt16(content[0]) << 8 | UInt16(content[1])
            let reason = content.extracting(droppingFirst: 2)
            guard Self.isSendable(code), TextRules.isUTF8(reason) else { throw .closePayload }
            return .close(code: code)
        case .pong, .continuation, .text, .binary: return .pong
        }
    }

    /// Whether a peer may send a code (RFC 6455, 7.4; 1012 to 1014 were registered later).
    private static func isSendable(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    // MARK: - Masks

    /// The mask for the payload after `count` bytes.
    static func turned(_ mask: UInt32, by count: Int) -> UInt32 {
        let bits = UInt32(count & 3) * 8
        // In the order of memory, which is the order of the stream.
        let ordered = UInt32(littleEndian: mask)
        return UInt32(littleEndian: ordered >> bits | ordered << ((32 - bits) & 31))
    }

    /// Removes the mask from the bytes at `offsets`, eight at a time.
    static func unmask(_ bytes: inout MutableRawSpan, _ offsets: Range<Int>, with mask: UInt32) {
        guard mask != 0 else { return }
        let wide = UInt64(mask) << 32 | UInt64(mask)
        var offset = offsets.lowerBound
        while offsets.upperBound - offset >= 8 {
            let word = bytes.bytes.loadInteger(at: offset, as: UInt64.self)
            bytes.storeBytes(of: word ^ wide, toByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        // The next byte of the mask is the lowest.
        var rest = UInt64(littleEndian: wide)
        while offset < offsets.upperBound {
            let byte = bytes.bytes[offset] ^ UInt8(truncatingIfNeeded: rest)
            bytes.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
            rest >>= 8
            offset += 1
        }
    }
}

/// The checked header of a client's frame.
private struct Header {
    let opcode: WebSocketOpcode
    let isFinal: Bool
    let byteCount: Int
    let payloadByteCount: Int
    /// In the order of memory.
    let mask: UInt32

    /// Nil if more bytes are needed. A fault in the first two bytes is thrown as soon as they have
    /// arrived.
    init?(
        _ bytes: RawSpan, at offset: Int, frameMaximum: Int
    ) throws(WebSocketFault) {
        guard bytes.byteCount - offset >= 2 else { return nil }
        let first = bytes[offset]
        let second = bytes[offset + 1]
        if first & 0x70 != 0 { throw .reservedBit }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else { throw .unknownOpcode }
        if second & 0x80 == 0 { throw .unmasked }
        let isFinal = first & 0x80 != 0
        let short = Int(second & 0x7F)
        if opcode.isControl {
            if !isFinal { throw .fragmentedControl }
            if short > WebLimits.controlByteCountMaximum { throw .longControl }
        }
        let lengthByteCount = short == 127 ? 8 : short == 126 ? 2 : 0
        let byteCount = 2 + lengthByteCount + 4
        guard bytes.byteCount - offset >= byteCount else { return nil }
        var length: UInt64 = lengthByteCount == 0 ? UInt64(short) : 0
        for index in 0..<lengthByteCount {
            length = length << 8 | UInt64(bytes[offset + 2 + index])
        }
        switch lengthByteCount {
        case 2 where length <= 125, 8 where length <= 0xFFFF: throw .lengthNotMinimal
        default: break
        }
        guard length <= UInt64(min(frameMaximum, Int(UInt32.max >> 1))) else { throw .tooLarge }
        self.opcode = opcode
        self.isFinal = isFinal
        self.byteCount = byteCount
        payloadByteCount = Int(length)
        mask = bytes.loadInteger(at: offset + 2 + lengthByteCount, as: UInt32.self)
    }
}
