// Returns free heap memory to the system after a burst. An event loop does so for its own buffers.
// Other memory of a burst (events, replies, tables) is free in pieces between blocks that are in
// use, and glibc keeps it.

import CLinuxShims
import Glibc
import Primitives

/// Decides when to call `malloc_trim`.
struct HeapTrim {
    /// The interval between checks. A check counts the free blocks and a trim walks the whole heap
    /// while other threads wait to allocate, so both are rare under load.
    static let lookMilliseconds: UInt64 = 5_000
    /// The growth of free bytes since the last trim from which a trim is worth its cost.
    static let freeBytesMinimum = 4 << 20
    /// Processor time between two checks from which there is load: a twentieth of a core. Under
    /// load, free memory is needed again.
    static let busyMilliseconds = lookMilliseconds / 20
    /// Under load every sixth check counts the free blocks: half a minute apart.
    static let looksUnderLoad = 6
    /// Bytes that are free at two of those checks in a row, and were not at the last trim, from
    /// which a trim is worth its cost under load: a burst has left them, and the load does not use
    /// them.
    static let freeBytesUnderLoad = 16 << 20

    private var nextLook: Instant?
    private var processorMilliseconds: UInt64 = 0
    /// The least number of free bytes since the last trim, because glibc still counts returned
    /// memory as free; 0 after load, which reuses that memory.
    private var leastFree = 0
    /// Checks under load since the last quiet one, and the free bytes at the last count.
    private var busyLooks = 0
    private var lastFreeUnderLoad = 0
    /// The least number of free bytes under load since the last trim.
    private var leastFreeUnderLoad = 0

    /// Checks if a check is due, and trims if that is worth it.
    mutating func look(at now: Instant) {
        let isDue = isDue(
            at: now, processorMilliseconds: Self.processorMilliseconds,
            freeBytes: { Int(mallinfo2().fordblks) })
        if isDue { malloc_trim(0) }
    }

    /// Whether a trim is worth it. Returns true once for the same free memory.
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
            return isDueUnderLoad(freeBytes)
        }
        busyLooks = 0
        let free = freeBytes()
        leastFree = isFirst ? free : min(leastFree, free)
        guard free - leastFree >= Self.freeBytesMinimum else { return false }
        leastFree = free
        return true
    }

    /// Whether memory stays free under load.
    private mutating func isDueUnderLoad(_ freeBytes: () -> Int) -> Bool {
        busyLooks += 1
        guard busyLooks % Self.looksUnderLoad == 0 else { return false }
        let free = freeBytes()
        if busyLooks == Self.looksUnderLoad {
            leastFreeUnderLoad = 0
            lastFreeUnderLoad = free
            return false
        }
        let unused = min(free, lastFreeUnderLoad)
        lastFreeUnderLoad = free
        leastFreeUnderLoad = min(leastFreeUnderLoad, unused)
        guard unused - leastFreeUnderLoad >= Self.freeBytesUnderLoad else { return false }
        leastFreeUnderLoad = unused
        return true
    }

    /// The processor time of all threads since the start.
    private static var processorMilliseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000
    }
}
