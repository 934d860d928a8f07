// A whole relay: one thread until it is stopped, beside that of the client.

import ClientProgram
import CommandLineOptions
import MartletClient
import Relay

/// Runs a relay until ``RelayControl/drain()``, or until it cannot continue.
public enum WebhookProcess {
    /// Why a relay ended.
    public enum End: Sendable {
        case stopped
        /// The broker refuses it permanently.
        case refused(String)
    }

    /// The reason why a relay could not start or continue.
    public enum Failure: Error {
        case record(RecordFailure)
        case client(MartletError)
    }

    /// Runs it on the calling thread.
    public static func run(
        _ settings: WebhookSettings, _ control: RelayControl
    ) throws(Failure) -> End {
        let record: RecordFile<RecordContent>
        do throws(RecordFailure) {
            record = try RecordFile<RecordContent>.open(settings.relay.stateFile)
        } catch {
            throw .record(error)
        }
        let session: BrokerSession
        do throws(MartletError) {
            session = try BrokerSession(
                settings.relay, position: record.stored.position, inputs: control.inputs)
        } catch {
            throw .client(error)
        }
        var relay = WebhookRelay(
            settings, record: record, session: session, inputs: control.inputs,
            waker: control.waker)
        do throws(RecordFailure) {
            return try relay.run()
        } catch {
            throw .record(error)
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
