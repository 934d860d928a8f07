// What is a request, and what is refused because two readers could understand it differently.

import Primitives
import Testing
import WireFormat

@Suite("The head of an HTTP request")
struct HTTPRequestHeadTests {
    private static func parse(_ text: String) throws(HTTPFault) -> HTTPParsing {
        try parse(Array(text.utf8))
    }

    private static func parse(_ bytes: [UInt8]) throws(HTTPFault) -> HTTPParsing {
        try HTTPRequestHead.parse(bytes.span.bytes)
    }

    private static func fault(_ text: String) -> HTTPFault? {
        do throws(HTTPFault) {
            _ = try parse(text)
            return nil
        } catch {
            return error
        }
    }

    private static func head(_ text: String) throws -> HTTPRequestHead {
        guard case .head(let head, let byteCount) = try parse(text) else {
            throw Incomplete(text: text)
        }
        #expect(byteCount == text.utf8.count)
        return head
    }

    private struct Incomplete: Error { let text: String }

    private static func text(_ range: ByteRange?, of text: String) -> String? {
        guard let range else { return nil }
        return String(
            decoding: Array(text.utf8)[Int(range.offset)..<range.endOffset], as: UTF8.self)
    }

    @Test func `has a method, a path without its query, and an authority`() throws {
        let text = "GET /metrics?a=b/c HTTP/1.1\r\nHost: example.com:8083\r\n\r\n"
        let head = try Self.head(text)
        #expect(head.method == .get)
        #expect(Self.text(head.path, of: text) == "/metrics")
        #expect(Self.text(head.query, of: text) == "a=b/c")
        #expect(Self.text(head.authority, of: text) == "example.com:8083")
        #expect(!head.hasContent)
        #expect(head.isPersistent)
        #expect(!head.wantsWebSocket)
    }

    @Test(arguments: [
        ("", false), ("Accept: */*\r\n", false), ("Accept: text/plain\r\n", false),
        ("Accept: application/openmetrics-text\r\n", true),
        ("accept: Application/OpenMetrics-Text; version=1.0.0; charset=utf-8\r\n", true),
        (
            "Accept: application/openmetrics-text;version=1.0.0;q=0.5,"
                + "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;q=0.3,*/*;q=0.2\r\n",
            true
        ),
        ("Accept: application/openmetrics-text;q=0.3, text/plain;q=0.31\r\n", false),
        ("Accept: application/openmetrics-text;q=0.3, text/plain\r\n", false),
        ("Accept: text/plain;q=0.9\r\nAccept: application/openmetrics-text\r\n", true),
        ("Accept: application/openmetrics-text\r\nAccept: text/plain;q=0.9\r\n", true),
        ("Accept: application/openmetrics-text;q=0\r\n", false),
        ("Accept: application/openmetrics-text;q=0.000\r\n", false),
        ("Accept: application/openmetrics-text;q=0.001\r\n", true),
        ("Accept: application/openmetrics-text;q=1.001\r\n", false),
        ("Accept: application/openmetrics-text;q=\r\n", false),
        ("Accept: application/openmetrics-text;q=0,5\r\n", false),
        ("Accept: application/openmetrics-text;;;\r\n", true),
        ("Accept: ;q=1,,;\r\n", false), ("Accept:\r\n", false),
    ])
    func `prefers a form of metrics by its weight`(fields: String, isPreferred: Bool) throws {
        let head = try Self.head("GET /metrics HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
        #expect(head.traits.contains(.prefersOpenMetrics) == isPreferred)
    }

    @Test func `takes its authority from an absolute target`() throws {
        let text = "HEAD http://other:80/healthz HTTP/1.1\r\nHost: example.com\r\n\r\n"
        let head = try Self.head(text)
        #expect(head.method == .head)
        #expect(Self.text(head.path, of: text) == "/healthz")
        #expect(Self.text(head.authority, of: text) == "other:80")
        let bare = "GET https://other HTTP/1.1\r\nHost: other\r\n\r\n"
        #expect(try Self.head(bare).path.isEmpty)
    }

    @Test func `of a WebSocket handshake names key, version, origin and subprotocols`() throws {
        let text =
            "GET /mqtt HTTP/1.1\r\nHost: h\r\nuPGRADE: foo, WebSocket\r\n"
            + "Connection: keep-alive, Upgrade\r\nOrigin: https://h\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            + "Sec-WebSocket-Protocol: other,mqttv3.1\r\nSec-WebSocket-Protocol:\tmqtt \r\n"
            + "Sec-WebSocket-Version: 13\r\n\r\n"
        let head = try Self.head(text)
        #expect(head.wantsWebSocket)
        #expect(head.traits.contains(.isWebSocketVersion13))
        #expect(head.subprotocols == [.mqtt, .mqttV31])
        #expect(Self.text(head.origin, of: text) == "https://h")
        #expect(Self.text(head.webSocketKey, of: text) == "dGhlIHNhbXBsZSBub25jZQ==")
    }

    @Test(arguments: [
        ("HTTP/1.1", "", true), ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.0", "", false), ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
        ("HTTP/1.0", "Connection: keep-alive, close\r\n", false), ("HTTP/1.7", "", true),
    ])
    func `says whether the connection stays open`(
        version: String, field: String, isPersistent: Bool
    ) throws {
        let head = try Self.head("GET / \(version)\r\nHost: h\r\n\(field)\r\n")
        #expect(head.isPersistent == isPersistent)
    }

    @Test func `tells of content by its length or by chunks`() throws {
        func hasContent(_ field: String) throws -> Bool {
            try Self.head("POST / HTTP/1.1\r\nHost: h\r\n\(field)\r\n").hasContent
        }
        #expect(try !hasContent(""))
        #expect(try !hasContent("Content-Length: 0\r\n"))
        #expect(try hasContent("Content-Length: 12\r\n"))
        #expect(try hasContent("Transfer-Encoding: Chunked\r\n"))
    }

    @Test func `of an API names its method, its media type and what the client waits for`() throws {
        for (word, method) in [
            ("POST", HTTPRequestHead.Method.post), ("PUT", .put), ("DELETE", .delete),
            ("PATCH", .other), ("post", .other),
        ] {
            let text =
                "\(word) / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json; charset=utf-8\r\n"
                + "Expect: 100-Continue\r\n\r\n"
            let head = try Self.head(text)
            #expect(head.method == method)
            #expect(Self.text(head.contentType, of: text) == "application/json; charset=utf-8")
            #expect(head.traits == [.expectsContinue])
            #expect(head.query == nil)
        }
        let other = try Self.head(
            "PUT /? HTTP/1.1\r\nHost: h\r\nExpect: x\r\nContent-Encoding: gzip\r\n\r\n")
        #expect(other.traits == [.expectsOther, .isCoded])
        #expect(other.query?.isEmpty == true)
        #expect(
            Self.fault("GET / HTTP/1.1\r\nHost: h\r\nContent-Type: a\r\nContent-Type: b\r\n")
                == .repeatedField)
    }

    @Test func `ends where its empty line ends, and one empty line may precede it`() throws {
        let text = "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"
        guard case .head(_, let byteCount) = try Self.parse(text + "GET /next") else {
            Issue.record("incomplete")
            return
        }
        #expect(byteCount == text.utf8.count)
        #expect(Self.fault("\r\n\r\nGET / HTTP/1.1\r\n") == .requestLine)
    }

    @Test(arguments: [
        // Line ends, control characters.
        ("GET / HTTP/1.1\nHost: h\n\n", HTTPFault.lineEnd),
        ("GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", .lineEnd),
        ("GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", .lineEnd),
        ("GET / HTTP/1.1\r\nHost: h\r\nX: a\u{0}b\r\n\r\n", .controlCharacter),
        ("GET / HTTP/1.1\r\nHost: h\r\nX: a\u{7F}b\r\n\r\n", .controlCharacter),
        ("\u{10}\u{0C}\u{0}\u{4}MQTT", .controlCharacter),
        ("\u{16}\u{3}\u{1}", .controlCharacter),
        // The request line.
        ("GET  / HTTP/1.1\r\n", .requestLine),
        ("GET / HTTP/1.1 \r\n", .requestLine),
        (" GET / HTTP/1.1\r\n", .requestLine),
        ("GET /\r\n", .requestLine),
        ("GET / http/1.1\r\n", .requestLine),
        ("GET / HTTP/1.10\r\n", .requestLine),
        ("G(T / HTTP/1.1\r\n", .requestLine),
        ("GET / HTTP/2.0\r\n", .version),
        ("GET / HTTP/0.9\r\n", .version),
        ("PRI * HTTP/2.0\r\n", .version),
        ("GET path HTTP/1.1\r\n", .target),
        ("GET * HTTP/1.1\r\n", .target),
        ("GET /#a HTTP/1.1\r\n", .target),
        ("GET /\u{E4} HTTP/1.1\r\n", .target),
        ("GET http:/// HTTP/1.1\r\n", .target),
        ("GET http://user@h/ HTTP/1.1\r\n", .target),
        ("CONNECT h:80 HTTP/1.1\r\n", .target),
        // Fields.
        ("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", .foldedLine),
        ("GET / HTTP/1.1\r\n\tHost: h\r\n\r\n", .foldedLine),
        ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", .field),
        ("GET / HTTP/1.1\r\nHost\r\n\r\n", .field),
        ("GET / HTTP/1.1\r\n: h\r\n\r\n", .field),
        ("GET / HTTP/1.1\r\n\r\n", .host),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", .host),
        ("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", .host),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", .host),
        ("GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", .host),
        ("GET / HTTP/1.1\r\nHost: a@h\r\n\r\n", .host),
        ("GET / HTTP/1.1\r\nHost: h\r\nOrigin: a\r\nOrigin: b\r\n\r\n", .repeatedField),
        // Smuggling.
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n", .twoLengths),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n", .twoLengths),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
                + "Transfer-Encoding: chunked\r\n\r\n", .twoLengths
        ),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", .twoLengths),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            .twoLengths
        ),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n", .transferCoding),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n", .transferCoding),
        ("POST / HTTP/1.1\r\nContent-Length: +1\r\n", .contentLength),
        ("POST / HTTP/1.1\r\nContent-Length: 0x1\r\n", .contentLength),
        ("POST / HTTP/1.1\r\nContent-Length:\r\n", .contentLength),
        ("POST / HTTP/1.1\r\nContent-Length: 1111111111111111111\r\n", .contentLength),
    ])
    func `is refused as soon as its fault is there`(text: String, fault: HTTPFault) {
        // Not as UTF-8: a byte of more than seven bits is one byte.
        let bytes = text.unicodeScalars.map { UInt8($0.value) }
        #expect(throws: fault) { try Self.parse(bytes) }
    }

    @Test func `has at most so many bytes and fields`() {
        let start = "GET / HTTP/1.1\r\nHost: h\r\n"
        let long = String(repeating: "a", count: WebLimits.headByteCountMaximum)
        #expect(Self.fault("GET /" + long) == .targetTooLong)
        #expect(Self.fault(start + "X: " + long) == .headTooLarge)
        let rest = WebLimits.headByteCountMaximum - start.utf8.count - "X: \r\n\r\n".utf8.count
        #expect(Self.fault(start + "X: \(long.prefix(rest))\r\n\r\n") == nil)
        #expect(Self.fault(start + "X: \(long.prefix(rest + 1))\r\n\r\n") == .headTooLarge)
        let fields = String(repeating: "A: b\r\n", count: WebLimits.fieldCountMaximum - 1)
        #expect(Self.fault(start + fields + "\r\n") == nil)
        #expect(Self.fault(start + fields + "A: b\r\n\r\n") == .tooManyFields)
        // What was refused of 100,000 fields costs no more than what was read of them.
        #expect(Self.fault(start + String(repeating: "A: b\r\n", count: 100_000)) == .tooManyFields)
    }

    @Test func `is incomplete in each of its beginnings`() throws {
        let text = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX: \u{E4}\r\n\r\n"
        let bytes = Array(text.utf8)
        for count in 0..<bytes.count {
            #expect(try Self.parse(Array(bytes.prefix(count))) == .incomplete, "\(count)")
        }
    }

    @Test func `has a status for every fault`() {
        for fault in HTTPFault.allCases {
            #expect((400...505).contains(fault.status.rawValue), "\(fault)")
            #expect(fault.text.utf8CodeUnitCount > 0)
        }
    }
}

@Suite("An HTTP response")
struct HTTPResponseTests {
    private static func text(_ response: HTTPResponse) -> String {
        String(decoding: response.bytes(unixSeconds: 784_111_777), as: UTF8.self)
    }

    @Test func `has a date, a length and its content`() {
        var response = HTTPResponse(.ok, contentType: "text/plain", content: Array("abc".utf8))
        response.fields = ["Allow: GET, HEAD"]
        let head =
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            + "Content-Type: text/plain\r\nContent-Length: 3\r\nCache-Control: no-store\r\n"
            + "Allow: GET, HEAD\r\n"
        #expect(Self.text(response) == head + "\r\nabc")
        response.closes = true
        response.omitsContent = true
        #expect(Self.text(response) == head + "Connection: close\r\n\r\n")
    }

    @Test(
        arguments: [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (1_795_305_599, "Sat, 21 Nov 2026 23:59:59 GMT"),
        ] as [(UInt64, String)])
    func `writes the dates of leap years too`(seconds: UInt64, text: String) {
        var bytes: [UInt8] = []
        HTTPDate.append(unixSeconds: seconds, to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == text)
    }
}
