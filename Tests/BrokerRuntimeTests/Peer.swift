// A client for tests: one socket, plain or TLS, that writes MRT packets and waits for others. It
// keeps no protocol state, so that a test can also send invalid sequences.
import BrokerTerms
import COpenSSL
import Glibc
import Primitives
import Testing
import WireFormat

/// What TLS a peer speaks, and how it proves who it is.
struct PeerTLS {
    /// Nil trusts nobody.
    var authorityFile: String?
    var certificateFile: String?
    var keyFile: String?
    /// Identity and key of a pre-shared key.
    var preSharedKey: (identity: String, key: [UInt8])?
    var version = TLS1_3_VERSION
    /// From ``Peer/session`` of an earlier connection.
    var session: PeerSession?
}

/// A TLS session that can be resumed.
final class PeerSession {
    let pointer: OpaquePointer
    init(_ pointer: OpaquePointer) { self.pointer = pointer }
    deinit { SSL_SESSION_free(pointer) }
}

/// One packet as it came.
struct ReceivedPacket {
    let type: MRT.PacketType
    let flags: UInt8
    let body: [UInt8]
}

final class Peer {
    private let descriptor: Int32
    private var ssl: OpaquePointer?
    private var context: OpaquePointer?
    private var pending: [UInt8] = []
    private var sendNumber: UInt64 = 0
    private var requestNumber: UInt64 = 0
    /// Set by ``login(token:device:)``: its own address as the broker sees it.
    private(set) var address = ""

    init(port: UInt16, tls: PeerTLS? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var timeout = timeval(tv_sec: 90, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = port.bigEndian
        name.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (descriptor, length) = (descriptor, size)
        let connected = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, length)
            }
        }
        try #require(connected == 0, "no connection to port \(port)")
        _ = withUnsafeMutablePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(descriptor, $0, &size)
            }
        }
        address = "127.0.0.1:\(UInt16(bigEndian: name.sin_port))"
        if let tls { try shakeHands(tls) }
    }

    deinit { close() }

    private var isClosed = false

    /// Closes without a word.
    func close() {
        if isClosed { return }
        isClosed = true
        if let ssl {
            // Without a goodbye OpenSSL would throw the session away, and tests resume it.
            SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
            SSL_free(ssl)
        }
        if let context { SSL_CTX_free(context) }
        (ssl, context) = (nil, nil)
        shutdown(descriptor, Int32(SHUT_RDWR))
        Glibc.close(descriptor)
    }

    // MARK: - TLS

    struct HandshakeFailure: Error {}

    private func shakeHands(_ tls: PeerTLS) throws {
        let context = try #require(SSL_CTX_new(TLS_client_method()))
        self.context = context
        _ = openssl_ctx_set_min_version(context, tls.version)
        _ = openssl_ctx_set_max_version(context, tls.version)
        if let file = tls.authorityFile {
            try #require(SSL_CTX_load_verify_locations(context, file, nil) == 1)
        }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        if let certificate = tls.certificateFile, let key = tls.keyFile {
            try #require(SSL_CTX_use_certificate_chain_file(context, certificate) == 1)
            try #require(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1)
        }
        let ssl = try #require(SSL_new(context))
        self.ssl = ssl
        if let secret = tls.preSharedKey {
            offer(secret, on: ssl)
            // As a device without certificates would in TLS 1.2; 1.3 has other suites.
            SSL_set_cipher_list(ssl, "PSK-AES128-GCM-SHA256")
        }
        if let session = tls.session { SSL_set_session(ssl, session.pointer) }
        SSL_set_fd(ssl, descriptor)
        guard SSL_connect(ssl) == 1 else {
            ERR_clear_error()
            throw HandshakeFailure()
        }
    }

    private final class Secret {
        let identity: String
        let key: [UInt8]
        init(identity: String, key: [UInt8]) { (self.identity, self.key) = (identity, key) }
    }

    private var secret: Secret?

    private func offer(_ secret: (identity: String, key: [UInt8]), on ssl: OpaquePointer) {
        let kept = Secret(identity: secret.identity, key: secret.key)
        self.secret = kept
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(kept).toOpaque())
        SSL_set_psk_client_callback(ssl) { ssl, _, identity, identityRoom, key, keyRoom in
            let secret = Unmanaged<Secret>.fromOpaque(SSL_get_ex_data(ssl, 0)!)
                .takeUnretainedValue()
            guard secret.identity.utf8.count < identityRoom, secret.key.count <= keyRoom else {
                return 0
            }
            _ = secret.identity.withCString { strcpy(identity!, $0) }
            key!.update(from: secret.key, count: secret.key.count)
            return UInt32(secret.key.count)
        }
    }

    /// The session as it is after what has been read so far, tickets included.
    var session: PeerSession? { SSL_get1_session(ssl).map(PeerSession.init) }

    var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    /// The common name of the certificate that the broker shows.
    var brokerSerial: String? {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return nil }
        defer { X509_free(certificate) }
        let text = i2s_ASN1_INTEGER(nil, X509_get0_serialNumber(certificate))
        defer { CRYPTO_free(text, nil, 0) }
        return text.map { String(cString: $0) }
    }

    // MARK: - Packets

    func write(_ bytes: [UInt8]) {
        if let ssl {
            _ = SSL_write(ssl, bytes, Int32(bytes.count))
        } else {
            _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
    }

    func write(_ packet: some MRT.Packet, _ source: [UInt8] = []) {
        write(Self.bytes(of: packet, source))
    }

    /// A packet as it goes on the wire; its ranges are in `source`.
    static func bytes(of packet: some MRT.Packet, _ source: [UInt8]) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        return bytes
    }

    /// The next packet; nil when the broker closed the connection or said nothing for 90 seconds.
    func read() -> ReceivedPacket? {
        readFrame().map {
            ReceivedPacket(
                type: MRT.PacketType(rawValue: $0.type)!, flags: $0.flags, body: $0.body)
        }
    }

    /// The next packet of whatever dialect.
    func readFrame() -> (type: UInt8, flags: UInt8, body: [UInt8])? {
        while true {
            let frame = pending.withUnsafeBytes {
                PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: .max)
            }
            if case .packet(let frame) = frame {
                defer { pending.removeSubrange(..<frame.endOffset) }
                let start = Int(frame.body.offset)
                return (
                    frame.type, frame.flags,
                    Array(pending[start..<start + Int(frame.body.count)])
                )
            }
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count =
                ssl.map { Int(SSL_read($0, &chunk, Int32(chunk.count))) }
                ?? recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { return nil }
            pending += chunk[..<count]
        }
    }

    /// The next packet of a type; others on the way are dropped.
    func read(_ type: MRT.PacketType) -> ReceivedPacket? {
        while let packet = read() {
            if packet.type == type { return packet }
        }
        return nil
    }

    // MARK: - Conversations

    /// Sends CONNECT; the reason of its answer, or nil where the connection was closed without one.
    func login(
        token: String? = nil, device: String = "", sessionExpirySeconds: UInt32? = nil
    ) -> ReasonCode? {
        write(
            Self.connectPacket(
                token: token, device: device, sessionExpirySeconds: sessionExpirySeconds))
        return read(.connack).flatMap { ReasonCode(rawValue: $0.body[0]) }
    }

    static func connectPacket(
        token: String?, device: String = "", sessionExpirySeconds: UInt32? = nil
    ) -> [UInt8] {
        var source = Source()
        var connect = MRT.Connect()
        connect.inboxWindow = 64
        connect.device = source.add(device)
        connect.sessionExpirySeconds = sessionExpirySeconds
        if let token { connect.credential = .token(source.add(token)) }
        return bytes(of: connect, source.bytes)
    }

    /// Sends a text of grade durable; the reason of its result.
    func sendText(_ text: String, to target: (inout Source) -> MRT.Target) -> ReasonCode? {
        sendNumber += 1
        var source = Source()
        let target = target(&source)
        let payload = source.add("\0" + text)
        write(
            MRT.Send(grade: .durable, number: sendNumber, target: target, payload: payload),
            source.bytes)
        guard let packet = read(.result) else { return nil }
        return packet.body.withUnsafeBytes {
            (try? MRT.SendResult(flags: packet.flags, body: $0.bytes))?.reason
        }
    }

    func send(_ text: String, to user: String) -> ReasonCode? {
        sendText(text) { .user($0.add(user)) }
    }

    func publish(_ text: String, on topic: String) -> ReasonCode? {
        sendText(text) { .topic($0.add(topic)) }
    }

    func broadcast(_ text: String) -> ReasonCode? { sendText(text) { _ in .broadcast } }

    func subscribe(_ filter: String) -> ReasonCode? {
        var source = Source()
        source.bytes = [2] + Array(filter.utf8)
        return request(.subscribe, source)
    }

    func presence(_ user: String) -> ReasonCode? {
        var source = Source()
        source.bytes = [UInt8(user.utf8.count)] + Array(user.utf8)
        return request(.presence, source)
    }

    private func request(_ operation: MRT.Operation, _ source: Source) -> ReasonCode? {
        requestNumber += 1
        write(
            MRT.Request(
                identifier: requestNumber, operation: operation,
                parameters: ByteRange(offset: 0, count: source.bytes.count)), source.bytes)
        guard let packet = read(.response) else { return nil }
        return packet.body.withUnsafeBytes { (try? MRT.Response(body: $0.bytes))?.reason }
    }

    /// The text of the next delivery.
    func delivery() -> String? {
        guard let packet = read(.deliver) else { return nil }
        return packet.body.withUnsafeBytes { bytes in
            guard let deliver = try? MRT.Deliver(flags: packet.flags, body: bytes.bytes) else {
                return nil
            }
            return String(
                decoding: deliver.payload.bytes(in: bytes).dropFirst(), as: UTF8.self)
        }
    }

    /// Presents a new credential; the broker's verdict.
    func rotate(to token: String) -> ReasonCode? {
        var source = Source()
        let range = source.add(token)
        write(MRT.ClientAuth(credential: .token(range)), source.bytes)
        return read(.auth).flatMap { ReasonCode(rawValue: $0.body[0]) }
    }

    /// The reason with which the broker ends the connection.
    func farewell() -> ReasonCode? {
        read(.disconnect).flatMap { ReasonCode(rawValue: $0.body[0]) }
    }
}

/// Texts that a packet refers to.
struct Source {
    var bytes: [UInt8] = []

    mutating func add(_ text: String) -> ByteRange {
        bytes += text.utf8
        return ByteRange(offset: bytes.count - text.utf8.count, count: text.utf8.count)
    }
}

// MARK: - MQTT

extension Peer {
    /// A CONNECT of an MQTT client whose password is a token.
    static func mqttConnect(
        level: UInt8, client: String = "", token: String, keepAliveSeconds: UInt16 = 60
    ) -> [UInt8] {
        var body = string("MQTT") + [level, 0xC2]
        body += [UInt8(keepAliveSeconds >> 8), UInt8(truncatingIfNeeded: keepAliveSeconds)]
        if level == 5 { body.append(0) }
        return packet(0x10, body + string(client) + string("token") + string(token))
    }

    /// A CONNECT of an MQTT 5 client whose authentication method brings a token.
    static func mqttConnectWithMethod(token: String) -> [UInt8] {
        let properties = tokenProperties(token)
        return packet(
            0x10, string("MQTT") + [5, 2, 0, 60] + length(properties.count) + properties + [0, 0])
    }

    /// An AUTH with which an MQTT 5 client shows a fresh token.
    static func mqttAuth(token: String) -> [UInt8] {
        let properties = tokenProperties(token)
        return packet(0xF0, [0x19] + length(properties.count) + properties)
    }

    private static func tokenProperties(_ token: String) -> [UInt8] {
        [0x15] + string("token") + [0x16] + string(token)
    }

    /// The code of the CONNACK that answers; nil where the connection was closed without one.
    func mqttLogin(
        level: UInt8, client: String = "", token: String, keepAliveSeconds: UInt16 = 60
    ) -> UInt8? {
        write(
            Self.mqttConnect(
                level: level, client: client, token: token, keepAliveSeconds: keepAliveSeconds))
        return readFrame().map { $0.body[1] }
    }

    /// A PUBLISH of quality 0, or 1 with a packet identifier.
    static func mqttPublish(
        level: UInt8, _ text: String, on topic: String, identifier: UInt16? = nil
    ) -> [UInt8] {
        var body = string(topic)
        if let identifier {
            body += [UInt8(identifier >> 8), UInt8(truncatingIfNeeded: identifier)]
        }
        if level == 5 { body.append(0) }
        return packet(identifier == nil ? 0x30 : 0x32, body + text.utf8)
    }

    /// The codes of the SUBACK for these filters.
    func mqttSubscribe(level: UInt8, _ filters: String...) -> [UInt8]? {
        var body: [UInt8] = [0, 1]
        if level == 5 { body.append(0) }
        for filter in filters { body += Self.string(filter) + [1] }
        write(Self.packet(0x82, body))
        while let frame = readFrame() {
            guard frame.type == 9 else { continue }
            // Version 5 has properties in front, whose length is one byte here.
            let propertyCount = level == 5 ? 1 + Int(frame.body[2]) : 0
            return Array(frame.body.dropFirst(2 + propertyCount))
        }
        return nil
    }

    private static func string(_ text: String) -> [UInt8] {
        [UInt8(text.utf8.count >> 8), UInt8(truncatingIfNeeded: text.utf8.count)] + text.utf8
    }

    private static func packet(_ first: UInt8, _ body: [UInt8]) -> [UInt8] {
        [first] + length(body.count) + body
    }

    private static func length(_ count: Int) -> [UInt8] {
        var rest = count
        var bytes: [UInt8] = []
        repeat {
            bytes.append(UInt8(rest & 0x7F) | (rest > 0x7F ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
        return bytes
    }
}
