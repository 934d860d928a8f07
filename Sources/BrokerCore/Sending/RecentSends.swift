// The sends of a session that had application ids, so that a send with an id that was used recently
// is recognised as a repeat.

import BrokerTerms

/// A send with an application id.
struct RecentSend {
    let identifier: [UInt8]
    let number: UInt64
    /// Whether `reason` is final.
    fileprivate(set) var isComplete = false
    fileprivate(set) var reason = ReasonCode.sent
    /// Refused receivers of a list; empty for nearly every send.
    let refusals: [Refusal]
    /// The number of refused receivers, named or not.
    let refusedCount: UInt32
    /// Whether repeats of it wait for its result.
    fileprivate(set) var hasRepeats = false
}

/// The recent sends of one session, in the order of their numbers.
struct RecentSends {
    private var sends: [RecentSend] = []
    /// The number of refused receivers that they name.
    private var nameCount = 0

    /// Maximum number of names that the recent sends of one session keep: 2 KB. Beyond it, a repeat
    /// is told only the number of refused receivers.
    private static let nameCountMaximum = 256

    var count: Int { sends.count }
    var isEmpty: Bool { sends.isEmpty }

    /// The first send with an application id.
    func first(_ identifier: [UInt8]) -> RecentSend? {
        sends.first { $0.identifier == identifier }
    }

    /// Adds a send, whose number is higher than all before it.
    mutating func add(
        _ number: UInt64, identifier: [UInt8], refusals: [Refusal], refusedCount: UInt32
    ) {
        let areNamed = nameCount + refusals.count <= Self.nameCountMaximum
        if areNamed { nameCount += refusals.count }
        sends.append(
            RecentSend(
                identifier: identifier, number: number, refusals: areNamed ? refusals : [],
                refusedCount: refusedCount))
    }

    /// Removes the first send that has a result. Returns false if there is none.
    mutating func removeOldestComplete() -> Bool {
        guard let oldest = sends.firstIndex(where: \.isComplete) else { return false }
        remove(at: oldest)
        return true
    }

    /// Notes that a repeat waits for the result of a send.
    mutating func awaitResult(of number: UInt64) {
        guard let position = position(of: number) else { return }
        sends[position].hasRepeats = true
    }

    /// The effect of the result of a send on later sends.
    struct Completion {
        /// Whether repeats of it wait for its result.
        let hasRepeats: Bool
        /// Whether it is the last of all.
        let isLast: Bool
    }

    /// Takes the result of a send. After a refusal, a send with the same id is a new one. Returns
    /// nil if the send is not among them.
    mutating func complete(_ number: UInt64, _ reason: ReasonCode) -> Completion? {
        guard let position = position(of: number) else { return nil }
        let completion = Completion(
            hasRepeats: sends[position].hasRepeats, isLast: position == sends.count - 1)
        if reason.isFailure {
            remove(at: position)
        } else {
            sends[position].isComplete = true
            sends[position].reason = reason
        }
        return completion
    }

    /// Keeps as many sends as the window is long, and all without a result. Releases the memory of
    /// the others.
    mutating func trim(to window: Int) {
        var excess = sends.count - window
        guard excess > 0 else { return }
        var kept: [RecentSend] = []
        kept.reserveCapacity(window)
        for send in sends {
            if excess > 0, send.isComplete {
                excess -= 1
                nameCount -= send.refusals.count
            } else {
                kept.append(send)
            }
        }
        sends = kept
    }

    private mutating func remove(at position: Int) {
        nameCount -= sends.remove(at: position).refusals.count
    }

    private func position(of number: UInt64) -> Int? {
        var (low, high) = (0, sends.count)
        while low < high {
            let middle = (low + high) / 2
            if sends[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < sends.count && sends[low].number == number ? low : nil
    }
}
