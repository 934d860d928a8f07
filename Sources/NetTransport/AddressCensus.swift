// How many connections each address has, over all loops that share the count. Only asked where
// there is a limit: one lock per accept and close.
import Synchronization
import Threads

/// Counts connections by the address they come from, and says when one has enough.
public final class AddressCensus: Sendable {
    private let counts = Locked([SocketAddress: Int]())
    private let maximum: Atomic<Int>

    /// - Parameter maximum: connections of one address at a time; 0 for any number.
    public init(maximum: Int) {
        self.maximum = Atomic(maximum)
    }

    /// Takes effect with the next connection; who is there stays.
    public func change(maximum: Int) {
        self.maximum.store(maximum, ordering: .relaxed)
    }

    /// Counts a connection in; false where its address has enough.
    func enter(_ peer: SocketAddress) -> Bool {
        let maximum = maximum.load(ordering: .relaxed)
        return counts.withLock { counts in
            let count = counts[peer.withoutPort, default: 0]
            if maximum > 0 && count >= maximum { return false }
            counts[peer.withoutPort] = count + 1
            return true
        }
    }

    /// Counts out a connection that was counted in.
    func leave(_ peer: SocketAddress) {
        counts.withLock { counts in
            guard let count = counts[peer.withoutPort] else {
                preconditionFailure("a connection that was never counted")
            }
            counts[peer.withoutPort] = count > 1 ? count - 1 : nil
        }
    }
}
