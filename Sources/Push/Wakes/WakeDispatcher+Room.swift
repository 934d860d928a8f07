// What the record of a relay for wake-ups has when it is written anew, also on a full disk, which
// may take the log.

import Relay

extension WakeDispatcher: RecordSource {
    package var snapshot: [PushEntry] {
        shortSnapshot! + log.all.map { .log($0) }
            + [.unreported(UInt64(log.leftCount(ofLast: reports.count)))]
    }

    package var shortSnapshot: [PushEntry]? {
        progress.receivedPosition + live + marks
    }

    /// The newest wake-up of each target, and the dead letters.
    private var live: [PushEntry] {
        targets.values.compactMap(\.newest).map { .wake($0) }
            + deadLetters.all.map { .deadLetter($0) }
    }

    /// The badges, the targets that are gone, the broker's templates, and that there is no log.
    private var marks: [PushEntry] {
        badges.flatMap { user, numbers in
            numbers.map { id, number in .badge(WakeKey(user: user.text, id: id), number) }
        } + gone.map { .gone($0) } + templates.all.map { .template($0.kind, $0.json) }
            + [.unreported(0)]
    }

    package var liveByteCount: Int {
        targets.values.reduce(0) { $0 + ($1.newest?.byteCount ?? 0) }
            + deadLetters.byteCount
    }

    /// Events that are not in the record are with the broker yet, and so is all that they asked
    /// for; but not the dead letters that were sent again since.
    package var emptyRecord: [PushEntry]? {
        guard !progress.isResendUnwritten,
            targets.values.allSatisfy({ $0.newest?.sequence ?? .max >= progress.firstUnwritten }),
            deadLetters.all.allSatisfy({ $0.wake.sequence >= progress.firstUnwritten })
        else { return nil }
        return progress.writtenPosition + marks
    }

    package mutating func rewritten() { recordWritten() }

    package mutating func emptied() { progress.emptied(missing: marks + live) }
}
