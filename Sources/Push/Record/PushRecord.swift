// The state that the record of a relay for wake-ups describes.

import MartletClient
import Relay
import WakeTemplates

package struct PushRecord: RecordedContent {
    package private(set) var position: InboxRecord?
    private var waiting: [WakeKey: Wake] = [:]
    package private(set) var badges: [WakeKey: UInt64] = [:]
    private var dead: [UInt64: DeadLetter] = [:]
    package private(set) var gone: Set<WakeKey> = []
    package private(set) var log: [LogEntry] = []
    /// Entries at the end of the log that the broker has not taken; nil if an earlier version of
    /// the relay did not write it.
    private var unreportedCount: Int?
    package private(set) var templates: [WakeKind: [UInt8]] = [:]
    /// The highest number that was used.
    package private(set) var highestSequence: UInt64 = 0

    package init() {}

    package var wakes: [Wake] { waiting.values.sorted { $0.sequence < $1.sequence } }

    package var deadLetters: [DeadLetter] {
        dead.values.sorted { ($0.time, $0.wake.sequence) < ($1.time, $1.wake.sequence) }
    }

    /// What the broker is to be told, oldest first.
    package var unreported: ArraySlice<LogEntry> { log.suffix(unreportedCount ?? 0) }

    package mutating func apply(_ entry: PushEntry) {
        switch entry {
        case .position(let position): self.position = position
        case .wake(let wake):
            waiting[wake.key] = wake
            highestSequence = max(highestSequence, wake.sequence)
        case .settled(let key): waiting[key] = nil
        case .badge(let key, let number): badges[key] = number == 0 ? nil : number
        case .log(let entry):
            log.append(entry)
            unreportedCount? += 1
            highestSequence = max(highestSequence, entry.sequence)
        case .deadLetter(let letter):
            dead[letter.wake.sequence] = letter
            highestSequence = max(highestSequence, letter.wake.sequence)
        case .deadLetterRemoved(let sequence): dead[sequence] = nil
        case .unreported(let count):
            unreportedCount = min(Int(clamping: count), log.count)
        case .gone(let key): gone.insert(key)
        case .template(let kind, let json): templates[kind] = json.isEmpty ? nil : json
        case .removed(let key):
            gone.remove(key)
            badges[key] = nil
        }
    }
}
