// Controls a running gateway from other threads: its end, its lines, its statistics.

import NetTransport
import Threads

/// Controls a running gateway from other threads.
public final class GatewayControl: Sendable {
    /// What the gateway is asked.
    enum Request: Sendable {
        case lines([LineSettings])
        /// The lines could not be read, for this reason.
        case linesFault(String)
        case totals
    }

    let handle: LoopHandle
    private let requests = Locked<[Request]>([])

    public init() throws(TransportError) { handle = try LoopHandle() }

    /// The gateway disconnects in order and stops.
    public func stop() { handle.requestStop() }

    /// The gateway has these lines from now on; it logs the difference.
    public func setLines(_ lines: [LineSettings]) { put(.lines(lines)) }

    /// The gateway logs that it keeps its lines, and why.
    public func keepLines(because fault: String) { put(.linesFault(fault)) }

    /// The gateway logs its counters.
    public func logTotals() { put(.totals) }

    private func put(_ request: Request) {
        requests.withLock { requests in
            // Signals come faster than turns at most for a moment.
            guard requests.count < GatewayLimits.requestsMaximum else { return }
            requests.append(request)
        }
        handle.wake()
    }

    func takeRequests() -> [Request] {
        requests.withLock { requests in
            defer { requests = [] }
            return requests
        }
    }
}
