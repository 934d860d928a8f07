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

    private var kept: [ListRefusals.Refusal] = []
    /// Where the oldest one is, which the next one replaces, when there are so many.
    private var oldest = 0
    /// The number of the latest one, also of those that were left out.
    private(set) var last: UInt64 = 0
    private var limiter = LogRateLimiter()

    /// Takes a refusal. It is counted and left out if there were too many of its kind in this
    /// second, so that a flood of one kind does not displace the others.
    mutating func take(
        _ event: LogEventName, _ fields: KeyValuePairs<String, LogValue>, unixMilliseconds: UInt64
    ) {
        last += 1
        guard limiter.admits(event, unixMilliseconds: unixMilliseconds) else { return }
        var refusal = ListRefusals.Refusal(
            number: last, unixMilliseconds: unixMilliseconds, event: event.rawValue)
        for (name, value) in fields {
            switch (name, value) {
            case (_, .text("")): continue
            case ("address", .text(let text)): refusal.address = Self.cut(text)
            case ("user", .text(let text)): refusal.user = Self.cut(text)
            case ("device", .text(let text)): refusal.device = Self.cut(text)
            case ("reason", .text(let text)), ("cause", .text(let text)):
                refusal.reason = Self.cut(text)
            case ("code", .number(let number)), ("status", .number(let number)):
                refusal.code = UInt64(clamping: number)
            case ("subject", .text(let text)), ("other", .text(let text)):
                refusal.subject = Self.cut(text)
            case ("detail", .text(let text)): refusal.detail = Self.cut(text)
            default: continue
            }
        }
        guard kept.count == Self.countMaximum else {
            kept.append(refusal)
            return
        }
        kept[oldest] = refusal
        oldest = (oldest + 1) % Self.countMaximum
    }

    /// The refusals after a number, the oldest first.
    ///
    /// - Parameters:
    ///   - after: nil for the latest ones.
    ///   - limit: how many at most.
    func list(after: UInt64?, limit: Int) -> [ListRefusals.Refusal] {
        let kept = kept[oldest...] + kept[..<oldest]
        // Numbers begin again when the broker starts.
        guard let after, after <= last else { return Array(kept.suffix(limit)) }
        return Array(kept.filter { $0.number > after }.prefix(limit))
    }

    private static func cut(_ text: String) -> String {
        guard text.utf8.count > valueByteCountMaximum else { return text }
        let bytes = text.utf8.prefix(valueByteCountMaximum)
        // Without the rest of a character that was cut.
        return String(decoding: bytes, as: UTF8.self).filter { $0 != "\u{FFFD}" } + "…"
    }
}

extension LogEventName {
    /// Whether it is about a peer who was refused, with the peer's address.
    var isRefusal: Bool {
        switch self {
        case .authenticationFailed, .operatorRefused, .loginRefused, .connectionFailed,
            .connectionRefused, .webRequestRefused, .sendRefused, .subscribeRefused,
            .presenceRefused, .requestRefused, .receiverRefused, .willRefused,
            .sessionTakenOver, .duplicateLogin:
            true
        default: false
        }
    }
}
