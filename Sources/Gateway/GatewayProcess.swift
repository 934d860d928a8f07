// A whole gateway: one loop on one thread until it is stopped.

import NetTransport

extension LineEndpoint: CustomStringConvertible {
    public var description: String {
        switch self {
        case .terminal(let path, _): path
        case .tcp(let server): "\(server)"
        }
    }
}

/// Runs a gateway until ``GatewayControl/stop()``.
public enum GatewayProcess {
    /// Runs the loop on the calling thread.
    ///
    /// - Returns: the reason why it had to stop; nil if it was requested.
    public static func run(
        _ settings: GatewaySettings, _ control: GatewayControl
    ) throws(TransportError) -> String? {
        var configuration = EventLoop.Configuration()
        // The lines may change, and those that were removed may linger.
        configuration.connectionsMaximum = GatewayLimits.linesWithRemovedMaximum + 2
        configuration.lingerMilliseconds = 1_000
        var loop = try EventLoop(configuration, handle: control.handle)
        var handler = GatewayHandler(settings, control)
        // No event starts the first turn.
        loop.nextWake = loop.now
        while loop.turn(&handler) {}
        return handler.failure
    }
}
