// The latest refusals, for operators who do not read the log. It holds what the log's lines hold,
// and so no secret.

import Administration
import Configuration

/// The latest refused logins, requests and sends, and connections that ended for a cause. The lock
/// of the log guards it.
struct RefusalRing {
    /// Refusals that are kept: with ``valueByteCountMaximum`` at most 2 MB, in most cases 200 KB.
    static let countMaximum = 1_000
    /// A value is cut after this many bytes.
    static let valueByteCountMaximum = 256

    private var latest = LatestEvents<ListRefusals.Refusal>(countMaximum: Self.countMaximum)

    /// The number of the latest one, also of those that were left out.
    var last: UInt64 { latest.last }

    /// Takes a refusal. It is counted and left out if there were too many of its kind in this
    /// second.
    mutating func take(
        _ event: LogEventName, _ fields: KeyValuePairs<String, LogValue>, unixMilliseconds: UInt64
    ) {
        latest.take(event, unixMilliseconds: unixMilliseconds) { number in
            var refusal = ListRefusals.Refusal(
                number: number, unixMilliseconds: unixMilliseconds, event: event.rawValue)
            for (name, value) in fields { refusal.set(name, value) }
            return refusal
        }
    }

    /// The refusals after a number, the oldest first.
    ///
    /// - Parameters:
    ///   - after: nil for the latest ones.
    ///   - limit: how many at most.
    func list(after: UInt64?, limit: Int) -> [ListRefusals.Refusal] {
        latest.list(after: after, limit: limit)
    }
}

extension ListRefusals.Refusal {
    /// Takes over a field of the log's line.
    fileprivate mutating func set(_ name: String, _ value: LogValue) {
        switch value {
        case .text(""), .absent: break
        case .text(let text):
            let text = text.cut(to: RefusalRing.valueByteCountMaximum)
            switch name {
            case "address": address = text
            case "user": user = text
            case "device": device = text
            case "reason", "cause": reason = text
            case "subject", "other": subject = text
            case "detail": detail = text
            default: break
            }
        case .number(let number):
            if name == "code" || name == "status" { code = UInt64(clamping: number) }
        }
    }
}

extension LogEventName {
    /// Whether its lines of level warning are about a peer who was refused, or whose connection
    /// ended for a fault, with the peer's address.
    var isRefusal: Bool {
        switch self {
        case .authenticationFailed, .operatorRefused, .loginRefused, .connectionFailed,
            .connectionRefused, .webRequestRefused, .sendRefused, .subscribeRefused,
            .presenceRefused, .requestRefused, .receiverRefused, .willRefused,
            .sessionTakenOver, .duplicateLogin, .clientDisconnected:
            true
        default: false
        }
    }
}
