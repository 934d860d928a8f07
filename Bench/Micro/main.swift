// The broker's own share of a message, without sockets: decode, match, route, encode and enqueue,
// each by itself. For finding out where a change went; what a user pays is measured by
// martlet-bench.
//
//     martlet-micro            every case, in nanoseconds of CPU time
//     martlet-micro --list     their names
//     martlet-micro NAME...    these cases, a hundredth as often: for callgrind, which
//                              Bench/Micro/instructions starts
//     martlet-micro asleep N   what N sleeping devices take of the memory
//     martlet-micro subscriptions N  what N subscriptions take of it
//     martlet-micro history N  what pages of a conversation of N messages cost, with a real store
//     martlet-micro receipts N  what N durable sends with a receipt cost, with a real store
//     MARTLET_REPEAT=2         each so many times as often: what differs between two runs is the
//                              case itself, without its beginning and its end

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

/// What callgrind counts is what happens in here: it is told this name.
@inline(never)
func measured<Subject: ~Copyable>(
    _ times: Int, _ subject: inout Subject, _ body: (inout Subject) -> Void
) {
    for _ in 0..<times { body(&subject) }
}

/// Keeps the optimiser from seeing that a result is not needed.
@inline(never)
func use<Value>(_ value: Value) {}

let memoryCount = CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 100_000
switch CommandLine.arguments.dropFirst().first {
case "asleep":
    measureSleepers(count: memoryCount)
    measureTokens(count: memoryCount)
    exit(0)
case "subscriptions":
    measureSubscriptions(count: memoryCount)
    exit(0)
case "history":
    measureHistory(count: memoryCount)
    exit(0)
case "receipts":
    measureReceipts(count: memoryCount)
    exit(0)
default:
    break
}
/// The cases that were asked for; empty for all.
let wanted = Set(CommandLine.arguments.dropFirst())
let isListing = wanted == ["--list"]

/// Runs `body` so often and prints what one of its operations costs. What `prepare` builds is built
/// for nobody who did not ask for it.
func measure<Subject: ~Copyable>(
    _ name: String, times: Int, operationsEach: Int = 1, prepare: () -> Subject,
    _ body: (inout Subject) -> Void
) {
    guard !isListing else {
        print(name)
        return
    }
    guard wanted.isEmpty || wanted.contains(name) else { return }
    var subject = prepare()
    // What is made once, such as a table that grows, is made before.
    for _ in 0..<2 { body(&subject) }
    let start = cpuNanoseconds()
    let times = times * repeats
    measured(times, &subject, body)
    let operations = times * operationsEach
    let tenths = (cpuNanoseconds() - start) * 10 / UInt64(operations)
    let padding = String(repeating: " ", count: max(1, 20 - name.count))
    print("\(name)\(padding)\(operations) operations, \(tenths / 10).\(tenths % 10) ns each")
}

let repeats = getenv("MARTLET_REPEAT").flatMap { Int(String(cString: $0)) } ?? 1

// Long enough for a clock; an instrumented run is a hundred times slower, and exact.
let scale = wanted.isEmpty ? 1 : 100

measureCodecs(times: 1_000_000 / scale)
for receivers in [10, 100, 1000, 10_000, 100_000] {
    measureFanOut(receivers: receivers, deliveries: 2_000_000 / scale)
}
measureUnicast(times: 1_000_000 / scale)
for members in [10, 100, 1000] { measureGroup(members: members, deliveries: 2_000_000 / scale) }
for receivers in [1000, 100_000] {
    measureBroadcast(receivers: receivers, deliveries: 2_000_000 / scale)
}
for filters in [0, 1000, 100_000, 1_000_000] {
    measureMatch(filters: filters, times: 300_000 / scale)
}
for receivers in [1, 100, 10_000] {
    measureInboxes(receivers: receivers, deliveries: 300_000 / scale)
}
for count in [1, 60_000] as [UInt16] {
    measureUnreleased(count, times: 100_000 / scale)
}
// Exact and wildcard filters, beside those that do not match.
for filters in [10, 1000, 100_000, 1_000_000] {
    measureMatching(filters: filters, times: 300_000 / scale)
}
