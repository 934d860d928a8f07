// The statistics in Prometheus's text format 0.0.4, or as OpenMetrics 1.0. Names are those of
// `martlet stats` in the form that Prometheus recommends: a prefix, base units, and `_total` for
// what only increases.

enum PrometheusText {
    /// A form of the text.
    enum Form: CaseIterable {
        case plain
        case openMetrics

        /// Its place among the forms.
        var index: Int { self == .plain ? 0 : 1 }

        var contentType: StaticString {
            switch self {
            case .plain: "text/plain; version=0.0.4; charset=utf-8"
            case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
        }
    }

    /// The whole page.
    static func text(
        _ statistics: BrokerStatistics, histograms: [MetricHistogram] = [],
        tables: [(name: String, byteCount: UInt64)] = [], as form: Form = .plain
    ) -> [UInt8] {
        var text = ""
        text.reserveCapacity(32_768)
        append(
            to: &text, "martlet_build_info{version=\"\(escaped(statistics.version))\"} 1",
            name: "martlet_build_info", kind: "gauge", help: "The version of the broker")
        append(
            to: &text, "martlet_uptime_seconds \(statistics.uptimeSeconds)",
            name: "martlet_uptime_seconds", kind: "gauge",
            help: "Seconds since the broker started")
        for statistic in statistics.rows {
            let isGauge = statistic.isGauge
            let isDays = statistic.name.hasSuffix("/days")
            let name = metricName(statistic.name, isGauge: isGauge)
            // Days are no base unit; 86,400 seconds are one.
            let value = isDays ? statistic.value * 86_400 : statistic.value
            // A family of counters is named without the suffix of its samples.
            let family =
                form == .openMetrics && !isGauge ? String(name.dropLast("_total".count)) : name
            append(
                to: &text, "\(name) \(value)", name: family,
                kind: isGauge ? "gauge" : "counter",
                help: "The statistic \(statistic.name)" + (isDays ? " in seconds" : ""))
        }
        if !tables.isEmpty {
            let name = "martlet_store_table_bytes"
            append(
                to: &text,
                tables.map { "\(name){table=\"\($0.name)\"} \($0.byteCount)" }
                    .joined(separator: "\n"),
                name: name, kind: "gauge", help: "Bytes of the pages of a table of the store")
        }
        for histogram in histograms {
            append(
                to: &text, String(histogram.samples.dropLast()), name: histogram.name,
                kind: "histogram", help: histogram.help)
        }
        if form == .openMetrics { text += "# EOF\n" }
        return Array(text.utf8)
    }

    /// `retained messages/bytes` becomes `martlet_retained_messages_bytes`. `_total` and `_count`
    /// are reserved for counters and histograms.
    static func metricName(_ statistic: String, isGauge: Bool) -> String {
        var words = statistic.split { $0 == "/" || $0 == " " || $0 == "_" }.map(String.init)
        if isGauge, ["count", "total"].contains(words.last) { words.removeLast() }
        if words.last == "days" { words[words.count - 1] = "remaining_seconds" }
        // The unit stands last.
        if let place = words.dropLast().firstIndex(of: "bytes") {
            words.append(words.remove(at: place))
        }
        // `bytes/received` is `received_bytes`, and a counter besides.
        return "martlet_" + words.joined(separator: "_") + (isGauge ? "" : "_total")
    }

    private static func append(
        to text: inout String, _ sample: String, name: String, kind: String, help: String
    ) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind)\n\(sample)\n"
    }

    private static func escaped(_ value: String) -> String {
        value.map { $0 == "\\" || $0 == "\"" || $0 == "\n" ? "_" : String($0) }.joined()
    }
}
