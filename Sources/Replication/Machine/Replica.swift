// The machine of one node: it decides when the node takes over, when a record is in the log, what
// the store applies, and until when the node may emit anything. It does no I/O and reads no clock.
// This file has its state and the time; Replica+Appending has the primary's half, Replica+Following
// the standby's.

import BrokerCore
import Primitives

/// One node of a cluster.
///
/// The log is the truth; every store is a copy of a prefix of it. A primary's lease runs from the
/// first try of its last committed append. A standby takes over with an append that expects the
/// last record that it has applied, so it fails if the primary has appended anything since. It
/// begins that later than the lease can end: it has heard the record after its first try.
public struct Replica: Sendable {
    public let settings: ReplicaSettings
    public internal(set) var role = ReplicaRole.joining
    /// The last record that was accepted in order.
    public internal(set) var received: ReplicaPosition
    /// The record through which the store is known to have applied the log.
    public internal(set) var applied: LogSequence

    /// When the primary's lease ends.
    public internal(set) var leaseEnd = Instant(milliseconds: 0)
    /// Appends that have begun: first tries.
    var begunCount: UInt64 = 0
    /// The last of them that is committed.
    public internal(set) var confirmedCount: UInt64 = 0

    var pending: PendingAppend?
    /// A decided batch that waits until a heartbeat is committed.
    var waiting: (bytes: [UInt8], hasSends: Bool)?
    var wantsConfirmation = false
    /// When the last append began.
    var lastBegun = Instant(milliseconds: 0)

    /// When a record was last received, or following began.
    var lastHeard: Instant
    var following = Following()
    /// The last primary that has given its place up.
    private var resignation: (term: Term, sequence: LogSequence)?
    private var lastRequest: UInt64 = 0

    /// - Parameter position: that of the store; nil for a store that belongs to no cluster.
    public init(
        _ settings: ReplicaSettings, position: ReplicaPosition?, at time: ReplicaTime,
        commands: inout [ReplicaCommand]
    ) {
        self.settings = settings
        received =
            position ?? .founding(StoreIdentity(high: 0, low: 0))
        applied = received.sequence
        lastHeard = time.now
        if position == nil {
            commands.append(.copyStore)
        } else {
            role = .standby
            commands.append(.follow(from: received.sequence.next))
        }
    }

    // MARK: What may leave

    /// Whether anything may leave the broker now. The owner asks once per turn, as late as it can.
    public func mayEmit(at now: Instant) -> Bool { role == .primary && now < leaseEnd }

    /// The mark of what is decided now and is in no batch. It may leave once ``isConfirmed(_:)``:
    /// then an append is committed that began after the decision, so this node was the primary when
    /// it decided.
    public var confirmationMark: UInt64 { begunCount }

    public func isConfirmed(_ mark: UInt64) -> Bool { confirmedCount > mark }

    /// Whether a decided batch waits for its outcome.
    public var isDeciding: Bool {
        if waiting != nil { return true }
        if case .batch = pending?.kind { return true }
        return false
    }

    /// Whether the node would be the primary if the log had room for its takeover.
    public var isTakeoverRefused: Bool { pending?.kind == .takeover && pending!.isRefusedAsFull }

    /// Whether no append is under way or waits.
    public var isSettled: Bool { pending == nil && waiting == nil }

    // MARK: Events

    /// Takes an event and appends what is to be done.
    public mutating func handle(
        _ event: ReplicaEvent, at time: ReplicaTime, commands: inout [ReplicaCommand]
    ) {
        guard role != .fenced else { return }
        switch event {
        case .log(.appended(let request, let outcome)):
            appended(request, outcome, at: time, commands: &commands)
        case .log(.read(let request, let outcome)):
            read(request, outcome, at: time, commands: &commands)
        case .log(.followed(let sequence, let record)):
            followed(sequence, record, at: time, commands: &commands)
        case .log(.followingEnded):
            following.retryAt = following.retryAt ?? time.now.advanced(byMilliseconds: pause)
        case .log(.recordsMissing(let first)):
            recordsMissing(before: first, at: time, commands: &commands)
        case .decided(let bytes, let hasSends):
            decided(bytes, hasSends: hasSends, at: time, commands: &commands)
        case .confirmationWanted: wantsConfirmation = role == .primary
        case .applied(let sequence): applied = max(applied, sequence)
        case .copied(let position): copied(position, at: time, commands: &commands)
        case .trimAllowed(let sequence): commands.append(.trim(through: sequence))
        case .resigned(let term, let sequence): resignation = (term, sequence)
        case .timePassed: break
        }
        proceed(at: time, commands: &commands)
    }

    /// When ``ReplicaEvent/timePassed`` is due.
    public var deadline: Instant {
        guard role != .fenced else { return .never }
        var deadline = following.retryAt ?? .never
        if let pending {
            deadline = min(deadline, pending.retryAt ?? .never)
        } else if role == .primary {
            deadline = min(deadline, heartbeatDue)
        } else if role == .standby, applied == received.sequence {
            deadline = min(deadline, takeoverDue)
        }
        return deadline
    }

    private var heartbeatDue: Instant {
        lastBegun.advanced(byMilliseconds: settings.heartbeatMilliseconds)
    }

    private var takeoverDue: Instant {
        if let resignation, resignation == (received.term, received.sequence) {
            return Instant(milliseconds: 0)
        }
        return lastHeard.advanced(byMilliseconds: settings.silenceMilliseconds)
    }

    private var pause: UInt64 { ReplicationLimits.retryMilliseconds.upperBound }

    /// Does what is due: tries again, begins the next append, takes over.
    private mutating func proceed(at time: ReplicaTime, commands: inout [ReplicaCommand]) {
        if let due = following.retryAt, due <= time.now {
            following.retryAt = nil
            follow(&commands)
        }
        if let due = pending?.retryAt, due <= time.now { tryAgain(&commands) }
        guard pending == nil else { return }
        switch role {
        case .primary:
            if let (bytes, hasSends) = waiting {
                waiting = nil
                begin(.batch(bytes), .batch(hasSends: hasSends), at: time, commands: &commands)
            } else if wantsConfirmation || heartbeatDue <= time.now || leaseEnd <= time.now {
                begin(.heartbeat, .heartbeat, at: time, commands: &commands)
            }
        case .standby:
            guard applied == received.sequence, takeoverDue <= time.now else { return }
            begin(.takeover(settings.node), .takeover, at: time, commands: &commands)
        case .joining, .fenced: break
        }
    }

    mutating func fence(_ cause: FenceCause, _ commands: inout [ReplicaCommand]) {
        role = .fenced
        pending = nil
        waiting = nil
        leaseEnd = Instant(milliseconds: 0)
        commands.append(.fence(cause))
    }

    mutating func nextRequest() -> LogRequest {
        lastRequest += 1
        return LogRequest(raw: lastRequest)
    }
}
