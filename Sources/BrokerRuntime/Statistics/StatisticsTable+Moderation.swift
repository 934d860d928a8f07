// The statistics of messages that wait for moderators.

extension StatisticsTable {
    static let moderation: [Statistic] = [
        .gauge(
            "moderation/held", of: "messages", "Messages that wait for verdicts of moderators"
        ) { UInt64($0.gauges.heldMessages) },
        .counter(
            "moderation/questions", of: "questions", "Questions to moderators"
        ) { $0.counters.questionsAsked },
        .counter(
            "moderation/silent", of: "messages",
            "Messages on which no moderator decided in time, or of whom none was connected"
        ) { $0.counters.moderatorSilences },
        .counter(
            "moderation/refused", of: "messages", "Messages that moderators refused"
        ) { $0.counters.messagesRefusedByModerator },
        .counter(
            "moderation/rewritten", of: "messages", "Messages that moderators changed"
        ) { $0.counters.messagesRewritten },
        .counter(
            "moderation/late", of: "verdicts", "Verdicts on messages that wait for none"
        ) { $0.counters.verdictsLate },
        .counter(
            "moderation/invalid", of: "verdicts",
            "Verdicts whose topic, text or content is not allowed"
        ) { $0.counters.verdictsRefused },
        .counter(
            "moderation/over", of: "messages",
            "Messages that were refused because too many of their sender or their app wait for "
                + "verdicts"
        ) { $0.counters.heldOverLimit },
        .counter(
            "moderation/forgotten", of: "messages",
            "Messages whose connections ended before a verdict; their clients send them again"
        ) { $0.counters.heldForgotten },
    ]
}
