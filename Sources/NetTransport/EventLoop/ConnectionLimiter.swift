// Limits the number of connections, in total and per address, over all loops that share the
// limiter. Each accept and close takes its lock once.
import Synchronization
import Threads

/// Counts connections and refuses those beyond its limits.
public final class ConnectionLimiter: Sendable {
    private struct Counts {
        var total = 0
        var byAddress: [SocketAddress: Int] = [:]

        /// Counts a connection of an address, unless it has `maximum`; 0 for no limit.
        mutating func enter(_ peer: SocketAddress, maximum: Int) -> Bool {
            let count = byAddress[peer.withoutPort, default: 0]
            if maximum > 0 && count >= maximum { return false }
            byAddress[peer.withoutPort] = count + 1
            return true
        }
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
    ///
    /// - Parameter peer: nil if a proxy has yet to name the client; ``assign(_:)`` follows.
    func enter(_ peer: SocketAddress?) -> RefusalCause? {
        let maximum = maximumPerAddress.load(ordering: .relaxed)
        return counts.withLock { counts in
            if counts.total >= totalMaximum { return .total }
            if let peer, !counts.enter(peer, maximum: maximum) { return .address }
            counts.total += 1
            return nil
        }
    }

    /// Counts a connection that was entered without a peer for the address of its client. Returns
    /// false if that address has as many as it may.
    func assign(_ peer: SocketAddress) -> Bool {
        let maximum = maximumPerAddress.load(ordering: .relaxed)
        return counts.withLock { $0.enter(peer, maximum: maximum) }
    }

    /// Stops counting a connection.
    ///
    /// - Parameter peer: the address that it is counted for; nil if it is for none.
    func leave(_ peer: SocketAddress?) {
        counts.withLock { counts in
            counts.total -= 1
            precondition(counts.total >= 0, "\(counts.total) connections are counted")
            guard let peer else { return }
            guard let count = counts.byAddress[peer.withoutPort] else {
                preconditionFailure("no connection of \(peer) is counted")
            }
            counts.byAddress[peer.withoutPort] = count > 1 ? count - 1 : nil
        }
    }
}
