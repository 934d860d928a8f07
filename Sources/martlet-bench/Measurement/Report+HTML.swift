// The results of a run as one self-contained page: charts drawn as SVG, without scripts, fonts or
// external addresses.

extension Report {
    var html: String {
        var body = "<h1>martlet-bench \(escaped(plan.scenario.rawValue))</h1>\n"
        body += "<pre>\(escaped(lines.joined(separator: "\n")))</pre>\n"
        for chart in charts { body += chart.html }
        body += latencyTable
        return """
            <!doctype html>
            <html lang="en"><meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>martlet-bench \(escaped(plan.scenario.rawValue))</title>
            <style>\(Report.style)</style>
            <body>
            \(body)</body></html>
            """
    }

    private static let style = """
        :root { color-scheme: light dark; --line: #888; --a: #1668b8; --b: #c2571a; }
        @media (prefers-color-scheme: dark) { :root { --a: #6db3f2; --b: #f0a36b; } }
        body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto;
               padding: 0 1em; }
        pre { overflow-x: auto; font-size: 13px; } svg { width: 100%; height: auto; }
        text { font: 12px system-ui, sans-serif; fill: currentColor; }
        td, th { padding: .2em 1em .2em 0; text-align: right; font-variant-numeric: tabular-nums; }
        """

    private var charts: [Chart] {
        let times = samples.map { Double($0.nanoseconds - origin) / 1e9 }
        var charts = [
            Chart(
                title: "Throughput", unit: "per second", times: times,
                series: [
                    Chart.Series(name: "deliveries", values: rates { $0.tally.delivered }),
                    Chart.Series(
                        name: plan.scenario == .connect || plan.scenario.reconnects
                            ? "connects" : "messages sent",
                        values: plan.scenario == .connect || plan.scenario.reconnects
                            ? rates { $0.tally.connected } : rates { $0.sendCount }),
                ])
        ]
        if samples.contains(where: { $0.percentile99 > 0 }) {
            charts.append(
                Chart(
                    title: "Latency, \(latencyName)", unit: "ms", times: times,
                    series: [
                        Chart.Series(
                            name: "p50", values: samples.map { Double($0.median) / 1e6 }),
                        Chart.Series(
                            name: "p99", values: samples.map { Double($0.percentile99) / 1e6 }),
                    ]))
        }
        if samples.contains(where: { $0.broker?.residentBytes ?? 0 > 0 }) {
            charts.append(
                Chart(
                    title: "Memory of the broker", unit: "MiB resident", times: times,
                    series: [
                        Chart.Series(
                            name: "resident",
                            values: samples.map {
                                Double($0.broker?.residentBytes ?? 0) / 1_048_576
                            })
                    ]))
        }
        return charts
    }

    /// The growth of a counter per second, at each sample.
    private func rates(_ counter: (Sample) -> UInt64) -> [Double] {
        var previous = Sample(nanoseconds: origin)
        return samples.map { sample in
            defer { previous = sample }
            let elapsed = Double(sample.nanoseconds - previous.nanoseconds) / 1e9
            return Double(counter(sample) - counter(previous)) / max(elapsed, 1e-9)
        }
    }

    private var latencyTable: String {
        guard latencies.count > 0 else { return "" }
        let rows = (Report.quantiles + [("p99.99", 0.9999), ("max", 1)]).map { name, fraction in
            "<tr><th>\(name)<td>\(Decimal.milliseconds(latencies.quantile(fraction))) ms\n"
        }
        return "<h2>Latency percentiles</h2>\n<table>\n\(rows.joined())</table>\n"
    }

    private func escaped(_ text: String) -> String { Chart.escaped(text) }
}

/// Lines over time in one coordinate system that begins at 0.
struct Chart {
    struct Series {
        var name: String
        var values: [Double]
    }

    var title: String
    var unit: String
    /// Seconds, increasing, one for each value of every series.
    var times: [Double]
    var series: [Series]

    private static let width = 800.0
    private static let height = 240.0
    private static let left = 80.0
    private static let bottom = 30.0
    private static let top = 24.0
    private static let colours = ["var(--a)", "var(--b)"]

    var html: String {
        guard let end = times.last, end > 0 else { return "" }
        let most = series.flatMap(\.values).max() ?? 0
        let ceiling = Chart.roundUp(most)
        func x(_ time: Double) -> Double {
            Chart.left + (Chart.width - Chart.left - 10) * time / end
        }
        func y(_ value: Double) -> Double {
            Chart.height - Chart.bottom
                - (Chart.height - Chart.bottom - Chart.top) * value / ceiling
        }
        var svg = ""
        for part in 0...4 {
            let value = ceiling * Double(part) / 4
            let place = Decimal.text(y(value), 1)
            svg +=
                "<line x1=\"\(Int(Chart.left))\" x2=\"\(Int(Chart.width - 10))\" y1=\"\(place)\" "
                + "y2=\"\(place)\" stroke=\"var(--line)\" stroke-width=\".4\"/>"
                + "<text x=\"\(Int(Chart.left - 6))\" y=\"\(place)\" dy=\".35em\" "
                + "text-anchor=\"end\">\(Chart.label(value))</text>\n"
        }
        for (index, line) in series.enumerated() {
            let points = zip(times, line.values)
                .map { "\(Decimal.text(x($0), 1)),\(Decimal.text(y($1), 1))" }
            let colour = Chart.colours[index % Chart.colours.count]
            svg +=
                "<polyline fill=\"none\" stroke=\"\(colour)\" stroke-width=\"1.6\" "
                + "points=\"\(points.joined(separator: " "))\"/>"
                + "<text x=\"\(Int(Chart.left) + 180 * index)\" y=\"14\" "
                + "style=\"fill:\(colour)\">\(Chart.escaped(line.name))</text>\n"
        }
        svg +=
            "<text x=\"\(Int(Chart.width - 10))\" y=\"\(Int(Chart.height - 8))\" "
            + "text-anchor=\"end\">\(Decimal.text(end, 0)) s</text>"
        return "<h2>\(Chart.escaped(title)) (\(Chart.escaped(unit)))</h2>\n"
            + "<svg viewBox=\"0 0 \(Int(Chart.width)) \(Int(Chart.height))\" role=\"img\" "
            + "aria-label=\"\(Chart.escaped(title))\">\n\(svg)</svg>\n"
    }

    /// The next of 1, 2 or 5 times a power of ten; 1 for nothing.
    static func roundUp(_ value: Double) -> Double {
        guard value > 0 else { return 1 }
        var power = 1.0
        while power * 10 <= value { power *= 10 }
        while power > value { power /= 10 }
        return [1, 2, 5, 10].map { $0 * power }.first { $0 >= value } ?? 10 * power
    }

    private static func label(_ value: Double) -> String {
        switch value {
        case 1e6...: Decimal.text(value / 1e6, 2) + " M"
        case 1e4...: Decimal.text(value / 1e3, 0) + " k"
        case 10...: Decimal.text(value, 0)
        default: Decimal.text(value, 2)
        }
    }

    static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text {
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            default: escaped.append(character)
            }
        }
        return escaped
    }
}
