// `martlet listen`: prints messages, one line each, and acknowledges each when its line is written.

import CommandLineOptions
import MartletClient

enum ListenOption: String, ConnectionRules {
    case server, ca, token, device, timeout
    case topic, grade, count, json, state, expiry
    case transientSession = "transient-session"

    var shape: OptionShape {
        switch self {
        case .json, .transientSession: .flag
        case .topic: .repeated
        case .server, .ca, .token, .device, .timeout, .grade, .count, .state, .expiry: .value
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
        let stateFile = options[.state].map { InboxStateFile(path: $0) }
        settings.inbox = try stateFile?.read()
        let count = try options.integer(.count, in: 1...Int.max)
        let grade = try options[.grade].map { word throws(UsageError) in try Grade(word: word) }
        let seconds = try options.seconds(.timeout)

        let client = try Client(settings)
        let timer = Timeout(seconds: seconds, closing: client)
        defer { timer.cancel() }
        do {
            try await client.connect()
            for filter in options.all(.topic) {
                try await client.subscribe(to: filter, grade: grade ?? .once)
            }
            let printer = MessagePrinter(isJSON: options.has(.json), stateFile: stateFile)
            try await follow(client, printer, count: count)
        } catch  where timer.isOver {
            throw CommandFailure(timer.message, .timeout)
        }
        if timer.isOver { throw CommandFailure(timer.message, .timeout) }
        await client.close()
    }

    /// Prints until there were so many, or the client has ended.
    private static func follow(
        _ client: Client, _ printer: MessagePrinter, count: Int?
    ) async throws {
        var printedCount = 0
        for await event in client.events {
            switch event {
            case .message(let message):
                try printer.print(message)
                client.acknowledge(message)
                printedCount += 1
                if printedCount == count { return }
            case .connected(let terms):
                StandardStream.error.print("martlet: connected as \(printable(terms.user))")
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
            case .transientRefused: break
            }
        }
        if let reason = client.stopReason { throw MartletError.stopped(reason) }
    }
}
