// What a lane has to say to the operator: the core's notes and the loop's troubles, as log lines.
// Notes are taken while effects are carried out and written once the turn's work is done.

import BrokerCore
import Configuration
import Dialects
import NetTransport
import Primitives

/// Turns notes into log lines for one lane.
package struct LaneLog: NoteTaker, ~Copyable {
    private struct Pending {
        let kind: Note.Kind
        let connection: ConnectionID
        let reason: ReasonCode
        let user: String
        let device: String
        let subject: String
        /// The second of two connections that want one session; nil where it is about one.
        let other: ConnectionID?
        var limit = LimitName.none
    }

    /// A connection that is gone: what its last notes need and the loop will have forgotten.
    private struct Departure {
        let address: SocketAddress
        let cause: NetTransport.CloseCause
        let detail: String
    }

    private let log: LogWriter
    private var pending: [Pending] = []
    /// Connections that closed during this turn; the core's notes about them come at its end.
    private var departures: [ConnectionID: Departure] = [:]
    /// What those called themselves who are sent away in this turn.
    private var names: [ConnectionID: (user: String, device: String)] = [:]
    /// What else is to be said of refusals of this turn.
    private var explanations: [ConnectionID: String] = [:]

    package init(_ log: LogWriter) {
        self.log = log
    }

    package mutating func take(_ note: Note, bytes: UnsafeRawBufferPointer) {
        guard log.writes(note.kind.level) else { return }
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
        _ connection: ConnectionID, user: UnsafeRawBufferPointer, device: UnsafeRawBufferPointer
    ) {
        names[connection] = (
            String(decoding: user, as: UTF8.self), String(decoding: device, as: UTF8.self)
        )
    }

    package mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {
        let known = names[connection]
        pending.append(
            Pending(
                kind: .connectRefused, connection: connection, reason: reason,
                user: known?.user ?? "", device: known?.device ?? "", subject: "", other: nil))
    }

    /// Adds to the refusal of a connection what no reason code says.
    mutating func explain(_ connection: ConnectionID, _ detail: String) {
        explanations[connection] = detail
    }

    /// Writes what was noted. Peer addresses come from the loop, or were saved at close; a channel
    /// reports its gateway's.
    mutating func write(
        _ loop: borrowing some LaneLoop & ~Copyable, _ conversations: borrowing ConversationTable
    ) {
        for note in pending {
            let carrier = conversations.carrier(of: note.connection)
            let other = note.other.map { addressText(of: conversations.carrier(of: $0), loop) }
            write(note, carrier, departures[carrier], other: other, loop)
        }
        pending.removeAll(keepingCapacity: true)
        departures.removeAll(keepingCapacity: true)
        explanations.removeAll(keepingCapacity: true)
        names.removeAll(keepingCapacity: true)
    }

    private func write(
        _ note: Pending, _ carrier: ConnectionID, _ departure: Departure?, other: String?,
        _ loop: borrowing some LaneLoop & ~Copyable
    ) {
        let address = departure?.address ?? loop.peer(of: carrier)
        var reason = note.reason.name.description
        var detail = note.kind == .connectRefused ? explanations[note.connection] ?? "" : ""
        // One number stands for every limit.
        if note.limit != .none { detail = note.limit.key.description }
        if let departure, note.kind == .disconnected, note.reason == .unspecifiedError {
            // No code says it: nobody is left who could be sent one.
            reason = "connection-lost"
            detail = departure.detail.isEmpty ? "\(departure.cause)" : departure.detail
        }
        if let other {
            log.write(
                note.kind.level, note.kind.logEvent(note.reason),
                [
                    "address": .text("\(address)"), "user": .text(note.user),
                    "device": .text(note.device), "reason": .text(reason),
                    "code": .number(note.reason.rawValue),
                    "other": .text(other),
                ])
            return
        }
        log.write(
            note.kind.level, note.kind.logEvent(note.reason),
            [
                "address": .text("\(address)"), "user": .text(note.user),
                "device": .text(note.device), "reason": .text(reason),
                "code": .number(note.reason.rawValue), "subject": .text(note.subject),
                "detail": .text(detail),
            ])
    }

    /// Where the second of two connections comes from.
    private func addressText(of other: ConnectionID, _ loop: borrowing some LaneLoop & ~Copyable)
        -> String
    {
        // Another loop's connections are another thread's to ask about.
        if other.lane != loop.lane { return "loop-\(other.lane)" }
        return "\(departures[other]?.address ?? loop.peer(of: other))"
    }

    /// A connection that was closed as soon as it came.
    func writeTurnedAway(_ peer: SocketAddress, _ cause: RefusalCause) {
        log.write(
            .warning, .connectionRefused,
            ["address": .text("\(peer)"), "cause": .text("\(cause)")])
    }

    /// A connection is gone. One that failed below the protocol has a line of its own: no TLS, a
    /// packet that was too large, a reset.
    mutating func takeClosed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause,
        _ loop: borrowing some LaneLoop & ~Copyable
    ) {
        if log.writes(.warning) {
            departures[connection] = Departure(
                address: loop.peer(of: connection), cause: cause,
                detail: loop.closeDetail(of: connection))
        }
        let level: LogLevel
        switch cause {
        case .closedByHandler, .peerClosed, .loopStopped: return
        case .networkFailure, .connectTimeout: level = .debug
        case .tlsFailure, .handshakeTimeout, .lingerTimeout, .outgoingOverflow, .packetTooLarge:
            level = .warning
        }
        guard log.writes(level) else { return }
        log.write(
            level, .connectionFailed,
            [
                "address": .text("\(loop.peer(of: connection))"), "cause": .text("\(cause)"),
                "detail": .text(loop.closeDetail(of: connection)),
            ])
    }
}

extension Note.Kind {
    fileprivate var level: LogLevel {
        switch self {
        case .connected, .disconnected, .sessionExpired: .info
        case .connectRefused, .takenOver, .duplicateLogin, .sendRefused, .subscribeRefused,
            .presenceRefused, .willRefused, .receiverRefused, .requestRefused:
            .warning
        }
    }

    fileprivate func logEvent(_ reason: ReasonCode) -> LogEvent {
        switch self {
        case .connected: .clientConnected
        // Only what may be a guess at somebody's credential is counted as one: neither a full store
        // nor a browser that found the port.
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
