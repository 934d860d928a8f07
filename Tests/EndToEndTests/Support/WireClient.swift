// A client that sends exactly the bytes of a test, with or without TLS, for sequences that the SDK
// would never send. The test runs it turn by turn.

import BrokerTerms
import Glibc
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import WireFormat

/// One connection to a broker, and everything that came from it.
final class WireClient {
    private struct Handler: IndifferentHandler {
        var isOpen = false
        var received: [UInt8] = []
        var closeCause: TransportCloseCause?
        var detail = ""
        /// The summary of TLS once it is agreed.
        var tls: TLSSummary?

        mutating func opened(
            _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
        ) {
            isOpen = true
            tls = loop.tlsSummary(of: connection)
        }

        mutating func received(
            _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
        ) -> Consumption {
            received += bytes.bytes(in: loop.arena)
            return Consumption(consumed: Int(bytes.count))
        }

        mutating func closed(
            _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
        ) {
            closeCause = cause
            detail = loop.closeDetail(of: connection)
        }
    }

    private var loop: EventLoop
    private var handler = Handler()
    private let connection: ConnectionID
    /// Offset of the first packet that was not taken.
    private var taken = 0

    /// Connects, TLS included. Where that fails, ``isClosed`` says so.
    init(
        host: String = "127.0.0.1", port: UInt16, tls: ClientTLSContext? = nil
    ) throws {
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = 1
        configuration.connectMilliseconds = 60_000
        loop = try EventLoop(configuration, handle: LoopHandle())
        let address = SocketAddress(numericHost: host, port: port)!
        connection = try loop.connect(to: address, tls: tls)
        try turn(until: { $0.isOpen || $0.closeCause != nil }, "a connection")
    }

    var isClosed: Bool { handler.closeCause != nil }
    var closeDetail: String { handler.detail }
    var tls: TLSSummary? { handler.tls }
    /// Everything that came and was not taken as packets.
    var untaken: [UInt8] { Array(handler.received[taken...]) }

    func send(_ bytes: [UInt8]) throws {
        Self.blockBrokenPipeSignal()
        let isTaken = bytes.withUnsafeBytes { loop.append($0, to: connection, .required) }
        guard isTaken else { throw TestFailure("the connection takes nothing any more") }
        turn(waitMaximum: 0)
    }

    /// Goes away without a word.
    func close() {
        Self.blockBrokenPipeSignal()
        loop.close(connection, afterFlush: false)
        turn(waitMaximum: 0)
    }

    /// Lets so much time pass, or less if the connection ends.
    func wait(milliseconds: UInt64) throws {
        for _ in 0..<(milliseconds / 20) where !isClosed { turn(waitMaximum: 20) }
    }

    /// Waits for bytes of the broker that were not taken.
    func waitForAnswer() throws {
        try turn(until: { $0.received.count > taken }, "an answer")
    }

    /// Stops to read: the broker's bytes stay in the kernel's buffers.
    func pause() { loop.pauseReading(connection) }
    func resume() { loop.resumeReading(connection) }

    /// Lets the loop run until the broker has closed the connection.
    func waitForClose() throws {
        try turn(until: { $0.closeCause != nil }, "the end of the connection")
    }

    /// The next packet: type, flags and body.
    func nextPacket() throws -> (type: UInt8, flags: UInt8, body: [UInt8]) {
        func frame(_ bytes: [UInt8]) -> PacketFrame? {
            bytes.withUnsafeBytes { bytes in
                let result = PacketFrame.next(in: bytes.bytes, at: taken, packetMaximum: 1 << 20)
                if case .packet(let frame) = result { return frame }
                return nil
            }
        }
        try turn(until: { frame($0.received) != nil || $0.closeCause != nil }, "a packet")
        guard let frame = frame(handler.received) else {
            throw TestFailure("the connection ended without another packet: \(closeDetail)")
        }
        taken = frame.endOffset
        let body = frame.body
        let bytes = handler.received[Int(body.offset)..<body.endOffset]
        return (frame.type, frame.flags, Array(bytes))
    }

    private func turn(until isDone: (Handler) -> Bool, _ what: String) throws {
        // A minute or more, which nothing local needs. Turns that bring bytes take no time.
        let end = ContinuousClock.now + .seconds(60 * Sanitizer.patience)
        while !isDone(handler), ContinuousClock.now < end { turn(waitMaximum: 20) }
        if !isDone(handler) { throw TestFailure("the time passed without \(what)") }
    }

    private func turn(waitMaximum: Int) {
        Self.blockBrokenPipeSignal()
        _ = loop.turn(&handler, waitMaximum: waitMaximum)
    }

    /// The loop blocks SIGPIPE in the thread of its first turn. After an `await` a test may be in
    /// another one, where the signal would end all tests.
    private static func blockBrokenPipeSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    // MARK: - MRT

    /// Logs in with a token, and takes the CONNACK.
    func login(
        token: String, device: [UInt8] = [], _ change: (inout MRT.Connect) -> Void = { _ in }
    ) throws -> MRT.Connack {
        let bytes = Array(token.utf8) + device
        var connect = MRT.Connect()
        connect.credential = .token(ByteRange(offset: 0, count: token.utf8.count))
        connect.device = ByteRange(offset: token.utf8.count, count: device.count)
        connect.inboxWindow = 64
        change(&connect)
        try send(connect, bytes)
        let packet = try nextPacket()
        guard packet.type == MRT.PacketType.connack.rawValue else {
            throw TestFailure("packet \(packet.type) in place of CONNACK")
        }
        return try packet.body.withUnsafeBytes { try MRT.Connack(body: $0.bytes) }
    }

    func send(_ packet: some MRT.Packet, _ source: [UInt8] = []) throws {
        try send(packetBytes(packet, source))
    }

    /// The reason of the RESULT that comes next.
    func nextResult() throws -> ReasonCode {
        let packet = try nextPacket()
        guard packet.type == MRT.PacketType.result.rawValue else {
            throw TestFailure("packet \(packet.type) in place of RESULT")
        }
        return try packet.body.withUnsafeBytes {
            try MRT.SendResult(flags: packet.flags, body: $0.bytes).reason
        }
    }

    /// The reason of the DISCONNECT that comes next.
    func nextDisconnect() throws -> ReasonCode {
        let packet = try nextPacket()
        guard packet.type == MRT.PacketType.disconnect.rawValue else {
            throw TestFailure("packet \(packet.type) in place of DISCONNECT")
        }
        return try packet.body.withUnsafeBytes { try MRT.BrokerDisconnect(body: $0.bytes).reason }
    }
}

/// The bytes of a packet.
func packetBytes(_ packet: some MRT.Packet, _ source: [UInt8] = []) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
    bytes.withUnsafeMutableBytes { room in
        var writer = PacketWriter(room.mutableBytes)
        source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
    }
    return bytes
}

/// A REQUEST with parameters that are given as bytes.
func requestBytes(
    identifier: Int, _ operation: MRT.Operation, parameters: [UInt8]
) -> [UInt8] {
    packetBytes(
        MRT.Request(
            identifier: UInt64(identifier), operation: operation,
            parameters: ByteRange(offset: 0, count: parameters.count)), parameters)
}

/// A CONNECT with a token that exists.
func connectBytes(token: String, device: String) -> [UInt8] {
    let source = Array(token.utf8) + Array(device.utf8)
    var connect = MRT.Connect()
    connect.credential = .token(ByteRange(offset: 0, count: token.utf8.count))
    connect.device = ByteRange(offset: token.utf8.count, count: device.utf8.count)
    connect.inboxWindow = 64
    return packetBytes(connect, source)
}
