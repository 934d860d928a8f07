// Writes the core's log events and the failures of an event loop's connections as log lines. Events
// are collected while effects are carried out and written at the end of the turn.

import BrokerCore
import BrokerTerms
import Configuration
import Dialects
import NetTransport
import Primitives

/// Writes the log lines for the connections of one event loop.
package struct ConnectionLog: LogSink, ~Copyable {
    private struct Pending {
        let kind: LogEvent.Kind
        let connection: ConnectionID
        let reason: ReasonCode
        let user: String
        let device: String
        let subject: String
        /// The second of two connections that claim one session; nil if the event is about one.
        let other: ConnectionID?
        var limit = LimitName.none

        /// Why a login with a credential of another device was refused; nil otherwise.
        var binding: String? {
            guard kind == .connectRefused, reason == .clientIdentifierNotValid, !subject.isEmpty
            else { return nil }
            return "the credential is bound to device \(subject)"
        }

        /// What waited for a session that has expired; nil for others.
        var queue: String? {
            kind == .sessionExpired ? "\(subject) message\(subject == "1" ? "" : "s")" : nil
        }
    }

    /// A closed connection: the data that its last log events need after the loop has released it.
    private struct ClosedConnection {
        let address: SocketAddress
        let cause: TransportCloseCause
        let detail: String
    }

    /// A log event, for the traces of an event loop.
    struct Note {
        let event: LogEventName
        let isEnd: Bool
        let connection: ConnectionID
        let reason: ReasonCode
        let user: String
        let device: String
        let detail: String
    }

    let log: LogWriter
    /// Nil where listeners have no names.
    private let listeners: ListenerSet?
    /// Whether events are collected that no line of the log's level shows: a trace shows them.
    var isTraced = false
    private var pending: [Pending] = []
    /// Connections that closed during this turn. The core's log events about them follow at its
    /// end.
    private var closedConnections: [ConnectionID: ClosedConnection] = [:]
    /// The names that clients refused in this turn presented.
    private var names: [ConnectionID: (user: String, device: String)] = [:]
    /// Details of the refusals of this turn.
    private var explanations: [ConnectionID: String] = [:]
    /// Logins of this turn that were refused before the core heard of them.
    private(set) var refusedLoginCount: UInt64 = 0

    package init(_ log: LogWriter) { self.init(log, listeners: nil) }

    init(_ log: LogWriter, listeners: ListenerSet?) {
        self.log = log
        self.listeners = listeners
    }

    package mutating func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer) {
        guard isTraced || log.writes(note.kind.level(of: note.reason)) else { return }
        func text(_ range: ByteRange) -> String {
            String(decoding: range.bytes(in: bytes), as: UTF8.self)
        }
        pending.append(
            Pending(
                kind: note.kind, connection: note.connection, reason: note.reason,
                user: text(note.user), device: text(note.device), subject: text(note.subject),
                other: note.isAboutTwo ? note.other : nil, limit: note.limit))
    }

    package mutating func takeNames(
        _ connection: ConnectionID, user: RawSpan, device: RawSpan
    ) {
        names[connection] = (
            user.withUnsafeBytes { String(decoding: $0, as: UTF8.self) },
            device.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        )
    }

    package mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {
        if reason.refusesLogin { refusedLoginCount += 1 }
        takeRedirection(connection, reason)
    }

    /// The same for a client that another node of the cluster serves, which the node counts.
    mutating func takeRedirection(_ connection: ConnectionID, _ reason: ReasonCode) {
        let known = names[connection]
        pending.append(
            Pending(
                kind: .connectRefused, connection: connection, reason: reason,
                user: known?.user ?? "", device: known?.device ?? "", subject: "", other: nil))
    }

    /// Adds a detail to the refusal of a connection that no reason code expresses.
    mutating func explain(_ connection: ConnectionID, _ detail: String) {
        explanations[connection] = detail
    }

    /// The connections whose credentials were refused in this turn.
    var refusedCredentials: [ConnectionID] {
        pending.filter { $0.kind.logEvent($0.reason) == .authenticationFailed }.map(\.connection)
    }

    /// The events that ``write(of:conversations:)`` writes next.
    var notes: [Note] {
        pending.map { note in
            var words = note.subject.isEmpty || note.kind == .connected ? [] : [note.subject]
            if let text = note.binding ?? note.queue { words = [text] }
            if note.limit != .none { words.append(note.limit.key.description) }
            if let text = explanations[note.connection] { words.append(text) }
            return Note(
                event: note.kind.logEvent(note.reason),
                isEnd: note.kind == .disconnected || note.kind == .connectRefused,
                connection: note.connection, reason: note.reason, user: note.user,
                device: note.device, detail: words.joined(separator: ", "))
        }
    }

    /// Writes the collected events. Peer addresses come from the loop or were saved at close; a
    /// channel has the address of its gateway.
    mutating func write(
        of loop: borrowing some BrokerLoop & ~Copyable, conversations: borrowing ConversationTable
    ) {
        for note in pending {
            let transport = conversations.transportConnection(of: note.connection)
            let other = note.other.map {
                addressText(of: conversations.transportConnection(of: $0), loop)
            }
            guard note.kind != .connected else {
                let dialect = conversations[note.connection].flatMap(TracedDialect.init)
                writeLogin(
                    note, of: transport, dialect, terms: conversations[transport]?.terms, in: loop)
                continue
            }
            write(
                note, of: transport, closed: closedConnections[transport], other: other,
                in: loop)
        }
        pending.removeAll(keepingCapacity: true)
        closedConnections.removeAll(keepingCapacity: true)
        explanations.removeAll(keepingCapacity: true)
        names.removeAll(keepingCapacity: true)
        refusedLoginCount = 0
    }

    /// Logs a login with what proved the client, and how it came.
    private func writeLogin(
        _ note: Pending, of transport: ConnectionID, _ dialect: TracedDialect?, terms: UInt8?,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) {
        let address = closedConnections[transport]?.address ?? loop.peer(of: transport)
        let subject = note.subject.split(
            separator: "\n", maxSplits: 2, omittingEmptySubsequences: false
        ).map(String.init)
        precondition(subject.count == 3, "a login with the subject \(note.subject)")
        let tls = loop.tlsSummary(of: transport)
        let listener = terms.flatMap { listeners?.name(ofTerms: $0) }
        log.write(
            note.kind.level(of: note.reason), note.kind.logEvent(note.reason),
            fields: [
                "address": .text("\(address)"), "user": .text(note.user),
                "device": .text(note.device), "reason": .text("\(note.reason.name)"),
                "code": .number(note.reason.rawValue), "app": .text(subject[0]),
                "credential": .text(subject[1]), "id": .text(subject[2]),
                "protocol": .text(dialect?.text ?? ""),
                "listener": .text(listener ?? ""), "tls": .text(tls?.version ?? ""),
                "resumed": .number(tls?.isResumed == true ? 1 : 0),
            ])
    }

    private func write(
        _ note: Pending, of transport: ConnectionID, closed: ClosedConnection?, other: String?,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) {
        let address = closed?.address ?? loop.peer(of: transport)
        var reason = note.reason.name.description
        var detail = note.kind == .connectRefused ? explanations[note.connection] ?? "" : ""
        if note.kind == .connectRefused, note.reason == .badUserNameOrPassword, detail.isEmpty {
            detail = "the credential is unknown, revoked or expired"
        }
        // The reason code for a quota does not name the limit that was reached.
        if note.limit != .none { detail = note.limit.key.description }
        if let text = note.binding ?? note.queue { detail = text }
        if let closed, note.kind == .disconnected, note.reason == .unspecifiedError {
            // The protocol has no code for a lost connection, because no packet could carry it.
            reason = "connection-lost"
            detail = closed.detail.isEmpty ? "\(closed.cause)" : closed.detail
        }
        if let other {
            log.write(
                note.kind.level(of: note.reason), note.kind.logEvent(note.reason),
                fields: [
                    "address": .text("\(address)"), "user": .text(note.user),
                    "device": .text(note.device), "reason": .text(reason),
                    "code": .number(note.reason.rawValue),
                    "other": .text(other),
                ])
            return
        }
        log.write(
            note.kind.level(of: note.reason), note.kind.logEvent(note.reason),
            fields: [
                "address": .text("\(address)"), "user": .text(note.user),
                "device": .text(note.device), "reason": .text(reason),
                "code": .number(note.reason.rawValue),
                "subject": .text(note.queue == nil ? note.subject : ""),
                "detail": .text(detail),
            ])
    }

    /// The address of the second of two connections.
    private func addressText(of other: ConnectionID, _ loop: borrowing some BrokerLoop & ~Copyable)
        -> String
    {
        // Only the loop that owns a connection may read its address.
        if other.loop != loop.index { return "loop-\(other.loop)" }
        return "\(closedConnections[other]?.address ?? loop.peer(of: other))"
    }

    /// Logs a connection that was closed directly after it was accepted.
    func writeTurnedAway(_ peer: SocketAddress, _ cause: RefusalCause) {
        log.write(
            .warning, .connectionRefused,
            fields: ["address": .text("\(peer)"), "cause": .text("\(cause)")])
    }

    /// Records a closed connection. A failure below the protocol is logged in a line of its own:
    /// a TLS error, a packet that was too large, a reset.
    mutating func takeClosed(
        _ connection: ConnectionID, cause: TransportCloseCause,
        of loop: borrowing some BrokerLoop & ~Copyable
    ) {
        if log.writes(.warning) {
            closedConnections[connection] = ClosedConnection(
                address: loop.peer(of: connection), cause: cause,
                detail: loop.closeDetail(of: connection))
        }
        let level: LogLevel
        switch cause {
        // A refused connection has a line already.
        case .closedByHandler, .peerClosed, .loopStopped, .refused: return
        case .networkFailure, .connectTimeout: level = .debug
        case .tlsFailure, .handshakeTimeout, .lingerTimeout, .outgoingOverflow, .packetTooLarge,
            .webSocketFault, .proxyHeaderFault:
            level = .warning
        }
        guard log.writes(level) else { return }
        log.write(
            level, .connectionFailed,
            fields: [
                "address": .text("\(loop.peer(of: connection))"), "cause": .text("\(cause)"),
                "detail": .text(loop.closeDetail(of: connection)),
            ])
    }
}

extension ReasonCode {
    /// Whether a login with this reason was refused; the others say that there was none, but bytes
    /// that are no login, or nothing.
    fileprivate var refusesLogin: Bool {
        switch self {
        case .keepAliveTimeout, .malformedPacket, .protocolError, .packetTooLarge: false
        default: true
        }
    }
}

extension ReasonCode {
    /// Whether it ends a connection whose client broke a rule or a limit. Silence beyond the
    /// keep-alive is the network's in most cases, as a lost connection is.
    fileprivate var isFaultOfClient: Bool {
        switch self {
        case .malformedPacket, .protocolError, .implementationSpecificError,
            .badAuthenticationMethod, .receiveMaximumExceeded, .topicAliasInvalid,
            .packetTooLarge, .messageRateTooHigh:
            true
        default: false
        }
    }
}

extension LogEvent.Kind {
    fileprivate func level(of reason: ReasonCode) -> LogLevel {
        switch self {
        case .connected, .sessionExpired: .info
        case .disconnected: reason.isFaultOfClient ? .warning : .info
        case .connectRefused, .takenOver, .duplicateLogin, .sendRefused, .subscribeRefused,
            .presenceRefused, .willRefused, .receiverRefused, .requestRefused:
            .warning
        }
    }

    fileprivate func logEvent(_ reason: ReasonCode) -> LogEventName {
        switch self {
        case .connected: .clientConnected
        // Only a refusal that may be an attempt to guess a credential counts as one. A full store
        // and a browser on the wrong port do not.
        case .connectRefused:
            reason == .badUserNameOrPassword || reason == .notAuthorized
                ? .authenticationFailed : .loginRefused
        case .disconnected: .clientDisconnected
        case .takenOver: .sessionTakenOver
        case .duplicateLogin: .duplicateLogin
        case .sendRefused: .sendRefused
        case .subscribeRefused: .subscribeRefused
        case .presenceRefused: .presenceRefused
        case .sessionExpired: .sessionExpired
        case .willRefused: .willRefused
        case .receiverRefused: .receiverRefused
        case .requestRefused: .requestRefused
        }
    }
}
