// What a receipt costs, with a real store: the whole life of a durable message to a receiver that
// is connected, and acknowledges it after its commit, without and with the receipt that its sender
// acknowledges too.

import BrokerCore
import Primitives
import QueueStore

/// Sends with and without receipts in turn: the shortest round counts, because other programs make
/// a round longer and never shorter.
func measureReceipts(count: Int) {
    let rounds = 10
    var without = ReceiptSends(asks: [])
    var with = ReceiptSends(asks: .delivered)
    for _ in 0..<rounds {
        without.run(count / rounds)
        with.run(count / rounds)
    }
    print("durable-send without a receipt: \(without.report)")
    print("durable-send with a receipt: \(with.report)")
}

/// A core with receivers that are connected, and a store.
private struct ReceiptSends: ~Copyable {
    private static let receiverCount = 10

    private let asks: SendAsks
    private var core: BenchCore
    private let directory = makeDirectory()
    private var store: LMDBQueueStore
    private var shortest = UInt64.max
    private var count = 0

    init(asks: SendAsks) {
        self.asks = asks
        var limits = roomyLimits
        limits.trackedSendsPerUserMaximum = .max
        limits.trackedSendsPerAppMaximum = .max
        core = BenchCore(
            receivers: Self.receiverCount, grade: nil, expirySeconds: 3600, limits: limits)
        store = openStore(directory)
        core.addressUsers(Self.receiverCount)
        let told = core.send(600, asks: asks, in: &store)
        precondition(asks.isEmpty || told >= 540, "\(told) receipts of 600 messages")
    }

    deinit { remove(directory) }

    mutating func run(_ count: Int) {
        let start = cpuNanoseconds()
        _ = core.send(count, asks: asks, in: &store)
        shortest = min(shortest, (cpuNanoseconds() - start) / UInt64(count))
        self.count += count
    }

    /// What one send costs.
    var report: String { "\(count) operations, \(shortest) ns each" }
}

extension BenchCore {
    /// Sends as many messages to a commit as a sender may have without a result that it has seen,
    /// and returns the number of receipts.
    fileprivate mutating func send(
        _ count: Int, asks: SendAsks, in store: inout LMDBQueueStore
    ) -> Int {
        let each = 60
        var receiptCount = 0
        for start in stride(from: 0, to: count, by: each) {
            for _ in start..<min(start + each, count) {
                turnToNextUser()
                _ = send(.durable, asks: asks)
            }
            // The messages are stored and delivered; what acknowledges them is stored with the
            // next ones, as it is in a broker that is busy, and so are their receipts.
            commit(in: &store)
            receiptCount += receiptDeliveryCount
            acknowledge()
            effects[0].removeAll()
        }
        return receiptCount
    }
}
