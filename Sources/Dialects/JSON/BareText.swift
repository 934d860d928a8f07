// The parameters of requests that have one text and nothing else.

import Primitives
import WireFormat

/// Parameters that are one text, to the end of the packet.
struct BareText: RequestPart {
    let text: ByteRange

    var byteCount: Int { Int(text.count) }

    func write(to writer: inout PacketWriter, from source: RawSpan) {
        writer.write(bytes: text.bytes(in: source))
    }
}
