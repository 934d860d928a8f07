// The broker's own share of a message, without sockets: decode, match, route, encode and enqueue,
// each by itself, in nanoseconds of CPU time. For finding out where a change went; what a user pays
// is measured by martlet-bench. `martlet-micro 100` repeats everything 100 times as often as a
// quick look needs; `martlet-micro asleep 100000` says what so many sleeping devices take of the
// memory.

import BrokerCore
import Glibc
import Primitives
import WireFormat

/// CPU time of this thread, in nanoseconds.
func cpuNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Runs `body` so often and prints what one of its operations costs.
func measure(_ name: String, times: Int, operationsEach: Int = 1, _ body: () -> Void) {
    body()
    let start = cpuNanoseconds()
    for _ in 0..<times { body() }
    let tenths = (cpuNanoseconds() - start) * 10 / UInt64(times * operationsEach)
    let padding = String(repeating: " ", count: max(1, 44 - name.count))
    print("\(name)\(padding)\(tenths / 10).\(tenths % 10) ns")
}

/// Keeps the optimiser from seeing that a result is not needed.
@inline(never)
func use<Value>(_ value: Value) {}

if CommandLine.arguments.dropFirst().first == "asleep" {
    let count = CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 100_000
    measureSleepers(count: count)
    measureTokens(count: count)
    exit(0)
}
let scale = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1

measureCodecs(times: 100_000 * scale)
for receivers in [10, 100, 1000, 10_000, 100_000] {
    measureFanOut(receivers: receivers, deliveries: 1_000_000 * scale)
}
for receivers in [1, 100, 10_000] {
    measureInboxes(receivers: receivers, deliveries: 300_000 * scale)
}
// A million filters take half a gigabyte and some time to make.
for filters in scale >= 10 ? [10, 1000, 100_000, 1_000_000] : [10, 1000] {
    measureMatching(filters: filters, messages: 20_000 * scale)
}
