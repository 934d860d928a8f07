// One connection to the servers, and what the library tells of it. The library has threads of its
// own, reconnects by itself and permits calls from any thread.

import CNATS
import Threads

/// What happens to a connection, for the log of the program.
public enum JetStreamNotice: Hashable, Sendable {
    case connected(server: String)
    case disconnected
    /// The library gave the connection up: the servers refuse it.
    case closed
    /// A server or the library reports an error.
    case failed(String)
}

extension JetStreamNotice: CustomStringConvertible {
    public var description: String {
        switch self {
        case .connected(let server): "connected to the NATS server \(server)"
        case .disconnected: "the connection to the NATS server is lost"
        case .closed: "the NATS servers refuse the connection"
        case .failed(let text): "the NATS server reports: \(text)"
        }
    }
}

/// A connection to one of several servers.
final class JetStreamConnection: @unchecked Sendable {
    // The library's values. They do not change until `deinit`.
    let connection: nats_connection
    let jetstream: nats_jetstream
    private let listener: Listener

    /// What the library's threads call.
    private final class Listener: Sendable {
        private let notice: @Sendable (JetStreamNotice) -> Void
        /// Set before the connection is closed: what its end causes is no news.
        private let isEnding = Locked(false)
        init(_ notice: @escaping @Sendable (JetStreamNotice) -> Void) { self.notice = notice }

        func report(_ event: JetStreamNotice) {
            if !isEnding.withLock({ $0 }) { notice(event) }
        }

        func end() { isEnding.withLock { $0 = true } }

        static func at(_ context: nats_context?) -> Listener? {
            context.map { Unmanaged<Listener>.fromOpaque($0).takeUnretainedValue() }
        }
    }

    /// Connects to the first server that answers. Blocks until each was tried once.
    init(
        _ settings: JetStreamSettings, credentials: JetStreamCredentials,
        report: @escaping @Sendable (JetStreamNotice) -> Void
    ) throws(JetStreamError) {
        if let fault = settings.fault { throw .setting(fault) }
        listener = Listener(report)
        var options: nats_options?
        try Self.check(natsOptions_Create(&options), "natsOptions_Create")
        defer { natsOptions_Destroy(options) }
        try Self.set(options, settings, credentials: credentials)
        try Self.setTimes(options)
        try Self.setCallbacks(options, listener)
        var connection: nats_connection?
        try Self.check(natsConnection_Connect(&connection, options), "connect")
        guard let connection else { throw .unavailable("the library gives no connection") }
        var jetstream: nats_jetstream?
        let status = nats_make_jetstream(
            &jetstream, connection, JetStreamLimits.questionMilliseconds)
        guard status == NATS_OK, let jetstream else {
            natsConnection_Destroy(connection)
            throw .unavailable(Self.text(status))
        }
        self.connection = connection
        self.jetstream = jetstream
        report(.connected(server: server))
    }

    deinit {
        listener.end()
        jsCtx_Destroy(jetstream)
        natsConnection_Destroy(connection)
        // Callbacks of the end may run later: they keep the listener.
    }

    /// The URL of the server that the connection goes to; empty without one.
    var server: String { Self.server(of: connection) }

    private static func server(of connection: nats_connection) -> String {
        var text = [CChar](repeating: 0, count: JetStreamLimits.urlByteCountMaximum + 1)
        let status = natsConnection_GetConnectedUrl(connection, &text, text.count)
        guard status == NATS_OK else { return "" }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    var isConnected: Bool { natsConnection_Status(connection) == NATS_CONN_STATUS_CONNECTED }
    var isClosed: Bool { natsConnection_IsClosed(connection) }

    /// The bytes of the largest message that the server accepts, with its header.
    var payloadByteCountMaximum: Int { Int(natsConnection_GetMaxPayload(connection)) }

    /// Asks a question that servers answer with JSON.
    func ask(
        _ subject: String, _ question: String = "",
        milliseconds: Int64 = JetStreamLimits.questionMilliseconds
    ) throws(JetStreamError) -> ServerAnswer {
        var reply: nats_message?
        let bytes = Array(question.utf8)
        let status = nats_request(
            &reply, connection, subject, bytes, Int32(bytes.count), milliseconds)
        defer { natsMsg_Destroy(reply) }
        guard status == NATS_OK, let reply else { throw Self.error(status) }
        guard let answer = ServerAnswer(JetStreamConnection.bytes(of: reply)) else {
            throw .refused(code: 0, text: "the answer to \(subject) is not JSON")
        }
        return answer
    }

    /// The bytes of a message.
    static func bytes(of message: nats_message) -> [UInt8] {
        let count = Int(natsMsg_GetDataLength(message))
        guard count > 0, let start = nats_message_bytes(message) else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            if let place = buffer.baseAddress { memcpy(place, start, count) }
            initialized = count
        }
    }

    // MARK: Options

    private static func set(
        _ options: nats_options?, _ settings: JetStreamSettings, credentials: JetStreamCredentials
    ) throws(JetStreamError) {
        var servers = settings.servers.map { strdup($0) }
        defer { servers.forEach { free($0) } }
        try check(nats_set_servers(options, &servers, Int32(servers.count)), "servers")
        try check(natsOptions_SetName(options, settings.node), "node")
        if let tls = settings.tls {
            try check(natsOptions_SetSecure(options, true), "tls")
            if let file = tls.authorityFile {
                try checkFile(natsOptions_LoadCATrustedCertificates(options, file), file)
            }
            if let certificate = tls.certificateFile, let key = tls.keyFile {
                try checkFile(
                    natsOptions_LoadCertificatesChain(options, certificate, key),
                    "\(certificate) or \(key)")
            }
        }
        switch credentials {
        case .none: break
        case .user(let user, let password):
            try check(natsOptions_SetUserInfo(options, user, password), "user")
        case .token(let token): try check(natsOptions_SetToken(options, token), "token")
        case .file(let file):
            try checkFile(natsOptions_SetUserCredentialsFromFiles(options, file, nil), file)
        }
    }

    private static func setTimes(_ options: nats_options?) throws(JetStreamError) {
        typealias Limits = JetStreamLimits
        try check(natsOptions_SetTimeout(options, Limits.connectMilliseconds), "timeout")
        try check(natsOptions_SetPingInterval(options, Limits.pingMilliseconds), "ping interval")
        try check(natsOptions_SetMaxPingsOut(options, Limits.pingsMaximum), "pings")
        try check(natsOptions_SetAllowReconnect(options, true), "reconnect")
        try check(natsOptions_SetMaxReconnect(options, -1), "reconnect")
        try check(natsOptions_SetReconnectWait(options, Limits.reconnectMilliseconds), "reconnect")
        try check(
            natsOptions_SetReconnectJitter(
                options, Limits.reconnectMilliseconds, Limits.reconnectMilliseconds), "reconnect")
        // A message that is sent during a reconnection would be kept, and leave after its call has
        // timed out. 0 keeps none in version 3.4.1, although its documentation says otherwise.
        try check(natsOptions_SetReconnectBufSize(options, 0), "buffer")
        try check(natsOptions_SetFailRequestsOnDisconnect(options, true), "requests")
        try check(natsOptions_SetSendAsap(options, true), "send")
    }

    private static func setCallbacks(
        _ options: nats_options?, _ listener: Listener
    ) throws(JetStreamError) {
        // The library calls until the connection is closed, which may be after its owner's end. A
        // listener is small, and there is one for each connection: it is never freed.
        let context = Unmanaged.passRetained(listener).toOpaque()
        try check(
            natsOptions_SetDisconnectedCB(
                options, { _, context in Listener.at(context)?.report(.disconnected) }, context),
            "callback")
        try check(
            natsOptions_SetReconnectedCB(
                options,
                { connection, context in
                    Listener.at(context)?.report(
                        .connected(server: connection.map(JetStreamConnection.server(of:)) ?? ""))
                }, context), "callback")
        try check(
            natsOptions_SetClosedCB(
                options, { _, context in Listener.at(context)?.report(.closed) }, context),
            "callback")
        try check(
            natsOptions_SetErrorHandler(
                options,
                { connection, _, status, context in
                    let detail = String(cString: nats_connection_error(connection))
                    let text = String(cString: natsStatus_GetText(status))
                    Listener.at(context)?.report(
                        .failed(detail.isEmpty ? text : "\(text): \(detail)"))
                }, context), "callback")
    }

    // MARK: Errors

    static func text(_ status: natsStatus) -> String {
        let detail = String(cString: nats_last_error())
        return detail.isEmpty ? String(cString: natsStatus_GetText(status)) : detail
    }

    static func error(_ status: natsStatus) -> JetStreamError {
        switch status {
        case NATS_CONNECTION_AUTH_FAILED, NATS_NOT_PERMITTED: .unauthorised
        case NATS_NO_RESPONDERS: .leaderless(text(status))
        default: .unavailable(text(status))
        }
    }

    private static func check(_ status: natsStatus, _ what: String) throws(JetStreamError) {
        guard status != NATS_OK else { return }
        switch status {
        case NATS_INVALID_ARG, NATS_ADDRESS_MISSING: throw .setting("\(what): \(text(status))")
        default: throw error(status)
        }
    }

    private static func checkFile(_ status: natsStatus, _ file: String) throws(JetStreamError) {
        guard status != NATS_OK else { return }
        throw .file("\(file) cannot be used: \(text(status))")
    }
}
