// Requests to take back messages of a user or to give them new content, and their reply.

/// Takes back a message. What is still in a queue is removed; receivers who may have it are told.
/// The reply follows when all of it is on disk.
public struct RecallMessage: AdministrationRequest {
    public static let name = "message.recall"
    public typealias Reply = MessageRevision
    public var app: String
    /// The user who sent it.
    public var from: String

    // One of these is given.

    /// The message's reference, from the reply to its send.
    public var reference: String?
    /// The application's own id: the latest message of `from` with it.
    public var mid: String?

    /// Text for the receivers who may have it, at most ``detailByteCountMaximum`` bytes.
    public var detail: String?

    /// Maximum bytes of ``detail``, as over MRT.
    public static let detailByteCountMaximum = 128

    public init(
        app: String, from: String, reference: String? = nil, mid: String? = nil,
        detail: String? = nil
    ) {
        self.app = app
        self.from = from
        self.reference = reference
        self.mid = mid
        self.detail = detail
    }
}

/// Gives a message new content, in its old place in the queues that have it; receivers who may have
/// it are told. The reply follows when all of it is on disk.
public struct ReplaceMessage: AdministrationRequest {
    public static let name = "message.replace"
    public typealias Reply = MessageRevision
    public var app: String
    /// The user who sent it.
    public var from: String

    // As for ``RecallMessage``.

    public var reference: String?
    public var mid: String?
    public var detail: String?

    /// The new text.
    public var b: String
    /// The type of ``b``; 0 if absent.
    public var t: UInt8?

    public init(
        app: String, from: String, reference: String? = nil, mid: String? = nil,
        detail: String? = nil, b: String, t: UInt8? = nil
    ) {
        self.app = app
        self.from = from
        self.reference = reference
        self.mid = mid
        self.detail = detail
        self.b = b
        self.t = t
    }
}

/// What was done with a message that was recalled or replaced.
public struct MessageRevision: Codable, Hashable, Sendable {
    /// Users of whom no device had it, or may have had it.
    public var withdrawnCount: UInt32
    /// Users who have it, or may have it. They are told.
    public var lateCount: UInt32
    /// Some of these users, at most 256.
    public var lateUsers: [String]

    public init(withdrawnCount: UInt32, lateCount: UInt32, lateUsers: [String]) {
        self.withdrawnCount = withdrawnCount
        self.lateCount = lateCount
        self.lateUsers = lateUsers
    }
}
