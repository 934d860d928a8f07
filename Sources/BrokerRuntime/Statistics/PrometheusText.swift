// The statistics in Prometheus's text format 0.0.4. Names are those of `martlet stats` in the form
// that Prometheus recommends: a prefix, base units, and `_total` for what only increases.

import Administration

enum PrometheusText {
    /// The gauges among the statistics; all others are counters.
    static let gauges: Set<String> = [
        "clients/connected", "clients/total", "messages/stored", "messages/keys",
        "conversations/count", "history/messages",
        "store/messages/bytes",
        "store/full", "store/used/bytes", "store/limit/bytes", "subscriptions/count",
        "shared_subscriptions/count", "retained messages/count", "retained messages/bytes",
        "groups/count", "wills/count", "messages/memory", "messages/memory/spare/bytes",
        "messages/memory/queue/bytes", "apps/total", "users/total", "tokens/total",
        "sockets/pending", "tls/handshakes/pending", "sockets/outgoing/bytes",
        "process/memory/bytes", "process/descriptors", "process/descriptors/limit",
        "tls/certificate/days", "tls/revocation_list/days",
    ]

    /// The whole page.
    static func text(_ statistics: ReadStatistics.Reply) -> [UInt8] {
        var text = ""
        append(
            to: &text, "martlet_build_info{version=\"\(escaped(statistics.brokerVersion))\"} 1",
            name: "martlet_build_info", kind: "gauge", help: "The version of the broker")
        append(
            to: &text, "martlet_uptime_seconds \(statistics.uptimeSeconds)",
            name: "martlet_uptime_seconds", kind: "gauge",
            help: "Seconds since the broker started")
        for counter in statistics.counters {
            let isGauge = gauges.contains(counter.name)
            let isDays = counter.name.hasSuffix("/days")
            let name = metricName(counter.name, isGauge: isGauge)
            // Days are no base unit; 86,400 seconds are one.
            let value = isDays ? counter.value * 86_400 : counter.value
            append(
                to: &text, "\(name) \(value)", name: name, kind: isGauge ? "gauge" : "counter",
                help: "The statistic \(counter.name)" + (isDays ? " in seconds" : ""))
        }
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
