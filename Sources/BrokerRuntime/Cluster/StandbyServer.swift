// The listeners of a node that is not the primary. They are those of the configuration, and close
// before the broker of a new primary opens its own.

import Configuration
import NetTransport
import Threads

/// A standby's listeners, until ``stop()``.
final class StandbyServer {
    private let handle: LoopHandle
    private let listeners: ListenerSet
    private let trust: ClientTrust
    private var loop: Thread?

    /// - Parameter refuse: counts a refusal, and gives what the client is told.
    init(
        _ settings: BrokerSettings, log: LogWriter, fail: @escaping BrokerServer.Failure,
        refuse: @escaping @Sendable () -> PrimaryAddresses
    ) throws(StartError) {
        trust = ClientTrust(try TrustMaterial(settings))
        listeners = try ListenerSet(settings, preSharedKeys: trust.preSharedKeys)
        do throws(TransportError) {
            handle = try LoopHandle()
        } catch {
            throw .transport(error)
        }
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = settings.limits.connections
        configuration.pendingMaximum = settings.limits.pendingLogins
        configuration.handshakesMaximum = settings.limits.handshakes
        configuration.outgoingTotalMaximum = settings.limits.outgoingBytes
        configuration.authenticationMilliseconds =
            UInt64(settings.limits.authenticationSeconds) * 1000
        let handler = Box(StandbyHandler(listeners.web, log: log, refuse: refuse))
        let (handle, sockets) = (handle, listeners.listeners)
        loop = Thread(name: "standby") {
            do throws(TransportError) {
                var loop = try EventLoop(configuration, handle: handle)
                for listener in sockets { try loop.listen(on: listener) }
                loop.run(&handler.value)
            } catch {
                log.write(.error, .brokerStopped, fields: ["detail": .text("\(error)")])
                fail(.other)
            }
        }
        listeners.writeAddresses(to: log, state: "standby")
    }

    /// Reads the certificate files again.
    func renew(_ settings: BrokerSettings) throws(StartError) {
        try listeners.renewContexts(settings, preSharedKeys: trust.preSharedKeys)
    }

    /// Closes the connections. The listeners close with the last reference.
    func stop() {
        handle.requestStop()
        loop?.join()
        loop = nil
    }
}
