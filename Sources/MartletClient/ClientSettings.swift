// What an application chooses about a client, as plain values with their defaults.

import ClientCore
import NetTransport
import WireFormat

/// Who a client says it is.
public enum Credential: Hashable, Sendable {
    /// An opaque session token or a JWT.
    case token(String)
    /// App id, app key and the user to be: for development.
    case appKey(app: String, key: String, user: String)
    /// The listener lets anybody in: the device names the user.
    case none
}

/// Whom to believe that the broker is who it should be.
public enum Trust: Hashable, Sendable {
    /// The operating system's certificate authorities.
    case system
    /// The authorities in a PEM file, and no others.
    case authorityFile(String)
}

/// When a message counts as processed, so that the broker may forget it.
public enum Acknowledgement: Hashable, Sendable {
    /// When the application asks ``Client/events`` for what comes after it. A message whose
    /// processing is interrupted comes again.
    case whenNextIsTaken
    /// When the application calls ``Client/acknowledge(_:)``, after it has stored what it did: this
    /// is how a message takes effect exactly once over crashes of the application.
    case byApplication
}

/// Everything an application can choose about a ``Client``.
public struct ClientSettings: Sendable {
    /// The broker to connect to.
    public var server: ServerAddress
    /// What the client logs in with.
    public var credential: Credential
    /// Only for `tls` servers.
    public var trust = Trust.system
    /// Tells the devices of one user apart; 0 to 64 bytes. The session is (app, user, device).
    public var device = ""
    /// JSON text about the device for statistics, at most 5,120 bytes; empty for none.
    public var information = ""
    /// A broken connection is noticed within one and a half times this; 0 asks for none, at most
    /// 65,535. Two minutes keep most NAT entries alive.
    public var keepAliveSeconds: UInt16 = 120
    /// How long the session and its queue outlive the connection: 0 ends them with it,
    /// `UInt32.max` is for ever, nil the app's default.
    public var sessionExpirySeconds: UInt32?
    /// Forget session, queue and subscriptions before the first connection.
    public var startsClean = false
    /// Messages that may be on their way to the application unacknowledged, 1 to 65,535; the broker
    /// may grant fewer. It also bounds what a client buffers.
    public var inboxWindow: UInt16 = 64
    /// Where an earlier run of the application stopped, from ``IncomingMessage/record``.
    public var inbox: InboxRecord?
    /// When a message counts as processed.
    public var acknowledgement = Acknowledgement.whenNextIsTaken
    /// Attempts in a row that may fail before ``Client/connect()`` gives up; nil tries for ever.
    /// Once connected, a client reconnects for ever.
    public var firstAttemptsMaximum: Int?
    /// Bytes of the largest packet that is taken, at least 128. A message that is larger is removed
    /// from the inbox by the broker, and counted. The default is the broker's own default.
    public var packetMaximum = 524_288
    /// Bytes of sends and requests that have no result yet. What does not fit waits in order.
    public var outboxByteCount = 524_288
    /// Sends and requests that may wait because the outbox is full.
    public var waitingSendsMaximum = 10_000

    /// Settings with every default. ``Client/init(_:)`` checks them.
    public init(server: ServerAddress, credential: Credential) {
        self.server = server
        self.credential = credential
    }

    /// What is wrong, for the caller.
    func check() throws(MartletError) {
        var device = device
        guard device.withUTF8({ TextRules.isDevice(UnsafeRawBufferPointer($0).bytes) }) else {
            throw .invalid(
                "the device \"\(device)\" must have at most 64 bytes without / + # and control "
                    + "characters")
        }
        guard information.utf8.count <= WireLimits.informationByteCountMaximum else {
            throw .invalid(
                "the information has more than \(WireLimits.informationByteCountMaximum) bytes")
        }
        guard inboxWindow > 0, packetMaximum >= WireLimits.packetMaximumMinimum,
            outboxByteCount >= WireLimits.packetMaximumMinimum, waitingSendsMaximum > 0
        else { throw .invalid("windows, buffers and packets cannot be that small") }
        if let inbox, !inbox.isPossible {
            throw .invalid("the inbox record is none that a session can have")
        }
        try checkCredential()
    }

    private func checkCredential() throws(MartletError) {
        switch credential {
        case .token(let token):
            guard (1...WireLimits.tokenByteCountMaximum).contains(token.utf8.count) else {
                throw .invalid("the token must have 1 to 65535 bytes")
            }
        case .appKey(let app, let key, let user):
            guard (1...WireLimits.appKeyByteCountMaximum).contains(key.utf8.count) else {
                throw .invalid("the app key must have 1 to 255 bytes")
            }
            for var id in [app, user] {
                guard id.withUTF8({ TextRules.isIdentifier(UnsafeRawBufferPointer($0).bytes) })
                else {
                    throw .invalid(
                        "the id \"\(id)\" must have 1 to 64 bytes without / + # and control "
                            + "characters")
                }
            }
        case .none: break
        }
    }

    /// The TLS settings; nil for a plain connection.
    func tlsContext() throws(MartletError) -> ClientTLSContext? {
        guard server.transport == .tls else { return nil }
        do throws(TransportError) {
            switch trust {
            case .system: return try ClientTLSContext(trust: .system)
            case .authorityFile(let file):
                return try ClientTLSContext(trust: .authorityFile(file))
            }
        } catch {
            throw .system("\(error)")
        }
    }

    /// The CONNECT of this client and the bytes its ranges point into.
    func connect() -> (packet: MRT.Connect, bytes: [UInt8]) {
        var bytes = ByteBuilder()
        var packet = MRT.Connect()
        packet.isCleanStart = startsClean
        packet.keepAliveSeconds = keepAliveSeconds
        packet.inboxWindow = inboxWindow
        packet.sessionExpirySeconds = sessionExpirySeconds
        packet.device = bytes.append(device)
        packet.information = bytes.append(information)
        switch credential {
        case .token(let token): packet.credential = .token(bytes.append(token))
        case .appKey(let app, let key, let user):
            packet.credential = .appKey(
                app: bytes.append(app), key: bytes.append(key), user: bytes.append(user))
        case .none: packet.credential = .none
        }
        return (packet, bytes.bytes)
    }
}
