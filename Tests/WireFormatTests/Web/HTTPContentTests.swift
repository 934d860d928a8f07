// The content of requests: what is read, in any pieces, and what is refused.

import Primitives
import Testing
import WireFormat

@Suite("The content of an HTTP request")
struct HTTPContentTests {
    private static func head(_ field: String) throws -> HTTPRequestHead {
        let text = "POST / HTTP/1.1\r\nHost: h\r\n\(field)\r\n\r\n"
        guard case .head(let head, _) = try HTTPRequestHead.parse(Array(text.utf8).span.bytes)
        else { throw HTTPFault.requestLine }
        return head
    }

    private static let chunked = "Transfer-Encoding: chunked"

    private struct Outcome: Equatable {
        var content = ""
        var fault: HTTPContentFault?
        /// Where the next request begins; nil where more is needed.
        var end: Int?
    }

    /// Reads a stream that arrives in pieces that end at these counts.
    private static func read(
        _ field: String, _ text: String, maximum: Int = 100, pieces: [Int] = []
    ) throws -> Outcome {
        let bytes = Array(text.utf8)
        var outcome = Outcome()
        do {
            var decoder = try HTTPContentDecoder(head(field), byteCountMaximum: maximum)
            var offset = 0
            for count in pieces + [bytes.count] {
                let span = bytes.span.bytes.extracting(first: count)
                while let piece = try decoder.next(in: span, at: &offset) {
                    switch piece {
                    case .content(let range):
                        outcome.content += String(
                            decoding: bytes[Int(range.offset)..<range.endOffset], as: UTF8.self)
                    case .end:
                        outcome.end = offset
                        return outcome
                    }
                }
            }
        } catch let fault as HTTPContentFault {
            outcome.fault = fault
        }
        return outcome
    }

    private static let streams: [(String, String)] = [
        ("Content-Length: 5", "helloGET /"), ("Content-Length: 0", "GET /"),
        (chunked, "5\r\nhello\r\n0\r\n\r\nGET /"),
        (chunked, "3;a=\"b\"\r\nhel\r\n00000002\r\nlo\r\n0;end\r\nX: y\r\nA-b:\r\n\r\nGET /"),
        (chunked, "A\r\n0123456789\r\nb\r\nabcdefghijk\r\n000\r\n\r\n"),
    ]

    @Test func `ends where its length or its last chunk says`() throws {
        let contents = ["hello", "", "hello", "hello", "0123456789abcdefghijk"]
        for ((field, text), content) in zip(Self.streams, contents) {
            let outcome = try Self.read(field, text)
            #expect(outcome.content == content)
            let rest = text.hasSuffix("GET /") ? 5 : 0
            #expect(outcome.end == text.utf8.count - rest)
        }
    }

    @Test func `is the same for every two pieces, and byte by byte`() throws {
        for (field, text) in Self.streams + Self.faults.map({ (Self.chunked, $0.0) }) {
            let whole = try Self.read(field, text)
            for split in 0...text.utf8.count {
                #expect(try Self.read(field, text, pieces: [split]) == whole, "\(split) of \(text)")
            }
            let bytes = Array(0...text.utf8.count)
            #expect(try Self.read(field, text, pieces: bytes) == whole, "\(text)")
        }
    }

    @Test func `is incomplete in each of its beginnings`() throws {
        for (field, text) in Self.streams {
            let end = try #require(try Self.read(field, text).end)
            for count in 0..<end {
                let outcome = try Self.read(field, String(text.prefix(count)))
                // A line end is one character of a text.
                if text.prefix(count).utf8.count < end {
                    #expect(outcome.end == nil && outcome.fault == nil, "\(count) of \(text)")
                }
            }
        }
    }

    private static let faults: [(String, HTTPContentFault)] = [
        ("5\nhello\r\n0\r\n\r\n", .lineEnd), ("5\rhello", .lineEnd),
        ("5\r\nhello\n0\r\n\r\n", .chunkEnd), ("5\r\nhello!\r\n0\r\n\r\n", .chunkEnd),
        ("5\r\nhello\rx", .chunkEnd), ("5\r\nhello0\r\n\r\n", .chunkEnd),
        ("\r\n", .chunkLength), ("g\r\n", .chunkLength), ("-1\r\n", .chunkLength),
        ("+5\r\nhello\r\n", .chunkLength), ("0x5\r\nhello\r\n", .chunkLength),
        (" 5\r\nhello\r\n", .chunkLength), ("5 \r\nhello\r\n", .chunkLength),
        ("5 ;a\r\nhello\r\n", .chunkLength), ("000000005\r\nhello\r\n", .chunkLength),
        ("FFFFFFFFFFFFFFFFF\r\n", .chunkLength), ("5;a\u{0}\r\n", .controlCharacter),
        ("5;a\nb\r\nhello\r\n0\r\n\r\n", .lineEnd), ("5;\u{7F}\r\n", .controlCharacter),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", .trailer), ("0\r\n: a\r\n\r\n", .trailer),
        ("0\r\nA b: c\r\n\r\n", .trailer), ("0\r\n folded: c\r\n\r\n", .trailer),
        ("0\r\nA: b\n\r\n", .lineEnd), ("65\r\n", .tooLarge), ("ffffffff\r\n", .tooLarge),
    ]

    @Test func `is refused where two readers could understand it differently`() throws {
        for (text, fault) in Self.faults {
            #expect(try Self.read(Self.chunked, text).fault == fault, "\(text)")
        }
    }

    @Test func `has at most so many bytes, in one chunk or in many`() throws {
        #expect(try Self.read("Content-Length: 100", "").fault == nil)
        #expect(try Self.read("Content-Length: 101", "").fault == .tooLarge)
        #expect(try Self.read("Content-Length: 999999999999999999", "").fault == .tooLarge)
        let hundred = String(repeating: "1\r\nx\r\n", count: 100)
        #expect(try Self.read(Self.chunked, hundred + "0\r\n\r\n").content.count == 100)
        #expect(try Self.read(Self.chunked, hundred + "1\r\nx\r\n").fault == .tooLarge)
    }

    @Test func `has few extensions and trailers`() throws {
        let line = String(repeating: "a", count: WebLimits.chunkLineByteCountMaximum)
        #expect(try Self.read(Self.chunked, "1;\(line)").fault == .overhead)
        #expect(try Self.read(Self.chunked, "0\r\nA: \(line)").fault == .overhead)
        let chunk = "1;\(String(repeating: "a", count: 99))\r\nx\r\n"
        let many = WebLimits.chunkOverheadMaximum / 100
        let few = String(repeating: chunk, count: many) + "0\r\n\r\n"
        #expect(try Self.read(Self.chunked, few).end == few.utf8.count)
        #expect(
            try Self.read(Self.chunked, String(repeating: chunk, count: many + 1)).fault
                == .overhead)
    }

    @Test func `has a status and a text for every fault`() {
        for fault in HTTPContentFault.allCases {
            #expect([400, 413].contains(fault.status.rawValue))
            #expect(fault.text.utf8CodeUnitCount > 10)
        }
    }
}

@Suite("The target of an HTTP request")
struct HTTPTargetTests {
    private static func segments(_ path: String) -> [String]? {
        HTTPTarget.segments(of: Array(path.utf8).span.bytes)
    }

    private static func members(_ query: String) -> [[String]]? {
        HTTPTarget.members(of: Array(query.utf8).span.bytes)?.map { [$0.name, $0.value] }
    }

    @Test func `has segments without escapes, and an escaped slash ends none`() {
        #expect(Self.segments("/api/v1/apps") == ["api", "v1", "apps"])
        #expect(Self.segments("/a%2Fb/%C3%BC") == ["a/b", "ü"])
        #expect(Self.segments("/") == [""])
        #expect(Self.segments("/a//b/") == ["a", "", "b", ""])
        #expect(Self.segments("/a+b") == ["a+b"])
        for path in ["", "a", "/%", "/%2", "/%zz", "/%FF", "/%+1"] {
            #expect(Self.segments(path) == nil, "\(path)")
        }
    }

    @Test func `has members of its query, of which none is ambiguous`() {
        #expect(Self.members("") == [])
        #expect(Self.members("a=b&c=&a=%26%3D%20") == [["a", "b"], ["c", ""], ["a", "&= "]])
        #expect(Self.members("a=b=c") == [["a", "b=c"]])
        for query in ["a", "=b", "&", "a=b&", "a=b+c", "a=%", "a=%FF"] {
            #expect(Self.members(query) == nil, "\(query)")
        }
    }
}
