// The frames of a device on a line: its packets become bytes of the line, and bytes of the line
// become packets.

import Gateway
import PacketMeanings
import Primitives
import WireFormat

/// A device that counts its frames as it should.
package struct ModelDevice {
    private var counter: UInt8 = 0
    private var incoming: [UInt8] = []
    private var stream: [UInt8] = []
    /// Kinds of the frames that arrived, data apart.
    package private(set) var kinds: [SerialFrame.Kind] = []

    package init() {}

    /// A frame as it stands on a line.
    package static func frame(
        _ kind: SerialFrame.Kind, _ counter: UInt8, _ payload: [UInt8] = []
    ) -> [UInt8] {
        var line: [UInt8] = []
        SerialFrame.append(kind, counter: counter, payload[...], to: &line)
        return line
    }

    /// Begins a connection.
    package mutating func open() -> [UInt8] {
        counter = 1
        stream = []
        return Self.frame(.open, 0)
    }

    /// The frames of some bytes of the stream.
    package mutating func frames(_ bytes: [UInt8]) -> [UInt8] {
        var line: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: SerialFrame.payloadMaximum) {
            let end = min(start + SerialFrame.payloadMaximum, bytes.count)
            line += Self.frame(.data, counter, Array(bytes[start..<end]))
            counter &+= 1
        }
        return line
    }

    package mutating func frames(_ packet: some WirePacket, _ source: [UInt8] = []) -> [UInt8] {
        frames(encode(packet, source))
    }

    /// Everything that a device without a credential needs to be let in.
    package mutating func login(_ change: (inout MRT.Connect) -> Void = { _ in }) -> [UInt8] {
        var connect = MRT.Connect()
        connect.keepAliveSeconds = 10
        change(&connect)
        let begin = open()
        return begin + frames(connect)
    }

    /// What arrived: the types of the packets.
    package mutating func take(_ bytes: [UInt8]) -> [[UInt8]] {
        incoming += bytes
        while let end = incoming.firstIndex(of: 0) {
            let encoded = Array(incoming[..<end])
            incoming.removeSubrange(...end)
            guard !encoded.isEmpty else { continue }
            guard let frame = SerialFrame(encoded: encoded) else {
                preconditionFailure("the gateway sends a damaged frame")
            }
            guard frame.kind == .data else {
                kinds.append(frame.kind)
                continue
            }
            stream += frame.payload
        }
        var packets: [[UInt8]] = []
        while true {
            let result = stream.withUnsafeBytes {
                PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: .max)
            }
            guard case .packet(let frame) = result else { return packets }
            packets.append(Array(stream[..<frame.endOffset]))
            stream.removeFirst(frame.endOffset)
        }
    }
}
