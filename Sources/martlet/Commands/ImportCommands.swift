// `martlet import mosquitto`: users, rights, retained messages, sessions with their queues and a
// configuration from the files of a Mosquitto.

import Administration
import CommandLineOptions
import Files
import FoundationEssentials
import Glibc

enum ImportOption: String, AppRules {
    case data, server, ca, token, app, config, store, output, json
    case dryRun = "dry-run"

    var shape: OptionShape {
        switch self {
        case .json, .dryRun: .flag
        case .data, .server, .ca, .token, .app, .config, .store, .output: .value
        }
    }
}

enum ImportMosquittoCommand {
    /// Whom receivers see as the sender of what was retained.
    private static let sender = "mosquitto-import"
    /// Passwords in one request.
    private static let passwordsPerRequest = 200
    /// Bytes of texts in one request of at most 2 MiB: in JSON a byte may become six.
    private static let bytesPerRequest = 256 << 10

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ImportOption>.options(arguments)
        let path = try options.required(.config)
        let app = try options.app()
        let output = options[.output]
        // It may be the broker's own configuration.
        if let output, access(output, F_OK) == 0 {
            throw CommandFailure(
                "\(output) exists already: give --output another file", .failure)
        }
        var plan = ImportPlan(
            configuration: path, store: options[.store], app: app,
            unixSeconds: Int64(time(nil)))
        if !options.has(.dryRun) {
            let broker = try options.administration()
            if let output {
                do throws(FileFailure) {
                    try SmallFile.write(plan.configuration, to: output)
                } catch {
                    throw CommandFailure("cannot write \(output): \(error)", .failure)
                }
            }
            do {
                try setPasswords(&plan, broker)
                try retain(&plan, broker)
                try takeSessions(&plan, broker)
            } catch {
                // What the broker has refused so far is in no other place.
                _ = printLines(of: plan, options)
                StandardStream.error.print(
                    "martlet: the import has not ended: of these lines those with NOT TAKEN are "
                        + "settled, others may not be taken yet; run it again")
                throw error
            }
        }
        guard printLines(of: plan, options) else { return }
        StandardStream.error.print(
            "martlet: \(plan.report.summary)"
                + (options.has(.dryRun) ? "; nothing is changed (--dry-run)" : ""))
        if output == nil || options.has(.dryRun), !options.has(.json) {
            StandardStream.error.print(
                "martlet: --output FILE writes this configuration:\n\(plan.configuration)")
        }
        let refused = plan.report.count(.refused)
        if refused > 0 {
            throw CommandFailure(
                "\(counted(refused, "line")) of the report with NOT TAKEN: settle each by hand",
                .someRefused)
        }
    }

    /// Prints the report. Returns false if nobody reads it any more.
    private static func printLines(
        of plan: ImportPlan, _ options: ParsedOptions<ImportOption>
    ) -> Bool {
        for line in plan.report.lines {
            guard StandardStream.output.print(options.has(.json) ? jsonLine(line) : line.printed)
            else { return false }
        }
        return true
    }

    /// Sets the passwords in requests of many; of one that is refused, each alone, so that the
    /// report names those that the broker does not take.
    private static func setPasswords(
        _ plan: inout ImportPlan, _ broker: borrowing AdministrationConnection
    ) throws {
        var start = 0
        while start < plan.passwords.count {
            let end = endOfPiece(from: start, plan.passwords.count, passwordsPerRequest) { index in
                let password = plan.passwords[index]
                return password.name.utf8.count + (password.hash ?? "").utf8.count
                    + (password.rights ?? []).reduce(0) { $0 + $1.utf8.count + 1 }
            }
            let part = plan.passwords[start..<end]
            do throws(AdministrationError) {
                _ = try broker.send(request(part, app: plan.app))
            } catch {
                guard case .refused = error else { throw error }
                for index in start..<end { try setPassword(at: index, of: &plan, by: broker) }
            }
            start = end
        }
    }

    /// The end of a piece of a list that fits into a request. It has at least one item.
    private static func endOfPiece(
        from start: Int, _ count: Int, _ countMaximum: Int, byteCount: (Int) -> Int
    ) -> Int {
        var (end, sum) = (start, 0)
        while end < min(count, start + countMaximum) {
            sum += byteCount(end)
            if end > start, sum > bytesPerRequest { break }
            end += 1
        }
        return end
    }

    private static func setPassword(
        at index: Int, of plan: inout ImportPlan, by broker: borrowing AdministrationConnection
    ) throws {
        do throws(AdministrationError) {
            _ = try broker.send(request(plan.passwords[index...index], app: plan.app))
        } catch {
            guard case .refused(let refusal) = error else { throw error }
            plan.refuse(password: index, refusal.message)
        }
    }

    /// Sends the sessions with their queues in pieces. One that was begun goes on where the broker
    /// says.
    private static func takeSessions(
        _ plan: inout ImportPlan, _ broker: borrowing AdministrationConnection
    ) throws {
        guard !plan.sessions.isEmpty else { return }
        _ = try broker.send(AddUser(app: plan.app, user: sender))
        let total = plan.sessions.reduce(0) { $0 + $1.items.count }
        var (done, bar) = (0, ProgressBar())
        defer { bar.clear() }
        for index in plan.sessions.indices {
            let result = try take(plan.sessions[index], of: plan, broker)
            plan.settle(session: index, result)
            done += plan.sessions[index].items.count
            bar.show(UInt64(done), of: UInt64(total), "\(done) of \(total) queued messages")
        }
    }

    private static func take(
        _ session: SessionImport, of plan: ImportPlan, _ broker: borrowing AdministrationConnection
    ) throws(AdministrationError) -> SessionImport.Result {
        let now = Int64(time(nil))
        var result = SessionImport.Result()
        var start = 0
        var position: UInt64 = 0
        while true {
            let end = endOfPiece(
                from: start, session.items.count, ImportSession.countMaximum
            ) { plan.messages[session.items[$0].message]?.itemByteCount ?? 0 }
            let isLast = end == session.items.count
            let piece = ImportSession(
                app: plan.app, user: session.user, device: session.device,
                expirySeconds: session.expirySeconds, from: sender, position: position,
                messages: session.items[start..<end].compactMap { item in
                    plan.messages[item.message]?.item(qos: item.qos, unixSeconds: now)
                },
                filters: isLast ? session.filters : nil)
            let reply: ImportSession.Reply
            do throws(AdministrationError) {
                reply = try broker.send(piece)
            } catch {
                guard case .refused(let refusal) = error else { throw error }
                result.refusal = refusal.message
                result.reachedCount = start
                return result
            }
            position = reply.position
            switch reply.state {
            case "taken":
                result.refusedCount += reply.refusedCount
                result.refusedFilters += reply.refusedFilters
                if isLast { return result }
                start = end
            case "elsewhere" where start == 0 && position <= UInt64(session.items.count):
                // An import that was interrupted has sent these.
                start = Int(position)
            default:
                result.exists = true
                result.reachedCount = start
                return result
            }
        }
    }

    private static func request(
        _ passwords: ArraySlice<SetPassword>, app: String
    ) -> ImportPasswords {
        ImportPasswords(
            app: app, names: passwords.map(\.name), hashes: passwords.map { $0.hash ?? "" },
            users: passwords.map { $0.user ?? $0.name },
            rights: passwords.map { ($0.rights ?? []).joined(separator: "\n") })
    }

    /// Sends the retained messages in pieces, each with one commit on the broker's machine.
    private static func retain(
        _ plan: inout ImportPlan, _ broker: borrowing AdministrationConnection
    ) throws {
        guard !plan.retained.isEmpty else { return }
        _ = try broker.send(AddUser(app: plan.app, user: sender))
        let now = Int64(time(nil))
        var (start, bar) = (0, ProgressBar())
        defer { bar.clear() }
        while start < plan.retained.count {
            let end = endOfPiece(
                from: start, plan.retained.count, AdministrationLine.requestsTogetherMaximum
            ) { plan.retained[$0].itemByteCount }
            try retain(start..<end, of: &plan, at: now, by: broker)
            start = end
            let total = plan.retained.count
            bar.show(UInt64(end), of: UInt64(total), "\(end) of \(total) retained messages")
        }
    }

    /// Sends a piece, without the topics that somebody has published on since.
    private static func retain(
        _ piece: Range<Int>, of plan: inout ImportPlan, at now: Int64,
        by broker: borrowing AdministrationConnection
    ) throws(AdministrationError) {
        let app = plan.app
        let found = try broker.send(
            all: plan.retained[piece].map { ShowRetained(app: app, topic: $0.topic) })
        var taken: [Int] = []
        for (index, result) in zip(piece, found) {
            if case .success(let reply) = result, reply.message.from != sender {
                plan.refuse(
                    retained: index,
                    "\(reply.message.from) has published another one, which stays; to take this "
                        + "one, run martlet retained delete first")
            } else if case .success(let reply) = result, plan.retained[index].isSame(as: reply) {
                // Subscribers have it already.
                continue
            } else {
                taken.append(index)
            }
        }
        let messages = taken.map { plan.retained[$0] }
        let results = try broker.send(
            all: messages.map { message in
                SendMessage(
                    app: app, from: sender, topic: message.topic,
                    base64: Data(message.payload).base64EncodedString(),
                    contentType: message.contentType,
                    expirySeconds: message.expiresUnixSeconds.map { UInt64(max(1, $0 - now)) },
                    isRetained: true)
            })
        for (index, result) in zip(taken, results) {
            if case .failure(let refusal) = result { plan.refuse(retained: index, refusal.message) }
        }
    }
}
