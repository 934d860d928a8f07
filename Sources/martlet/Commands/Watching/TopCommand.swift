// `martlet top`: who sends most, the deepest queues, the slowest readers and the latest refusals.

import Administration
import CommandLineOptions
import Glibc

enum TopOption: String, AdministrationRules {
    case data, server, ca, token, interval, count, once, json

    var shape: OptionShape { self == .once || self == .json ? .flag : .value }

    var letter: Character? { self == .count ? "n" : nil }
}

/// `martlet top`
enum TopCommand {
    /// Seconds between two pages: those of a measurement by the broker.
    private static let intervalDefault = 2
    private static let intervalMaximum = 60
    /// Refusals are counted for so long.
    private static let refusalSeconds: UInt64 = 60
    /// Erases the terminal and begins at its top (ECMA-48, CUP and ED).
    private static let erasing = "\u{1B}[H\u{1B}[2J"

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TopOption>.options(arguments)
        let interval = try options.integer(.interval, in: 1...intervalMaximum) ?? intervalDefault
        let count =
            try options.integer(.count, in: 1...ReadActivity.countMaximum)
            ?? ReadActivity.countDefault
        let broker = try options.administration()
        let isErasing = !options.has(.json) && isatty(StandardStream.output.rawValue) == 1
        // The broker measures from now on.
        var earlier = try broker.send(ReadStatistics())
        _ = try broker.send(ReadActivity(limit: count))
        while true {
            sleep(UInt32(interval))
            let statistics = try broker.send(ReadStatistics())
            let page = TopPage(
                try broker.send(ReadActivity(limit: count)),
                totals: TopPage.Totals(statistics, since: earlier, seconds: interval),
                refusals: refusals(
                    try broker.send(ListRefusals(limit: ListRefusals.countMaximum)).refusals,
                    count: count))
            earlier = statistics
            let text = options.has(.json) ? jsonLine(page) : page.text
            let isTaken = StandardStream.output.print((isErasing ? erasing : "") + text)
            if options.has(.once) || !isTaken { return }
        }
    }

    /// The refusals of the last minute by event, reason and user or address, the most frequent
    /// first.
    private static func refusals(
        _ refusals: [ListRefusals.Refusal], count: Int
    ) -> [TopPage.Refusal] {
        let newest = refusals.last?.unixMilliseconds ?? 0
        // The clock of another machine may differ.
        let now = max(UInt64(max(0, time(nil))) * 1_000, newest)
        var counts: [TopPage.Refusal: Int] = [:]
        for refusal in refusals where refusal.unixMilliseconds + refusalSeconds * 1_000 >= now {
            let host = refusal.address.map { String($0[..<($0.lastIndex(of: ":") ?? $0.endIndex)]) }
            let kind = TopPage.Refusal(
                event: refusal.event, reason: refusal.reason ?? "", user: refusal.user ?? "",
                address: host ?? "", count: 0)
            counts[kind, default: 0] += 1
        }
        return counts.map { kind, count in
            var refusal = kind
            refusal.count = count
            return refusal
        }.sorted { ($0.count, $1.event, $1.user) > ($1.count, $0.event, $0.user) }
            .prefix(count).map { $0 }
    }
}

/// One page, and the object of `--json`.
private struct TopPage: Encodable {
    struct Totals: Encodable {
        var brokerVersion: String
        var uptimeSeconds: UInt64
        var connectedCount: UInt64
        /// In a second, as the next three.
        var received: UInt64
        var sent: UInt64
        var connects: UInt64
        var refusedConnects: UInt64

        init(_ reply: ReadStatistics.Reply, since earlier: ReadStatistics.Reply, seconds: Int) {
            func value(_ name: String, in reply: ReadStatistics.Reply) -> UInt64 {
                reply.counters.first { $0.name == name }?.value ?? 0
            }
            func rate(_ name: String) -> UInt64 {
                let (now, before) = (value(name, in: reply), value(name, in: earlier))
                // Counters begin again when the broker starts.
                return (now >= before ? now - before : now) / UInt64(seconds)
            }
            brokerVersion = reply.brokerVersion
            uptimeSeconds = reply.uptimeSeconds
            connectedCount = value("clients/connected", in: reply)
            received = rate("messages/received")
            sent = rate("messages/sent")
            connects = rate("connects/accepted")
            refusedConnects = rate("connects/refused")
        }
    }

    struct Refusal: Encodable, Hashable {
        var event: String
        var reason: String
        var user: String
        var address: String
        var count: Int
    }

    var totals: Totals
    var milliseconds: UInt64
    var senders: [ReadActivity.Sender]
    var queues: [ReadActivity.Queue]
    var readers: [ReadActivity.Reader]
    var refusals: [Refusal]

    init(_ activity: ReadActivity.Reply, totals: Totals, refusals: [Refusal]) {
        self.totals = totals
        milliseconds = activity.milliseconds
        senders = activity.senders
        queues = activity.queues
        readers = activity.readers
        self.refusals = refusals
    }

    /// A line of totals, and four tables.
    var text: String {
        let milliseconds = max(1, milliseconds)
        func rate(_ count: UInt64) -> String {
            let tenths = count * 10_000 / milliseconds
            return tenths < 100 ? "\(tenths / 10).\(tenths % 10)" : "\(tenths / 10)"
        }
        func name(_ device: String?) -> String {
            device.map { $0.isEmpty ? "device without name" : $0 } ?? "offline queue"
        }
        var sections = [
            "martletd \(printable(totals.brokerVersion)), up \(totals.uptimeSeconds) s, "
                + "\(totals.connectedCount) connected; per second: \(totals.received) messages "
                + "received, \(totals.sent) sent, \(totals.connects) logins, "
                + "\(totals.refusedConnects) refused"
        ]
        func add(_ title: String, _ table: TextTable, isEmpty: Bool) {
            var table = table
            sections.append(
                isEmpty ? "\(title): none" : ([title] + table.takePage()).joined(separator: "\n"))
        }
        var table = TextTable("APP", "USER", "CONNECTIONS", "MESSAGES/S", "BYTES/S")
        for one in senders {
            table.add([
                one.app, one.user, "\(one.connectionCount)", rate(one.messageCount),
                rate(one.byteCount),
            ])
        }
        add("BUSIEST USERS", table, isEmpty: senders.isEmpty)
        table = TextTable("APP", "USER", "DEVICE", "STATE", "WAITING", "BYTES")
        for one in queues {
            table.add([
                one.app, one.user, name(one.device), one.isConnected ? "connected" : "away",
                "\(one.messageCount)", "\(one.byteCount)",
            ])
        }
        add("DEEPEST QUEUES", table, isEmpty: queues.isEmpty)
        table = TextTable("APP", "USER", "DEVICE", "UNSENT BYTES")
        for one in readers {
            table.add([one.app, one.user, name(one.device), "\(one.unsentByteCount)"])
        }
        add("SLOWEST READERS", table, isEmpty: readers.isEmpty)
        table = TextTable("EVENT", "REASON", "USER", "ADDRESS", "COUNT")
        for one in refusals {
            table.add([one.event, one.reason, one.user, one.address, "\(one.count)"])
        }
        add("REFUSALS OF THE LAST MINUTE", table, isEmpty: refusals.isEmpty)
        return sections.joined(separator: "\n\n")
    }
}
