// What a standby answers its clients: use the primary, in the form of each protocol. It reads of a
// client no more than the protocol that it speaks.

import BrokerTerms
import Glibc
import NetTransport
import Primitives
import WireFormat

/// Refuses logins and redirects requests.
struct StandbyHandler: LoopHandler, ~Copyable {
    private let listeners: WebListeners
    private let log: LogWriter
    private let view: @Sendable () -> StandbyView
    /// Connections of web listeners.
    private var web: Set<ConnectionID> = []

    /// What a standby knows of the primary, and a count of its refusals.
    struct StandbyView: Sendable {
        /// HOST:PORT; empty if no primary is known.
        var address: [UInt8] = []
        /// A URL without a path; empty if none is known.
        var webAddress: [UInt8] = []
    }

    /// - Parameter view: called for each refusal.
    init(
        _ listeners: WebListeners, log: LogWriter, view: @escaping @Sendable () -> StandbyView
    ) {
        self.listeners = listeners
        self.log = log
        self.view = view
    }

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        if case .listener(let tag) = origin, listeners.terms(tag: tag) != nil {
            web.insert(connection)
        }
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        let received = Array(loop.arena[Int(bytes.offset)..<bytes.endOffset])
        let isWeb = web.contains(connection)
        let answer =
            isWeb
            ? StandbyAnswer.http(received, view) : StandbyAnswer.packet(received, view)
        switch answer {
        case .incomplete: return Consumption(consumed: 0)
        case .nothing: loop.close(connection, afterFlush: false)
        case .bytes(let answer):
            if !isWeb { noteRefusal(of: connection, in: loop) }
            _ = answer.withUnsafeBytes { loop.append($0, to: connection, .required) }
            loop.close(connection, afterFlush: true)
        }
        return Consumption(consumed: Int(bytes.count))
    }

    private func noteRefusal(of connection: ConnectionID, in loop: borrowing EventLoop) {
        let primary = String(decoding: view().address, as: UTF8.self)
        log.writeRefusal(
            .loginRefused, of: loop.peer(of: connection), user: "", reason: .useAnotherServer,
            primary.isEmpty
                ? "this node is a standby, and no primary is known"
                : "this node is a standby; the primary is \(primary)")
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        loop.close(connection, afterFlush: false)
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {
        web.remove(connection)
    }

    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func woken(in loop: inout EventLoop) {}
    mutating func turnEnded(in loop: inout EventLoop) {}
    mutating func stopping(in loop: inout EventLoop) {}
}

/// The answer of a standby to a client's first bytes.
enum StandbyAnswer: Hashable {
    /// More bytes are needed.
    case incomplete
    /// The client speaks nothing that has an answer.
    case nothing
    case bytes([UInt8])

    typealias View = StandbyHandler.StandbyView

    // MARK: Packets

    /// The answer to a CONNECT, whose protocol and level are all that is read.
    static func packet(_ bytes: [UInt8], _ view: () -> View) -> StandbyAnswer {
        guard let first = bytes.first else { return .incomplete }
        guard first == MRT.PacketType.connect.rawValue << 4 else { return .nothing }
        var start = 1
        while start < bytes.count, bytes[start] & 0x80 != 0 { start += 1 }
        start += 1
        guard start <= lengthEndMaximum else { return .nothing }
        let body = Array(bytes.dropFirst(start).prefix(ProtocolName.byteCountMaximum))
        guard let name = try? ProtocolName.read(body.span.bytes) else {
            return body.count < ProtocolName.byteCountMaximum ? .incomplete : .nothing
        }
        switch name {
        case .mrt: return .bytes(refusalOfMRT(view().address))
        case .mqtt(let level) where level >= MQTT.Version.v5.rawValue:
            return .bytes(refusal(.v5, view().address))
        case .mqtt: return .bytes(refusal(.v311, view().address))
        case .mqisdp: return .bytes(refusal(.v31, view().address))
        case .unknown: return .nothing
        }
    }

    /// The first byte and a remaining length of four.
    private static let lengthEndMaximum = 5

    private static func refusal(_ version: MQTT.Version, _ address: [UInt8]) -> [UInt8] {
        var packet = MQTT.Connack(version, .useAnotherServer)
        if !address.isEmpty {
            packet.serverReference = ByteRange(offset: 0, count: address.count)
        }
        return packet.encoded(from: address)
    }

    private static func refusalOfMRT(_ address: [UInt8]) -> [UInt8] {
        MRT.ConnectRefused(
            reason: .useAnotherServer, text: ByteRange(offset: 0, count: address.count)
        ).encoded(from: address)
    }

    // MARK: HTTP

    /// The answer to a request, of which the path is read.
    static func http(_ bytes: [UInt8], _ view: () -> View) -> StandbyAnswer {
        let end = Array("\r\n\r\n".utf8)
        guard bytes.count <= ClusterLimits.requestByteCountMaximum else { return .nothing }
        guard let head = firstRange(of: end, in: bytes) else { return .incomplete }
        let words = bytes[..<head].prefix { $0 != UInt8(ascii: "\r") }.split(
            separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, words[1].first == UInt8(ascii: "/"),
            words[1].allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return .nothing }
        let path = words[1].prefix { $0 != UInt8(ascii: "?") }
        if path.elementsEqual("/healthz".utf8) { return .bytes(health([])) }
        if path.elementsEqual("/readyz".utf8) { return .bytes(health(.standby)) }
        let primary = view().webAddress
        guard !primary.isEmpty else {
            var response = HTTPResponse.problem(
                .unavailable, "this node is a standby, and no primary is known",
                reason: .useAnotherServer)
            response.retryAfterSeconds = 1
            return .bytes(closing(response))
        }
        let text =
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: "
            + String(decoding: primary + words[1], as: UTF8.self)
            + "\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        return .bytes(Array(text.utf8))
    }

    private static func health(_ findings: BrokerHealth.Finding) -> [UInt8] {
        closing(.health(findings))
    }

    private static func closing(_ response: HTTPResponse) -> [UInt8] {
        var response = response
        response.closes = true
        return response.bytes(unixSeconds: UInt64(max(time(nil), 0)))
    }

    private static func firstRange(of end: [UInt8], in bytes: [UInt8]) -> Int? {
        guard bytes.count >= end.count else { return nil }
        return (0...bytes.count - end.count).first { start in
            bytes[start..<start + end.count].elementsEqual(end)
        }
    }
}
