// What a lane has to say to the operator: the core's notes and the loop's troubles, as log lines. Notes
// are taken while effects are carried out and written once the turn's work is done.

import BrokerCore
import Configuration
import Dialects
import NetTransport
import Primitives

/// Turns notes into log lines for one lane.
struct LaneLog: NoteTaker, ~Copyable {
    private struct Pending {
        let kind: Note.Kind
        let connection: ConnectionID
        let reason: ReasonCode
        let user: String
        let device: String
        let subject: String
    }

    private let log: LogWriter
    private var pending: [Pending] = []

    init(_ log: LogWriter) {
        self.log = log
    }

    mutating func take(_ note: Note, bytes: UnsafeRawBufferPointer) {
        guard log.writes(note.kind.level) else { return }
        func text(_ range: ByteRange) -> String {
            String(decoding: range.bytes(in: bytes), as: UTF8.self)
        }
        pending.append(
            Pending(
                kind: note.kind, connection: note.connection, reason: note.reason,
                user: text(note.user), device: text(note.device), subject: text(note.subject)))
    }

    mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {
        pending.append(
            Pending(
                kind: .connectRefused, connection: connection, reason: reason, user: "",
                device: "", subject: ""))
    }

    /// Writes what was noted. Addresses are the loop's to know.
    mutating func write(_ loop: borrowing EventLoop) {
        guard !pending.isEmpty else { return }
        for note in pending {
            log.write(
                note.kind.level, note.kind.logEvent,
                [
                    "address": .text("\(loop.peer(of: note.connection))"),
                    "user": .text(note.user), "device": .text(note.device),
                    "reason": .text(note.reason.name.description),
                    "code": .number(note.reason.rawValue), "subject": .text(note.subject),
                ])
        }
        pending.removeAll(keepingCapacity: true)
    }

    /// A connection that failed below the protocol: no TLS, a packet that was too large, a reset.
    func writeClosed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause,
        _ loop: borrowing EventLoop
    ) {
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
        case .connectRefused, .takenOver, .duplicateLogin, .sendRefused, .subscribeRefused:
            .warning
        }
    }

    fileprivate var logEvent: LogEvent {
        switch self {
        case .connected: .clientConnected
        case .connectRefused: .authenticationFailed
        case .disconnected: .clientDisconnected
        case .takenOver: .sessionTakenOver
        case .duplicateLogin: .duplicateLogin
        case .sendRefused: .sendRefused
        case .subscribeRefused: .subscribeRefused
        case .sessionExpired: .sessionExpired
        }
    }
}
