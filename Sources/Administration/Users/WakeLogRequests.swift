// Requests about the log of wake-ups: what relays reported of them.

/// Lists what relays reported of the wake-ups of a user since the start of the broker.
public struct ListWakeLog: AdministrationRequest {
    public static let name = "wake.log"
    public var app: String
    public var user: String
    /// Only those with a higher number, the oldest first; nil for the latest ones.
    public var after: UInt64?
    /// How many at most, up to ``countMaximum``; nil for all.
    public var limit: Int?

    /// As many as the broker keeps of a user.
    public static let countMaximum = 100

    public init(app: String, user: String, after: UInt64? = nil, limit: Int? = nil) {
        self.app = app
        self.user = user
        self.after = after
        self.limit = limit
    }

    public struct Entry: Codable, Hashable, Sendable {
        /// Rises with each entry of all users since the start of the broker.
        public var number: UInt64
        /// By the clock of the relay.
        public var unixMilliseconds: UInt64
        /// The id of the target, which may have been removed since.
        public var id: UInt64
        public var kind: WakeTargetKind
        /// What happened, such as `sent`: docs/operating/push.md has a table.
        public var step: String
        /// The relay's number of the wake-up.
        public var wake: UInt64
        /// Messages that waited for the user.
        public var messageCount: UInt64
        /// A status, a reason or a cause.
        public var detail: String?

        public init(
            number: UInt64, unixMilliseconds: UInt64, id: UInt64, kind: WakeTargetKind,
            step: String, wake: UInt64, messageCount: UInt64, detail: String?
        ) {
            self.number = number
            self.unixMilliseconds = unixMilliseconds
            self.id = id
            self.kind = kind
            self.step = step
            self.wake = wake
            self.messageCount = messageCount
            self.detail = detail
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The oldest first.
        public var entries: [Entry]
        /// The number of the latest entry of all users; 0 if there was none. It is lower than an
        /// earlier one if the broker was started meanwhile.
        public var last: UInt64

        public init(entries: [Entry], last: UInt64) {
            self.entries = entries
            self.last = last
        }
    }
}
