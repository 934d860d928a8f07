// Positions in the log.

import Replication
import Testing

@Suite struct `A position in the log` {
    @Test func `is before the next one`() {
        #expect(LogSequence.start < LogSequence.start.next)
        #expect(LogSequence.start.next == LogSequence(raw: 1))
    }
}
