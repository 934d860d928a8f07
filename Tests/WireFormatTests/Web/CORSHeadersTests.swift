// What a response says about pages of other origins.

import Testing
import WireFormat

@Suite("An HTTP response for pages of other origins")
struct CORSHeadersTests {
    private static func lines(_ response: HTTPResponse) -> [String] {
        String(decoding: response.bytes(unixSeconds: 0), as: UTF8.self)
            .split(separator: "\r\n").map(String.init)
    }

    @Test func `has a length, unless its status has no content`() {
        let ok = Self.lines(HTTPResponse(.ok, contentType: "text/plain", content: [0x61]))
        #expect(
            ok == [
                "HTTP/1.1 200 OK", "Date: Thu, 01 Jan 1970 00:00:00 GMT",
                "Content-Type: text/plain", "Content-Length: 1", "Cache-Control: no-store", "a",
            ])
        let none = Self.lines(HTTPResponse(.noContent))
        #expect(none.first == "HTTP/1.1 204 No Content")
        #expect(!none.contains { $0.hasPrefix("Content-Length") })
    }

    @Test func `names the origin that may read it, or only that there is one`() {
        var response = HTTPResponse(.ok)
        #expect(!Self.lines(response).contains { $0.hasPrefix("Vary") })
        response.cors = CORSHeaders()
        #expect(Self.lines(response).suffix(1) == ["Vary: Origin"])
        response.cors = CORSHeaders(origin: Array("https://a.example".utf8))
        #expect(
            Self.lines(response).suffix(3) == [
                "Vary: Origin", "Access-Control-Allow-Origin: https://a.example",
                "Access-Control-Expose-Headers: Retry-After",
            ])
        response.preflight = HTTPPreflight(methods: ["GET", "PUT"], fields: ["authorization"])
        #expect(
            Self.lines(response).suffix(3) == [
                "Access-Control-Allow-Methods: GET, PUT",
                "Access-Control-Allow-Headers: authorization", "Access-Control-Max-Age: 600",
            ])
    }

    @Test func `of a stream names the origin too`() {
        let cors = CORSHeaders(origin: Array("https://a.example".utf8))
        for bytes in [
            HTTPEventStream.head(unixSeconds: 0, retryMilliseconds: 1, cors: cors),
            HTTPEventStream.refusal(
                .forbidden, .notAuthorized, detail: "no right", retryAfterSeconds: 0, cors: cors),
        ] {
            let text = String(decoding: bytes, as: UTF8.self)
            let head = text.prefix(upTo: text.firstRange(of: "\r\n\r\n")!.lowerBound)
            #expect(head.contains("\r\nVary: Origin\r\nAccess-Control-Allow-Origin: https://a."))
        }
    }
}
