// The settings of a client, as plain values with their defaults.

import ClientCore
import NetTransport
import Primitives
import WireFormat

/// The credential of a client.
public enum Credential: Hashable, Sendable {
    /// An opaque session token or a JWT.
    case token(String)
    /// App id, app key and the user to log in as: for back ends and development.
    case appKey(app: String, key: String, user: String)
    /// None, for a listener that accepts anonymous clients: the device is the user.
    case none
}

/// The authorities that are trusted to sign the broker's certificate.
public enum Trust: Hashable, Sendable {
    /// The operating system's certificate authorities.
    case system
    /// The authorities in a PEM file, and no others.
    case authorityFile(String)
}

/// When a message counts as processed, so that the broker may discard it.
public enum Acknowledgement: Hashable, Sendable {
    /// When the application reads the next element of ``Client/events``. A message whose processing
    /// is interrupted is delivered again.
    case whenNextIsTaken
    /// When the application calls ``Client/acknowledge(_:)``, after it has stored the message's
    /// effect. With it a message takes effect exactly once, even if the application crashes.
    case byApplication
}

/// How a device gets the messages that history keeps for its user.
public enum Synchronization: Hashable, Sendable {
    /// They are delivered like all others.
    case push
    /// They are not delivered: the application lists conversations with unread messages
    /// (``Client/conversations(after:isUnreadOnly:hasMessages:count:)``) and reads what it wants. A
    /// connected device that subscribes to `$unread/` and its user hears of new ones. All other
    /// messages are delivered, and so are messages whose senders ask for receipts.
    case pull
}

/// The settings of a ``Client``.
public struct ClientSettings: Sendable {
    /// The addresses of the broker, 1 to ``ServerAddress/listMaximum``, all with the same
    /// transport: those of all nodes of a cluster. The client tries them in this order, and goes
    /// where a node sends it if that is one of them.
    public var servers: [ServerAddress]
    /// The credential to log in with.
    public var credential: Credential
    /// Only for `tls` servers.
    public var trust = Trust.system
    /// Distinguishes the devices of one user; 0 to 64 bytes. A session is identified by app, user
    /// and device.
    public var device = ""
    /// JSON text about the device for statistics, at most 5,120 bytes; empty for none.
    public var information = ""
    /// A lost connection is detected within one and a half times this; 0 is no keep-alive, the
    /// maximum is 65,535. Two minutes keep most NAT entries alive.
    public var keepAliveSeconds: UInt16 = 120
    /// How long the session and its queue outlive the connection: 0 ends them with it, `UInt32.max`
    /// is unlimited, nil is the broker's default.
    public var sessionExpirySeconds: UInt32?
    /// Discard session, queue and subscriptions before the first connection.
    public var startsClean = false
    /// How this device gets the messages that history keeps, until its session connects with
    /// another setting.
    public var synchronization = Synchronization.push
    /// The maximum of unacknowledged messages to this client, 1 to 65,535; the broker may grant
    /// fewer. It also bounds what a client buffers.
    public var inboxWindow: UInt16 = 64
    /// The position at which an earlier run of the application stopped, from
    /// ``IncomingMessage/record``.
    public var inbox: InboxRecord?
    /// When a message counts as processed.
    public var acknowledgement = Acknowledgement.whenNextIsTaken
    /// Consecutive attempts that may fail before ``Client/connect()`` throws; nil for unlimited. An
    /// attempt tries each of the servers. Once connected, a client reconnects without a limit.
    public var firstAttemptsMaximum: Int?
    /// The largest packet that the client accepts, at least 128 bytes. The broker removes a larger
    /// message from the inbox and counts it. The default is the broker's own default.
    public var packetMaximum = 524_288
    /// Memory of sends and requests without a result. Further ones wait in order.
    public var outboxByteCount = 524_288
    /// The maximum of sends and requests that wait because the outbox is full.
    public var waitingSendsMaximum = 10_000

    /// Settings with every default. ``Client/init(_:)`` checks them.
    public init(server: ServerAddress, credential: Credential) {
        self.init(servers: [server], credential: credential)
    }

    /// Settings with every default, for a cluster. ``Client/init(_:)`` checks them.
    public init(servers: [ServerAddress], credential: Credential) {
        self.servers = servers
        self.credential = credential
    }

    /// The error of invalid settings, for the caller.
    func check() throws(MartletError) {
        try ServerAddress.check(servers)
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

    /// Reads the authorities that the client trusts, and forgets them.
    ///
    /// - Throws: ``MartletError/system(_:)`` if their file cannot be read or has none.
    package func checkTrust() throws(MartletError) { _ = try tlsContext() }

    /// The TLS settings; nil for a plain connection.
    func tlsContext() throws(MartletError) -> ClientTLSContext? {
        guard servers[0].transport == .tls else { return nil }
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

    /// The CONNECT of this client, the names of its servers, and the bytes that their ranges refer
    /// to.
    func connect() -> (packet: MRT.Connect, servers: ByteRange, bytes: [UInt8]) {
        var bytes = ByteBuilder()
        var packet = MRT.Connect()
        packet.isCleanStart = startsClean
        packet.keepAliveSeconds = keepAliveSeconds
        packet.inboxWindow = inboxWindow
        packet.sessionExpirySeconds = sessionExpirySeconds
        packet.device = bytes.append(device)
        packet.information = bytes.append(information)
        packet.accepts = [.fields, .revisions]
        if synchronization == .pull { packet.accepts.insert(.pull) }
        switch credential {
        case .token(let token): packet.credential = .token(bytes.append(token))
        case .appKey(let app, let key, let user):
            packet.credential = .appKey(
                app: bytes.append(app), key: bytes.append(key), user: bytes.append(user))
        case .none: packet.credential = .none
        }
        let servers = bytes.append(ServerAddress.names(servers))
        return (packet, servers, bytes.bytes)
    }
}
