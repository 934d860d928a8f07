// What can go wrong for an application that uses a client: one enum for the module.

import BrokerTerms
import Primitives
import WireFormat

/// Why something happened, as the number that stands on the wire (docs/PROTOCOL.md section 10).
public typealias ReasonCode = BrokerTerms.ReasonCode

/// What is promised of a message: `transient`, `durable` or `once` (docs/PROTOCOL.md section 5).
public typealias Grade = MRT.Grade

/// Why a call did not do what it should.
public enum MartletError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A setting or an argument is wrong; nothing was sent.
    case invalid(String)
    /// The broker refused this send or request; the connection goes on. The text may be empty.
    case refused(ReasonCode, String)
    /// The client does not reconnect any more: the login was refused for good, or another client
    /// took this session over. A new ``Client`` with other settings may.
    case stopped(ReasonCode)
    /// No connection could be made in as many attempts as the settings allow; the text is what the
    /// last one met.
    case unreachable(String)
    /// A transient message cannot be sent while there is no connection.
    case notConnected
    /// More sends wait than ``ClientSettings/waitingSendsMaximum``.
    case tooManySends
    /// The task was cancelled. A message that had been sent already may arrive all the same.
    case cancelled
    /// The client was closed. A message that had been sent already may arrive all the same.
    case closed
    /// The system gave no descriptor or thread, or a file of certificates cannot be used.
    case system(String)

    /// What went wrong, for people.
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
    /// The event number that applications of the IM SDK know for this reason: 4111, CONFLICT, where
    /// another login of the same user and device took the session over; nil for every other reason.
    public var conflictCode: Int? { self == .sessionTakenOver ? 4111 : nil }

    /// Name and number, for people: `quota-exceeded (0x97)`.
    public var explanation: String {
        let digits = String(rawValue, radix: 16, uppercase: true)
        let conflict = conflictCode.map { ", conflict \($0)" } ?? ""
        return "\(name) (0x\(digits.count == 1 ? "0" : "")\(digits)\(conflict))"
    }
}
