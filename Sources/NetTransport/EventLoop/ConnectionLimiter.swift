// Limits the number of connections, in total and per address, over all loops that share the
// limiter. Each accept and close takes its lock once.
import Synchronization
import Threads

/// Counts connections and refuses those beyond its limits.
public final class ConnectionLimiter: Sendable {
    private struct Counts {
        var total = 0
        var byAddress: [SocketAddress: Int] = [:]
    }

    private let counts = Locked(Counts())
    private let maximumPerAddress: Atomic<Int>
    private let totalMaximum: Int

    /// - Parameters:
    ///   - maximumPerAddress: concurrent connections of one address; 0 for no limit.
    ///   - totalMaximum: connections of all addresses.
    public init(maximumPerAddress: Int, totalMaximum: Int = .max) {
        self.maximumPerAddress = Atomic(maximumPerAddress)
        self.totalMaximum = totalMaximum
    }

    /// Changes the limit for new connections. Open ones stay.
    public func change(maximumPerAddress: Int) {
        self.maximumPerAddress.store(maximumPerAddress, ordering: .relaxed)
    }

    /// Counts a connection, or returns the limit that is reached.
    func enter(_ peer: SocketAddress) -> RefusalCause? {
        let maximum = maximumPerAddress.load(ordering: .relaxed)
        return counts.withLock { counts in
            if counts.total >= totalMaximum { return .total }
            let count = counts.byAddress[peer.withoutPort, default: 0]
            if maximum > 0 && count >= maximum { return .address }
            counts.byAddress[peer.withoutPort] = count + 1
            counts.total += 1
            return nil
        }
    }

    /// Stops counting a connection.
    func leave(_ peer: SocketAddress) {
        counts.withLock { counts in
            guard let count = counts.byAddress[peer.withoutPort] else {
                preconditionFailure("no connection of \(peer) is counted")
            }
            counts.byAddress[peer.withoutPort] = count > 1 ? count - 1 : nil
            counts.total -= 1
        }
    }
}
