// MRT on its own: one SEND decoded, one DELIVER encoded for one receiver.

import Primitives
import WireFormat

func measureCodecs(times: Int) {
    let source = Array("bench/f".utf8) + [UInt8](repeating: 0x6D, count: 100)
    let address = ByteRange(offset: 0, count: 7)
    let payload = ByteRange(offset: 7, count: 100)
    var send = MRT.Send(grade: .durable, number: 1_000, target: .topic(address), payload: payload)
    send.isRaw = true
    let packet = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 8)
    defer { packet.deallocate() }
    var writer = PacketWriter(packet)
    source.withUnsafeBytes { send.write(to: &writer, from: $0) }
    let bytes = UnsafeRawBufferPointer(rebasing: packet[..<writer.byteCount])

    measure("decode SEND, 100 bytes to a topic", times: times) {
        guard case .packet(let frame) = PacketFrame.next(in: bytes, at: 0, packetMaximum: 1024),
            let decoded = try? MRT.Send(flags: frame.flags, body: frame.body.bytes(in: bytes))
        else { preconditionFailure("the packet was just encoded") }
        use(decoded.payload)
    }

    let tail = UnsafeRawBufferPointer(rebasing: packet[..<120])
    let out = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 8)
    defer { out.deallocate() }
    let template = MRT.DeliverTemplate(tail: tail, isRaw: true)
    measure("encode DELIVER for one of many", times: times) {
        var writer = PacketWriter(out)
        template.write(grade: .durable, number: 1_000, to: &writer)
        use(writer.byteCount)
    }
}
