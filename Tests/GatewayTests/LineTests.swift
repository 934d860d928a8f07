// The state of a line between attempts to open it.

import Primitives
import Testing

@testable import Gateway

@Suite("A line of a gateway")
struct LineTests {
    @Test func `doubles the wait between attempts to open it, up to a maximum`() {
        var line = Line(LineSettings("plant7-1=/dev/ttyUSB0")!)
        var now = Instant(milliseconds: 1_000)
        var waits: [UInt64] = []
        for _ in 0..<6 {
            line.closed(now: now)
            waits.append(line.nextDeadline.milliseconds(since: now))
            now = line.nextDeadline
        }
        #expect(waits == [500, 1_000, 2_000, 4_000, 8_000, 8_000])
    }

    @Test func `is not opened again while it is being opened`() {
        var line = Line(LineSettings("plant7-1=tcp://plc.example:7001")!)
        #expect(line.nextDeadline == Instant(milliseconds: 0))
        line.connection = .opening
        #expect(line.nextDeadline == .never)
    }

    @Test func `has ten log lines a minute, and counts the others`() {
        var limiter = LogLimiter()
        let start = Instant(milliseconds: 1_000)
        let taken = (0..<100).compactMap { _ in limiter.take(now: start) }
        #expect(taken == Array(repeating: 0, count: 10))
        let later = start.advanced(byMilliseconds: 60_000)
        #expect(limiter.take(now: later) == 90)
        #expect(limiter.take(now: later) == 0)
    }
}
