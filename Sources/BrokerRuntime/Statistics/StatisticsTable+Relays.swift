// The statistics of what relays are told and report: wake-ups, and events of the broker.

extension StatisticsTable {
    static let relays: [Statistic] = [
        .gauge("wakes/users", of: "users", "Users with wake targets") {
            UInt64($0.gauges.wakeUsers)
        },
        .counter("wakes/requested", of: "requests", "Requests to relays to wake users") {
            $0.counters.wakesRequested
        },
        .counter(
            "wakes/joined", of: "messages",
            "Messages that waited for the next request, at the end of an interval"
        ) { $0.counters.wakesJoined },
        .counter(
            "wakes/shortened", of: "messages",
            "Of these: the next request does not describe the message, because those of 1,024 "
                + "other users are described"
        ) { $0.counters.wakesShortened },
        .counter(
            "wakes/withdrawn", of: "requests", "Requests that relays were told to forget"
        ) { $0.counters.wakesWithdrawn },
        .counter(
            "wakes/lost", of: "requests",
            "Requests that no queue took: the relay's user is not known, or its queue is full"
        ) { $0.counters.wakesLost },
        .counter(
            "wakes/reports", of: "entries", "Entries of the log of wake-ups that relays reported"
        ) { $0.counters.wakeReports },
        .counter(
            "wakes/reports/dropped", of: "entries",
            "Of `wakes/reports`, older entries that made room: 100 are kept of a user, 20,000 of "
                + "an app"
        ) { $0.counters.wakeReportsDropped },
        .counter(
            "events/told", of: "events", "Events of the broker that relays were told"
        ) { $0.counters.brokerEventsTold },
        .counter(
            "events/lost", of: "events",
            "Events that no queue took: the relay's user is not known, or its queue is full"
        ) { $0.counters.brokerEventsLost },
    ]
}
