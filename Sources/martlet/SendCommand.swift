// `martlet send`: one message from the command line, or one for each line of standard input.

import CommandLineOptions
import Glibc
import MartletClient
import Threads

enum SendOption: String, ConnectionRules {
    case server, ca, token, device, timeout
    case to, group, broadcast, topic, type, grade, expiry, bytes
    case messageID = "message-id"

    var shape: OptionShape {
        switch self {
        case .broadcast, .bytes: .flag
        case .server, .ca, .token, .device, .timeout, .to, .group, .topic, .type, .grade, .expiry,
            .messageID:
            .value
        }
    }

    var letter: Character? {
        switch self {
        case .timeout: "W"
        case .topic: "t"
        default: nil
        }
    }
}

enum SendCommand {
    /// Long enough for a broker that restarts; a script is not to hang for ever.
    private static let timeoutSecondsDefault: UInt64 = 60
    /// Lines on their way at a time: more than any send window, less than a client queues.
    private static let linesUnderWayMaximum = 1_000

    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<SendOption>.options(arguments, positionalMaximum: 1)
        let template = try Template(options)
        var settings = try options.clientSettings(deviceDefault: "send-\(getpid())")
        // It leaves nothing behind, and takes no mail that waits for the user.
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let client = try Client(settings)
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        let timer = Timeout(seconds: seconds, closing: client)
        do {
            try await client.connect()
            if let text = options.positionals.first {
                let receipt = try await client.send(template.message(text))
                try report(receipt.refusals, count: receipt.refusedCount)
            } else {
                try await sendLines(template, client)
            }
        } catch {
            await client.close()
            if timer.isOver { throw CommandFailure(timer.message, .timeout) }
            if case MartletError.refused(.topicNameInvalid, _) = error {
                throw CommandFailure(
                    "\(error)\(template.adviceOnName)",
                    .refused(reason: ReasonCode.topicNameInvalid.rawValue))
            }
            throw error
        }
        timer.cancel()
        await client.close()
    }

    /// Every line of standard input is a message; all are on their way at once.
    private static func sendLines(_ template: Template, _ client: Client) async throws {
        let progress = LineProgress(maximum: linesUnderWayMaximum)
        while let line = readLine(), await progress.makeRoom() {
            client.send(template.message(line)) { progress.ended($0) }
        }
        await progress.finish()
        if let failure = progress.failure { throw failure }
        try report(progress.refusals, count: progress.refusedCount)
    }

    /// Tells who was refused of what others got.
    private static func report(_ refusals: [Receipt.Refusal], count: UInt64) throws {
        guard count > 0 || !refusals.isEmpty else { return }
        for refusal in refusals {
            StandardStream.error.print(
                "martlet: not sent to \(printable(refusal.user)): "
                    + "\(refusal.reason.explanation)\(advice(refusal.reason))")
        }
        throw CommandFailure(
            "sent, but \(counted(max(count, UInt64(refusals.count)), "receiver")) refused it",
            .someRefused)
    }

    /// What a person can do about one refused receiver of a list.
    private static func advice(_ reason: ReasonCode) -> String {
        reason == .topicNameInvalid
            ? "; make a user known with martlet user add" : CommandFailure.advice(reason)
    }

    /// What all messages of one command have in common.
    private struct Template {
        private let destination: Destination
        private let type: UInt8
        private let isBytes: Bool
        private let grade: Grade
        private let messageID: String?
        private let expirySeconds: UInt32?

        init(_ options: ParsedOptions<SendOption>) throws(UsageError) {
            let choices = [
                options.has(.to), options.has(.group), options.has(.broadcast),
                options.has(.topic),
            ].count { $0 }
            guard choices == 1 else {
                throw UsageError(
                    "say who receives it: one of --to, --group, --broadcast and --topic")
            }
            if let users = options[.to] {
                let list = users.split(separator: ",").map(String.init)
                guard !list.isEmpty else { throw UsageError("--to names nobody") }
                destination = list.count == 1 ? .user(list[0]) : .users(list)
            } else if let group = options[.group] {
                destination = .group(group)
            } else if let topic = options[.topic] {
                destination = .topic(topic)
            } else {
                destination = .everybody
            }
            isBytes = options.has(.bytes)
            if isBytes, !options.has(.topic) { throw UsageError("--bytes needs --topic") }
            type = UInt8(try options.integer(.type, in: 0...255) ?? 0)
            grade =
                try options[.grade].map { word throws(UsageError) in try Grade(word: word) }
                ?? .durable
            messageID = options[.messageID]
            if messageID != nil, options.positionals.isEmpty {
                throw UsageError("--message-id is for one message: give its TEXT")
            }
            expirySeconds = try options.expirySeconds(.expiry)
        }

        /// What a person can do about a name that the broker does not know.
        var adviceOnName: String {
            switch destination {
            case .user, .users: "; make a user known with martlet user add"
            case .group: "; there is no such group: see martlet group list"
            case .topic: "; a topic has neither + nor #, and does not begin with $"
            case .everybody: ""
            }
        }

        func message(_ text: String) -> OutgoingMessage {
            let content: MessageContent =
                isBytes ? .bytes(Array(text.utf8)) : .text(text, type: type)
            var message = OutgoingMessage(to: destination, content, grade: grade)
            message.messageID = messageID
            message.expirySeconds = expirySeconds
            return message
        }
    }
}

/// Counts the lines that have no result yet. Used by the reader and by the client's thread.
private final class LineProgress: Sendable {
    private struct State {
        var underWay = 0
        var failure: MartletError?
        var refusals: [Receipt.Refusal] = []
        var refusedCount: UInt64 = 0
        var waiter: (limit: Int, CheckedContinuation<Void, Never>)?
    }

    /// Refusals that are named when many lines were sent: enough for a person to see whose they are.
    private static let namedMaximum = 100

    private let maximum: Int
    private let state = Locked(State())

    init(maximum: Int) {
        self.maximum = maximum
    }

    var failure: MartletError? { state.withLock { $0.failure } }
    /// The first of those that are named, and how many there were.
    var refusals: [Receipt.Refusal] { state.withLock { $0.refusals } }
    var refusedCount: UInt64 { state.withLock { $0.refusedCount } }

    /// Waits until one more line may be sent, and counts it; false when none shall be, because one
    /// has failed.
    func makeRoom() async -> Bool {
        await wait(below: maximum)
        return state.withLock { state in
            guard state.failure == nil else { return false }
            state.underWay += 1
            return true
        }
    }

    /// Waits until all have their result.
    func finish() async { await wait(below: 1) }

    func ended(_ result: Result<Receipt, MartletError>) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.underWay -= 1
            switch result {
            case .success(let receipt):
                let room = Self.namedMaximum - state.refusals.count
                state.refusals += receipt.refusals.prefix(max(0, room))
                state.refusedCount += max(receipt.refusedCount, UInt64(receipt.refusals.count))
            case .failure(let error): state.failure = state.failure ?? error
            }
            guard let (limit, waiter) = state.waiter, state.underWay < limit else { return nil }
            state.waiter = nil
            return waiter
        }
        waiter?.resume()
    }

    private func wait(below limit: Int) async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state.underWay < limit { return true }
                state.waiter = (limit, continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
