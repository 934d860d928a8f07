// Measures which connections of an event loop send most, while operators ask. The table has a fixed
// size: it keeps the connections that send most, by the space-saving algorithm (Metwally, Agrawal
// and El Abbadi, 2005), which may count too much for one that entered a full table, and never
// leaves out one with more than a 128th of all messages.

import BrokerTerms
import Primitives

/// What one event loop tells about its clients.
struct LoopActivity: Sendable {
    struct Sender: Sendable {
        let connection: ConnectionID
        var messageCount: UInt64
        var byteCount: UInt64
    }

    struct Reader: Sendable {
        let connection: ConnectionID
        let unsentByteCount: Int
    }

    /// How long the senders were measured.
    var milliseconds: UInt64 = 0
    var senders: [Sender] = []
    /// The connections with the most bytes that they have not read, the slowest first.
    var readers: [Reader] = []
}

/// The connections of an event loop that send most.
struct ActivityMeter: ~Copyable {
    private struct Window {
        let began: Instant
        var counts: [ConnectionID: (messages: UInt64, bytes: UInt64)] = [:]
    }

    private var current: Window?
    private var last: (milliseconds: UInt64, window: Window)?
    /// Nothing is measured from this time on.
    private var end = Instant(milliseconds: 0)
    /// Whether somebody asked lately. Without it, this test is all that a read pays.
    private(set) var isMeasuring = false

    /// Connections in the table: more than an operator looks at.
    static let countMaximum = 128
    /// Milliseconds of a window, whose counts are told while the next one is measured.
    static let windowMilliseconds: UInt64 = 2_000
    /// How long after a question the loop goes on measuring for the next one.
    static let followMilliseconds: UInt64 = 30_000
    /// Slots of connections that are looked at for slow readers: about half a millisecond. A loop
    /// that has more goes on with the next question.
    static let slotsMaximum = 65_536
    /// Slow readers in an answer.
    static let readersMaximum = 64

    /// Counts what a connection has sent.
    mutating func note(
        _ connection: ConnectionID, messages: Int, bytes: Int, at now: Instant
    ) {
        guard now < end else {
            isMeasuring = false
            current = nil
            last = nil
            return
        }
        turn(at: now)
        let (messages, bytes) = (UInt64(messages), UInt64(bytes))
        if let counts = current?.counts[connection] {
            current?.counts[connection] = (counts.messages + messages, counts.bytes + bytes)
            return
        }
        var counts = (messages: messages, bytes: bytes)
        if current?.counts.count == Self.countMaximum,
            let least = current?.counts.min(by: { $0.value.messages < $1.value.messages })
        {
            current?.counts[least.key] = nil
            counts = (least.value.messages + messages, least.value.bytes + bytes)
        }
        current?.counts[connection] = counts
    }

    /// What was measured in the last whole window, or since the first question.
    mutating func report(at now: Instant) -> LoopActivity {
        if now >= end { (current, last) = (Window(began: now), nil) }
        end = now.advanced(byMilliseconds: Self.followMilliseconds)
        isMeasuring = true
        turn(at: now)
        let shown = last ?? current.map { (now.milliseconds(since: $0.began), $0) }
        return LoopActivity(
            milliseconds: shown?.milliseconds ?? 0,
            senders: shown?.window.counts.map {
                LoopActivity.Sender(
                    connection: $0.key, messageCount: $0.value.messages,
                    byteCount: $0.value.bytes)
            } ?? [])
    }

    /// Begins the next window if the time of this one is over.
    private mutating func turn(at now: Instant) {
        guard let window = current else {
            current = Window(began: now)
            return
        }
        let elapsed = now.milliseconds(since: window.began)
        guard elapsed >= Self.windowMilliseconds else { return }
        last = (elapsed, window)
        current = Window(began: now)
    }
}
