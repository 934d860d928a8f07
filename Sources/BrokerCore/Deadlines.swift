// The deadlines of the core: ends of sessions, wills, credentials, and logins that wait.
//
// It owns the timing wheel, and refers to objects by index. The owner of a deadline stores its
// token and cancels it.
//
// Invariants: there is at most one deadline of housekeeping, and at most one of deliveries.

import Primitives

/// The deadlines of the core.
struct Deadlines: ~Copyable {
    private var wheel: TimerWheel
    private(set) var isHousekeepingDue = false
    private var areDeliveriesDue = false

    init(start: Instant) {
        wheel = TimerWheel(start: start)
    }

    /// The earliest deadline, or an earlier time.
    var next: Instant? { wheel.nextDeadline }

    mutating func insert(_ payload: DeadlinePayload, at deadline: Instant) -> TimerWheel.Token {
        wheel.insert(deadline: deadline, payload: payload.raw)
    }

    /// Adds the next round of housekeeping.
    mutating func insertHousekeeping(at deadline: Instant) {
        precondition(!isHousekeepingDue, "housekeeping at \(deadline.milliseconds) beside another")
        isHousekeepingDue = true
        _ = insert(.housekeeping, at: deadline)
    }

    /// Adds a deadline for the deliveries that waited for a commit, unless there is one.
    mutating func insertDeliveries(at deadline: Instant) {
        if areDeliveriesDue { return }
        areDeliveriesDue = true
        _ = insert(.deliveries, at: deadline)
    }

    mutating func cancel(_ token: TimerWheel.Token) {
        _ = wheel.cancel(token)
    }

    /// Removes and returns the next deadline that is due.
    mutating func popDue(at now: Instant) -> DeadlinePayload? {
        guard let raw = wheel.popDue(at: now) else { return nil }
        let payload = DeadlinePayload(raw: raw)
        switch payload {
        case .housekeeping: isHousekeepingDue = false
        case .deliveries: areDeliveriesDue = false
        case .session, .will, .retained, .access, .login, .tracked, .receipts, .revision,
            .wake, .wakeCheck, .brokerEvents, .held, .forgottenQuestions:
            break
        }
        return payload
    }
}

/// The kind of a deadline and its object, in the number that the timing wheel stores.
enum DeadlinePayload {
    case session(Index<Session>)
    case will(Index<Will>)
    case access(Index<Access>)
    case housekeeping
    case retained(Index<Retained>)
    case login(Index<DelayedLogin>)
    case deliveries
    case tracked(Index<TrackedSend>)
    case receipts(Index<TrackedSend>)
    case revision(Index<Revision>)
    case wake(Index<WakeUser>)
    case wakeCheck(Index<WakeUser>)
    case brokerEvents
    case held(Index<HeldQueue>)
    case forgottenQuestions(Index<ForgottenQuestions>)

    var raw: UInt64 {
        switch self {
        case .session(let session): UInt64(session.place)
        case .will(let will): 1 << 32 | UInt64(will.place)
        case .housekeeping: 2 << 32
        case .access(let access): 3 << 32 | UInt64(access.place)
        case .retained(let retained): 4 << 32 | UInt64(retained.place)
        case .login(let login): 5 << 32 | UInt64(login.place)
        case .deliveries: 6 << 32
        case .tracked(let send): 7 << 32 | UInt64(send.place)
        case .receipts(let send): 8 << 32 | UInt64(send.place)
        case .revision(let revision): 9 << 32 | UInt64(revision.place)
        case .wake(let user): 10 << 32 | UInt64(user.place)
        case .wakeCheck(let user): 11 << 32 | UInt64(user.place)
        case .brokerEvents: 12 << 32
        case .held(let queue): 13 << 32 | UInt64(queue.place)
        case .forgottenQuestions(let questions): 14 << 32 | UInt64(questions.place)
        }
    }

    init(raw: UInt64) {
        let place = UInt32(truncatingIfNeeded: raw)
        switch raw >> 32 {
        case 0: self = .session(Index(place: place))
        case 1: self = .will(Index(place: place))
        case 2: self = .housekeeping
        case 3: self = .access(Index(place: place))
        case 4: self = .retained(Index(place: place))
        case 5: self = .login(Index(place: place))
        case 6: self = .deliveries
        case 7: self = .tracked(Index(place: place))
        case 8: self = .receipts(Index(place: place))
        case 9: self = .revision(Index(place: place))
        case 10: self = .wake(Index(place: place))
        case 11: self = .wakeCheck(Index(place: place))
        case 12: self = .brokerEvents
        case 13: self = .held(Index(place: place))
        case 14: self = .forgottenQuestions(Index(place: place))
        default: preconditionFailure("deadline payload \(raw)")
        }
    }
}
