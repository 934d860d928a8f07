// max_packet_size and message_size_limit of Mosquitto, which restrict each other here.

import Configuration

/// The sizes of packets and payloads.
struct MosquittoSizes {
    private var packet: Size?
    private var payload: Size?

    private struct Size {
        let byteCount: Int
        let place: String
    }

    mutating func take(
        _ word: String, _ value: String, at place: String, report: inout ImportReport
    ) {
        guard let number = Int(value), number >= 0 else {
            report.add(.refused, at: place, "\(word) \(value) is no number")
            return
        }
        let isPacket = word == "max_packet_size"
        let size = number == 0 ? nil : Size(byteCount: number, place: place)
        if isPacket { packet = size } else { payload = size }
        if number == 0 {
            report.add(
                .changed, at: place,
                "\(word) 0: the defaults of limits.payloadMaximum and "
                    + "limits.packetMaximum")
        }
    }

    /// The settings: a payload may be as long as both words allow, and the packet holds it.
    func settings(report: inout ImportReport) -> [(key: String, value: String)] {
        if packet == nil, payload == nil { return [] }
        let asked = min(payload?.byteCount ?? .max, packet?.byteCount ?? .max)
        let payloadByteCount = min(asked, PacketSizes.payloadMaximum)
        // martletd checks that a packet has so much room.
        let room = payloadByteCount + PacketSizes.overhead
        let packetByteCount = min(
            max(packet?.byteCount ?? PacketSizes.packetStandard, room), PacketSizes.packetMaximum)
        if let payload {
            report.add(
                payload.byteCount == payloadByteCount ? .taken : .changed, at: payload.place,
                "message_size_limit \(payload.byteCount): limits.payloadMaximum "
                    + "\(payloadByteCount), limits.packetMaximum \(packetByteCount)")
        }
        if let packet {
            report.add(
                packet.byteCount == packetByteCount ? .taken : .changed, at: packet.place,
                "max_packet_size \(packet.byteCount): limits.payloadMaximum "
                    + "\(payloadByteCount), limits.packetMaximum \(packetByteCount)")
        }
        return [
            ("limits.payloadMaximum", "\(payloadByteCount)"),
            ("limits.packetMaximum", "\(packetByteCount)"),
        ]
    }
}
