// Gives memory that lies free in the heap back to the system once a burst is over. An event loop
// does that for its own buffers; what else a burst leaves, events that waited, answers and tables,
// lies in pieces between blocks that are in use, and glibc keeps it.

import CLinuxShims
import Glibc
import Primitives

/// Decides when to ask glibc for what is free.
struct HeapTrim {
    /// How often it looks. To look is to add up the free blocks, to trim is to walk the whole heap,
    /// and whoever allocates waits meanwhile: neither is done under load.
    static let lookMilliseconds: UInt64 = 5_000
    /// Bytes that have become free since the last trim from which another one is worth that.
    static let freeBytesMinimum = 4 << 20
    /// Processor time between two looks above which there is load: a twentieth of a core. What is
    /// free then is needed again.
    static let busyMilliseconds = lookMilliseconds / 20

    private var nextLook: Instant?
    private var processorMilliseconds: UInt64 = 0
    /// The least that was free since the last trim, because glibc goes on counting what it gave
    /// back; 0 after load, which uses that again.
    private var leastFree = 0

    /// Looks, if it is time to, and trims where that is worth it.
    mutating func look(at now: Instant) {
        let isDue = isDue(
            at: now, processorMilliseconds: Self.processorMilliseconds,
            freeBytes: { Int(mallinfo2().fordblks) })
        if isDue { malloc_trim(0) }
    }

    /// Whether it is worth a trim; says so once for what has become free.
    mutating func isDue(
        at now: Instant, processorMilliseconds: UInt64, freeBytes: () -> Int
    ) -> Bool {
        if let nextLook, now < nextLook { return false }
        let isFirst = nextLook == nil
        nextLook = now.advanced(byMilliseconds: Self.lookMilliseconds)
        let spent = processorMilliseconds - self.processorMilliseconds
        self.processorMilliseconds = processorMilliseconds
        if spent >= Self.busyMilliseconds {
            leastFree = 0
            return false
        }
        let free = freeBytes()
        leastFree = isFirst ? free : min(leastFree, free)
        guard free - leastFree >= Self.freeBytesMinimum else { return false }
        leastFree = free
        return true
    }

    /// Of all threads, since the start.
    private static var processorMilliseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000
    }
}
