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
    private let isApplied: Bool

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
    }

    /// Prints the receipts of a message until all receivers have given theirs.
    ///
    /// - Parameter receiverCount: users that the message names; nil for a group.
    func wait(
        for reference: MessageReference, _ receiverCount: Int?, _ client: Client
    ) async throws {
        let printer = MessagePrinter(isJSON: false, stateFile: nil)
        var missingCount = receiverCount ?? 1
        var failure: CommandFailure?
        for await event in client.events {
            guard case .message(let message) = event else { continue }
            guard case .receipt(let receipt?) = message.kind, receipt.reference == reference else {
                continue
            }
            try printer.print(message)
            switch receipt.event {
            case .delivered where !isApplied: missingCount -= 1
            case .applied(_, let code, let text) where isApplied:
                missingCount -= 1
                if code >= 0x80 {
                    failure = CommandFailure(
                        "\(printable(message.from)) did not apply it: code \(code) "
                            + printable(text),
                        .failure)
                }
            case .counts(_, let delivered, let applied, let failed, let members):
                if (isApplied ? applied : delivered) == members { missingCount = 0 }
                if missingCount == 0, isApplied, failed > 0 {
                    failure = CommandFailure(
                        "\(failed) of \(members) members did not apply it", .failure)
                }
            case .delivered, .applied, .other: break
            }
            guard missingCount > 0 else { break }
        }
        if let failure { throw failure }
        if missingCount > 0, let reason = client.stopReason { throw MartletError.stopped(reason) }
    }
}
