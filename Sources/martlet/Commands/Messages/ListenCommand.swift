// `martlet listen`: prints messages, one line each, and acknowledges each when its line is written.

import CommandLineOptions
import MartletClient

enum ListenOption: String, ConnectionRules {
    case server, ca, token, device, timeout
    case topic, grade, count, json, state, expiry, applied, sync
    case transientSession = "transient-session"
    case will
    case willTo = "will-to"
    case willGroup = "will-group"
    case willBroadcast = "will-broadcast"
    case willTopic = "will-topic"
    case willDelay = "will-delay"

    var shape: OptionShape {
        switch self {
        case .json, .transientSession, .willBroadcast, .applied: .flag
        case .topic: .repeated
        case .server, .ca, .token, .device, .timeout, .grade, .count, .state, .expiry, .sync,
            .will, .willTo, .willGroup, .willTopic, .willDelay:
            .value
        }
    }

    var letter: Character? {
        switch self {
        case .timeout: "W"
        case .topic: "t"
        case .count: "C"
        default: nil
        }
    }
}

enum ListenCommand {
    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<ListenOption>.options(arguments)
        var settings = try options.clientSettings(deviceDefault: "")
        settings.acknowledgement = .byApplication
        settings.sessionExpirySeconds = try options.expirySeconds(.expiry)
        if options.has(.transientSession) {
            guard settings.sessionExpirySeconds == nil else {
                throw UsageError("--expiry and --transient-session exclude each other")
            }
            settings.sessionExpirySeconds = 0
        }
        if let word = options[.sync] {
            guard word == "push" || word == "pull" else {
                throw UsageError("--sync is push or pull, not \"\(word)\"")
            }
            settings.synchronization = word == "pull" ? .pull : .push
        }
        let stateFile = options[.state].map { InboxStateFile(path: $0) }
        settings.inbox = try stateFile?.read()
        let count = try options.integer(.count, in: 1...Int.max)
        let grade = try options[.grade].map { word throws(UsageError) in try Grade(word: word) }
        let seconds = try options.seconds(.timeout)
        let will = try ListenerWill(options)

        try await CommandStop.run(settings, seconds: seconds) { client, _ in
            try await client.connect()
            if let will {
                try await client.setWill(
                    to: will.destination, .text(will.text), delaySeconds: will.delaySeconds)
            }
            for filter in options.all(.topic) {
                try await client.subscribe(to: filter, grade: grade ?? .once)
            }
            let printer = MessagePrinter(isJSON: options.has(.json), stateFile: stateFile)
            try await follow(
                client, printer, count: count, tellsApplied: options.has(.applied))
        }
    }

    /// Prints messages until the count is reached, or the client has ended.
    private static func follow(
        _ client: Client, _ printer: MessagePrinter, count: Int?, tellsApplied: Bool
    ) async throws {
        var printedCount = 0
        for await event in client.events {
            switch event {
            case .message(let message):
                try printer.print(message)
                client.acknowledge(message)
                if tellsApplied, message.receipts.contains(.applied),
                    let reference = message.reference
                {
                    try await client.reportApplied(reference)
                }
                printedCount += 1
                if printedCount == count { return }
            case .connected(let terms):
                let unread = terms.unreadCount.map {
                    ", \($0 < 50 ? "" : "at least ")\(counted(UInt64($0), "conversation")) unread"
                }
                StandardStream.error.print(
                    "martlet: connected as \(printable(terms.user))\(unread ?? "")")
            case .disconnected(let disconnection):
                let reason = disconnection.reason?.explanation ?? disconnection.detail
                StandardStream.error.print(
                    "martlet: connection lost (\(printable(reason))); next attempt in "
                        + "\(disconnection.retryMilliseconds) ms")
            case .transientDropped(let count):
                StandardStream.error.print(
                    "martlet: \(count) transient messages came too fast and are lost")
            case .subscriptionLost(let filter, let reason):
                throw CommandFailure(
                    "the subscription to \(printable(filter)) is lost: \(reason.explanation)",
                    .refused(reason: reason.rawValue))
            case .willLost(let reason):
                throw CommandFailure(
                    "the will is lost: \(reason.explanation)",
                    .refused(reason: reason.rawValue))
            case .transientRefused: break
            }
        }
        if let reason = client.stopReason { throw MartletError.stopped(reason) }
    }
}

/// The will of the listener.
private struct ListenerWill {
    let destination: Destination
    let text: String
    let delaySeconds: UInt32

    /// Nil if none is requested.
    init?(_ options: ParsedOptions<ListenOption>) throws(UsageError) {
        let targets: [Destination?] = [
            options[.willTo].map { .user($0) }, options[.willGroup].map { .group($0) },
            options[.willTopic].map { .topic($0) },
            options.has(.willBroadcast) ? .everybody : nil,
        ]
        let chosen = targets.compactMap(\.self)
        guard let text = options[.will] else {
            guard chosen.isEmpty, !options.has(.willDelay) else {
                throw UsageError("missing --will TEXT")
            }
            return nil
        }
        guard chosen.count == 1 else {
            throw UsageError(
                "missing receiver of the will: one of --will-to, --will-group, --will-topic and "
                    + "--will-broadcast")
        }
        destination = chosen[0]
        self.text = text
        delaySeconds = UInt32(clamping: try options.duration(.willDelay) ?? 0)
    }
}
