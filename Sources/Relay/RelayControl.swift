// What other threads ask of a running relay.

/// Stops a running relay from other threads, and asks it for its counters.
public final class RelayControl: Sendable {
    package let waker = RelayWaker()
    package let inputs: InputQueue

    public init() { inputs = InputQueue(waker) }

    /// The relay begins no more attempts, waits for open ones, and stops.
    public func drain() { inputs.put(.drain) }

    /// The relay logs its counters since the start.
    public func logTotals() { inputs.put(.totals) }
}
