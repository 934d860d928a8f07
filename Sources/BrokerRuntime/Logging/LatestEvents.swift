// The latest events of the log in memory, as refusals or as whole lines. Their numbers rise by one
// with each event, also with those that are left out: a flood of one event must not displace the
// others.

/// A bounded number of the latest events.
struct LatestEvents<Element> {
    private let countMaximum: Int
    private var kept: [(number: UInt64, element: Element)] = []
    /// Where the oldest one is, which the next one replaces, when there are so many.
    private var oldest = 0
    /// The number of the latest event, also of those that were left out.
    private(set) var last: UInt64 = 0
    private var limiter = LogRateLimiter()

    init(countMaximum: Int) {
        self.countMaximum = countMaximum
    }

    /// Takes an event. It is counted and left out if there were too many of its kind in this
    /// second, or of its principal. Returns whether it is kept.
    @discardableResult
    mutating func take(
        _ event: LogEventName, of principal: String? = nil, unixMilliseconds: UInt64,
        _ element: (_ number: UInt64) -> Element
    ) -> Bool {
        last += 1
        guard limiter.admits(event, of: principal, unixMilliseconds: unixMilliseconds) else {
            return false
        }
        let new = (last, element(last))
        if kept.count < countMaximum {
            kept.append(new)
        } else {
            kept[oldest] = new
            oldest = (oldest + 1) % countMaximum
        }
        return true
    }

    /// The events after a number, the oldest first.
    ///
    /// - Parameters:
    ///   - after: nil for the latest ones.
    ///   - limit: how many at most.
    func list(after: UInt64?, limit: Int) -> [Element] {
        // Numbers begin again when the broker starts.
        guard let after, after <= last else {
            return (kept[oldest...] + kept[..<oldest]).suffix(limit).map(\.element)
        }
        guard after < last else { return [] }
        return (kept[oldest...] + kept[..<oldest]).lazy.filter { $0.number > after }
            .prefix(limit).map(\.element)
    }
}

extension String {
    /// The text, cut after so many bytes of UTF-8, at the end of a character.
    func cut(to byteCountMaximum: Int) -> String {
        guard utf8.count > byteCountMaximum else { return self }
        // Without the rest of a character that was cut.
        let start = String(decoding: utf8.prefix(byteCountMaximum), as: UTF8.self)
        return start.filter { $0 != "\u{FFFD}" } + "…"
    }
}
