// The format of log lines, with any untrusted content.
import Configuration
import Testing

@testable import BrokerRuntime

private func line(
    _ fields: KeyValuePairs<String, LogValue>, format: LogFormat = .logfmt,
    unixMilliseconds: UInt64? = nil, priority: Bool = false
) -> String {
    let bytes = LogLine.bytes(
        LogRecord(.info, .clientConnected, fields: fields), format: format,
        unixMilliseconds: unixMilliseconds, priority: priority)
    return String(decoding: bytes, as: UTF8.self)
}

@Suite struct LogLineTests {
    @Test func `a line has level, event and fields`() {
        #expect(
            line(["ip": "127.0.0.1", "port": 1883])
                == "level=info event=client_connected ip=127.0.0.1 port=1883\n")
        #expect(
            line(["ip": "127.0.0.1", "port": 1883], format: .json)
                == #"{"level":"info","event":"client_connected","ip":"127.0.0.1","port":1883}"#
                + "\n")
    }

    @Test func `journald gets the priority and adds the time itself`() {
        #expect(line([:], priority: true) == "<6>level=info event=client_connected\n")
        #expect(LogLevel.error.priority == 3)
        #expect(LogLevel.warning.priority == 4)
    }

    @Test func `without journald a line begins with the time`() {
        #expect(
            line([:], unixMilliseconds: 1_795_172_665_120)
                == "time=2026-11-20T11:04:25.120Z level=info event=client_connected\n")
    }

    static let dates: [(unixMilliseconds: UInt64, text: String)] = [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ]

    @Test(arguments: dates)
    func `leap days are formatted correctly`(unixMilliseconds: UInt64, text: String) {
        #expect(LogLine.timestamp(unixMilliseconds: unixMilliseconds) == text)
    }

    static let values: [(value: String, logfmt: String)] = [
        ("plain-1.2/3:4", "plain-1.2/3:4"), ("", "\"\""), ("a b", "\"a b\""), ("a=b", "\"a=b\""),
        ("say \"hi\"", #""say \"hi\"""#), (#"back\slash"#, #""back\\slash""#),
        ("line\nlevel=error", #""line\nlevel=error""#), ("\r\t", #""\r\t""#),
        ("\u{1B}[2J", #""\u001b[2J""#), ("\u{7F}\u{85}", #""\u007f\u0085""#),
        ("\u{2028}\u{202E}", #""\u2028\u202e""#), ("Größe", "Größe"), ("🐦", "🐦"),
    ]

    @Test(arguments: values)
    func `no content can end its value`(value: String, logfmt: String) {
        #expect(line(["v": .text(value)]).hasSuffix(" v=\(logfmt)\n"))
        let quoted = logfmt.hasPrefix("\"") ? logfmt : "\"\(logfmt)\""
        #expect(line(["v": .text(value)], format: .json).hasSuffix(",\"v\":\(quoted)}\n"))
    }

    @Test func `a long value is cut and marked`() {
        let text = line(["v": .text(String(repeating: "x", count: 513)), "w": 1])
        #expect(text.hasSuffix("=\(String(repeating: "x", count: 512))… w=1\n"))
        let whole = line(["v": .text(String(repeating: "x", count: 512))])
        #expect(!whole.contains("…"))
    }

    @Test(arguments: LogFormat.allCases)
    func `a line fits one write to a pipe and is complete`(format: LogFormat) {
        let long = LogValue.text(String(repeating: "\u{1}", count: 1000))
        let text = line(
            [
                "a": long, "b": long, "c": long, "d": long, "e": long, "f": long, "g": long,
                "h": long,
            ],
            format: format)
        #expect(text.utf8.count <= 4096)
        #expect(text.hasSuffix(format == .json ? ",\"cut\":1}\n" : " cut=1\n"))
    }

    @Test func `numbers beyond 64 signed bits are clamped`() {
        #expect(line(["n": .number(UInt64.max)]).hasSuffix(" n=9223372036854775807\n"))
    }
}

@Suite struct LogRateLimiterTests {
    @Test func `fifty lines of an event are written in a second and the rest is counted`() {
        var limiter = LogRateLimiter()
        let admitted = (0..<80).filter { _ in
            limiter.admits(.authenticationFailed, unixMilliseconds: 5_999)
        }
        #expect(admitted.count == 50)
        let isOtherAdmitted = limiter.admits(.clientConnected, unixMilliseconds: 5_999)
        #expect(isOtherAdmitted)
        let early = limiter.takeSuppressed(unixMilliseconds: 5_999)
        #expect(early.isEmpty, "the second is not over")
        let told = limiter.takeSuppressed(unixMilliseconds: 6_000)
        #expect(told.map(\.event) == [.authenticationFailed])
        #expect(told.map(\.count) == [30])
        let again = limiter.takeSuppressed(unixMilliseconds: 6_000)
        #expect(again.isEmpty, "told once")
        let isAdmittedAgain = limiter.admits(.authenticationFailed, unixMilliseconds: 6_000)
        #expect(isAdmittedAgain)
    }

    @Test func `lines of requests are limited by key, and never for operators`() {
        var limiter = LogRateLimiter()
        func admitted(_ principal: String?, at milliseconds: UInt64) -> Int {
            (0..<100).count { _ in
                limiter.admits(.operatorRequest, of: principal, unixMilliseconds: milliseconds)
            }
        }
        #expect(admitted("a/k", at: 5_000) == LogRateLimiter.linesPerPrincipalMaximum)
        #expect(admitted("a/other", at: 5_000) == LogRateLimiter.linesPerPrincipalMaximum)
        #expect(admitted(nil, at: 5_000) == 100)
        let told = limiter.takeSuppressed(unixMilliseconds: 6_000)
        #expect(told.map(\.event) == [.operatorRequest] && told.map(\.count) == [160])
        #expect(admitted("a/k", at: 6_000) == LogRateLimiter.linesPerPrincipalMaximum)
    }

    @Test func `after the clock is set back lines are not suppressed forever`() {
        var limiter = LogRateLimiter()
        for _ in 0..<60 { _ = limiter.admits(.sendRefused, unixMilliseconds: 9_000_000) }
        let isAdmitted = limiter.admits(.sendRefused, unixMilliseconds: 1_000)
        #expect(isAdmitted)
    }
}
