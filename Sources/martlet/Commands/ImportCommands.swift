// `martlet import mosquitto`: users, rights, retained messages and a configuration from the files
// of a Mosquitto.

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
    /// Passwords in one request: with the longest rights they fit into it.
    private static let passwordsPerRequest = 200

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ImportOption>.options(arguments)
        let path = try options.required(.config)
        let app = try options.app()
        var plan = ImportPlan(
            configuration: path, store: options[.store], app: app,
            unixSeconds: Int64(time(nil)))
        if !options.has(.dryRun) {
            let broker = try options.administration()
            try setPasswords(&plan, broker)
            try retain(&plan, broker)
        }
        if let file = options[.output] {
            do throws(FileFailure) {
                try SmallFile.write(plan.configuration, to: file)
            } catch {
                throw CommandFailure("\(error)", .failure)
            }
        }
        for line in plan.report.lines {
            let text =
                options.has(.json)
                ? jsonLine(line) : "\(name(of: line.verdict))\t\(line.place)\t\(line.text)"
            guard StandardStream.output.print(text) else { return }
        }
        StandardStream.error.print(
            "martlet: \(plan.report.summary)"
                + (options.has(.dryRun) ? "; nothing is changed (--dry-run)" : ""))
        if options[.output] == nil, !options.has(.json) {
            StandardStream.error.print(
                "martlet: --output FILE writes this configuration:\n\(plan.configuration)")
        }
    }

    private static func name(of verdict: ImportReport.Verdict) -> String {
        switch verdict {
        case .taken: "taken"
        case .changed: "changed"
        case .refused: "NOT TAKEN"
        case .ignored: "ignored"
        }
    }

    /// Sets the passwords in requests of many; of one that is refused, each alone, so that the
    /// report names those that the broker does not take.
    private static func setPasswords(
        _ plan: inout ImportPlan, _ broker: borrowing AdministrationConnection
    ) throws {
        var start = 0
        while start < plan.passwords.count {
            let end = min(start + passwordsPerRequest, plan.passwords.count)
            let part = plan.passwords[start..<end]
            do throws(AdministrationError) {
                _ = try broker.send(
                    ImportPasswords(
                        app: plan.app, names: part.map(\.name), hashes: part.map { $0.hash ?? "" },
                        users: part.map { $0.user ?? $0.name },
                        rights: part.map { ($0.rights ?? []).joined(separator: "\n") }))
            } catch {
                guard case .refused = error else { throw error }
                for index in start..<end { try setPassword(at: index, of: &plan, by: broker) }
            }
            start = end
        }
    }

    private static func setPassword(
        at index: Int, of plan: inout ImportPlan, by broker: borrowing AdministrationConnection
    ) throws {
        do throws(AdministrationError) {
            _ = try broker.send(plan.passwords[index])
        } catch {
            guard case .refused(let refusal) = error else { throw error }
            plan.refuse(password: index, refusal.message)
        }
    }

    private static func retain(
        _ plan: inout ImportPlan, _ broker: borrowing AdministrationConnection
    ) throws {
        guard !plan.retained.isEmpty else { return }
        _ = try broker.send(AddUser(app: plan.app, user: sender))
        let now = Int64(time(nil))
        for (index, message) in plan.retained.enumerated() {
            do throws(AdministrationError) {
                _ = try broker.send(
                    SendMessage(
                        app: plan.app, from: sender, topic: message.topic,
                        base64: Data(message.payload).base64EncodedString(),
                        contentType: message.contentType,
                        expirySeconds: message.expiresUnixSeconds.map { UInt64(max(1, $0 - now)) },
                        isRetained: true))
            } catch {
                guard case .refused(let refusal) = error else { throw error }
                plan.refuse(retained: index, refusal.message)
            }
        }
    }
}
