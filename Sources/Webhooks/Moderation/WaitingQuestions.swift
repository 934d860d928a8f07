// The questions that wait for their turn, in one queue for each sender. The senders take turns. It
// knows no endpoint, and the time is handed in.
//
// Invariants: a sender is in the list of turns once while it has a queue, which may be empty; the
// list of arrivals has each question that waits, and others that were taken since.

import Primitives
import Relay

struct WaitingQuestions {
    private typealias Entry = (serial: UInt64, pending: PendingQuestion)

    private var queues: [ExactText: Queue<Entry>] = [:]
    private var turns = Queue<ExactText>()
    private var arrivals = Queue<(sender: ExactText, serial: UInt64)>()
    private var nextSerial: UInt64 = 0
    private(set) var count = 0

    /// Questions of one sender.
    func count(of sender: ExactText) -> Int { queues[sender]?.count ?? 0 }

    mutating func append(_ pending: PendingQuestion) {
        let sender = pending.question.sender
        if queues[sender] == nil { turns.append(sender) }
        queues[sender, default: Queue()].append((nextSerial, pending))
        arrivals.append((sender, nextSerial))
        nextSerial += 1
        count += 1
    }

    /// The oldest question of the sender whose turn it is.
    private var next: PendingQuestion? {
        turns.first.flatMap { queues[$0]?.first?.pending }
    }

    /// Removes it, and gives the turn to the next sender.
    mutating func popNext() -> PendingQuestion? {
        guard count > 0, let sender = turns.popFirst() else { return nil }
        guard let entry = queues[sender]!.popFirst() else {
            preconditionFailure("it is the turn of \(sender), who has no question")
        }
        turns.append(sender)
        settle()
        return entry.pending
    }

    /// Removes a question whose time is over: the oldest one, or the next one, whose time may be
    /// shorter after a reload of the broker. It takes no turn.
    mutating func popExpired(now: Instant) -> PendingQuestion? {
        for sender in [turns.first, arrivals.first?.sender] {
            guard let sender, let entry = queues[sender]!.first, entry.pending.deadline <= now
            else { continue }
            _ = queues[sender]!.popFirst()
            settle()
            return entry.pending
        }
        return nil
    }

    /// The question that came first.
    private var oldest: PendingQuestion? {
        arrivals.first.flatMap { queues[$0.sender]?.first?.pending }
    }

    /// When ``popExpired(now:)`` has something.
    var firstDeadline: Instant? {
        guard let oldest, let next else { return nil }
        return min(oldest.deadline, next.deadline)
    }

    /// After a question was removed: leaves out its arrival, and the turns of senders that have
    /// none any more.
    private mutating func settle() {
        count -= 1
        while let (sender, serial) = arrivals.first,
            queues[sender]?.first.map({ $0.serial > serial }) ?? true
        {
            _ = arrivals.popFirst()
        }
        while let sender = turns.first, queues[sender]!.isEmpty {
            queues[sender] = nil
            _ = turns.popFirst()
        }
    }
}
