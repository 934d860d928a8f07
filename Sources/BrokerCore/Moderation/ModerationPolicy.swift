// Which messages of an app a moderator decides on, and what holds while it is silent.

import Primitives

/// How the messages of an app are moderated.
public struct ModerationPolicy: Hashable, Sendable {
    /// The user whose devices are asked. Several programs are several devices of it.
    public var moderator: [UInt8]
    /// How long a message waits for a verdict, in milliseconds.
    public var milliseconds: UInt64 = 2_000
    /// Whether a message is accepted on which nobody decides; otherwise it is refused.
    public var acceptsWhenSilent = false
    /// Messages to users.
    public var coversUsers = true
    /// Messages to groups.
    public var coversGroups = true
    /// Messages to everybody.
    public var coversEverybody = true
    /// Filters of the topics whose publications are moderated, at most
    /// ``CoreLimits/historyFiltersMaximum``. Each keeps the rules of MQTT 4.7 and does not begin
    /// with `$`.
    public var topics: [[UInt8]] = []

    public init(moderator: [UInt8]) { self.moderator = moderator }
}

extension CoreLimits {
    /// Messages of one user that wait for verdicts, with the questions of its connections that have
    /// ended. Reading from a client stops far below it (``heldPauseCount``); one burst that was
    /// read already has 2,048 messages.
    static let heldOfSenderMaximum = 4_096
    /// Bytes of these: 16 of the largest payloads.
    static let heldBytesOfSenderMaximum = 4 << 20
    /// From so many on, a client whose keep-alive is longer than the time for a verdict is not
    /// read, until half of them are decided. With 20 milliseconds for a verdict, that is 6,000
    /// messages per second from one client.
    static let heldPauseCount = 128
    /// The same of all senders of an app: 10,000 messages per second that take a second each.
    static let heldOfAppMaximum = 10_000
    static let heldBytesOfAppMaximum = 16 << 20
    /// Bytes of a question: below the packets that a relay takes (1 MiB), with room for their other
    /// parts. Without it, a sender could get past a moderator with a text of control characters,
    /// which have six bytes each in JSON.
    static let questionByteCountMaximum = 768 << 10
    /// Bytes of the text of a verdict, as those of a receipt.
    static let verdictTextBytesMaximum = 128
}
