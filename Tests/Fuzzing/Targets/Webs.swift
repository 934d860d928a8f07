// HTTP requests and WebSocket frames from any client. In pieces they must have the same contents as
// in one, and a second, naive decoder must read the same from the frames.

import PacketMeanings
import Primitives
import WireFormat

/// The first byte chooses requests or frames, and the size of the pieces.
func fuzzWeb(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    let stream = UnsafeRawBufferPointer(rebasing: bytes[1...])
    let step = 1 + Int(first >> 1) % 61
    if first & 1 == 0 {
        fuzzRequests(stream, step: step)
    } else {
        fuzzFrames(Array(stream), step: step)
    }
}

// MARK: - Requests

private func parse(_ bytes: UnsafeRawBufferPointer) -> Result<HTTPParsing, HTTPFault> {
    Result { () throws(HTTPFault) in try HTTPRequestHead.parse(bytes.bytes) }
}

private func fuzzRequests(_ stream: UnsafeRawBufferPointer, step: Int) {
    var offset = 0
    // Pipelined requests, as far as they have no content.
    while offset < stream.count {
        let rest = UnsafeRawBufferPointer(rebasing: stream[offset...])
        let whole = parse(rest)
        var isDecided = false
        for count in Swift.stride(from: 0, through: rest.count, by: step) {
            let part = parse(UnsafeRawBufferPointer(rebasing: rest[..<count]))
            if part == .success(.incomplete) {
                precondition(!isDecided, "what was decided is open again at \(count)")
                continue
            }
            isDecided = true
            precondition(part == whole, "\(part) of \(count) bytes became \(whole)")
        }
        guard case .success(.head(let head, let byteCount)) = whole else { return }
        precondition(byteCount > 0 && byteCount <= WebLimits.headByteCountMaximum)
        precondition(byteCount <= rest.count)
        for range in [
            head.path, head.authority, head.origin ?? .empty, head.authorization ?? .empty,
            head.webSocketKey ?? .empty,
        ] {
            let text = range.bytes(in: UnsafeRawBufferPointer(rebasing: rest[..<byteCount]))
            precondition(!text.contains { $0 == 0x0A || $0 == 0x0D || $0 == 0 })
        }
        if let key = head.webSocketKey { _ = WebSocketHandshake.isKey(key.bytes(in: rest).bytes) }
        _ = HTTPTarget.segments(of: head.path.bytes(in: rest).bytes)
        if let query = head.query { _ = HTTPTarget.members(of: query.bytes(in: rest).bytes) }
        offset += byteCount
        guard
            let end = fuzzContent(
                of: head, UnsafeRawBufferPointer(rebasing: rest[byteCount...]), step: step)
        else { return }
        offset += end
    }
}

// MARK: - Content

private struct ReadContent: Equatable {
    var bytes: [UInt8] = []
    var fault: HTTPContentFault?
    /// Where the next request begins; nil where the content is not complete.
    var end: Int?
}

private let contentMaximum = 300

/// Reads content in pieces and whole. Returns where it ends.
private func fuzzContent(
    of head: HTTPRequestHead, _ stream: UnsafeRawBufferPointer, step: Int
) -> Int? {
    let whole = readContent(of: head, stream, step: max(1, stream.count))
    let pieces = readContent(of: head, stream, step: step)
    precondition(pieces == whole, "pieces of \(step): \(pieces), whole: \(whole)")
    precondition(whole.bytes.count <= contentMaximum, "\(whole.bytes.count) bytes of content")
    if !head.traits.contains(.isChunked), let end = whole.end {
        precondition(end == Int(head.contentLength), "\(end) of \(head.contentLength)")
    }
    return whole.end
}

private func readContent(
    of head: HTTPRequestHead, _ stream: UnsafeRawBufferPointer, step: Int
) -> ReadContent {
    var read = ReadContent()
    do throws(HTTPContentFault) {
        var decoder = try HTTPContentDecoder(head, byteCountMaximum: contentMaximum)
        var offset = 0
        var count = 0
        while true {
            let visible = UnsafeRawBufferPointer(rebasing: stream[..<count])
            while let piece = try decoder.next(in: visible.bytes, at: &offset) {
                switch piece {
                case .content(let range): read.bytes += range.bytes(in: visible)
                case .end:
                    read.end = offset
                    return read
                }
            }
            precondition(
                count - offset < WebLimits.chunkLineByteCountMaximum, "\(count - offset) unread")
            if count == stream.count { return read }
            count = min(count + step, stream.count)
        }
    } catch {
        read.fault = error
    }
    return read
}

// MARK: - Frames

private let frameMaximum = 300

private func fuzzFrames(_ stream: [UInt8], step: Int) {
    let expected = decodeNaively(stream)
    for step in [step, max(1, stream.count)] {
        let decoded = WebSocketContents.decode(stream, step: step, frameMaximum: frameMaximum)
        precondition(
            decoded.contents == expected.contents && (decoded.fault != nil) == expected.isFaulty,
            "pieces of \(step): \(decoded) instead of \(expected)")
    }
}

/// RFC 6455, section 5, byte by byte over the whole stream.
private func decodeNaively(
    _ stream: [UInt8]
) -> (contents: WebSocketContents, isFaulty: Bool) {
    var contents = WebSocketContents()
    var bytes = stream[...]
    var isWithinMessage = false
    while contents.closes.isEmpty, bytes.count >= 2 {
        let first = bytes.removeFirst()
        let second = bytes.removeFirst()
        let opcode = first % 16
        let isFinal = first >= 128
        let isControl = opcode >= 8
        var length = UInt64(second % 128)
        guard first / 16 % 8 == 0, [0, 1, 2, 8, 9, 10].contains(opcode), second >= 128,
            !isControl || isFinal && length <= 125
        else { return (contents, true) }
        let lengthByteCount = length == 126 ? 2 : length == 127 ? 8 : 0
        guard bytes.count >= lengthByteCount + 4 else { return (contents, false) }
        if lengthByteCount > 0 {
            length = 0
            for _ in 0..<lengthByteCount { length = length * 256 + UInt64(bytes.removeFirst()) }
            let isMinimal = lengthByteCount == 2 ? length >= 126 : length >= 65_536
            if !isMinimal || length > UInt64(frameMaximum) { return (contents, true) }
        }
        if !isControl {
            if opcode == 0 ? !isWithinMessage : isWithinMessage || opcode == 1 {
                return (contents, true)
            }
            isWithinMessage = !isFinal
        }
        let mask = (0..<4).map { _ in bytes.removeFirst() }
        if isControl, bytes.count < Int(length) { return (contents, false) }
        var payload: [UInt8] = []
        while payload.count < Int(length), let byte = bytes.popFirst() {
            payload.append(byte ^ mask[payload.count % 4])
        }
        switch opcode {
        case 9: contents.pings.append(payload)
        case 10: contents.pongs += 1
        case 8:
            if isFaultyClose(payload) { return (contents, true) }
            contents.closes.append(
                payload.isEmpty ? nil : UInt16(payload[0]) * 256 + UInt16(payload[1]))
        default: contents.payload += payload
        }
    }
    return (contents, false)
}

private func isFaultyClose(_ payload: [UInt8]) -> Bool {
    if payload.isEmpty { return false }
    if payload.count == 1 { return true }
    let code = Int(payload[0]) * 256 + Int(payload[1])
    let isKnown =
        code >= 3000 && code < 5000
        || code >= 1000 && code < 1015 && ![1004, 1005, 1006].contains(code)
    return !isKnown || String(validating: payload[2...], as: UTF8.self) == nil
}
