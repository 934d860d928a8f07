// The state that a record describes: what is left of its entries when they are replayed in order.

import MartletClient
import Relay

package struct RecordContent: RecordedContent {
    package private(set) var position: InboxRecord?
    package private(set) var filters: [String] = []
    /// Undelivered events by their numbers, which are their order.
    private var live: [UInt64: Delivery] = [:]
    private var dead: [UInt64: DeadLetter] = [:]
    /// The highest number that was used.
    package private(set) var highestSequence: UInt64 = 0

    package init() {}

    package var deliveries: [Delivery] { live.values.sorted { $0.sequence < $1.sequence } }

    package var deadLetters: [DeadLetter] {
        dead.values.sorted {
            ($0.time, $0.delivery.sequence) < ($1.time, $1.delivery.sequence)
        }
    }

    package mutating func apply(_ entry: RecordEntry) {
        switch entry {
        case .position(let position): self.position = position
        case .filters(let filters): self.filters = filters
        case .event(let delivery):
            live[delivery.sequence] = delivery
            highestSequence = max(highestSequence, delivery.sequence)
        case .done(let sequence):
            live[sequence] = nil
            dead[sequence] = nil
        case .dead(let sequence, let cause, let status, let time):
            guard let delivery = live.removeValue(forKey: sequence) else { return }
            dead[sequence] = DeadLetter(
                delivery: delivery, cause: cause, status: status, time: time)
        case .resent(let sequence, let newSequence, let expiry):
            guard var delivery = dead.removeValue(forKey: sequence)?.delivery else { return }
            delivery.sequence = newSequence
            delivery.expiry = expiry
            live[newSequence] = delivery
            highestSequence = max(highestSequence, newSequence)
        }
    }

    /// The shortest list of entries with the same state.
    package var entries: [RecordEntry] {
        var entries: [RecordEntry] = []
        if let position { entries.append(.position(position)) }
        entries.append(.filters(filters))
        for letter in deadLetters {
            entries.append(.event(letter.delivery))
            entries.append(
                .dead(
                    sequence: letter.delivery.sequence, cause: letter.cause, status: letter.status,
                    time: letter.time))
        }
        return entries + deliveries.map { .event($0) }
    }
}
