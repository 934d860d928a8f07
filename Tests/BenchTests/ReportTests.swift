// The output of a run: its lines, and its page with charts.
import NetTransport
import Testing

@testable import martlet_bench

@Suite struct ReportTests {
    @Test func `the counters of a second have the format of emqtt_bench`() {
        let before = Sample(nanoseconds: 15_000_000_000)
        var now = Sample(nanoseconds: 17_000_000_000)
        now.tally.connected = 8
        now.tally.delivered = 3_953
        #expect(
            LiveLines.lines(from: before, to: now, origin: 1_000_000_000) == [
                "16s connect_succ total=8 rate=4.00/sec", "16s recv total=3953 rate=1976.50/sec",
            ])
    }

    @Test func `the bar shows the progress of the stage`() {
        #expect(ProgressLine.text(.measuring, fraction: 0, tally: LoadTally()).hasPrefix("[      "))
        let half = ProgressLine.text(.measuring, fraction: 0.5, tally: LoadTally())
        #expect(half.contains("=============== "))
        #expect(half.contains("50 % measuring"))
    }

    @Test func `numbers have the requested digits`() {
        #expect(Decimal.text(0.0449, 3) == "0.045")
        #expect(Decimal.text(-1.5, 1) == "-1.5")
        #expect(Decimal.text(12, 0) == "12")
    }

    @Test func `a page with charts is self-contained`() throws {
        var plan = Plan(scenario: .floor)
        plan.dialect = .mqtt311
        plan.receiverCount = 3
        plan.seconds = 1.2
        plan.warmUpSeconds = 0
        plan.isQuiet = true
        let page = try BenchProgram.measureFloor(plan).html
        #expect(page.contains("<svg") && page.contains("<polyline"))
        for foreign in ["http://", "https://", "<script", "@import", "url("] {
            #expect(!page.contains(foreign), "\(foreign)")
        }
    }

    @Test func `an axis ends at a round number`() {
        #expect(Chart.roundUp(0) == 1)
        #expect(Chart.roundUp(3) == 5)
        #expect(Chart.roundUp(700) == 1000)
        #expect(Chart.roundUp(0.3) == 0.5)
    }

    @Test func `texts in a page are escaped`() {
        #expect(Chart.escaped("<a href=\"x\">&") == "&lt;a href=&quot;x&quot;&gt;&amp;")
    }
}
