// A whole relay: its record, its session, and its loop, on the calling thread.

import MartletClient

/// Why a relay ended.
public enum RelayEnd: Sendable {
    /// It was asked to.
    case stopped
    /// The broker refuses it permanently.
    case refused(String)
}

/// The reason why a relay could not start or continue.
public enum RelayFailure: Error {
    case record(RecordFailure)
    case client(MartletError)
    /// The system has no thread for it.
    case noThread
}

package enum RelayProcess {
    /// Runs a relay until ``RelayControl/drain()``, or until it cannot continue.
    ///
    /// - Parameters:
    ///   - hasBroker: false for a relay whose inputs come from a test.
    ///   - make: makes what the loop runs, of the record and of the session; nil without a broker.
    package static func run<Work: RelayWork & ~Copyable>(
        _ settings: RelaySettings, _ control: RelayControl, hasBroker: Bool = true,
        make: (consuming RecordFile<Work.Content>, BrokerSession?) -> Work
    ) throws(RelayFailure) -> RelayEnd {
        let record: RecordFile<Work.Content>
        do throws(RecordFailure) {
            record = try RecordFile<Work.Content>.open(settings.stateFile)
        } catch {
            throw .record(error)
        }
        var session: BrokerSession?
        if hasBroker {
            do throws(MartletError) {
                session = try BrokerSession(
                    settings, position: record.stored.position, inputs: control.inputs)
            } catch {
                throw .client(error)
            }
        }
        var loop = RelayLoop(settings, inputs: control.inputs, work: make(record, session))
        return try loop.run()
    }
}
