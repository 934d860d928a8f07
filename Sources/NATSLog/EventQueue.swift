// The events that wait for a node. Outcomes are few, because requests are; records that a follower
// reads are bounded here, by number and by bytes.

import Replication

/// A queue with a bound for records.
struct EventQueue {
    private var events: [ReplicatedLogEvent] = []
    private var head = 0
    private(set) var recordCount = 0
    private(set) var byteCount = 0

    /// Whether a follower has to wait before it reads further.
    var isFull: Bool {
        recordCount >= JetStreamLimits.waitingRecordMaximum
            || byteCount >= JetStreamLimits.waitingByteCountMaximum
    }

    mutating func append(_ event: ReplicatedLogEvent) {
        if case .followed(_, let record) = event {
            recordCount += 1
            byteCount += record.count
        }
        events.append(event)
    }

    mutating func removeFirst() -> ReplicatedLogEvent? {
        guard head < events.count else { return nil }
        let event = events[head]
        if case .followed(_, let record) = event {
            recordCount -= 1
            byteCount -= record.count
            events[head] = .followed(.start, record: [])
        }
        head += 1
        if head == events.count || head >= JetStreamLimits.waitingRecordMaximum {
            events.removeFirst(head)
            head = 0
        }
        return event
    }

    /// Removes what a follower has read, and its end.
    mutating func removeFollowed() {
        events.removeFirst(head)
        head = 0
        events.removeAll { event in
            switch event {
            case .followed, .followingEnded, .recordsMissing: true
            case .appended, .read: false
            }
        }
        recordCount = 0
        byteCount = 0
    }
}
