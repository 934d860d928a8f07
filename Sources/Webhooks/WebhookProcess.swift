// A whole relay: one thread until it is stopped, beside that of the client.

import ClientProgram
import CommandLineOptions
import MartletClient
import Relay

/// A webhook relay until it is stopped, or cannot continue.
public enum WebhookProcess {
    /// Runs it on the calling thread.
    public static func run(
        _ settings: WebhookSettings, _ control: RelayControl
    ) throws(RelayFailure) -> RelayEnd {
        try RelayProcess.run(settings.relay, control) { record, session in
            WebhookRelay(settings, record: record, session: session, waker: control.waker)
        }
    }
}

/// The dead letters of a relay, which may run.
public enum WebhookDeadLetters {
    /// One line for each, with its number first.
    public static func list(_ settings: WebhookSettings) throws(RecordFailure) -> [String] {
        try RecordFile<RecordContent>.content(of: settings.relay.stateFile).deadLetters.map(\.line)
    }

    /// Asks the relay to send some again; one that does not run does it at its next start.
    ///
    /// - Parameter number: nil for all, and for the events of hooks that are disabled.
    /// - Returns: how many; nil if nothing waits, or there is none of this number.
    public static func resend(
        _ settings: WebhookSettings, number: UInt64?
    ) throws(RecordFailure) -> Int? {
        let names = Set(settings.hooks.map(\.name))
        let content = try RecordFile<RecordContent>.content(of: settings.relay.stateFile)
        let sequences = content.deadLetters.filter { names.contains($0.delivery.hook) }
            .map(\.delivery.sequence).filter { number == nil || $0 == number }
        guard !sequences.isEmpty || (number == nil && !content.deliveries.isEmpty) else {
            return nil
        }
        let everyHook = number == nil ? [EventDispatcher.everyHook] : []
        try ResendRequest(stateFile: settings.relay.stateFile).write(everyHook + sequences)
        return sequences.count
    }
}

extension DeadLetter {
    /// A line for people and scripts, with the beginning of the event.
    fileprivate var line: String {
        "number=\(delivery.sequence) time=\(LogTime.text(unixMilliseconds: time)) "
            + "hook=\(delivery.hook) id=\(delivery.identifier) cause=\(cause.name) "
            + "status=\(status) body=\(quoted(delivery.body))"
    }
}
