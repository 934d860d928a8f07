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
    ///
    /// - Parameter shards: the statistics of each shard; none if there is one.
    static func text(
        _ statistics: BrokerStatistics, shards: [ShardValues] = [],
        histograms: [MetricHistogram] = [],
        tables: [(name: String, byteCount: UInt64)] = [], as form: Form = .plain
    ) -> [UInt8] {
        var text = ""
        text.reserveCapacity(32_768)
        append(
            to: &text, "martlet_build_info{version=\"\(escaped(statistics.version))\"} 1",
            name: "martlet_build_info", kind: "gauge",
            help: help("The version of the broker, as a label", unit: "always 1"))
        append(
            to: &text, "martlet_uptime_seconds \(statistics.uptimeSeconds)",
            name: "martlet_uptime_seconds", kind: "gauge",
            help: help("Time since the broker started", unit: "seconds"))
        for one in statistics.values {
            let statistic = one.statistic
            let isDays = statistic.unit == Statistic.days
            let name = metricName(of: statistic)
            // A family of counters is named without the suffix of its samples.
            let family =
                form == .openMetrics && statistic.kind == .counter
                ? String(name.dropLast("_total".count)) : name
            append(
                to: &text, "\(name) \(isDays ? one.value * 86_400 : one.value)", name: family,
                kind: statistic.kind.rawValue,
                help: help(statistic.meaning, unit: isDays ? "seconds" : statistic.unit))
        }
        append(shards, to: &text, as: form)
        if !tables.isEmpty {
            let name = "martlet_store_table_bytes"
            append(
                to: &text,
                tables.map { "\(name){table=\"\($0.name)\"} \($0.byteCount)" }
                    .joined(separator: "\n"),
                name: name, kind: "gauge",
                help: help("Pages of a table of the store", unit: "bytes"))
        }
        for histogram in histograms {
            append(
                to: &text, String(histogram.samples.dropLast()), name: histogram.name,
                kind: "histogram", help: help(histogram.help, unit: histogram.unit.rawValue))
        }
        if form == .openMetrics { text += "# EOF\n" }
        return Array(text.utf8)
    }

    /// Writes a metric for each statistic of the shards, with the shard as a label. It has another
    /// name than that of the broker, so that a sum over the labels counts nothing twice.
    private static func append(_ shards: [ShardValues], to text: inout String, as form: Form) {
        for (index, one) in (shards.first?.values ?? []).enumerated() {
            let statistic = one.statistic
            let own = metricName(of: statistic).dropFirst("martlet_".count)
            let name = "martlet_shard_\(own)"
            let family =
                form == .openMetrics && statistic.kind == .counter
                ? String(name.dropLast("_total".count)) : name
            let samples = shards.map { shard in
                "\(name){shard=\"\(escaped(shard.name))\"} \(shard.values[index].value)"
            }
            append(
                to: &text, samples.joined(separator: "\n"), name: family,
                kind: statistic.kind.rawValue,
                help: help("\(statistic.meaning), of a shard", unit: statistic.unit))
        }
    }

    /// `retained messages/bytes` becomes `martlet_retained_messages_bytes`. `_total` and `_count`
    /// are reserved for counters and histograms.
    static func metricName(of statistic: Statistic) -> String {
        let isGauge = statistic.kind == .gauge
        var words = statistic.name.split { $0 == "/" || $0 == " " || $0 == "_" }.map(String.init)
        if isGauge, ["count", "total"].contains(words.last) { words.removeLast() }
        if statistic.unit == Statistic.days { words[words.count - 1] = "remaining_seconds" }
        // The unit stands last.
        if let place = words.dropLast().firstIndex(of: "bytes") {
            words.append(words.remove(at: place))
        }
        // `bytes/received` is `received_bytes`, and a counter besides.
        return "martlet_" + words.joined(separator: "_") + (isGauge ? "" : "_total")
    }

    /// What a metric says and its unit, for people who read the page.
    private static func help(_ meaning: String, unit: String) -> String {
        "\(meaning.filter { $0 != "`" }). Unit: \(unit)."
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
