// The contents of a stream of WebSocket frames, as the decoder reads them in pieces.

import Primitives
import WireFormat

/// Everything that a client's frames contain.
package struct WebSocketContents: Equatable {
    package var payload: [UInt8] = []
    package var pings: [[UInt8]] = []
    package var pongs = 0
    /// The codes of close frames; nil for a frame without one.
    package var closes: [UInt16?] = []

    package init(
        payload: [UInt8] = [], pings: [[UInt8]] = [], pongs: Int = 0, closes: [UInt16?] = []
    ) {
        self.payload = payload
        self.pings = pings
        self.pongs = pongs
        self.closes = closes
    }

    /// Decodes a stream in pieces of `step` bytes, as a connection reads it, up to its first fault.
    package static func decode(
        _ stream: [UInt8], step: Int, frameMaximum: Int
    ) -> (contents: WebSocketContents, fault: WebSocketFault?) {
        var decoder = WebSocketDecoder()
        var contents = WebSocketContents()
        var fault: WebSocketFault?
        var kept: [UInt8] = []
        var start = 0
        while start < stream.count, fault == nil {
            let end = min(start + step, stream.count)
            var bytes = kept + stream[start..<end]
            start = end
            let offset = bytes.withUnsafeMutableBytes { bytes in
                var span = bytes.mutableBytes
                var offset = 0
                do throws(WebSocketFault) {
                    while let piece = try decoder.next(
                        in: &span, at: &offset, frameMaximum: frameMaximum)
                    {
                        contents.append(piece, of: UnsafeRawBufferPointer(bytes))
                    }
                } catch {
                    fault = error
                }
                return offset
            }
            kept = Array(bytes[offset...])
            // The longest header from a client has two bytes, eight of length and four of mask.
            let bound = 14 + WebLimits.controlByteCountMaximum
            precondition(fault != nil || kept.count < bound, "\(kept.count) bytes are kept")
        }
        return (contents, fault)
    }

    private mutating func append(_ piece: WebSocketDecoder.Piece, of bytes: UnsafeRawBufferPointer)
    {
        switch piece {
        case .payload(let range): payload += range.bytes(in: bytes)
        case .ping(let range): pings.append(Array(range.bytes(in: bytes)))
        case .pong: pongs += 1
        case .frame, .empty: break
        case .close(let code): closes.append(code)
        }
    }
}
