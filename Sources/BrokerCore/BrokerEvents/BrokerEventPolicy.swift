// Which events of the broker an app's back end is told, and by whom it is told them.

import Primitives

/// Events that an app can have.
public struct BrokerEventKinds: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A connection ended without a DISCONNECT.
    public static let sessionLost = BrokerEventKinds(rawValue: 1 << 0)
    /// A session without a connection ended, because its time was over.
    public static let sessionExpired = BrokerEventKinds(rawValue: 1 << 1)
    /// A full queue refused or dropped a message.
    public static let queueFull = BrokerEventKinds(rawValue: 1 << 2)
    /// Logins were refused, of whatever app.
    public static let loginRefused = BrokerEventKinds(rawValue: 1 << 3)
    /// A certificate or a revocation list of the broker expires soon.
    public static let certificateExpiring = BrokerEventKinds(rawValue: 1 << 4)
    /// Those that are about users of the app.
    public static let ofUsers: BrokerEventKinds = [.sessionLost, .sessionExpired, .queueFull]
}

/// How an app is told of events.
public struct BrokerEventPolicy: Hashable, Sendable {
    /// The user whose devices are told: that of the relay.
    public var relay: [UInt8]
    public var kinds: BrokerEventKinds

    public init(relay: [UInt8], kinds: BrokerEventKinds = .ofUsers) {
        self.relay = relay
        self.kinds = kinds
    }
}

/// Events that happened in the middle of a step, which are sent with the deadlines of the same
/// turn; and the users who have had an event of each kind in the present interval.
struct BrokerEventQueue {
    struct Event {
        let app: [UInt8]
        /// The user whom it is about.
        let user: [UInt8]
        let text: [UInt8]
    }

    private var events: [Event] = []
    private struct Told: Hashable {
        let kind: UInt8
        let user: Index<User>
    }

    private var told: Set<Told> = []
    private var intervalEnd = Instant(milliseconds: 0)

    /// What becomes of an event of which a user has one in an interval.
    enum Pace {
        /// It is the first one.
        case due
        case told
        /// Too many users have had one.
        case noRoom
    }

    /// Notes that an event of this kind about a user has happened.
    mutating func take(_ kind: BrokerEventKinds, of user: Index<User>, at now: Instant) -> Pace {
        if now >= intervalEnd {
            told.removeAll(keepingCapacity: true)
            intervalEnd = now.advanced(bySeconds: CoreLimits.brokerEventSeconds)
        }
        let event = Told(kind: kind.rawValue, user: user)
        if told.contains(event) { return .told }
        guard told.count < CoreLimits.brokerEventsWaitingMaximum else { return .noRoom }
        told.insert(event)
        return .due
    }

    /// Adds an event; false without room.
    mutating func add(_ event: Event) -> Bool {
        guard events.count < CoreLimits.brokerEventsWaitingMaximum else { return false }
        events.append(event)
        return true
    }

    var count: Int { events.count }

    /// Removes and returns the first events.
    mutating func take(_ count: Int) -> [Event] {
        let taken = Array(events.prefix(count))
        events.removeFirst(taken.count)
        return taken
    }
}
