// A whole bridge: one loop on one thread until it is stopped.

import NetTransport

/// Runs a bridge until ``BridgeControl/drain()``, or until it cannot continue.
public enum BridgeProcess {
    /// The reason why a bridge could not start or continue.
    public enum Failure: Error {
        case transport(TransportError)
        case record(RecordFailure)
        /// A broker refuses it permanently.
        case refused(String)
    }

    /// Runs the loop on the calling thread. Returns when the bridge was stopped.
    public static func run(
        _ settings: BridgeSettings, _ control: BridgeControl
    ) throws(Failure) {
        let file: RecordFile
        do throws(RecordFailure) {
            file = try RecordFile.open(settings.stateFile)
        } catch {
            throw .record(error)
        }
        if let stored = file.stored,
            stored.clientIdentifier != settings.foreign.clientIdentifier
        {
            throw .record(
                RecordFailure(
                    description: "\(settings.stateFile): belongs to the session "
                        + "\"\(stored.clientIdentifier)\", not to mqtt.clientId "
                        + "\"\(settings.foreign.clientIdentifier)\""))
        }
        let failure: Failure?
        do throws(TransportError) {
            var configuration = EventLoop.Configuration()
            configuration.connectionsMaximum = 8
            configuration.lingerMilliseconds = 1_000
            configuration.outgoingHardMaximum = 2 * settings.packetMaximum + (8 << 20)
            var loop = try EventLoop(configuration, handle: control.handle)
            var handler = BridgeHandler(settings, file: file, control: control)
            // No event starts the first turn.
            loop.nextWake = loop.now
            while loop.turn(&handler) {}
            failure = handler.failure
        } catch {
            throw .transport(error)
        }
        if let failure { throw failure }
    }
}
