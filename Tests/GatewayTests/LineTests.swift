// What a line remembers between attempts to open it.

import Primitives
import Testing

@testable import Gateway

@Suite("A line of a gateway")
struct LineTests {
    @Test func `waits twice as long between attempts to open it, up to a bound`() {
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

    @Test func `is not opened while its name is looked up`() {
        var line = Line(LineSettings("plant7-1=tcp://plc.example:7001")!)
        guard case .tcp(let server) = line.settings.endpoint else {
            Issue.record("no TCP line")
            return
        }
        line.soughtServer = server
        #expect(line.nextDeadline == .never)
    }
}
