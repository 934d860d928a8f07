// Parses the head of a request (RFC 9112), line by line, and refuses what two parsers could
// understand differently. Each fault is found when its line has arrived.

import Primitives

/// The state of the bytes at the start of a stream.
public enum HTTPParsing: Sendable, Equatable {
    /// A complete head of `byteCount` bytes, including empty lines before it.
    case head(HTTPRequestHead, byteCount: Int)
    /// The end of the head has not arrived.
    case incomplete
}

extension HTTPRequestHead {
    /// Parses the head at the start of `bytes`. The ranges of the result refer to `bytes`. Throws
    /// the first fault.
    public static func parse(_ bytes: RawSpan) throws(HTTPFault) -> HTTPParsing {
        var reader = HeadReader(bytes: bytes)
        return try reader.read()
    }

    /// Whether a stream begins like a request with a common method. An MQTT listener uses it to log
    /// that a client speaks HTTP.
    public static func looksLikeRequest(_ bytes: RawSpan) -> Bool {
        let methods: [StaticString] = [
            "GET ", "HEAD", "POST", "PUT ", "OPTI", "DELE", "CONN", "PRI ",
        ]
        guard bytes.byteCount >= 4 else { return false }
        let start = bytes.extracting(first: 4)
        for method in methods where start.isEqual(method) { return true }
        return false
    }
}

private struct HeadReader: ~Escapable {
    let bytes: RawSpan
    var head = HTTPRequestHead()
    var seen: Seen = []
    /// Weights in `Accept`, in thousandths.
    var openMetricsWeight = 0
    var plainTextWeight = 0
    /// The offset of the next line.
    var offset = 0

    /// Fields that may occur once and have occurred.
    struct Seen: OptionSet {
        let rawValue: UInt16
        static let host = Seen(rawValue: 1 << 0)
        static let contentLength = Seen(rawValue: 1 << 1)
        static let transferEncoding = Seen(rawValue: 1 << 2)
        static let origin = Seen(rawValue: 1 << 3)
        static let authorization = Seen(rawValue: 1 << 4)
        static let webSocketKey = Seen(rawValue: 1 << 5)
        static let webSocketVersion = Seen(rawValue: 1 << 6)
        static let absoluteTarget = Seen(rawValue: 1 << 7)
        static let contentType = Seen(rawValue: 1 << 8)
        static let lastEventID = Seen(rawValue: 1 << 9)
        static let idempotencyKey = Seen(rawValue: 1 << 10)
        static let actingUser = Seen(rawValue: 1 << 11)
        static let sessionToken = Seen(rawValue: 1 << 12)
        static let application = Seen(rawValue: 1 << 13)
        static let contentRange = Seen(rawValue: 1 << 14)
    }

    @_lifetime(copy bytes)
    init(bytes: RawSpan) { self.bytes = bytes }

    mutating func read() throws(HTTPFault) -> HTTPParsing {
        // One empty line may precede a request (RFC 9112, 2.2).
        guard var line = try nextLine(beforeRequest: true) else { return .incomplete }
        if line.isEmpty {
            guard let second = try nextLine(beforeRequest: true) else { return .incomplete }
            line = second
        }
        try readRequestLine(line)
        var fieldCount = 0
        while true {
            guard let line = try nextLine(beforeRequest: false) else { return .incomplete }
            if line.isEmpty { break }
            fieldCount += 1
            if fieldCount > WebLimits.fieldCountMaximum { throw .tooManyFields }
            try readField(line)
        }
        try checkTogether()
        return .head(head, byteCount: offset)
    }

    /// The next line without its CR LF; nil if it has not arrived completely.
    private mutating func nextLine(beforeRequest: Bool) throws(HTTPFault) -> Range<Int>? {
        let start = offset
        let end = min(bytes.byteCount, WebLimits.headByteCountMaximum)
        var index = start
        while index < end {
            let byte = bytes[index]
            if byte == 0x0A { throw .lineEnd }
            if byte == 0x0D {
                guard index + 1 < end else { break }
                guard bytes[index + 1] == 0x0A else { throw .lineEnd }
                offset = index + 2
                return start..<index
            }
            // DEL is a control character too. A tab is allowed.
            if byte < 0x20 && byte != 0x09 || byte == 0x7F { throw .controlCharacter }
            index += 1
        }
        if end == WebLimits.headByteCountMaximum {
            throw beforeRequest ? .targetTooLong : .headTooLarge
        }
        return nil
    }

    // MARK: - The request line

    private mutating func readRequestLine(_ line: Range<Int>) throws(HTTPFault) {
        // `METHOD SP TARGET SP HTTP/1.1`, with exactly two spaces.
        guard let first = index(of: UInt8(ascii: " "), in: line), first > line.lowerBound,
            let second = index(of: UInt8(ascii: " "), in: first + 1..<line.upperBound),
            second > first + 1,
            index(of: UInt8(ascii: " "), in: second + 1..<line.upperBound) == nil
        else { throw .requestLine }
        let method = text(line.lowerBound..<first)
        guard method.allSatisfy(HTTPCharacter.isToken) else { throw .requestLine }
        try readVersion(second + 1..<line.upperBound)
        if method.isEqual("GET") {
            head.method = .get
        } else if method.isEqual("HEAD") {
            head.method = .head
        } else if method.isEqual("POST") {
            head.method = .post
        } else if method.isEqual("PUT") {
            head.method = .put
        } else if method.isEqual("DELETE") {
            head.method = .delete
        } else if method.isEqual("OPTIONS") {
            head.method = .options
        }
        try readTarget(first + 1..<second)
    }

    private mutating func readVersion(_ place: Range<Int>) throws(HTTPFault) {
        let version = text(place)
        let name: StaticString = "HTTP/"
        func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }
        guard version.byteCount == 8, text(place.prefix(5)).isEqual(name), isDigit(version[5]),
            version[6] == UInt8(ascii: "."), isDigit(version[7])
        else { throw .requestLine }
        guard version[5] == UInt8(ascii: "1") else { throw .version }
        // A later minor version is understood as 1.1 (RFC 9110, 2.5).
        if version[7] == UInt8(ascii: "0") { head.traits.insert(.isVersion10) }
    }

    private mutating func readTarget(_ place: Range<Int>) throws(HTTPFault) {
        guard text(place).allSatisfy(HTTPCharacter.isTarget) else { throw .target }
        var start = place.lowerBound
        if head.method == .options, text(place).isEqual("*") {
            head.path = range(place)
            return
        }
        if bytes[start] != UInt8(ascii: "/") {
            start = try readAuthority(of: place)
            // An absolute URI without a path means `/` (RFC 9110, 4.2.3).
            if start == place.upperBound {
                head.path = .empty
                return
            }
        }
        let end = index(of: UInt8(ascii: "?"), in: start..<place.upperBound) ?? place.upperBound
        head.path = range(start..<end)
        if end < place.upperBound { head.query = range(end + 1..<place.upperBound) }
    }

    /// Reads the authority of an absolute target. Returns the offset of its path.
    private mutating func readAuthority(of place: Range<Int>) throws(HTTPFault) -> Int {
        var start = place.lowerBound
        if text(place.prefix(7)).isEqual(ignoringCase: "http://") {
            start += 7
        } else if text(place.prefix(8)).isEqual(ignoringCase: "https://") {
            start += 8
        } else {
            throw .target
        }
        var end = start
        while end < place.upperBound, bytes[end] != UInt8(ascii: "/"),
            bytes[end] != UInt8(ascii: "?")
        {
            guard HTTPCharacter.isAuthority(bytes[end]) else { throw .target }
            end += 1
        }
        guard end > start else { throw .target }
        head.authority = range(start..<end)
        seen.insert(.absoluteTarget)
        return end
    }

    // MARK: - Fields

    private mutating func readField(_ line: Range<Int>) throws(HTTPFault) {
        if HTTPCharacter.isSpace(bytes[line.lowerBound]) { throw .foldedLine }
        guard let colon = index(of: UInt8(ascii: ":"), in: line), colon > line.lowerBound else {
            throw .field
        }
        let name = text(line.lowerBound..<colon)
        guard name.allSatisfy(HTTPCharacter.isToken) else { throw .field }
        let value = trimmed(colon + 1..<line.upperBound)
        // The names have different lengths, so most fields cost one comparison.
        switch name.byteCount {
        case 4 where name.isEqual(ignoringCase: "host"): try readHost(value)
        case 5 where name.isEqual(ignoringCase: "range"):
            try note(.contentRange)
            head.range = range(value)
        case 6 where name.isEqual(ignoringCase: "origin"):
            try note(.origin)
            head.origin = range(value)
        case 6 where name.isEqual(ignoringCase: "accept"): readAccept(value)
        case 6 where name.isEqual(ignoringCase: "expect"):
            let isKnown = text(value).isEqual(ignoringCase: "100-continue")
            head.traits.insert(isKnown ? .expectsContinue : .expectsOther)
        case 7 where name.isEqual(ignoringCase: "upgrade"):
            var rest = value
            while let element = nextElement(of: &rest) {
                if text(element).isEqual(ignoringCase: "websocket") {
                    head.traits.insert(.offersWebSocket)
                }
            }
        case 8 where name.isEqual(ignoringCase: "qb-token"):
            try note(.sessionToken)
            head.sessionToken = range(value)
        case 10 where name.isEqual(ignoringCase: "connection"): readConnection(value)
        case 12 where name.isEqual(ignoringCase: "content-type"):
            try note(.contentType)
            head.contentType = range(value)
        case 12 where name.isEqual(ignoringCase: "martlet-user"):
            try note(.actingUser)
            head.actingUser = range(value)
        case 13 where name.isEqual(ignoringCase: "last-event-id"):
            try note(.lastEventID)
            head.lastEventID = range(value)
        case 13 where name.isEqual(ignoringCase: "authorization"):
            try note(.authorization)
            head.authorization = range(value)
        case 14 where name.isEqual(ignoringCase: "content-length"): try readLength(value)
        case 15 where name.isEqual(ignoringCase: "x-forwarded-for"):
            head.forwardedFor.append(range(value))
        case 15 where name.isEqual(ignoringCase: "idempotency-key"):
            try note(.idempotencyKey)
            head.idempotencyKey = range(value)
        case 16 where name.isEqual(ignoringCase: "content-encoding"): head.traits.insert(.isCoded)
        case 17 where name.isEqual(ignoringCase: "transfer-encoding"): try readCoding(value)
        case 17 where name.isEqual(ignoringCase: "sec-websocket-key"):
            try note(.webSocketKey)
            head.webSocketKey = range(value)
        case 21 where name.isEqual(ignoringCase: "sec-websocket-version"):
            try note(.webSocketVersion)
            if text(value).isEqual("13") { head.traits.insert(.isWebSocketVersion13) }
        case 22 where name.isEqual(ignoringCase: "sec-websocket-protocol"):
            readSubprotocols(value)
        case 22 where name.isEqual(ignoringCase: "x-diuit-application-id"):
            try note(.application)
            head.application = range(value)
        case 29 where name.isEqual(ignoringCase: "access-control-request-method"):
            head.traits.insert(.isPreflight)
        default: break
        }
    }

    /// Reads the weights of the two forms of metrics (RFC 9110, 12.5.1). Of several ranges of one
    /// form, which name its versions, the highest weight counts.
    private mutating func readAccept(_ value: Range<Int>) {
        var rest = value
        while let element = nextElement(of: &rest) {
            let end = index(of: UInt8(ascii: ";"), in: element) ?? element.upperBound
            let type = text(trimmed(element.lowerBound..<end))
            if type.isEqual(ignoringCase: "application/openmetrics-text") {
                openMetricsWeight = max(openMetricsWeight, weight(in: end..<element.upperBound))
            } else if type.isEqual(ignoringCase: "text/plain") {
                plainTextWeight = max(plainTextWeight, weight(in: end..<element.upperBound))
            }
        }
        if openMetricsWeight > 0, openMetricsWeight >= plainTextWeight {
            head.traits.insert(.prefersOpenMetrics)
        } else {
            head.traits.remove(.prefersOpenMetrics)
        }
    }

    /// The parameter `q` in thousandths; 1,000 without one, and 0 for a malformed one.
    private func weight(in parameters: Range<Int>) -> Int {
        var start = parameters.lowerBound
        while start < parameters.upperBound {
            // The first byte is a semicolon.
            let next =
                index(of: UInt8(ascii: ";"), in: start + 1..<parameters.upperBound)
                ?? parameters.upperBound
            let parameter = trimmed(start + 1..<next)
            start = next
            guard parameter.count >= 2, bytes[parameter.lowerBound] | 0x20 == UInt8(ascii: "q"),
                bytes[parameter.lowerBound + 1] == UInt8(ascii: "=")
            else { continue }
            return thousandths(parameter.lowerBound + 2..<parameter.upperBound)
        }
        return 1_000
    }

    /// A number of 0 to 1 with at most three digits behind the point; 0 for what is none.
    private func thousandths(_ place: Range<Int>) -> Int {
        guard (1...5).contains(place.count) else { return 0 }
        var (number, digits) = (0, 0)
        for (position, index) in place.enumerated() {
            if position == 1 {
                guard bytes[index] == UInt8(ascii: ".") else { return 0 }
                continue
            }
            guard bytes[index] >= 0x30, bytes[index] <= 0x39 else { return 0 }
            number = number * 10 + Int(bytes[index] - 0x30)
            digits += 1
        }
        for _ in digits..<4 { number *= 10 }
        return number <= 1_000 ? number : 0
    }

    private mutating func note(_ field: Seen) throws(HTTPFault) {
        guard !seen.contains(field) else { throw .repeatedField }
        seen.insert(field)
    }

    private mutating func readHost(_ value: Range<Int>) throws(HTTPFault) {
        guard !seen.contains(.host), !value.isEmpty,
            text(value).allSatisfy(HTTPCharacter.isAuthority)
        else { throw .host }
        seen.insert(.host)
        if !seen.contains(.absoluteTarget) { head.authority = range(value) }
    }

    private mutating func readConnection(_ value: Range<Int>) {
        var rest = value
        while let place = nextElement(of: &rest) {
            let element = text(place)
            if element.isEqual(ignoringCase: "close") {
                head.traits.insert(.closes)
            } else if element.isEqual(ignoringCase: "keep-alive") {
                head.traits.insert(.keepsAlive)
            } else if element.isEqual(ignoringCase: "upgrade") {
                head.traits.insert(.upgrades)
            }
        }
    }

    private mutating func readSubprotocols(_ value: Range<Int>) {
        var rest = value
        while let place = nextElement(of: &rest) {
            let element = text(place)
            if element.isEqual("mqtt") {
                head.subprotocols.insert(.mqtt)
            } else if element.isEqual("mqttv3.1") {
                head.subprotocols.insert(.mqttV31)
            } else if element.isEqual("mrt") {
                head.subprotocols.insert(.mrt)
            }
        }
    }

    /// Reads one length of at most 18 digits. Every route refuses a larger one.
    private mutating func readLength(_ value: Range<Int>) throws(HTTPFault) {
        guard !seen.contains(.contentLength) else { throw .twoLengths }
        seen.insert(.contentLength)
        guard !value.isEmpty, value.count <= 18 else { throw .contentLength }
        var length: UInt64 = 0
        for index in value {
            guard bytes[index] >= 0x30, bytes[index] <= 0x39 else {
                // `5, 5` is two lengths in one field.
                throw bytes[index] == UInt8(ascii: ",") ? .twoLengths : .contentLength
            }
            length = length * 10 + UInt64(bytes[index] - 0x30)
        }
        head.contentLength = length
    }

    private mutating func readCoding(_ value: Range<Int>) throws(HTTPFault) {
        guard !seen.contains(.transferEncoding) else { throw .twoLengths }
        seen.insert(.transferEncoding)
        guard text(value).isEqual(ignoringCase: "chunked") else { throw .transferCoding }
        head.traits.insert(.isChunked)
    }

    /// Checks the rules that depend on several lines.
    private func checkTogether() throws(HTTPFault) {
        if seen.contains(.transferEncoding) {
            // HTTP/1.0 has no transfer codings, and a proxy may ignore them (RFC 9112, 6.1).
            if seen.contains(.contentLength) || head.traits.contains(.isVersion10) {
                throw .twoLengths
            }
        }
        if !seen.contains(.host), !head.traits.contains(.isVersion10) { throw .host }
    }

    // MARK: - Bytes

    /// Takes the next element of a comma-separated list from `list`. Empty elements are skipped
    /// (RFC 9110, 5.6.1.2).
    private func nextElement(of list: inout Range<Int>) -> Range<Int>? {
        while !list.isEmpty {
            let comma = index(of: UInt8(ascii: ","), in: list)
            let element = trimmed(list.lowerBound..<(comma ?? list.upperBound))
            list = (comma.map { $0 + 1 } ?? list.upperBound)..<list.upperBound
            if !element.isEmpty { return element }
        }
        return nil
    }

    private func index(of byte: UInt8, in place: Range<Int>) -> Int? {
        for index in place where bytes[index] == byte { return index }
        return nil
    }

    private func trimmed(_ place: Range<Int>) -> Range<Int> {
        var place = place
        while !place.isEmpty, HTTPCharacter.isSpace(bytes[place.lowerBound]) {
            place = place.lowerBound + 1..<place.upperBound
        }
        while !place.isEmpty, HTTPCharacter.isSpace(bytes[place.upperBound - 1]) {
            place = place.lowerBound..<place.upperBound - 1
        }
        return place
    }

    @_lifetime(copy self)
    private func text(_ place: Range<Int>) -> RawSpan { bytes.extracting(place) }

    private func range(_ place: Range<Int>) -> ByteRange {
        ByteRange(offset: place.lowerBound, count: place.count)
    }
}
