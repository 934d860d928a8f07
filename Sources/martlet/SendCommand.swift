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
                try report(await client.send(template.message(text)))
            } else {
                try await sendLines(template, client)
            }
        } catch {
            await client.close()
            throw timer.isOver ? CommandFailure(timer.message, .timeout) : error
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
        for refusal in progress.refusals.prefix(1) { throw CommandFailure(refusal) }
    }

    /// Tells who was refused.
    private static func report(_ receipt: Receipt) throws {
        for refusal in receipt.refusals.dropFirst() {
            StandardStream.error.print("martlet: \(CommandFailure(refusal).message)")
        }
        if let first = receipt.refusals.first { throw CommandFailure(first) }
        if receipt.refusedCount > 0 {
            StandardStream.error.print(
                "martlet: sent, but refused for \(receipt.refusedCount) receivers")
        }
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
        var waiter: (limit: Int, CheckedContinuation<Void, Never>)?
    }

    private let maximum: Int
    private let state = Locked(State())

    init(maximum: Int) {
        self.maximum = maximum
    }

    var failure: MartletError? { state.withLock { $0.failure } }
    var refusals: [Receipt.Refusal] { state.withLock { $0.refusals } }

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
            case .success(let receipt): state.refusals += receipt.refusals
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

extension CommandFailure {
    fileprivate init(_ refusal: Receipt.Refusal) {
        self.init(
            "not sent to \(printable(refusal.user)): \(refusal.reason.explanation)"
                + Self.advice(refusal.reason),
            .refused(reason: refusal.reason.rawValue))
    }
}
