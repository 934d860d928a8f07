// What the event loops of a primary ask before anything leaves it: whether the lease holds, and
// whether the log has an append that began after a decision. The node's thread publishes the
// answers; nobody waits for a lock.

import Glibc
import NetTransport
import Synchronization
import Threads

/// The lease of a primary, as other threads than the node's see it.
final class ClusterGate: Sendable {
    private let begunCount = Atomic<UInt64>(0)
    private let confirmedCount = Atomic<UInt64>(0)
    /// On ``nowMilliseconds``; 0 for a node that is not the primary.
    private let leaseEnd = Atomic<UInt64>(0)
    private let isWanted = Atomic(false)
    /// Event loops in which too much waits.
    private let fullLoops = Atomic<Int>(0)
    private let confirmSignal = WakeSignal()
    /// Wakes the node's thread.
    let nodeSignal: WakeSignal
    /// What the node and its cluster look like; nil in tests.
    let view: Locked<ClusterView>?

    init(nodeSignal: WakeSignal, view: Locked<ClusterView>? = nil) {
        self.nodeSignal = nodeSignal
        self.view = view
    }

    /// Milliseconds since the boot of the machine, suspended time included: a lease ends in it too.
    static var nowMilliseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000
    }

    // MARK: Any thread

    /// Whether anything may leave the broker now. Asked as late as possible.
    var mayEmit: Bool { Self.nowMilliseconds < leaseEnd.load(ordering: .acquiring) }

    /// What is left of the lease; 0 without one.
    var leaseLeftMilliseconds: UInt64 {
        let (now, end) = (Self.nowMilliseconds, leaseEnd.load(ordering: .acquiring))
        return end - min(now, end)
    }

    /// Whether too much waits in some event loop.
    var hasFullLoop: Bool { fullLoops.load(ordering: .relaxed) > 0 }

    /// Counts an event loop that has become full, or has room again.
    ///
    /// - Returns: whether none is full any more, so that all read on.
    func countFullLoop(_ isFull: Bool) -> Bool {
        fullLoops.wrappingAdd(isFull ? 1 : -1, ordering: .relaxed).newValue == 0
    }

    /// The mark of what was decided before this call.
    ///
    /// The node publishes the number of an append before its first try. So an append with a higher
    /// number than the mark begins after the decision.
    var mark: UInt64 { begunCount.load(ordering: .sequentiallyConsistent) }

    /// The mark of what was decided before this call, and the wish for an append that confirms it.
    func takeMark() -> UInt64 {
        let mark = mark
        wishConfirmation()
        return mark
    }

    private func wishConfirmation() {
        if !isWanted.exchange(true, ordering: .sequentiallyConsistent) { nodeSignal.notify() }
    }

    /// Whether what has this mark may leave now. Nil is for what needs the lease only.
    func mayLeave(_ mark: UInt64?) -> Bool {
        guard mayEmit else { return false }
        return mark.map { confirmedCount.load(ordering: .acquiring) > $0 } ?? true
    }

    /// Waits until what has a mark may leave. Only one thread at a time may call it, and no event
    /// loop. If another node becomes the primary, the process ends meanwhile.
    ///
    /// - Parameter meanwhile: called several times a second.
    func waitForConfirmation(of mark: UInt64, meanwhile: () -> Void = {}) {
        if !mayLeave(mark) { wishConfirmation() }
        while !mayLeave(mark) {
            _ = confirmSignal.wait(milliseconds: ClusterLimits.meanwhileMilliseconds)
            meanwhile()
        }
    }

    /// The same with a bound, for an event loop that stops.
    ///
    /// - Parameter milliseconds: how long at most, in polls of one millisecond.
    /// - Returns: whether it may leave.
    func waitBriefly(_ mark: UInt64?, milliseconds: Int32) -> Bool {
        for _ in 0..<milliseconds {
            if mayLeave(mark) { return true }
            _ = poll(nil, 0, 1)
        }
        return mayLeave(mark)
    }

    // MARK: The node's thread

    func takeWish() -> Bool { isWanted.exchange(false, ordering: .sequentiallyConsistent) }

    /// Publishes what the machine of the node says. It is called before the requests to the log are
    /// made.
    ///
    /// - Returns: whether something may leave that could not before.
    func publish(begun: UInt64, confirmed: UInt64, leaseEnd end: UInt64) -> Bool {
        begunCount.store(begun, ordering: .sequentiallyConsistent)
        let before = confirmedCount.exchange(confirmed, ordering: .sequentiallyConsistent)
        let endBefore = leaseEnd.exchange(end, ordering: .sequentiallyConsistent)
        guard before != confirmed || endBefore < end else { return false }
        confirmSignal.notify()
        return true
    }
}
