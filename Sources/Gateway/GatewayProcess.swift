// The gateway as a whole: one loop on one thread until it is told to stop.

import NetTransport

extension LineEndpoint: CustomStringConvertible {
    public var description: String {
        switch self {
        case .terminal(let path, _): path
        case .tcp(let server): "\(server)"
        }
    }
}

/// A gateway that runs until ``LoopHandle/requestStop()``.
public enum GatewayProcess {
    /// Runs the loop on the calling thread.
    ///
    /// - Returns: why it had to end; nil where it was asked to.
    public static func run(
        _ settings: GatewaySettings, handle: LoopHandle
    ) throws(TransportError) -> String? {
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = settings.lines.count + 2
        configuration.lingerMilliseconds = 1_000
        var loop = try EventLoop(configuration, handle: handle)
        var handler = GatewayHandler(settings)
        // Nothing happens by itself before the first turn.
        loop.nextWake = loop.now
        while loop.turn(&handler) {}
        return handler.failure
    }
}
