// Requests about what receivers did with messages.

/// Shows what receivers did with a message that has a reference, as long as it is remembered: until
/// an hour after its expiry.
public struct ShowReceipts: AdministrationRequest {
    public static let name = "message.receipts"
    public var app: String
    /// 16 hexadecimal digits.
    public var reference: String
    /// The page of receivers begins after this user, the `next` of the previous reply.
    public var after: String?
    /// Receivers of the reply; nil for ``countMaximum``.
    public var limit: Int?

    /// Receivers of one reply.
    public static let countMaximum = 1_000

    public init(app: String, reference: String, after: String? = nil, limit: Int? = nil) {
        self.app = app
        self.reference = reference
        self.after = after
        self.limit = limit
    }

    public struct Receiver: Codable, Hashable, Sendable {
        public var user: String
        /// Whether a device has acknowledged the message; nil for a member of a group of whom only
        /// the count is known.
        public var isDelivered: Bool?
        /// Whether its application has told what it did.
        public var isApplied: Bool
        /// True if the message was withdrawn before a device had it.
        public var isWithdrawn: Bool?

        public init(user: String, isDelivered: Bool?, isApplied: Bool, isWithdrawn: Bool?) {
            self.user = user
            self.isDelivered = isDelivered
            self.isApplied = isApplied
            self.isWithdrawn = isWithdrawn
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The user who sent it.
        public var from: String
        /// The sender's own id of the message.
        public var mid: String?
        /// The group; nil for a message to users.
        public var groupid: String?
        /// Which receipts its sender asked for: `delivered`, `applied`; none for a reference alone.
        public var receipts: [String]
        public var unixMilliseconds: UInt64
        /// When the message expires.
        public var expiresUnixSeconds: UInt64?
        /// Whether it has expired: no further receiver gets it.
        public var isExpired: Bool
        public var receiverCount: UInt32
        public var deliveredCount: UInt32
        public var appliedCount: UInt32
        /// Of these, the members who told a failure; nil for a message to users.
        public var failedCount: UInt32?
        /// True if its sender has recalled it.
        public var isRecalled: Bool?
        /// Users who never get a message that was recalled.
        public var withdrawnCount: UInt32?
        /// Users for whom a recall was too late.
        public var lateCount: UInt32?
        public var receivers: [Receiver]
        /// The user to continue after; nil at the end.
        public var next: String?

        public init(
            from: String, receipts: [String], unixMilliseconds: UInt64, isExpired: Bool,
            receiverCount: UInt32, deliveredCount: UInt32, appliedCount: UInt32,
            receivers: [Receiver], next: String?
        ) {
            self.from = from
            self.receipts = receipts
            self.unixMilliseconds = unixMilliseconds
            self.isExpired = isExpired
            self.receiverCount = receiverCount
            self.deliveredCount = deliveredCount
            self.appliedCount = appliedCount
            self.receivers = receivers
            self.next = next
        }
    }
}

/// Tells the sender of a message that a user's application has applied it, or why not.
public struct ReportApplied: AdministrationRequest {
    public static let name = "message.applied"
    public var app: String
    /// The receiver.
    public var user: String
    /// The device that the receipt names; nil for none.
    public var device: String?
    /// The reference in the delivery, 16 hexadecimal digits.
    public var reference: String
    /// 0 or nil: done; from 128 on a failure.
    public var code: UInt8?
    /// For the sender, at most 128 bytes.
    public var text: String?

    public init(
        app: String, user: String, device: String? = nil, reference: String, code: UInt8? = nil,
        text: String? = nil
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.reference = reference
        self.code = code
        self.text = text
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}
