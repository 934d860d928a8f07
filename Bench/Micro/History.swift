// What history costs, with a real store: a durable send to a receiver that is offline, without and
// with it, and pages of a long conversation.

import BrokerCore
import Primitives
import QueueStore

/// Keeps `count` messages in one conversation, and reads pages of 100 at its end, in its middle and
/// at its beginning.
func measureHistory(count: Int) {
    compareOfflineSends(count: 3_000, rounds: 10)
    var core = BenchCore(receivers: 1, grade: nil, expirySeconds: 3600, limits: roomyLimits)
    core.addressUsers(1)
    let directory = makeDirectory()
    defer { remove(directory) }
    var store = openStore(directory)
    core.send(count, isKept: true, in: &store)
    let pageCount = 100
    for (name, before) in [
        ("newest", UInt64.max), ("middle", UInt64(count / 2 + pageCount)),
        ("oldest", UInt64(pageCount + 1)),
    ] {
        let times = 1_000
        let start = cpuNanoseconds()
        for _ in 0..<times {
            let found = core.readPage(before: before, count: pageCount, in: &store)
            precondition(found == min(pageCount, count), "a page of \(found) messages")
        }
        let microseconds = (cpuNanoseconds() - start) / UInt64(times * 1_000)
        print("history-\(name) of \(count) messages: \(microseconds) us a page of \(pageCount)")
    }
}

/// Sends to receivers that are offline, with and without history in turn: the shortest round
/// counts, because other programs make a round longer and never shorter.
private func compareOfflineSends(count: Int, rounds: Int) {
    var without = OfflineSends(isKept: false)
    var with = OfflineSends(isKept: true)
    for _ in 0..<rounds {
        without.run(count)
        with.run(count)
    }
    print("offline-send without history: \(without.report)")
    print("offline-send with history: \(with.report)")
}

/// A core with receivers that are offline, and a store.
private struct OfflineSends: ~Copyable {
    private static let receiverCount = 10

    private let isKept: Bool
    private var core = BenchCore(
        receivers: receiverCount, grade: nil, expirySeconds: 3600, limits: roomyLimits)
    private let directory = makeDirectory()
    private var store: LMDBQueueStore
    private var shortest = UInt64.max
    private var byteCount: UInt64 = 0
    private var count = 0

    init(isKept: Bool) {
        self.isKept = isKept
        store = openStore(directory)
        for index in 0..<Self.receiverCount {
            core.step(.connectionClosed(core.receiver(index), .lost))
        }
        core.addressUsers(Self.receiverCount)
        core.send(600, isKept: isKept, in: &store)
        byteCount = store.tableByteCounts().reduce(0) { $0 + $1.byteCount }
    }

    deinit { remove(directory) }

    mutating func run(_ count: Int) {
        let start = cpuNanoseconds()
        core.send(count, isKept: isKept, in: &store)
        shortest = min(shortest, (cpuNanoseconds() - start) / UInt64(count))
        self.count += count
    }

    /// What one send costs.
    var report: String {
        let bytes = store.tableByteCounts().reduce(0) { $0 + $1.byteCount } - byteCount
        return "\(count) operations, \(shortest) ns and \(bytes / UInt64(count)) bytes each"
    }
}

extension BenchCore {
    /// Sends as many messages to a commit as a sender may have without a result that it has seen.
    fileprivate mutating func send(_ count: Int, isKept: Bool, in store: inout LMDBQueueStore) {
        let each = 60
        for start in stride(from: 0, to: count, by: each) {
            for _ in start..<min(start + each, count) {
                turnToNextUser()
                _ = send(.durable, isKept: isKept)
            }
            acknowledgeDeliveries()
            effects[0].removeAll()
            commit(in: &store)
            acknowledge()
            effects[0].removeAll()
        }
    }

    /// Reads a page of the conversation, and returns the number of its messages.
    fileprivate mutating func readPage(
        before number: UInt64, count: Int, in store: inout LMDBQueueStore
    ) -> Int {
        let selection = ConversationSelection(
            app: broker.anonymousApp, parties: .users(Array("sender".utf8), Array("r0".utf8)))
        let inspection = broker.readHistory(
            of: selection, before: number, search: HistorySearch(), countMaximum: count,
            contentMaximum: 4_096)
        guard let inspection, inspection > 0 else { return 0 }
        commit(in: &store)
        return broker.takeHistory(inspection)?.messages.count ?? 0
    }
}
