// Which part of a file a request asks for (RFC 9110, 14), and the head of the response.

import WireFormat

/// The part of a file that a response has.
enum StoredFileRange: Hashable {
    case all
    case part(Range<Int>)
    case unsatisfiable

    /// - Parameters:
    ///   - field: `Range`; nil without one. One that is malformed or has several parts counts as
    ///     none, as the standard allows.
    ///   - byteCount: of the file.
    init(_ field: String?, byteCount: Int) {
        self = .all
        guard let field, field.hasPrefix("bytes=") else { return }
        let parts = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.allSatisfy(Self.isDigit) }) else {
            return
        }
        let (first, last) = (Int(parts[0]), Int(parts[1]))
        guard parts[0].isEmpty || first != nil, parts[1].isEmpty || last != nil else { return }
        switch (first, last) {
        case (let first?, let last):
            guard (last ?? first) >= first else { return }
            guard first < byteCount else {
                self = .unsatisfiable
                return
            }
            self = .part(first..<min(last ?? byteCount, byteCount - 1) + 1)
            if last == nil { self = .part(first..<byteCount) }
        case (nil, let suffix?):
            guard suffix > 0, byteCount > 0 else {
                self = .unsatisfiable
                return
            }
            self = .part(byteCount - min(suffix, byteCount)..<byteCount)
        case (nil, nil): return
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// The bytes of the file that are sent.
    func bytes(of byteCount: Int) -> Range<Int> {
        switch self {
        case .all: 0..<byteCount
        case .part(let range): range
        case .unsatisfiable: 0..<0
        }
    }

    /// The head of the response. The file is for saving, and never executed by a browser.
    func head(
        type: StoredFileType, byteCount: Int, unixSeconds: UInt64, cors: CORSHeaders? = nil,
        closes: Bool
    ) -> [UInt8] {
        var status = "200 OK"
        var fields = ""
        switch self {
        case .all: break
        case .part(let range):
            status = "206 Partial Content"
            let last = range.upperBound - 1
            fields = "Content-Range: bytes \(range.lowerBound)-\(last)/\(byteCount)\r\n"
        case .unsatisfiable:
            status = "416 Range Not Satisfiable"
            fields = "Content-Range: bytes */\(byteCount)\r\n"
        }
        var date: [UInt8] = []
        HTTPDate.append(unixSeconds: unixSeconds, to: &date)
        var head = Array(
            ("HTTP/1.1 \(status)\r\nDate: \(String(decoding: date, as: UTF8.self))\r\n"
                + "Content-Type: \(type.mediaType)\r\n"
                + "Content-Length: \(bytes(of: byteCount).count)\r\n\(fields)"
                + "Accept-Ranges: bytes\r\nContent-Disposition: attachment\r\n"
                + "X-Content-Type-Options: nosniff\r\nCache-Control: private, max-age=3600\r\n")
                .utf8)
        cors?.append(to: &head)
        head += (closes ? "Connection: close\r\n\r\n" : "\r\n").utf8
        return head
    }
}
