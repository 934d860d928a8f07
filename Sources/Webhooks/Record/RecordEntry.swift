// The entries of the record, as bytes. The record is a list of changes; replaying them gives the
// state. The frame around an entry is that of all relays.

import MartletClient
import Relay

package enum RecordEntry: RecordedEntry, Hashable {
    /// The position in the inbox: every event before it is delivered, or in the record.
    case position(InboxRecord)
    /// The subscriptions that the session may have.
    case filters([String])
    /// An event that is not delivered yet.
    case event(Delivery)
    /// An event is delivered, or a dead letter was removed.
    case done(sequence: UInt64)
    /// An event became a dead letter.
    case dead(sequence: UInt64, cause: DeathCause, status: UInt16, time: UInt64)
    /// A dead letter became an event again, with a new number and validity.
    case resent(sequence: UInt64, newSequence: UInt64, expiry: UInt64)
}

// MARK: - Bytes

extension RecordEntry {
    package static let magic = Array("MLHOOKS1".utf8)
    package static let owner = "a webhook relay"

    package func write(to body: inout EntryWriter) {
        switch self {
        case .position(let record):
            body.write(UInt8(1))
            body.write(record.epoch)
            body.write(record.number)
        case .filters(let filters):
            body.write(UInt8(2))
            body.write(UInt32(filters.count))
            for filter in filters { body.write(Array(filter.utf8)) }
        case .event(let delivery):
            body.write(UInt8(3))
            body.write(delivery.sequence)
            body.write(delivery.expiry)
            body.write(Array(delivery.hook.utf8))
            body.write(Array(delivery.identifier.utf8))
            body.write(Array(delivery.key.utf8))
            body.write(delivery.body)
        case .done(let sequence):
            body.write(UInt8(4))
            body.write(sequence)
        case .dead(let sequence, let cause, let status, let time):
            body.write(UInt8(5))
            body.write(sequence)
            body.write(cause.rawValue)
            body.write(status)
            body.write(time)
        case .resent(let sequence, let newSequence, let expiry):
            body.write(UInt8(6))
            body.write(sequence)
            body.write(newSequence)
            body.write(expiry)
        }
    }

    package static func read(_ body: inout EntryReader) -> RecordEntry? {
        switch body.integer(UInt8.self) {
        case 1:
            guard let epoch = body.integer(UInt64.self), let number = body.integer(UInt64.self)
            else { return nil }
            let record = InboxRecord(epoch: epoch, number: number)
            return record.isPossible ? .position(record) : nil
        case 2:
            guard let count = body.integer(UInt32.self) else { return nil }
            var filters: [String] = []
            for _ in 0..<count {
                guard let filter = body.text() else { return nil }
                filters.append(filter)
            }
            return .filters(filters)
        case 3:
            guard let sequence = body.number(), let expiry = body.integer(UInt64.self),
                let hook = body.text(), let identifier = body.text(), let key = body.text(),
                let content = body.bytes()
            else { return nil }
            return .event(
                Delivery(
                    sequence: sequence, hook: hook, identifier: identifier, key: key,
                    expiry: expiry, body: content))
        case 4: return body.number().map { .done(sequence: $0) }
        case 5:
            guard let sequence = body.number(),
                let cause = body.integer(UInt8.self).flatMap(DeathCause.init(rawValue:)),
                let status = body.integer(UInt16.self), let time = body.integer(UInt64.self)
            else { return nil }
            return .dead(sequence: sequence, cause: cause, status: status, time: time)
        case 6:
            guard let sequence = body.number(), let newSequence = body.number(),
                let expiry = body.integer(UInt64.self)
            else { return nil }
            return .resent(sequence: sequence, newSequence: newSequence, expiry: expiry)
        default: return nil
        }
    }
}
