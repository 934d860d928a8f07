// A client of MQTT 3.1.1 that fills a store with large retained messages.

import Foundation

/// A connection whose publications are acknowledged one after the other.
final class RetainedFiller {
    private let connection: RawConnection

    init(_ port: UInt16) throws {
        connection = try RawConnection(port)
        let name = Array("filler".utf8)
        let body =
            [0, 4] + Array("MQTT".utf8) + [4, 2, 0, 0, 0, UInt8(name.count)] + name
        try exchange([0x10, UInt8(body.count)] + body, for: [0x20, 2, 0, 0])
    }

    /// Publishes a retained message of so many bytes with QoS 1.
    func publish(_ topic: String, byteCount: Int) throws {
        let topic = Array(topic.utf8)
        let body =
            [0, UInt8(topic.count)] + topic + [0, 1] + [UInt8](repeating: 0x61, count: byteCount)
        try exchange([0x33] + Self.length(body.count) + body, for: [0x40, 2, 0, 1])
    }

    private func exchange(_ bytes: [UInt8], for expected: [UInt8]) throws {
        try connection.send(bytes)
        let answer = connection.receive(expected.count)
        guard answer == expected else {
            throw ClusterFailure(description: "\(answer) for \(expected)")
        }
    }

    /// The remaining length of a packet [MQTT 3.1.1, 2.2.3].
    private static func length(_ count: Int) -> [UInt8] {
        var (bytes, rest): ([UInt8], Int) = ([], count)
        repeat {
            bytes.append(UInt8(rest % 128) | (rest >= 128 ? 0x80 : 0))
            rest /= 128
        } while rest > 0
        return bytes
    }
}
