// A broker whose every byte a test decides: it accepts logins and grants requests, and sends a
// faulty packet after the first message.

import Foundation
import PacketMeanings
import Primitives
import TestSurroundings
import WireFormat

/// Listens on a port of its own until it is released.
final class StrangeBroker: @unchecked Sendable {
    /// What is said to whoever sent the first message, and to everybody else.
    struct Words {
        var toSender: [UInt8] = []
        var toOthers: [UInt8] = []
    }

    enum Dialect { case mqtt, mrt }

    let port: UInt16
    private let dialect: Dialect
    /// The id of each group that is made, and the content of all other answers.
    private let granted: [UInt8]
    private let listener: Int32
    private let strangeness: @Sendable (_ publication: [UInt8]) -> Words
    private let lock = NSLock()
    private var connections: [Int32] = []
    private var hasSpoken = false
    private var (logins, goodbyes) = (0, 0)

    init(
        _ dialect: Dialect, granted: [UInt8] = [],
        _ strangeness: @escaping @Sendable (_ publication: [UInt8]) -> Words
    ) throws {
        self.dialect = dialect
        self.granted = granted
        self.strangeness = strangeness
        let listener = try LoopbackListener()
        self.listener = listener.descriptor
        port = listener.port
    }

    /// Serves until ``stop()``.
    func start() {
        let thread = Thread { [self] in
            while case let connection = accept(listener, nil, nil), connection >= 0 {
                lock.withLock { connections.append(connection) }
                Thread { [self] in serve(connection) }.start()
            }
        }
        thread.start()
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        lock.withLock {
            for connection in connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    /// Clients that have said good-bye.
    var goodbyeCount: Int { lock.withLock { goodbyes } }
    var loginCount: Int { lock.withLock { logins } }

    private func serve(_ connection: Int32) {
        var incoming: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(connection, &room, room.count), count > 0 {
            incoming += room[..<count]
            while true {
                let next = incoming.withUnsafeBytes {
                    PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: 1 << 20)
                }
                guard case .packet(let frame) = next else { break }
                take(frame, Array(incoming[..<frame.endOffset]), connection)
                incoming.removeFirst(frame.endOffset)
            }
        }
    }

    private func take(_ frame: PacketFrame, _ packet: [UInt8], _ connection: Int32) {
        if frame.type == 1 { lock.withLock { logins += 1 } }
        if frame.type == 14 { lock.withLock { goodbyes += 1 } }
        if dialect == .mqtt {
            switch frame.type {
            case 1: put([0x20, 2, 0, 0], connection)
            case 8:
                let body = Array(packet[Int(frame.body.offset)...])
                put([0x90, 3, body[0], body[1], body[body.count - 1]], connection)
            default: break
            }
        } else {
            switch MRT.PacketType(rawValue: frame.type) {
            case .connect: put(Self.accepted, connection)
            case .request:
                let response = MRT.Response(
                    identifier: 1, reason: .success,
                    content: ByteRange(offset: 0, count: granted.count))
                put(encode(response, granted), connection)
            default: break
            }
        }
        guard isMessageType(frame.type) else { return }
        let others = lock.withLock {
            defer { hasSpoken = true }
            return hasSpoken ? nil : connections.filter { $0 != connection }
        }
        guard let others else { return }
        let words = strangeness(packet)
        for other in others { put(words.toOthers, other) }
        put(words.toSender, connection)
    }

    private func isMessageType(_ type: UInt8) -> Bool {
        dialect == .mqtt ? type == 3 : type == MRT.PacketType.send.rawValue
    }

    private func put(_ bytes: [UInt8], _ connection: Int32) {
        _ = bytes.withUnsafeBytes {
            send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
    }

    /// CONNACK of MRT.
    static let accepted: [UInt8] = {
        var accepted = MRT.ConnectAccepted()
        accepted.sessionEpoch = 7
        accepted.packetMaximum = 1 << 17
        accepted.sendWindow = 64
        accepted.user = ByteRange(offset: 0, count: 1)
        return encode(accepted, [0x75])
    }()
}
