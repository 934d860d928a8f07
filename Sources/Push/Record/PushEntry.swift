// The entries of the record of a relay for wake-ups, as bytes.

import MartletClient
import Relay
import WakeTemplates

package enum PushEntry: RecordedEntry, Hashable {
    /// The position in the inbox: every wake-up before it is done, or in the record.
    case position(InboxRecord)
    /// A wake-up that waits; it replaces an earlier one of its target.
    case wake(Wake)
    /// No wake-up of the target waits.
    case settled(WakeKey)
    /// The badge of a target; 0 for none.
    case badge(WakeKey, UInt64)
    case log(LogEntry)
    case deadLetter(DeadLetter)
    /// A dead letter was removed, or became a wake-up again.
    case deadLetterRemoved(sequence: UInt64)
    /// The destination says that the target is gone; the broker is to remove it.
    case gone(WakeKey)
    /// The broker has no such target.
    case removed(WakeKey)
    /// The broker's template of a kind, as JSON; empty for none.
    case template(WakeKind, [UInt8])
    /// So many of the entries of the log before it, the newest ones, have not been reported to the
    /// broker. A record without it is of an earlier version, which reported from memory.
    case unreported(UInt64)
}

extension PushEntry {
    package static let magic = Array("MLWAKES1".utf8)
    package static let owner = "a relay for wake-ups"

    package func write(to body: inout EntryWriter) {
        switch self {
        case .position(let record):
            body.write(UInt8(1))
            body.write(record.epoch)
            body.write(record.number)
        case .wake(let wake):
            body.write(UInt8(2))
            Self.write(wake, to: &body)
        case .settled(let key):
            body.write(UInt8(3))
            Self.write(key, to: &body)
        case .badge(let key, let number):
            body.write(UInt8(4))
            Self.write(key, to: &body)
            body.write(number)
        case .log(let entry):
            body.write(UInt8(5))
            body.write(entry.time)
            Self.write(entry.key, to: &body)
            body.write(entry.kind.number)
            body.write(entry.step.rawValue)
            body.write(entry.sequence)
            body.write(entry.count)
            body.write(entry.detail)
        case .deadLetter(let letter):
            body.write(UInt8(6))
            body.write(letter.cause.rawValue)
            body.write(letter.reason)
            body.write(letter.time)
            Self.write(letter.wake, to: &body)
        case .deadLetterRemoved(let sequence):
            body.write(UInt8(7))
            body.write(sequence)
        case .gone(let key):
            body.write(UInt8(8))
            Self.write(key, to: &body)
        case .removed(let key):
            body.write(UInt8(9))
            Self.write(key, to: &body)
        case .template(let kind, let json):
            body.write(UInt8(10))
            body.write(kind.number)
            body.write(json)
        case .unreported(let count):
            body.write(UInt8(11))
            body.write(count)
        }
    }

    private static func write(_ key: WakeKey, to body: inout EntryWriter) {
        body.write(key.user)
        body.write(key.id)
    }

    private static func write(_ wake: Wake, to body: inout EntryWriter) {
        body.write(wake.sequence)
        body.write(wake.user)
        body.write(wake.target.id)
        body.write(wake.target.device)
        body.write(wake.target.kind.number)
        body.write(wake.target.address)
        body.write(UInt8(wake.target.isSandbox ? 1 : 0))
        body.write(wake.target.language)
        body.write(wake.identifier)
        body.write(wake.from)
        body.write(wake.group)
        body.write(wake.time)
        body.write(wake.count)
        body.write(wake.expiry)
        body.write(wake.reference)
        body.write(wake.push)
        body.write(wake.text)
        body.write(UInt8(wake.isTest ? 1 : 0))
    }

    package static func read(_ body: inout EntryReader) -> PushEntry? {
        switch body.integer(UInt8.self) {
        case 1:
            guard let epoch = body.integer(UInt64.self), let number = body.integer(UInt64.self)
            else { return nil }
            let record = InboxRecord(epoch: epoch, number: number)
            return record.isPossible ? .position(record) : nil
        case 2: return wake(&body).map { .wake($0) }
        case 3: return key(&body).map { .settled($0) }
        case 4:
            guard let key = key(&body), let number = body.integer(UInt64.self) else { return nil }
            // Earlier versions wrote any number of a sender.
            return .badge(key, min(number, PushLimits.badgeMaximum))
        case 5:
            guard let time = body.number(), let key = key(&body),
                let kind = body.integer(UInt8.self).flatMap(WakeKind.init(number:)),
                let step = body.integer(UInt8.self).flatMap(LogStep.init(rawValue:)),
                let sequence = body.number(), let count = body.number(), let detail = body.text()
            else { return nil }
            return .log(
                LogEntry(
                    time: time, key: key, kind: kind, step: step, sequence: sequence,
                    count: count, detail: detail))
        case 6:
            guard let cause = body.integer(UInt8.self).flatMap(WakeEnd.init(rawValue:)),
                let reason = body.text(), let time = body.number(),
                let wake = wake(&body)
            else { return nil }
            return .deadLetter(
                DeadLetter(wake: wake, cause: cause, reason: reason, time: time))
        case 7: return body.number().map { .deadLetterRemoved(sequence: $0) }
        case 8: return key(&body).map { .gone($0) }
        case 9: return key(&body).map { .removed($0) }
        case 10:
            guard let kind = body.integer(UInt8.self).flatMap(WakeKind.init(number:)),
                let json = body.bytes()
            else { return nil }
            return .template(kind, json)
        case 11: return body.number().map { .unreported($0) }
        default: return nil
        }
    }

    private static func key(_ body: inout EntryReader) -> WakeKey? {
        guard let user = body.text(), let id = body.number() else { return nil }
        return WakeKey(user: user, id: id)
    }

    private static func wake(_ body: inout EntryReader) -> Wake? {
        guard let sequence = body.number(), let user = body.text(),
            let id = body.number(), let device = body.text(),
            let kind = body.integer(UInt8.self).flatMap(WakeKind.init(number:)),
            let address = body.text(), let isSandbox = body.integer(UInt8.self),
            let language = body.text(), let identifier = body.text(), let from = body.text(),
            let group = body.text(), let time = body.number(), let count = body.number(),
            // The end of a validity is only compared, and may be the largest number.
            let expiry = body.integer(UInt64.self),
            let reference = body.text(), let push = body.bytes(), let text = body.text(),
            let isTest = body.integer(UInt8.self)
        else { return nil }
        return Wake(
            sequence: sequence, user: user,
            target: PushTarget(
                id: id, device: device, kind: kind, address: address, isSandbox: isSandbox == 1,
                language: language), identifier: identifier, from: from, group: group, time: time,
            count: count, expiry: expiry, reference: reference, push: push, text: text,
            isTest: isTest == 1)
    }
}
