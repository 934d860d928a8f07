// The text of the metrics.

import Primitives
import Testing

@testable import BrokerRuntime

@Suite("The metrics")
struct PrometheusTextTests {
    @Test(arguments: [
        ("clients/connected", true, "martlet_clients_connected"),
        ("clients/total", true, "martlet_clients"),
        ("retained messages/bytes", true, "martlet_retained_messages_bytes"),
        ("bytes/received", false, "martlet_received_bytes_total"),
        ("tls/certificate/days", true, "martlet_tls_certificate_remaining_seconds"),
        ("protocol_errors", false, "martlet_protocol_errors_total"),
    ])
    func `have names as Prometheus recommends`(statistic: String, isGauge: Bool, name: String) {
        #expect(PrometheusText.metricName(statistic, isGauge: isGauge) == name)
    }

    @Test func `have a help, a type and a sample each`() {
        let text = PrometheusText.text(
            BrokerStatistics(
                version: "1\"2", uptimeSeconds: 7,
                rows: [
                    Statistic(name: "tls/certificate/days", measure: .gauge(2)),
                    Statistic(name: "clients/expired", measure: .counter(3)),
                ]))
        #expect(
            String(decoding: text, as: UTF8.self) == """
                # HELP martlet_build_info The version of the broker
                # TYPE martlet_build_info gauge
                martlet_build_info{version="1_2"} 1
                # HELP martlet_uptime_seconds Seconds since the broker started
                # TYPE martlet_uptime_seconds gauge
                martlet_uptime_seconds 7
                # HELP martlet_tls_certificate_remaining_seconds \
                The statistic tls/certificate/days in seconds
                # TYPE martlet_tls_certificate_remaining_seconds gauge
                martlet_tls_certificate_remaining_seconds 172800
                # HELP martlet_clients_expired_total The statistic clients/expired
                # TYPE martlet_clients_expired_total counter
                martlet_clients_expired_total 3

                """)
    }

    @Test func `are OpenMetrics for clients who prefer it`() {
        let text = PrometheusText.text(
            BrokerStatistics(
                version: "1", uptimeSeconds: 7,
                rows: [
                    Statistic(name: "clients/connected", measure: .gauge(2)),
                    Statistic(name: "clients/expired", measure: .counter(3)),
                ]), as: .openMetrics)
        #expect(
            String(decoding: text, as: UTF8.self).hasSuffix(
                """
                # TYPE martlet_clients_connected gauge
                martlet_clients_connected 2
                # HELP martlet_clients_expired The statistic clients/expired
                # TYPE martlet_clients_expired counter
                martlet_clients_expired_total 3
                # EOF

                """))
    }

    @Test func `count the values of a histogram up to each bound`() {
        var values = Histogram()
        for value in [3, 4, 5, 1_500_000, 1 << 39] as [UInt64] { values.record(value) }
        let times = MetricHistogram(
            name: "t", help: "", exponents: 2...4, isTime: true, values: values)
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
            name: "s", help: "", exponents: 20...21, isTime: false, values: values)
        #expect(
            sizes.samples == """
                s_bucket{le="1048576.0"} 3
                s_bucket{le="2097152.0"} 4
                s_bucket{le="+Inf"} 5
                s_sum 549757313900
                s_count 5

                """)
    }

    @Test func `have a name of their own for each statistic`() throws {
        let server = try RunningBroker().server
        let (counters, gauges) = server.shared.enter { ($0.broker.counters, $0.broker.gauges()) }
        let statistics = StatisticsNames.list(
            StatisticsSources(
                counters: counters, gauges: gauges, loops: [], rates: server.rates.counts,
                web: server.listenerSet.web.counts,
                api: StatisticsSources.API(requests: 0, failures: 0), process: .now(),
                expiry: TrustExpiry(certificateDays: nil, revocationListDays: nil)))
        #expect(statistics.count > 80)
        let metrics = statistics.map { PrometheusText.metricName($0.name, isGauge: $0.isGauge) }
        #expect(Set(metrics).count == statistics.count)
        // OpenMetrics names a family of counters without the suffix.
        let families = metrics.map { $0.hasSuffix("_total") ? String($0.dropLast(6)) : $0 }
        #expect(Set(families).count == statistics.count)
    }
}
