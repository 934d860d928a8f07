// The deletion of an app or of a user, in pieces: an app may have a million users, and no message
// waits for more than one piece. This file has what the caller keeps between the pieces;
// `Broker+Deletion.swift` carries them out.

import BrokerTerms
import Primitives

/// What is deleted.
public struct DeletionScope: Hashable, Sendable {
    public var app: [UInt8]
    /// The user; nil for the app with all its users.
    public var user: [UInt8]?

    public init(app: [UInt8], user: [UInt8]? = nil) {
        self.app = app
        self.user = user
    }
}

/// A deletion that is under way. It needs nothing of an earlier one of the same scope, so that
/// another one goes on after a restart.
public struct Deletion: Sendable {
    public let scope: DeletionScope
    /// What has been deleted so far.
    public internal(set) var counts = DeletionCounts()
    /// Whether nothing is left.
    public internal(set) var isComplete = false
    /// Whether the last piece has changed nothing: it has looked at what belongs to others.
    public internal(set) var hasOnlyLooked = false
    var phase = Phase.credentials
    /// The place that the phase has looked at last.
    var place: UInt32?
    /// Keys of sends before this position are still to be looked at.
    var keyPosition = Int.max
    /// Whether something that the phase has passed waits for a commit.
    var mustRepeat = false
    /// Work of a piece; less in tests, which stop between any two pieces.
    var unitsMaximum = Deletion.unitsPerPiece
    /// What is left of the work of the piece.
    var units = 0
    /// The changes of the pending batch with which the piece ends.
    var changeMaximum = 0

    /// Work of a piece: a few milliseconds. A place that is looked at, a token and a password are
    /// one unit.
    static let unitsPerPiece = 4_096
    /// A session with its subscriptions and its queue, as ``SessionSearch/foundPerSlice`` says.
    static let unitsPerSession = unitsPerPiece / SessionSearch.foundPerSlice
    /// A member that leaves a group, of which others are told.
    static let unitsPerMember = 16
    /// A conversation, a retained message, a tracked send, a will, or a user.
    static let unitsPerRow = 4

    public init(of scope: DeletionScope) { self.scope = scope }

    /// What is deleted, in this order. Whatever refers to users comes before them, so that the
    /// store can be read between any two pieces.
    enum Phase: Int, CaseIterable {
        case credentials, passwords, sessions, wills, groups, memberships, allowLists, retained
        case conversations, leftovers, trackedSends, sendKeys, users
    }

    /// Begins the next phase.
    mutating func goOn(with next: Phase) {
        phase = next
        place = nil
        keyPosition = .max
        mustRepeat = false
    }

    /// Notes that a place is being looked at.
    mutating func look(at place: UInt32) {
        self.place = place
        units -= 1
    }
}

/// What a deletion has removed.
public struct DeletionCounts: Hashable, Sendable {
    public var users = 0
    public var sessions = 0
    /// Tokens, passwords and keys of apps.
    public var credentials = 0
    public var groups = 0
    public var retainedMessages = 0
    public var conversations = 0
    /// Messages in queues of sessions and users.
    public var queuedMessages: UInt64 = 0

    public init() {}
}

/// What a deletion would lose.
public struct DeletionLosses: Hashable, Sendable {
    public var connectedSessions = 0
    public var queuedMessages: UInt64 = 0
    /// Of an app: devices have them, and nobody can make the same ones again. Those of a user are
    /// what its deletion is for.
    public var tokens = 0
    /// Of an app, as tokens: the broker has their hashes only.
    public var passwords = 0
    /// All groups of an app; those that the user owns.
    public var groups = 0
    /// Of an app. A user's retained messages stay.
    public var retainedMessages = 0
    /// All of an app; those of the user with another user.
    public var conversations = 0

    public init() {}

    public var isEmpty: Bool { self == DeletionLosses() }
}

/// A count of what a deletion would lose, in slices.
public struct DeletionLossSearch: Sendable {
    public let scope: DeletionScope
    public internal(set) var losses = DeletionLosses()
    var place: UInt32?
    var countsRetained = false

    /// Users or retained messages that are looked at at a time: about a millisecond.
    static let sliceCount = 4_096

    public init(of scope: DeletionScope) { self.scope = scope }
}
