// Tells operators who sends most, which queues are deepest, and who reads slowly.

import Administration
import BrokerCore
import BrokerTerms
import Primitives
import Threads

/// The deepest queues, as they were found last: however many operators watch, the sessions are read
/// once in a second.
final class QueueDepths: Sendable {
    private struct Known {
        var found: [DeepestQueues.Found] = []
        var time: Instant?
    }

    private let known = Locked(Known())

    /// How long what was found is told again.
    private static let validMilliseconds: UInt64 = 1_000

    func deepest(of shards: Shards, at now: Instant) -> [DeepestQueues.Found] {
        if let found = known.withLock({ known in
            known.time.map { now.milliseconds(since: $0) < Self.validMilliseconds } == true
                ? known.found : nil
        }) {
            return found
        }
        var found = shards.cores.flatMap { core in
            var search = DeepestQueues(countMaximum: ReadActivity.countMaximum)
            core.enterInSlices { $0.broker.advance(&search) }
            return search.found
        }
        if shards.cores.count > 1 {
            found.sort { $0.count > $1.count }
            found = Array(found.prefix(ReadActivity.countMaximum))
        }
        known.withLock { $0 = Known(found: found, time: now) }
        return found
    }
}

extension AdministrationService {
    func read(_ request: ReadActivity) -> ReadActivity.Reply {
        let limit = request.limit ?? ReadActivity.countDefault
        let loops = shared.activity.ask(
            (), of: .max >> UInt64(64 - shared.loopHandles.count), in: shared.loopHandles)
        let milliseconds = loops.map(\.milliseconds).max() ?? 0
        return ReadActivity.Reply(
            milliseconds: milliseconds,
            senders: Array(senders(of: loops, in: milliseconds).prefix(limit)),
            queues: queueDepths.deepest(of: shards, at: loopClock.moment().instant)
                .prefix(limit).map(ReadActivity.Queue.init),
            readers: readers(of: loops, limit: limit))
    }

    /// The users whose connections send most, the busiest first.
    ///
    /// - Parameter milliseconds: the longest time that a loop has measured. Counts of loops that
    ///   have measured less are scaled to it.
    private func senders(
        of loops: [LoopActivity], in milliseconds: UInt64
    ) -> [ReadActivity.Sender] {
        struct Key: Hashable {
            let app: [UInt8]
            let user: [UInt8]
        }
        var sums: [Key: (connections: Int, messages: UInt64, bytes: UInt64)] = [:]
        for loop in loops {
            let scale = Double(milliseconds) / Double(max(1, loop.milliseconds))
            for sender in loop.senders {
                // A client that has left is not shown.
                guard let owner = shards.owner(of: sender.connection) else { continue }
                let key = Key(app: owner.app, user: owner.user)
                var sum = sums[key] ?? (0, 0, 0)
                sum.connections += 1
                sum.messages += UInt64(Double(sender.messageCount) * scale)
                sum.bytes += UInt64(Double(sender.byteCount) * scale)
                sums[key] = sum
            }
        }
        return sums.map { key, sum in
            ReadActivity.Sender(
                app: Self.text(key.app), user: Self.text(key.user),
                connectionCount: sum.connections, messageCount: sum.messages,
                byteCount: sum.bytes)
        }.sorted {
            ($0.messageCount, $0.byteCount, $1.user) > ($1.messageCount, $1.byteCount, $0.user)
        }
    }

    /// The connections with the most unsent bytes, the slowest first.
    private func readers(of loops: [LoopActivity], limit: Int) -> [ReadActivity.Reader] {
        let slowest = loops.flatMap(\.readers).sorted { $0.unsentByteCount > $1.unsentByteCount }
        return slowest.prefix(limit).compactMap { reader in
            shards.owner(of: reader.connection).map { owner in
                ReadActivity.Reader(
                    app: Self.text(owner.app), user: Self.text(owner.user),
                    device: Self.text(owner.device),
                    unsentByteCount: UInt64(reader.unsentByteCount))
            }
        }
    }
}

extension ReadActivity.Queue {
    fileprivate init(_ queue: DeepestQueues.Found) {
        self.init(
            app: AdministrationService.text(queue.app),
            user: AdministrationService.text(queue.user),
            device: queue.device.map(AdministrationService.text), isConnected: queue.isConnected,
            messageCount: queue.count, byteCount: queue.byteCount)
    }
}
