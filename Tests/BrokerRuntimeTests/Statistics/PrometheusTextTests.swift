// The text of the metrics.

import Primitives
import Testing

@testable import BrokerRuntime

@Suite("The metrics")
struct PrometheusTextTests {
    /// A statistic of this name.
    private static func statistic(
        _ name: String, _ kind: Statistic.Kind, of unit: String = "messages",
        meaning: String = "What it counts"
    ) -> Statistic {
        Statistic(name: name, kind: kind, unit: unit, meaning: meaning) { _ in 0 }
    }

    private static let values = [
        StatisticValue(
            statistic: statistic(
                "tls/certificate/days", .gauge, of: "days",
                meaning: "Time until the certificate expires"),
            value: 2),
        StatisticValue(
            statistic: statistic(
                "clients/expired", .counter, of: "sessions",
                meaning: "Sessions away longer than `expiry`"),
            value: 3),
    ]

    private static let names = [
        (statistic("clients/connected", .gauge), "martlet_clients_connected"),
        (statistic("clients/total", .gauge), "martlet_clients"),
        (statistic("retained messages/bytes", .gauge), "martlet_retained_messages_bytes"),
        (statistic("bytes/received", .counter), "martlet_received_bytes_total"),
        (
            statistic("tls/certificate/days", .gauge, of: "days"),
            "martlet_tls_certificate_remaining_seconds"
        ),
        (statistic("protocol_errors", .counter), "martlet_protocol_errors_total"),
    ]

    @Test(arguments: names)
    func `have names as Prometheus recommends`(statistic: Statistic, name: String) {
        #expect(PrometheusText.metricName(of: statistic) == name)
    }

    @Test func `have a help, a type and a sample each`() {
        let text = PrometheusText.text(
            BrokerStatistics(version: "1\"2", uptimeSeconds: 7, values: Self.values))
        #expect(
            String(decoding: text, as: UTF8.self) == """
                # HELP martlet_build_info \
                The version of the broker, as a label. Unit: always 1.
                # TYPE martlet_build_info gauge
                martlet_build_info{version="1_2"} 1
                # HELP martlet_uptime_seconds Time since the broker started. Unit: seconds.
                # TYPE martlet_uptime_seconds gauge
                martlet_uptime_seconds 7
                # HELP martlet_tls_certificate_remaining_seconds \
                Time until the certificate expires. Unit: seconds.
                # TYPE martlet_tls_certificate_remaining_seconds gauge
                martlet_tls_certificate_remaining_seconds 172800
                # HELP martlet_clients_expired_total \
                Sessions away longer than expiry. Unit: sessions.
                # TYPE martlet_clients_expired_total counter
                martlet_clients_expired_total 3

                """)
    }

    @Test func `are OpenMetrics for clients who prefer it`() {
        let text = PrometheusText.text(
            BrokerStatistics(version: "1", uptimeSeconds: 7, values: Self.values),
            as: .openMetrics)
        #expect(
            String(decoding: text, as: UTF8.self).hasSuffix(
                """
                # TYPE martlet_tls_certificate_remaining_seconds gauge
                martlet_tls_certificate_remaining_seconds 172800
                # HELP martlet_clients_expired \
                Sessions away longer than expiry. Unit: sessions.
                # TYPE martlet_clients_expired counter
                martlet_clients_expired_total 3
                # EOF

                """))
    }

    @Test func `count the values of a histogram up to each bound`() {
        var values = Histogram()
        for value in [3, 4, 5, 1_500_000, 1 << 39] as [UInt64] { values.record(value) }
        let times = MetricHistogram(
            name: "t", help: "", exponents: 2...4, unit: .seconds, values: values)
        #expect(
            times.samples == """
                t_bucket{le="0.000004"} 2
                t_bucket{le="0.000008"} 3
                t_bucket{le="0.000016"} 3
                t_bucket{le="+Inf"} 5
                t_sum 549757.3139
                t_count 5

                """)
        let sizes = MetricHistogram(
            name: "s", help: "", exponents: 20...21, unit: .bytes, values: values)
        #expect(
            sizes.samples == """
                s_bucket{le="1048576.0"} 3
                s_bucket{le="2097152.0"} 4
                s_bucket{le="+Inf"} 5
                s_sum 549757313900
                s_count 5

                """)
    }

    @Test func `have a name of their own for each statistic`() {
        let metrics = StatisticsTable.all.map(PrometheusText.metricName)
        #expect(Set(metrics).count == metrics.count)
        // OpenMetrics names a family of counters without the suffix.
        let families = metrics.map { $0.hasSuffix("_total") ? String($0.dropLast(6)) : $0 }
        #expect(Set(families).count == families.count)
    }
}
