// From the store to a core that can take its first event: records, queues, and the time that has
// passed meanwhile.

import BrokerCore
import Primitives
import QueueStore

/// Hands what the store holds to a core that is being restored. Keeps the first complaint.
final class BrokerRestorer: StoreVisitor {
    private var broker: Broker?
    private(set) var failure: RestoreError?

    init(_ broker: consuming Broker) {
        self.broker = consume broker
    }

    func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        guard failure == nil else { return }
        do throws(RestoreError) {
            try broker!.restore(table: table, key: Array(key), value: Array(value))
        } catch {
            failure = error
        }
    }

    func visitQueue(_ outline: QueueOutline) {
        guard failure == nil else { return }
        broker!.restore(queue: outline.tally, lastNumber: outline.lastNumber)
    }

    /// The core, with everything that was visited. Called once.
    func takeBroker() -> Broker {
        broker.take()!
    }
}
