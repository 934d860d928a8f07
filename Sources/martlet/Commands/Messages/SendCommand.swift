// `martlet send`: one message from the command line, or one for each line of standard input. With
// `--as` an operator sends one as a user.

import Administration
import CommandLineOptions
import Glibc
import MartletClient

enum SendOption: String, ConnectionRules, AppRules {
    case server, ca, token, device, timeout, data, app
    case sender = "as"
    case retain, history, receipt, reference, wait, collapse, json
    case noHistory = "no-history"
    case historyOnly = "history-only"
    case time, late
    case to, group, broadcast, topic, type, grade, expiry, bytes
    case messageID = "message-id"
    case attribute, mention, priority
    case mentionAll = "mention-all"
    case onlyMentioned = "only-mentioned"

    var shape: OptionShape {
        switch self {
        case .broadcast, .bytes, .retain, .history, .noHistory, .historyOnly, .receipt, .reference,
            .late, .mentionAll, .onlyMentioned, .json:
            .flag
        case .attribute, .mention: .repeated
        case .server, .ca, .token, .device, .timeout, .data, .app, .sender, .to, .group, .topic,
            .type, .grade, .expiry, .wait, .collapse, .priority, .messageID, .time:
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

    static var foreignNames: [String: String] {
        [
            "m": "TEXT without an option", "message": "TEXT without an option", "q": "--grade",
            "qos": "--grade", "p": "--server", "P": "--token", "i": "--device", "r": "--retain",
            "cafile": "--ca",
        ]
    }
}

enum SendCommand {
    /// Long enough for a broker that restarts; a script must not hang forever.
    private static let timeoutSecondsDefault: UInt64 = 60
    /// Unanswered lines at a time: more than any send window, fewer than a client queues.
    private static let linesUnderWayMaximum: UInt64 = 1_000

    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<SendOption>.options(arguments, positionalMaximum: 1)
        let template = try Template(options)
        let awaited = try AwaitedReceipt(options)
        if options.has(.sender) {
            try sendAsOperator(template, options)
            return
        }
        for option in [SendOption.data, .app, .retain] where options.has(option) {
            throw UsageError("--\(option.rawValue) needs --as")
        }
        var settings = try options.clientSettings(deviceDefault: "send-\(getpid())")
        // A transient session, which receives none of the user's waiting messages.
        settings.sessionExpirySeconds = 0
        if !options.positionals.isEmpty { settings.inboxWindow = 1 }
        let timeout = try options.seconds(.timeout)
        try await CommandStop.run(settings, seconds: timeout ?? timeoutSecondsDefault) {
            client, stop in
            try await client.connect()
            if let text = options.positionals.first {
                let receipt: Receipt
                do throws(MartletError) {
                    receipt = try await client.send(template.message(text))
                } catch {
                    throw template.failure(error)
                }
                if let reference = receipt.reference,
                    options.has(.receipt) || options.has(.reference)
                {
                    StandardStream.output.print(template.line(reference))
                }
                var refusal: CommandFailure?
                do throws(CommandFailure) {
                    try report(receipt.refusals, count: receipt.refusedCount)
                } catch {
                    // The others have the message, and are waited for.
                    refusal = error
                }
                try await awaited?.wait(
                    for: receipt, of: template.receivers, group: template.group,
                    client: client, stop: stop)
                if let refusal { throw refusal }
            } else {
                try await sendLines(
                    template, client: client, stop: stop, hasTimeout: timeout != nil)
            }
        }
    }

    /// One message of an operator, who has no session.
    private static func sendAsOperator(
        _ template: Template, _ options: ParsedOptions<SendOption>
    ) throws {
        for option in [SendOption.device, .timeout, .messageID, .wait] where options.has(option) {
            throw UsageError("--\(option.rawValue) and --as exclude each other")
        }
        guard let text = options.positionals.first else {
            throw UsageError("missing TEXT: --as sends one message")
        }
        let app = try options.app()
        var request = SendMessage(app: app, from: try options.required(.sender))
        template.fill(&request, text)
        request.isRetained = options.has(.retain) ? true : nil
        let reply = try options.administration().send(request)
        if let reference = reply.reference {
            StandardStream.output.print(template.line(reference))
        }
        for refusal in reply.refused {
            let reason = ReasonCode(rawValue: refusal.reason) ?? .unspecifiedError
            StandardStream.error.print(
                "martlet: not sent to \(printable(refusal.user)): "
                    + "\(reason.explanation)\(advice(reason))")
        }
        guard reply.refusedCount > 0 else { return }
        throw CommandFailure(
            "sent, but \(counted(UInt64(reply.refusedCount), "receiver")) refused it",
            .someRefused)
    }

    /// Every line of standard input is a message; lines are sent without waiting for answers. The
    /// client stays connected while there is no input, and reconnects if the connection is lost.
    ///
    /// - Parameter hasTimeout: whether the whole command has a time limit. Otherwise only the
    ///   broker's answers have one, and the command waits for input without a limit.
    private static func sendLines(
        _ template: Template, client: Client, stop: CommandStop, hasTimeout: Bool
    ) async throws {
        if !hasTimeout { stop.limit(seconds: nil) }
        // Messages for the user also come here. Unread they would fill the queue of this session,
        // and then no more could be sent to the user.
        let discarding = Task { for await _ in client.events {} }
        defer { discarding.cancel() }
        let reader = LineReader()
        let progress = LineProgress(maximum: linesUnderWayMaximum) { reader.cancel() }
        stop.whenEnded { reader.cancel() }
        var inputFailure: CommandFailure?
        do throws(CommandFailure) {
            try reader.start()
            while await progress.awaitRoom(), let bytes = try await reader.next() {
                let message = try template.message(line: bytes, progress.sentCount + 1)
                let line = progress.begin()
                client.send(message) { result in
                    if case .success(let receipt) = result, let reference = receipt.reference {
                        StandardStream.output.print(template.line(reference, of: line))
                    }
                    progress.ended(line, result)
                }
            }
        } catch {
            inputFailure = error
        }
        if !hasTimeout { stop.limit(seconds: timeoutSecondsDefault) }
        await progress.finish()
        let failure = progress.failure.map { line, error in
            let cause = template.failure(error)
            return CommandFailure("line \(line): \(cause.message)", cause.code)
        }
        try report(
            progress, stop.failure ?? inputFailure ?? failure, untakenCount: reader.untakenCount)
    }

    /// Throws with the number of acknowledged lines, unless all were acknowledged.
    private static func report(
        _ progress: LineProgress, _ failure: CommandFailure?, untakenCount: Int
    ) throws {
        if let failure {
            let (sent, answered) = (progress.sentCount, progress.answeredCount)
            var counts = "\(counted(answered, "line")) acknowledged"
            if sent > answered { counts += ", \(sent - answered) not" }
            if untakenCount > 0 { counts += ", \(untakenCount) read and not sent" }
            throw CommandFailure("\(failure.message) (\(counts))", failure.code)
        }
        try report(progress.refusals, count: progress.refusedCount)
    }

    /// Throws with the refused receivers of messages that others received.
    private static func report(
        _ refusals: [Receipt.Refusal], count: UInt64
    ) throws(CommandFailure) {
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

    /// Advice about one refused receiver of a list.
    private static func advice(_ reason: ReasonCode) -> String {
        reason == .topicNameInvalid
            ? "; make a user known with martlet user add" : CommandFailure.advice(reason)
    }

    /// The common properties of all messages of one command.
    private struct Template {
        private let destination: Destination
        private let type: UInt8
        private let isBytes: Bool
        private let isJSON: Bool
        private let grade: Grade
        private let messageID: String?
        private let expirySeconds: UInt32?
        /// nil: the default of the group or the app.
        private let isKept: Bool?
        /// False for messages that are only kept.
        private let isDelivered: Bool
        private let unixMilliseconds: UInt64?
        private let isLate: Bool
        private let attributes: [String: String]
        private let mentions: Mentions?
        private let priority: SendPriority
        private let receipts: Receipts
        private let asksReference: Bool
        private let collapseKey: String?

        init(_ options: ParsedOptions<SendOption>) throws(UsageError) {
            let choices = [
                options.has(.to), options.has(.group), options.has(.broadcast),
                options.has(.topic),
            ].count { $0 }
            guard choices == 1 else {
                throw UsageError(
                    "missing receiver: one of --to, --group, --broadcast and --topic")
            }
            if let users = options[.to] {
                let list = users.split(separator: ",").map(String.init)
                guard !list.isEmpty else { throw UsageError("--to is empty") }
                destination = list.count == 1 ? .user(list[0]) : .users(list)
            } else if let group = options[.group] {
                destination = .group(group)
            } else if let topic = options[.topic] {
                destination = .topic(topic)
            } else {
                destination = .everybody
            }
            isBytes = options.has(.bytes)
            isJSON = options.has(.json)
            if isBytes, !options.has(.topic) { throw UsageError("--bytes needs --topic") }
            type = UInt8(try options.integer(.type, in: 0...255) ?? 0)
            grade =
                try options[.grade].map { word throws(UsageError) in try Grade(word: word) }
                ?? .durable
            messageID = options[.messageID]
            if messageID != nil, options.positionals.isEmpty {
                throw UsageError("missing TEXT: --message-id is for one message")
            }
            expirySeconds = try options.expirySeconds(.expiry)
            receipts = Receipts(options)
            if !receipts.isEmpty, options.has(.broadcast) || options.has(.topic) {
                throw UsageError("--receipt and --wait need --to or --group")
            }
            if !receipts.isEmpty, grade == .transient {
                throw UsageError("--receipt and --wait need the grade durable or once")
            }
            asksReference = options.has(.reference)
            collapseKey = options[.collapse]
            if asksReference || collapseKey != nil {
                let name = collapseKey == nil ? "--reference" : "--collapse"
                if options.has(.broadcast) || options.has(.topic) {
                    throw UsageError("\(name) needs --to or --group")
                }
                if grade == .transient {
                    throw UsageError("\(name) needs the grade durable or once")
                }
            }
            guard !options.has(.history) || !options.has(.noHistory) else {
                throw UsageError("--history and --no-history exclude each other")
            }
            isDelivered = !options.has(.historyOnly)
            if !receipts.isEmpty, !isDelivered {
                throw UsageError("--receipt and --wait exclude --history-only")
            }
            let asksHistory = options.has(.history) || !isDelivered
            guard isDelivered || !options.has(.noHistory) else {
                throw UsageError("--history-only and --no-history exclude each other")
            }
            isKept = asksHistory ? true : options.has(.noHistory) ? false : nil
            if asksHistory, options.has(.broadcast) || options.has(.topic) {
                throw UsageError("--history needs --to or --group")
            }
            if asksHistory, grade == .transient {
                throw UsageError("--history needs the grade durable or once")
            }
            unixMilliseconds = try options.integer(.time, in: 1...Int.max).map(UInt64.init)
            isLate = options.has(.late)
            guard unixMilliseconds == nil || isLate || !isDelivered else {
                throw UsageError("--time needs --late or --history-only")
            }
            guard !isLate || unixMilliseconds != nil else {
                throw UsageError("--late needs --time")
            }
            var attributes: [String: String] = [:]
            for text in options.all(.attribute) {
                guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
                    throw UsageError("--attribute needs KEY=VALUE, not \"\(text)\"")
                }
                let key = String(text[..<equals])
                guard attributes[key] == nil else {
                    throw UsageError("--attribute \(key) is given twice")
                }
                attributes[key] = String(text[text.index(after: equals)...])
            }
            self.attributes = attributes
            let users = options.all(.mention)
            let isMention = !users.isEmpty || options.has(.mentionAll)
            if isMention, !options.has(.group) {
                throw UsageError("--mention and --mention-all need --group")
            }
            if options.has(.onlyMentioned), !isMention {
                throw UsageError("--only-mentioned needs --mention or --mention-all")
            }
            mentions =
                isMention
                ? Mentions(
                    of: users, all: options.has(.mentionAll), only: options.has(.onlyMentioned))
                : nil
            priority =
                try options[.priority].map { word throws(UsageError) in try SendPriority(word: word)
                }
                ?? .normal
            if priority != .normal, grade != .transient {
                throw UsageError("--priority needs the grade transient")
            }
        }

        /// An error of a send, with advice about what the broker refuses. The result of a send has
        /// no text.
        func failure(_ error: MartletError) -> CommandFailure {
            guard case .refused(let reason, _) = error, let advice = advice(reason) else {
                return CommandFailure(error)
            }
            return CommandFailure("\(error)\(advice)", .refused(reason: reason.rawValue))
        }

        private func advice(_ reason: ReasonCode) -> String? {
            switch reason {
            case .topicNameInvalid:
                switch destination {
                case .user, .users: "; make a user known with martlet user add"
                case .group: "; there is no such group: see martlet group list"
                case .topic: "; a topic has neither + nor #, and does not begin with $"
                case .everybody: ""
                }
            case .notAuthorized where !receipts.isEmpty:
                "; this token has no right to send it, or none to ask for receipts "
                    + "(receipts:USER, receipts:GROUP): martlet refusals tells which"
            case .quotaExceeded where !receipts.isEmpty:
                "; a queue or the store is full, or this user has as many messages with receipts "
                    + "as limits.trackedSendsPerUser allows: martlet refusals tells which"
            case .payloadFormatInvalid where isLate:
                "; --time is in Unix milliseconds, not older than messages may become (7 days) "
                    + "and not in the future"
            case .payloadFormatInvalid where !attributes.isEmpty:
                "; an attribute has a name or a value that is not allowed, or the text is not "
                    + "UTF-8"
            default: nil
            }
        }

        /// The line that tells the reference of a message.
        ///
        /// - Parameter line: the line of standard input that it was; nil for one message.
        func line(_ reference: some CustomStringConvertible, of line: UInt64? = nil) -> String {
            if isJSON {
                let number = line.map { #""line":\#($0),"# } ?? ""
                return #"{\#(number)"reference":"\#(reference)"}"#
            }
            return (line.map { "line \($0): " } ?? "") + "reference \(reference)"
        }

        func message(_ text: String) -> OutgoingMessage {
            message(isBytes ? .bytes(Array(text.utf8)) : .text(text, type: type))
        }

        /// One line of input, unchanged with `--bytes`; otherwise as text, without the carriage
        /// return of files from other systems.
        func message(line: [UInt8], _ number: UInt64) throws(CommandFailure) -> OutgoingMessage {
            if isBytes { return message(.bytes(line)) }
            let characters = line.last == UInt8(ascii: "\r") ? line.dropLast() : line[...]
            guard let text = String(validating: characters, as: UTF8.self) else {
                throw CommandFailure(
                    "line \(number) is not UTF-8; --bytes with --topic sends bytes as they are",
                    .failure)
            }
            return message(.text(text, type: type))
        }

        /// The same message as an operator's request.
        func fill(_ request: inout SendMessage, _ text: String) {
            switch destination {
            case .user(let user): request.users = [user]
            case .users(let users): request.users = users
            case .group(let group): request.group = group
            case .topic(let topic): request.topic = topic
            case .everybody: request.everybody = true
            }
            if isBytes { request.payload = text } else { (request.t, request.b) = (type, text) }
            request.grade =
                switch grade {
                case .transient: .transient
                case .durable: .durable
                case .once: .once
                }
            request.expirySeconds = expirySeconds.map(UInt64.init)
            request.collapse = collapseKey
            request.asksReference = asksReference ? true : nil
            request.isKept = isKept
            if !isDelivered { request.isDelivered = false }
            request.unixMilliseconds = unixMilliseconds
            request.isLate = isLate ? true : nil
            request.attributes = attributes.isEmpty ? nil : attributes
            if let mentions {
                request.mentions = mentions.users
                request.mentionsAll = mentions.areAll ? true : nil
                request.onlyMentioned = mentions.areOnlyReceivers ? true : nil
            }
            request.priority =
                switch priority {
                case .low: .low
                case .normal: nil
                case .high: .high
                }
            if !receipts.isEmpty {
                request.receipts =
                    (receipts.contains(.delivered) ? ["delivered"] : [])
                    + (receipts.contains(.applied) ? ["applied"] : [])
            }
        }

        /// The receivers whose receipts are awaited; nil for a group, whose receipts count.
        var receivers: Set<String>? {
            switch destination {
            case .user(let user): [user]
            case .users(let users): Set(users)
            case .group, .everybody, .topic: nil
            }
        }

        /// The group of the message; nil for other receivers.
        var group: String? {
            if case .group(let group) = destination { group } else { nil }
        }

        private func message(_ content: MessageContent) -> OutgoingMessage {
            var message = OutgoingMessage(to: destination, content, grade: grade)
            message.messageID = messageID
            message.expirySeconds = expirySeconds
            message.isKept = isKept
            message.isDelivered = isDelivered
            message.time = unixMilliseconds
            message.isLate = isLate
            message.attributes = attributes
            message.mentions = mentions
            message.priority = priority
            message.receipts = receipts
            message.asksReference = asksReference
            message.collapseKey = collapseKey
            return message
        }
    }
}
