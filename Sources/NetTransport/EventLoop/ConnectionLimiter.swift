// How many connections there are, in all and of each address, over all loops that share the count:
// one lock per accept and close.
import Synchronization
import Threads

/// Counts connections, and says when there are enough, or enough of one address.
public final class ConnectionLimiter: Sendable {
    private struct Counts {
        var total = 0
        var byAddress: [SocketAddress: Int] = [:]
    }

    private let counts = Locked(Counts())
    private let maximumPerAddress: Atomic<Int>
    private let totalMaximum: Int

    /// - Parameters:
    ///   - maximumPerAddress: connections of one address at a time; 0 for any number.
    ///   - totalMaximum: connections of all addresses.
    public init(maximumPerAddress: Int, totalMaximum: Int = .max) {
        self.maximumPerAddress = Atomic(maximumPerAddress)
        self.totalMaximum = totalMaximum
    }

    /// Takes effect with the next connection; who is there stays.
    public func change(maximumPerAddress: Int) {
        self.maximumPerAddress.store(maximumPerAddress, ordering: .relaxed)
    }

    /// Counts a connection in, unless there are enough.
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

    /// Counts out a connection that was counted in.
    func leave(_ peer: SocketAddress) {
        counts.withLock { counts in
            guard let count = counts.byAddress[peer.withoutPort] else {
                preconditionFailure("a connection that was never counted")
            }
            counts.byAddress[peer.withoutPort] = count > 1 ? count - 1 : nil
            counts.total -= 1
        }
    }
}
