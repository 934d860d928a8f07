// The origins of pages, which browsers send with their requests.

import Primitives

/// The form of an origin (RFC 6454, 6.2): `https://HOST` or `https://HOST:PORT`.
enum WebOrigin {
    /// Stands for every origin, and lets pages open WebSockets only.
    static let any = [UInt8(ascii: "*")]

    /// Whether an origin is one of a list. Browsers write scheme and host in lower case.
    static func isListed(_ origin: RawSpan, in allowed: [[UInt8]]) -> Bool {
        for element in allowed where origin.isEqual(ignoringCase: element.span.bytes) {
            return true
        }
        return false
    }

    /// Where the host begins; nil for `null` and what is no origin of the web.
    static func schemeEnd(of origin: RawSpan) -> Int? {
        for scheme in ["http://", "https://"] as [StaticString] {
            let count = scheme.utf8CodeUnitCount
            guard origin.byteCount > count else { continue }
            if origin.extracting(first: count).isEqual(ignoringCase: scheme) { return count }
        }
        return nil
    }
}
