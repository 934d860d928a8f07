// What a standby answers its clients: use the primary, in the form of each protocol. It reads only
// the bytes that identify the protocol of a client.

import BrokerTerms
import Glibc
import NetTransport
import Primitives
import WireFormat

/// Where the primary is, for the answers to clients.
struct PrimaryAddresses: Sendable {
    /// HOST:PORT; empty if no primary is known.
    var client: [UInt8] = []
    /// A URL without a path; empty if none is known.
    var web: [UInt8] = []
}

/// Refuses logins and redirects requests.
struct StandbyHandler: LoopHandler, ~Copyable {
    private let listeners: WebListeners
    private let log: LogWriter
    private let refuse: @Sendable () -> PrimaryAddresses
    /// Connections of web listeners.
    private var web: Set<ConnectionID> = []

    /// - Parameter refuse: counts a refusal, and gives what the client is told.
    init(
        _ listeners: WebListeners, log: LogWriter,
        refuse: @escaping @Sendable () -> PrimaryAddresses
    ) {
        self.listeners = listeners
        self.log = log
        self.refuse = refuse
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
        switch isWeb ? StandbyAnswer.http(received) : StandbyAnswer.packet(received) {
        case .incomplete: return Consumption(consumed: 0)
        case .nothing: loop.close(connection, afterFlush: false)
        case .health(let answer): end(connection, with: answer, in: &loop)
        case .refusal(let client):
            let primary = refuse()
            if !isWeb { log(primary, to: connection, in: loop) }
            end(connection, with: client.refusal(naming: primary), in: &loop)
        }
        return Consumption(consumed: Int(bytes.count))
    }

    private func end(
        _ connection: ConnectionID, with answer: [UInt8], in loop: inout EventLoop
    ) {
        _ = answer.withUnsafeBytes { loop.append($0, to: connection, .required) }
        loop.close(connection, afterFlush: true)
    }

    private func log(
        _ primary: PrimaryAddresses, to connection: ConnectionID, in loop: borrowing EventLoop
    ) {
        let primary = String(decoding: primary.client, as: UTF8.self)
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
    /// The answer to a question about this node.
    case health([UInt8])
    /// The client has to use the primary.
    case refusal(StandbyClient)

    // MARK: Packets

    /// The answer to a CONNECT, whose protocol and level are all that is read.
    static func packet(_ bytes: [UInt8]) -> StandbyAnswer {
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
        case .mrt: return .refusal(.mrt)
        case .mqtt(let level) where level >= MQTT.Version.v5.rawValue:
            return .refusal(.mqtt(.v5))
        case .mqtt: return .refusal(.mqtt(.v311))
        case .mqisdp: return .refusal(.mqtt(.v31))
        case .unknown: return .nothing
        }
    }

    /// The first byte and a remaining length of four.
    private static let lengthEndMaximum = 5

    // MARK: HTTP

    /// The answer to a request, of which the path is read.
    static func http(_ bytes: [UInt8]) -> StandbyAnswer {
        let end = Array("\r\n\r\n".utf8)
        guard bytes.count <= ClusterLimits.requestByteCountMaximum else { return .nothing }
        guard let head = firstRange(of: end, in: bytes) else { return .incomplete }
        let words = bytes[..<head].prefix { $0 != UInt8(ascii: "\r") }.split(
            separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, words[1].first == UInt8(ascii: "/"),
            words[1].allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return .nothing }
        let path = words[1].prefix { $0 != UInt8(ascii: "?") }
        if path.elementsEqual("/healthz".utf8) { return .health(health([])) }
        if path.elementsEqual("/readyz".utf8) { return .health(health(.standby)) }
        return .refusal(.web(target: Array(words[1])))
    }

    private static func health(_ findings: BrokerHealth.Finding) -> [UInt8] {
        HTTPResponse.health(findings).closingBytes
    }

    private static func firstRange(of end: [UInt8], in bytes: [UInt8]) -> Int? {
        guard bytes.count >= end.count else { return nil }
        return (0...bytes.count - end.count).first { start in
            bytes[start..<start + end.count].elementsEqual(end)
        }
    }
}

/// A client that has to use the primary, with what its refusal depends on.
enum StandbyClient: Hashable {
    case mrt
    case mqtt(MQTT.Version)
    case web(target: [UInt8])

    /// The bytes of the refusal.
    func refusal(naming primary: PrimaryAddresses) -> [UInt8] {
        switch self {
        case .mrt:
            return MRT.ConnectRefused(
                reason: .useAnotherServer,
                text: ByteRange(offset: 0, count: primary.client.count)
            ).encoded(from: primary.client)
        case .mqtt(let version):
            var packet = MQTT.Connack(version, .useAnotherServer)
            if !primary.client.isEmpty {
                packet.serverReference = ByteRange(offset: 0, count: primary.client.count)
            }
            return packet.encoded(from: primary.client)
        case .web(let target): return Self.redirection(to: primary.web, target)
        }
    }

    private static func redirection(to primary: [UInt8], _ target: [UInt8]) -> [UInt8] {
        guard !primary.isEmpty else {
            var response = HTTPResponse.problem(
                .unavailable, "this node is a standby, and no primary is known",
                reason: .useAnotherServer)
            response.retryAfterSeconds = 1
            return response.closingBytes
        }
        let text =
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: "
            + String(decoding: primary + target, as: UTF8.self)
            + "\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        return Array(text.utf8)
    }
}

extension HTTPResponse {
    /// The bytes of an answer after which the connection closes.
    fileprivate var closingBytes: [UInt8] {
        var response = self
        response.closes = true
        return response.bytes(unixSeconds: UInt64(max(time(nil), 0)))
    }
}
