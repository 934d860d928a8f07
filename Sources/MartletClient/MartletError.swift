// The errors of a client for its application: one enum for the module.

import BrokerTerms
import Primitives
import WireFormat

/// A reason, as the number on the wire (docs/PROTOCOL.md section 10).
public typealias ReasonCode = BrokerTerms.ReasonCode

/// The promise of a message: `transient`, `durable` or `once` (docs/PROTOCOL.md section 5).
public typealias Grade = MRT.Grade

/// The reason why a call failed.
public enum MartletError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A setting or an argument is invalid; nothing was sent.
    case invalid(String)
    /// The broker refused this send or request; the connection stays open. The text may be empty.
    case refused(ReasonCode, String)
    /// The client does not reconnect any more: the login was refused permanently, or another client
    /// took this session over. A new ``Client`` with other settings may succeed.
    case stopped(ReasonCode)
    /// No connection could be made in as many attempts as the settings allow; the text is the error
    /// of the last one.
    case unreachable(String)
    /// A transient message cannot be sent while there is no connection.
    case notConnected
    /// More sends wait than ``ClientSettings/waitingSendsMaximum``.
    case tooManySends
    /// The task was cancelled. A message that was already sent may still be delivered.
    case cancelled
    /// The client was closed. A message that was already sent may still be delivered.
    case closed
    /// The system has no descriptor or thread, or a file of certificates is invalid.
    case system(String)

    /// The error as text.
    public var description: String {
        switch self {
        case .invalid(let text), .unreachable(let text), .system(let text): text
        case .refused(let reason, let text):
            "refused by the broker: \(reason.explanation)" + (text.isEmpty ? "" : ": \(text)")
        case .stopped(let reason): "ended by the broker: \(reason.explanation)"
        case .notConnected: "not connected"
        case .tooManySends: "too many sends wait for their result"
        case .cancelled: "cancelled"
        case .closed: "the client is closed"
        }
    }
}

extension ReasonCode {
    /// The event number that applications of the IM SDK use for this reason: 4111, CONFLICT, if
    /// another login of the same user and device took the session over; nil for every other reason.
    public var conflictCode: Int? { self == .sessionTakenOver ? 4111 : nil }

    /// Name and number as text: `quota-exceeded (0x97)`.
    public var explanation: String {
        let digits = String(rawValue, radix: 16, uppercase: true)
        let conflict = conflictCode.map { ", conflict \($0)" } ?? ""
        return "\(name) (0x\(digits.count == 1 ? "0" : "")\(digits)\(conflict))"
    }
}
