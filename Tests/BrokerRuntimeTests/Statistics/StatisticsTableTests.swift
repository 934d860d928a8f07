// The table of statistics, held against the counters of the core and what names its rows: the page
// for operators, which this test writes with MARTLET_UPDATE_DOCS=1, and the dashboard.

import Foundation
import Testing

@testable import BrokerRuntime

@Suite("The table of statistics")
struct StatisticsTableTests {
    private static let repository = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let page = repository.appending(path: "docs/operating/statistics.md")

    private var names: Set<String> { Set(StatisticsTable.all.map(\.name)) }

    @Test func `has each name and each meaning once`() {
        let statistics = StatisticsTable.all
        #expect(statistics.count > 100)
        #expect(names.count == statistics.count)
        #expect(Set(statistics.map(\.meaning)).count == statistics.count)
        for one in statistics {
            #expect(one.meaning.first?.isLowercase == false, "\(one.name)")
            #expect(!one.meaning.hasSuffix("."), "\(one.name)")
            // Prometheus takes these characters, and a slash becomes an underscore.
            #expect(
                one.name.wholeMatch(of: #/[a-zA-Z0-9_ /]+/#) != nil,
                "\(one.name)")
            #expect((one.unit == Statistic.days) == one.name.hasSuffix("/days"), "\(one.name)")
        }
    }

    @Test func `has every counter of the core, and no revocation list without one`() throws {
        let server = try RunningBroker().server
        var (counters, gauges) = server.shards.first.enter {
            ($0.broker.counters, $0.broker.gauges())
        }
        // Every counter has another value.
        withUnsafeMutableBytes(of: &counters) { bytes in
            for index in 0..<bytes.count / 8 {
                bytes.storeBytes(
                    of: 1_000_000 + UInt64(index), toByteOffset: index * 8, as: UInt64.self)
            }
        }
        let values = BrokerStatistics(
            version: "", uptimeSeconds: 0,
            from: StatisticsSources(
                counters: counters, gauges: gauges, loops: [], rates: server.rates.counts,
                web: server.listenerSet.web.counts,
                api: StatisticsSources.API(requests: 0, failures: 0),
                interfaces: SourceCounts(),
                passwords: PasswordVerifier.Counts(), process: .now(),
                expiry: TrustExpiry(certificateDays: nil, revocationListDays: nil), cluster: nil)
        ).values
        let absent = StatisticsTable.all.filter { $0.name.hasPrefix("cluster/") }.count + 1
        #expect(values.count == StatisticsTable.all.count - absent)
        #expect(!values.contains { $0.name == "tls/revocation_list/days" })
        let shown = Set(values.map(\.value))
        for (label, value) in Mirror(reflecting: counters).children {
            let value = try #require(value as? UInt64)
            #expect(value >= 1_000_000)
            #expect(shown.contains(value), "no statistic shows \(label ?? "a counter")")
        }
    }

    @Test func `is the one on the page`() throws {
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let heading = "| name | kind | unit | meaning |\n|---|---|---|---|\n"
        let start = try #require(text.range(of: heading)).upperBound
        let end = try #require(text.range(of: "\n\n", range: start..<text.endIndex)).lowerBound
        let rows = StatisticsTable.all.map {
            "| `\($0.name)` | \($0.kind.rawValue) | \($0.unit) | \($0.meaning) |"
        }.joined(separator: "\n")
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
            try Data(text.replacingCharacters(in: start..<end, with: rows).utf8)
                .write(to: Self.page)
            return
        }
        #expect(
            text[start..<end] == rows,
            "Run the tests once with MARTLET_UPDATE_DOCS=1, and read the difference.")
    }

    @Test func `has its histograms on the page`() throws {
        let shards = try RunningBroker().server.shards
        let histograms = MetricHistogram.all(
            BrokerTimes(of: shards), of: shards.cores.map(\.commits))
        let page = try String(contentsOf: Self.page, encoding: .utf8)
        let listed = page.matches(of: #/\| `(martlet_\w+)` \| (\w+) \|/#)
        #expect(listed.map { "\($0.1)" } == histograms.map(\.name))
        #expect(listed.map { "\($0.2)" } == histograms.map(\.unit.rawValue))
    }

    @Test func `has what the alarms of the page and the dashboard's overview name`() throws {
        let page = try String(contentsOf: Self.page, encoding: .utf8)
        let start = try #require(page.range(of: "## Alarms\n")).upperBound
        let end = try #require(page.range(of: "\n## ", range: start..<page.endIndex)).lowerBound
        let alarms = page[start..<end].matches(of: #/`([a-z_ ]+(?:/[a-z_]+)+)`/#).map(\.1)
        let overview = try String(
            contentsOf: Self.repository.appending(path: "Sources/Dashboard/Page/overview.js"),
            encoding: .utf8)
        let shown = overview.matches(of: #/"([a-z_]+(?:/[a-z_]+)+)"/#).map(\.1)
        #expect(alarms.count > 5 && shown.count > 5, "the reader finds nothing")
        for name in alarms + shown { #expect(names.contains(String(name)), "\(name)") }
    }
}
