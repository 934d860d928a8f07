// The lines of the log that operators follow: which are kept, and for how long.

import Glibc
import NetTransport
import Testing

@testable import BrokerRuntime

@Suite("The lines that operators follow")
struct LogFeedTests {
    private let feed = LogFeed()

    private func take(_ event: LogEventName = .clientConnected, second: UInt64, user: String = "u")
    {
        feed.take(
            LogRecord(.info, event, fields: ["user": .text(user)]),
            unixMilliseconds: second * 1_000)
    }

    @Test func `are the latest of a bounded number`() {
        let count = UInt64(LogFeed.countMaximum)
        for second in 1...(count + 10) { take(second: second) }
        let all = feed.page(after: 0, limit: .max)
        #expect(all.last == count + 10)
        #expect(all.lines.map(\.number) == Array(11...(count + 10)))
        #expect(
            feed.page(after: nil, limit: 2, unixMilliseconds: 0).lines.map(\.number)
                == [count + 9, count + 10])
        #expect(
            feed.page(after: count + 5, limit: 2).lines.map(\.number) == [count + 6, count + 7])
        #expect(feed.page(after: count + 10, limit: 2).lines.isEmpty)
        // A number of an earlier life of the broker.
        #expect(feed.page(after: count + 11, limit: 1).lines.map(\.number) == [count + 10])
    }

    @Test func `a flood of one event is counted and leaves the others`() {
        take(.operatorRefused, second: 1)
        for _ in 0..<10_000 { take(.authenticationFailed, second: 1) }
        let page = feed.page(after: 0, limit: .max)
        #expect(page.last == 10_001)
        #expect(page.lines.count == 51 && page.lines.first?.record.event == .operatorRefused)
    }

    @Test func `have values of bounded length`() {
        take(second: 1, user: String(repeating: "ü", count: 100_000))
        guard
            case .text(let text)? = feed.page(after: 0, limit: 1).lines.first?.record.fields[0]
                .value
        else { preconditionFailure("the line has one field") }
        #expect(text.utf8.count < 300 && text.hasSuffix("ü…"))
    }

    @Test func `are followed while there is a stream, and some time after a request`() throws {
        #expect(!feed.isFollowed(at: 1))
        _ = feed.page(after: nil, limit: 1, unixMilliseconds: 1_000)
        #expect(feed.isFollowed(at: 10_999) && !feed.isFollowed(at: 11_000))
        let handle = try LoopHandle()
        for _ in 0..<LogFeed.streamCountMaximum {
            #expect(feed.beginStream(of: 0, handle) == 0)
        }
        #expect(feed.beginStream(of: 1, handle) == nil, "the limit")
        #expect(feed.isFollowed(at: .max - 1))
        for _ in 0..<LogFeed.streamCountMaximum { feed.endStream(of: 0, unixMilliseconds: 20_000) }
        #expect(feed.isFollowed(at: 29_999) && !feed.isFollowed(at: 30_000))
    }

    @Test func `of level info are kept for followers, and not written`() {
        let log = LogWriter(descriptor: open("/dev/null", O_WRONLY), level: .error)
        #expect(!log.writes(.info))
        log.write(.info, .clientConnected)
        #expect(log.feed.page(after: 0, limit: 1).last == 0)
        _ = log.feed.page(after: nil, limit: 1, unixMilliseconds: .max / 2)
        #expect(log.writes(.info) && !log.writes(.debug))
        log.write(.info, .clientConnected)
        log.write(.debug, .connectionFailed)
        #expect(
            log.feed.page(after: 0, limit: .max).lines.map(\.record.event) == [.clientConnected])
    }
}
