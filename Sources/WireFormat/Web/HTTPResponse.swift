// Encodes responses. Every response has a length, so that the client finds the end of it.

import Primitives

/// A response with its complete content.
public struct HTTPResponse: Sendable {
    public var status: HTTPStatus
    /// Nil if there is no content.
    public var contentType: StaticString?
    public var content: [UInt8]
    /// Further fields, each as `Name: value`.
    public var fields: [StaticString] = []
    /// The methods of an Allow field; empty for none.
    public var allowed: [StaticString] = []
    /// Which pages of other origins may read it; nil for none, whatever the origin.
    public var cors: CORSHeaders?
    /// What pages of other origins may send; nil in an answer to anything but a preflight.
    public var preflight: HTTPPreflight?
    /// The seconds of a Retry-After field; nil for none.
    public var retryAfterSeconds: UInt64?
    /// The value of a Location field, a URL in ASCII without spaces; nil for none.
    public var location: [UInt8]?
    /// Whether the connection closes after the response.
    public var closes = false
    /// Whether the content is left out, because the request was HEAD.
    public var omitsContent = false

    public init(
        _ status: HTTPStatus, contentType: StaticString? = nil, content: [UInt8] = []
    ) {
        self.status = status
        self.contentType = contentType
        self.content = content
    }

    /// Encodes the whole response.
    ///
    /// - Parameter unixSeconds: the time for the Date field, which a server with a clock must send
    ///   (RFC 9110, 6.6.1).
    public func bytes(unixSeconds: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256 + content.count)
        Self.appendStatusLine(status, to: &bytes)
        bytes.append("Date: ")
        HTTPDate.append(unixSeconds: unixSeconds, to: &bytes)
        bytes.append("\r\n")
        if let contentType {
            bytes.append("Content-Type: ")
            bytes.append(contentType)
            bytes.append("\r\n")
        }
        // A 204 has no length (RFC 9110, 8.6).
        if status != .noContent {
            bytes.append("Content-Length: ")
            bytes.append(decimal: UInt64(content.count))
            bytes.append("\r\n")
        }
        // Measured values are valid for a moment only. A cache could also give them to a page of
        // another origin.
        bytes.append("Cache-Control: no-store\r\n")
        for field in fields {
            bytes.append(field)
            bytes.append("\r\n")
        }
        bytes.append(list: allowed, named: "Allow: ")
        cors?.append(to: &bytes)
        preflight?.append(to: &bytes)
        if let retryAfterSeconds {
            bytes.append("Retry-After: ")
            bytes.append(decimal: retryAfterSeconds)
            bytes.append("\r\n")
        }
        if let location {
            bytes.append("Location: ")
            bytes += location
            bytes.append("\r\n")
        }
        if closes { bytes.append("Connection: close\r\n") }
        bytes.append("\r\n")
        if !omitsContent { bytes += content }
        return bytes
    }

    /// For a client that waits for 100 Continue before it sends the content (RFC 9110, 15.2.1).
    public static let continuation = [UInt8]("HTTP/1.1 100 Continue\r\n\r\n".utf8)

    static func appendStatusLine(_ status: HTTPStatus, to bytes: inout [UInt8]) {
        bytes.append("HTTP/1.1 ")
        bytes.append(decimal: UInt64(status.rawValue))
        bytes.append(" ")
        bytes.append(status.phrase)
        bytes.append("\r\n")
    }
}

/// Dates in the format of HTTP (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
public enum HTTPDate {
    private static let days: StaticString = "ThuFriSatSunMonTueWed"
    private static let months: StaticString = "JanFebMarAprMayJunJulAugSepOctNovDec"

    public static func append(unixSeconds: UInt64, to bytes: inout [UInt8]) {
        let day = unixSeconds / 86_400
        let date = civilDate(day: day)
        append(threeLetters: days, at: Int(day % 7), to: &bytes)
        bytes.append(", ")
        append(twoDigits: date.day, to: &bytes)
        bytes.append(" ")
        append(threeLetters: months, at: Int(date.month - 1), to: &bytes)
        bytes.append(" ")
        bytes.append(decimal: date.year)
        bytes.append(" ")
        append(twoDigits: unixSeconds % 86_400 / 3_600, to: &bytes)
        bytes.append(":")
        append(twoDigits: unixSeconds % 3_600 / 60, to: &bytes)
        bytes.append(":")
        append(twoDigits: unixSeconds % 60, to: &bytes)
        bytes.append(" GMT")
    }

    /// Appends the name at `index` of a list of names with three letters each.
    private static func append(
        threeLetters names: StaticString, at index: Int, to bytes: inout [UInt8]
    ) {
        for offset in index * 3..<index * 3 + 3 { bytes.append(names.utf8Bytes[offset]) }
    }

    private static func append(twoDigits number: UInt64, to bytes: inout [UInt8]) {
        bytes.append(UInt8(0x30 + number / 10))
        bytes.append(UInt8(0x30 + number % 10))
    }

    /// The Gregorian date of a day since 1 January 1970. Years begin in March here, so that the
    /// leap day is the last day; 719,468 days before 1970 is 1 March of the year 0, and 146,097
    /// days are 400 years.
    private static func civilDate(day: UInt64) -> (year: UInt64, month: UInt64, day: UInt64) {
        let shifted = day + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let dayOfMonth = dayOfYear - (153 * month + 2) / 5 + 1
        let isInNextYear = month >= 10
        return (
            yearOfEra + era * 400 + (isInNextYear ? 1 : 0), isInNextYear ? month - 9 : month + 3,
            dayOfMonth
        )
    }
}

extension [UInt8] {
    mutating func append(_ text: StaticString) {
        let bytes = text.utf8Bytes
        for offset in bytes.byteOffsets { append(bytes[offset]) }
    }

    /// Appends the digits of a number.
    public mutating func append(decimal number: UInt64) {
        var place: UInt64 = 1
        while number / place >= 10 { place *= 10 }
        while place > 0 {
            append(UInt8(0x30 + number / place % 10))
            place /= 10
        }
    }
}
