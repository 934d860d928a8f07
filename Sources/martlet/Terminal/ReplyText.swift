// Replies of the broker as lines: JSON for programs, dates for people.

import FoundationEssentials

/// One JSON object on one line, with its members in a fixed order.
func jsonLine(_ reply: some Encodable) -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    guard let data = try? encoder.encode(reply) else {
        preconditionFailure("cannot encode \(type(of: reply)) as JSON")
    }
    return String(decoding: data, as: UTF8.self)
}

/// UTC [RFC 3339].
func dateText(unixSeconds: UInt64) -> String {
    Date(timeIntervalSince1970: TimeInterval(unixSeconds)).formatted(.iso8601)
}

/// The time from then until now; 0 if the broker's clock is ahead of this one.
func secondsSince(unixMilliseconds: UInt64) -> UInt64 {
    let now = UInt64(max(Date().timeIntervalSince1970, 0) * 1000)
    return now > unixMilliseconds ? (now - unixMilliseconds) / 1000 : 0
}
