// Reads the content of a request (RFC 9112, 6 and 7.1): of a known length, or in chunks. As for
// heads, what two readers could understand differently is refused.

import Primitives

/// Why the content of a request is refused. The stream cannot be read any further behind it.
public enum HTTPContentFault: UInt8, Error, CaseIterable, Sendable {
    /// A line feed without a carriage return, or a carriage return without a line feed.
    case lineEnd
    /// A NUL or another control character in a line between chunks.
    case controlCharacter
    /// A chunk without a length of one to eight hexadecimal digits.
    case chunkLength
    /// A chunk that is longer than its length.
    case chunkEnd
    /// A trailer that is no field.
    case trailer
    /// Extensions of chunks and a trailer of more bytes than they may have.
    case overhead
    /// More content than is accepted.
    case tooLarge

    /// The status that answers it.
    public var status: HTTPStatus { self == .tooLarge ? .contentTooLarge : .badRequest }

    /// What is wrong, for the peer and for the log.
    public var text: StaticString {
        switch self {
        case .lineEnd: "a line between chunks does not end with CR LF"
        case .controlCharacter: "a control character between chunks"
        case .chunkLength: "the length of a chunk is malformed"
        case .chunkEnd: "a chunk is longer than its length"
        case .trailer: "a trailer is malformed"
        case .overhead: "too many extensions of chunks or trailers"
        case .tooLarge: "the content is too large"
        }
    }
}

/// Reads content as it arrives. It holds none of it: the pieces are ranges of the bytes that were
/// passed, and unread bytes are at most one line between chunks.
public struct HTTPContentDecoder: Sendable {
    /// What comes next in a stream.
    public enum Piece: Sendable, Equatable {
        case content(ByteRange)
        /// The content is complete; the next request begins here.
        case end
    }

    private enum State: UInt8 {
        case content, chunkLength, chunk, chunkEnd, trailer, ended
    }

    private var state: State
    /// Bytes that are missing of the content or of the chunk.
    private var missingCount: UInt64
    /// Bytes that all further chunks may have.
    private var room: UInt64
    private var overheadRoom = WebLimits.chunkOverheadMaximum

    /// - Parameter byteCountMaximum: how long the content may be.
    public init(
        _ head: HTTPRequestHead, byteCountMaximum: Int = WebLimits.contentByteCountMaximum
    ) throws(HTTPContentFault) {
        let isChunked = head.traits.contains(.isChunked)
        state = isChunked ? .chunkLength : .content
        missingCount = isChunked ? 0 : head.contentLength
        room = UInt64(byteCountMaximum)
        if missingCount > room { throw .tooLarge }
    }

    /// Takes the next piece from `bytes`; nil where more bytes are needed.
    ///
    /// - Parameter offset: where to read; it ends behind what was read.
    public mutating func next(
        in bytes: RawSpan, at offset: inout Int
    ) throws(HTTPContentFault) -> Piece? {
        while true {
            switch state {
            case .content, .chunk:
                if missingCount == 0 {
                    state = state == .chunk ? .chunkEnd : .ended
                    continue
                }
                let count = Int(min(missingCount, UInt64(bytes.byteCount - offset)))
                guard count > 0 else { return nil }
                defer { offset += count }
                missingCount -= UInt64(count)
                return .content(ByteRange(offset: offset, count: count))
            case .chunkLength:
                guard let line = try nextLine(in: bytes, at: &offset) else { return nil }
                try readLength(bytes.extracting(line))
            case .chunkEnd:
                guard try skipLineEnd(in: bytes, at: &offset) else { return nil }
                state = .chunkLength
            case .trailer:
                guard let line = try nextLine(in: bytes, at: &offset) else { return nil }
                if line.isEmpty {
                    state = .ended
                } else {
                    try readTrailer(bytes.extracting(line))
                }
            case .ended: return .end
            }
        }
    }

    /// The next line without its CR LF; nil where it has not arrived.
    private func nextLine(
        in bytes: RawSpan, at offset: inout Int
    ) throws(HTTPContentFault) -> Range<Int>? {
        let start = offset
        let limit = start + WebLimits.chunkLineByteCountMaximum
        var index = start
        while index < min(bytes.byteCount, limit) {
            let byte = bytes[index]
            if byte == 0x0A { throw .lineEnd }
            if byte == 0x0D {
                guard index + 1 < bytes.byteCount else { return nil }
                guard bytes[index + 1] == 0x0A else { throw .lineEnd }
                offset = index + 2
                return start..<index
            }
            if byte < 0x20 && byte != 0x09 || byte == 0x7F { throw .controlCharacter }
            index += 1
        }
        if index == limit { throw .overhead }
        return nil
    }

    /// Skips the CR LF behind a chunk. Returns false where it has not arrived.
    private func skipLineEnd(
        in bytes: RawSpan, at offset: inout Int
    ) throws(HTTPContentFault) -> Bool {
        guard offset < bytes.byteCount else { return false }
        guard bytes[offset] == 0x0D else { throw .chunkEnd }
        guard offset + 1 < bytes.byteCount else { return false }
        guard bytes[offset + 1] == 0x0A else { throw .chunkEnd }
        offset += 2
        return true
    }

    /// `LENGTH`, or `LENGTH;EXTENSION`, which is skipped (RFC 9112, 7.1.1).
    private mutating func readLength(_ line: RawSpan) throws(HTTPContentFault) {
        var digitCount = 0
        var length: UInt64 = 0
        while digitCount < line.byteCount, let digit = Self.digit(line[digitCount]) {
            // More digits are a number that another reader may cut.
            guard digitCount < 8 else { throw .chunkLength }
            length = length << 4 | UInt64(digit)
            digitCount += 1
        }
        guard digitCount > 0 else { throw .chunkLength }
        if digitCount < line.byteCount {
            guard line[digitCount] == UInt8(ascii: ";") else { throw .chunkLength }
            try takeOverhead(line.byteCount - digitCount)
        }
        guard length <= room else { throw .tooLarge }
        room -= length
        missingCount = length
        state = length == 0 ? .trailer : .chunk
    }

    private mutating func readTrailer(_ line: RawSpan) throws(HTTPContentFault) {
        var nameCount = 0
        while nameCount < line.byteCount, HTTPCharacter.isToken(line[nameCount]) { nameCount += 1 }
        guard nameCount > 0, nameCount < line.byteCount, line[nameCount] == UInt8(ascii: ":") else {
            throw .trailer
        }
        try takeOverhead(line.byteCount)
    }

    private mutating func takeOverhead(_ byteCount: Int) throws(HTTPContentFault) {
        guard byteCount <= overheadRoom else { throw .overhead }
        overheadRoom -= byteCount
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
