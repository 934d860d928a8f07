// The gateway as a whole: one loop on one thread until somebody stops it.

import CommandLineOptions
import NetTransport

/// Says what happens, one line per event.
struct GatewayLog {
    func write(_ event: String, _ line: LineSettings, _ detail: String = "") {
        let place = "user=\(line.user) line=\(line.endpoint)"
        write(event, detail.isEmpty ? place : "\(place) \(detail)")
    }

    func write(_ event: String, _ fields: String) {
        StandardStream.error.print("event=\(event) \(fields)")
    }
}

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
        var handler = GatewayHandler(settings, GatewayLog())
        // Nothing happens by itself before the first turn.
        loop.nextWake = loop.now
        while loop.turn(&handler) {}
        return handler.failure
    }
}
