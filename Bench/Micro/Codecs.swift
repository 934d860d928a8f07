// MRT and MQTT on their own: one SEND or PUBLISH decoded, one DELIVER or PUBLISH encoded for one
// receiver of many.

import Primitives
import WireFormat

/// A message as it came, and room for one that goes.
private struct Packets: ~Copyable {
    let incoming: UnsafeMutableRawBufferPointer
    let incomingByteCount: Int
    let outgoing = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 8)

    init(_ packet: some WirePacket) {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 8)
        incoming = memory
        let source = Array("bench/f".utf8) + [UInt8](repeating: 0x6D, count: 100)
        var writer = PacketWriter(memory.mutableBytes)
        packet.write(to: &writer, from: source.span.bytes)
        incomingByteCount = writer.byteCount
    }

    deinit {
        incoming.deallocate()
        outgoing.deallocate()
    }

    var memory: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: incoming[..<incomingByteCount])
    }

    /// As much as follows an inbox number.
    var tail: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: incoming[..<120]) }

    var frame: PacketFrame {
        guard
            case .packet(let frame) = PacketFrame.next(in: memory.bytes, at: 0, packetMaximum: 1024)
        else { preconditionFailure("the packet was just encoded") }
        return frame
    }
}

private let address = ByteRange(offset: 0, count: 7)
private let payload = ByteRange(offset: 7, count: 100)

func measureCodecs(times: Int) {
    measure(
        "decode-mrt", times: times,
        prepare: {
            var send = MRT.Send(
                grade: .durable, number: 1_000, target: .topic(address), payload: payload)
            send.isRaw = true
            return Packets(send)
        },
        { packets in
            let frame = packets.frame
            guard
                let send = try? MRT.Send(
                    flags: frame.flags, body: frame.body.bytes(in: packets.memory.bytes))
            else { preconditionFailure("the packet was just encoded") }
            use(send.payload)
        })
    measure(
        "decode-mqtt5", times: times,
        prepare: {
            Packets(
                MQTT.Publish(
                    .v5, topic: address, payload: payload, qos: .atLeastOnce,
                    packetIdentifier: 7))
        },
        { packets in
            let frame = packets.frame
            guard
                let publish = try? MQTT.Publish(
                    .v5, flags: frame.flags, body: frame.body.bytes(in: packets.memory.bytes),
                    from: .client)
            else { preconditionFailure("the packet was just encoded") }
            use(publish.payload)
        })
    measure(
        "encode-mrt", times: times,
        prepare: { Packets(MRT.Ping(isResponse: false)) },
        { packets in
            let head = MRT.DeliverHead(
                tailByteCount: packets.tail.count, isRaw: true, isPossibleDuplicate: false)
            var writer = PacketWriter(packets.outgoing.mutableBytes)
            head.write(grade: .durable, number: 1_000, to: &writer)
            writer.write(bytes: packets.tail.bytes)
            use(writer.byteCount)
        })
}
