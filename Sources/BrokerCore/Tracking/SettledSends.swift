// Settled sends in the order in which they were settled: those of which nothing is left to tell, so
// that they make room for others. The list refers to sends by handle, and owns none.
//
// Those that have ended, or are not settled any more, stay in the list until they are as many as
// the others.

import Primitives

struct SettledSends {
    struct Entry {
        let send: Handle<TrackedSend>
        /// Tells whether the send was settled again meanwhile, which gives it a later place.
        let number: UInt64

        fileprivate func isCurrent(_ sends: borrowing Slab<TrackedSend>) -> Bool {
            sends.contains(send) && sends[send.index].settledNumber == number
        }
    }

    private var entries: [Entry] = []
    /// The position of the first one that is settled.
    private var start = 0
    /// Those that are settled.
    private(set) var count = 0

    /// Other ones beyond those that are as many as the settled ones: a short list is not rebuilt.
    private static let spareCount = 64

    mutating func append(_ entry: Entry) {
        entries.append(entry)
        count += 1
    }

    /// Notes that one of them has ended, or is not settled any more.
    mutating func noteEnd(_ sends: borrowing Slab<TrackedSend>) {
        count -= 1
        while start < entries.count, !entries[start].isCurrent(sends) { start += 1 }
        guard entries.count > 2 * count + Self.spareCount else { return }
        var rest: [Entry] = []
        rest.reserveCapacity(count)
        for entry in entries[start...] where entry.isCurrent(sends) { rest.append(entry) }
        (entries, start) = (rest, 0)
    }

    var oldest: Index<TrackedSend>? {
        start < entries.count ? entries[start].send.index : nil
    }
}
