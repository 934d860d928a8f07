// `martlet send --wait`: waits until the receivers of a message have it, or have applied it.

import CommandLineOptions
import MartletClient

extension Receipts {
    /// What `--receipt` and `--wait` ask for.
    init(_ options: ParsedOptions<SendOption>) {
        self = options.has(.receipt) ? [.delivered, .applied] : []
        switch options[.wait] {
        case "delivered": insert(.delivered)
        case "applied": insert(.applied)
        default: break
        }
    }
}

/// The receipts that a command waits for.
struct AwaitedReceipt {
    /// Receivers that are named when the time is over.
    private static let namedMaximum = 10

    private let isApplied: Bool
    private let isJSON: Bool

    /// Nil if the command does not wait.
    init?(_ options: ParsedOptions<SendOption>) throws(UsageError) {
        guard let word = options[.wait] else { return nil }
        guard word == "delivered" || word == "applied" else {
            throw UsageError("--wait is delivered or applied, not \"\(word)\"")
        }
        guard options.positionals.first != nil else {
            throw UsageError("missing TEXT: --wait is for one message")
        }
        isApplied = word == "applied"
        isJSON = options.has(.json)
    }

    /// Prints the receipts of a message until all receivers have given theirs.
    ///
    /// - Parameters:
    ///   - receivers: the users that the message names; nil for a group, whose receipts count.
    ///   - group: the group of the message; nil for users.
    func wait(
        for sent: MartletClient.Receipt, of receivers: Set<String>?, group: String?,
        client: Client, stop: CommandStop
    ) async throws {
        guard let reference = sent.reference else { return }
        var hasReceivers = sent.hasReceivers
        if hasReceivers, let group {
            // Other devices of a sender who is the only member give no receipts.
            hasReceivers = try await client.describe(group).memberCount > 1
        }
        guard hasReceivers else {
            throw CommandFailure("sent, and nobody receives it", .notApplied)
        }
        let printer = MessagePrinter(isJSON: isJSON, stateFile: nil)
        var progress = Progress(
            isApplied: isApplied,
            missing: receivers?.subtracting(sent.refusals.map(\.user)))
        for await event in client.events where !progress.isComplete {
            guard case .message(let message) = event,
                case .receipt(let receipt?) = message.kind, receipt.reference == reference
            else { continue }
            try printer.print(message)
            progress.take(receipt.event, from: message.from)
            guard !progress.isComplete else { break }
        }
        if progress.isComplete {
            if let failure = progress.failure { throw CommandFailure(failure, .notApplied) }
            return
        }
        if let reason = client.stopReason { throw MartletError.stopped(reason) }
        guard let failure = stop.failure, failure.code == .timeout else { return }
        throw CommandFailure(
            "the time given with --timeout is over, and message \(reference) is not "
                + "\(isApplied ? "applied" : "delivered") by \(progress.missingText); "
                + "it waits until it expires",
            .timeout)
    }

    /// The receipts that came.
    private struct Progress {
        let isApplied: Bool
        /// Users without a receipt; nil for a group.
        var missing: Set<String>?
        /// The last counts of a group.
        var counts: (done: UInt32, members: UInt32)?
        /// Why the message was not applied.
        var failure: String?

        init(isApplied: Bool, missing: Set<String>?) {
            self.isApplied = isApplied
            self.missing = missing
        }

        var isComplete: Bool {
            missing?.isEmpty ?? counts.map { $0.done >= $0.members } ?? false
        }

        mutating func take(_ event: MessageReceipt.Event, from user: String) {
            switch event {
            case .delivered where !isApplied: missing?.remove(user)
            case .applied(_, let code, let text) where isApplied:
                missing?.remove(user)
                guard code >= 0x80 else { break }
                failure =
                    "\(printable(user)) did not apply it: code \(code) \(printable(text))"
            case .counts(_, let delivered, let applied, let failed, let members):
                counts = (isApplied ? applied : delivered, members)
                if isApplied, failed > 0 {
                    failure = "\(failed) of \(members) members did not apply it"
                }
            case .delivered, .applied, .other: break
            }
        }

        var missingText: String {
            guard let missing else {
                guard let counts else { return "any member" }
                return "\(counts.members - counts.done) of \(counts.members) members"
            }
            let named = missing.sorted().prefix(AwaitedReceipt.namedMaximum).map(printable)
            let rest = missing.count - named.count
            return named.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
        }
    }
}
