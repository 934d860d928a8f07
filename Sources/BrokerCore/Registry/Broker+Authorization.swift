// The only place that checks rights. It checks every request that names receivers (a send of any
// kind, a will when it is set and when it is sent, a retained publication, a list, a group, a
// broadcast) and every request to receive from others (a subscription, a query of presence).
// Routing takes an ``AuthorizedTarget`` and the topic tree an ``AuthorizedFilter``. Only this file
// creates these, so that no message reaches a receiver without authorization. `martlet explain`
// calls the same function.

import BrokerTerms
import Primitives

/// The user and device that make a request, with their rights.
struct Principal {
    let app: Index<App>
    /// Nil if the user does not exist yet.
    let user: Index<User>?
    let names: PrincipalNames
    let rights: Rights
    /// Whether the client uses MQTT, which subscribes to addresses.
    let isMQTT: Bool
}

/// The principal of a request.
enum Requester {
    /// A connected session, with its current rights.
    case session(Index<Session>)
    /// A user that need not be connected, for a will that is due or an operator's question.
    case principal(Principal)
}

/// The basis of a permission, or the reason of a refusal.
public enum Decision: Hashable, Sendable {
    /// A right, as it was written.
    case right([UInt8])
    /// The address is the user's own.
    case own
    /// All users of the app receive broadcasts.
    case everybody
    /// The user is a member of the group.
    case member
    /// The user becomes a member by subscribing.
    case joins
    /// The key has no rights of its own, and acts for every user of its app.
    case key
    /// The publication is a request of MQTT, and its operation decides.
    case operation
    /// A right denies it, as it was written.
    case denied([UInt8])
    case refused(ReasonCode)

    public var isAllowed: Bool {
        switch self {
        case .right, .own, .everybody, .member, .joins, .key, .operation: true
        case .denied, .refused: false
        }
    }

    /// The reason of a refusal; nil if it is allowed.
    var refusal: ReasonCode? {
        switch self {
        case .right, .own, .everybody, .member, .joins, .key, .operation: nil
        case .denied: .notAuthorized
        case .refused(let reason): reason
        }
    }

    init(_ verdict: RightsVerdict) {
        self =
            switch verdict {
            case .allowed(let right): .right(right)
            case .denied(let right): .denied(right)
            case .unmentioned: .refused(.notAuthorized)
            }
    }
}

/// The receivers that a sender may send to. Its pointers are valid as long as the bytes of the
/// request.
struct AuthorizedTarget {
    enum Receivers {
        case user(UnsafeRawBufferPointer)
        /// The ids of a list, and a mark for each one that was refused.
        case users(UnsafeRawBufferPointer, count: Int, refused: ReceiverMask)
        case group(Index<Group>)
        /// The members of a group whom a message mentions by name, and no others.
        case mentioned(Index<Group>, names: ListReader)
        case everybody
        case topic(UnsafeRawBufferPointer)
    }

    let receivers: Receivers

    fileprivate init(_ receivers: Receivers) { self.receivers = receivers }

    /// The same group, for a message that only those get whom it mentions by name.
    func only(_ names: ListReader) -> AuthorizedTarget {
        guard case .group(let group) = receivers else { return self }
        return AuthorizedTarget(.mentioned(group, names: names))
    }

    /// Whether a receiver of a list was refused.
    var hasRefusals: Bool {
        if case .users(_, _, let refused) = receivers { return !refused.isEmpty }
        return false
    }

    /// The refused names, separated by commas.
    var refusedNames: [UInt8] {
        guard case .users(let list, let count, let refused) = receivers else { return [] }
        var reader = ListReader(list)
        var names: [UInt8] = []
        for index in 0..<count {
            let name = reader.next()
            guard refused.contains(index) else { continue }
            if !names.isEmpty { names.append(UInt8(ascii: ",")) }
            names.append(contentsOf: name)
        }
        return names
    }
}

/// The result of checking a send.
enum SendDecision {
    case allowed(AuthorizedTarget)
    case refused(ReasonCode, LimitName = .none)
}

/// A filter that a session may subscribe to, or that it had when the broker ended. The filters of a
/// session are checked again at its login and when its rights change.
struct AuthorizedFilter {
    let bytes: [UInt8]

    fileprivate init(_ bytes: some Collection<UInt8>) { self.bytes = Array(bytes) }

    /// A filter from the store.
    init(restored bytes: [UInt8]) { self.bytes = bytes }
}

/// A set of receivers of a list, by their positions: one bit each.
struct ReceiverMask: Equatable {
    private static let bitCount = 64
    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    var isEmpty: Bool { words.0 | words.1 | words.2 | words.3 == 0 }

    func contains(_ index: Int) -> Bool {
        let bit: UInt64 = 1 << UInt64(index % Self.bitCount)
        return switch index / Self.bitCount {
        case 0: words.0 & bit != 0
        case 1: words.1 & bit != 0
        case 2: words.2 & bit != 0
        default: words.3 & bit != 0
        }
    }

    mutating func insert(_ index: Int) {
        precondition((0..<CoreLimits.listCountMaximum).contains(index), "receiver \(index)")
        let bit: UInt64 = 1 << UInt64(index % Self.bitCount)
        switch index / Self.bitCount {
        case 0: words.0 |= bit
        case 1: words.1 |= bit
        case 2: words.2 |= bit
        default: words.3 |= bit
        }
    }

    static func == (left: ReceiverMask, right: ReceiverMask) -> Bool { left.words == right.words }
}

extension Broker {
    // MARK: - Receivers

    /// Checks the receivers of a message. Each user of a list is checked alone, and refused ones
    /// are marked. If a sender may not send to a user, it does not learn whether that user exists.
    /// Members of a group may send to it without a right.
    @inline(__always)
    mutating func authorize(
        _ target: SendTarget, by requester: Requester, in bytes: UnsafeRawBufferPointer
    )
        -> SendDecision
    {
        switch target {
        case .user(let name):
            let name = name.bytes(in: bytes)
            guard allows(.send(user: name), requester),
                wakes.isEmpty || !isWakeRelay(name, of: appAndUser(of: requester).app)
            else { return .refused(.notAuthorized) }
            return .allowed(AuthorizedTarget(.user(name)))
        case .users(let ids, let count):
            return authorize(list: ids.bytes(in: bytes), count: count, by: requester)
        case .group(let name):
            let (app, user) = appAndUser(of: requester)
            guard let group = registry.apps[app].groups.value(for: name.bytes(in: bytes)) else {
                return .refused(.topicNameInvalid)
            }
            guard let user, membership(of: user, in: group) != nil else {
                return .refused(.notAuthorized)
            }
            return .allowed(AuthorizedTarget(.group(group)))
        case .everybody:
            guard allows(.broadcast, requester) else { return .refused(.notAuthorized) }
            return .allowed(AuthorizedTarget(.everybody))
        case .topic(let topic):
            let topic = topic.bytes(in: bytes)
            guard allows(.publish(topic: topic), requester) else {
                return .refused(.notAuthorized)
            }
            // A message reaches an address by its kind, never as a plain topic.
            if let reason = topicRefusal(topic) { return .refused(reason) }
            return .allowed(AuthorizedTarget(.topic(topic)))
        }
    }

    @inline(never)
    private mutating func authorize(
        list: UnsafeRawBufferPointer, count: Int, by requester: Requester
    ) -> SendDecision {
        guard count <= CoreLimits.listCountMaximum else {
            return .refused(.quotaExceeded, .listLength)
        }
        guard count > 0 else { return .refused(.topicNameInvalid) }
        var refused = ReceiverMask()
        var reader = ListReader(list)
        let app = appAndUser(of: requester).app
        for index in 0..<count {
            let name = reader.next()
            if !allows(.send(user: name), requester) || !wakes.isEmpty && isWakeRelay(name, of: app)
            {
                refused.insert(index)
            }
        }
        return .allowed(AuthorizedTarget(.users(list, count: count, refused: refused)))
    }

    /// The reason for which no client may publish on a topic, whatever its rights are.
    @inline(__always)
    func topicRefusal(_ topic: UnsafeRawBufferPointer) -> ReasonCode? {
        // Other topics that begin with `$` are reserved for the broker.
        if topic.first == UInt8(ascii: "$") { return .topicNameInvalid }
        // Most topics have fewer bytes than the maximum of levels.
        return topic.count < limits.topicLevelsMaximum ? nil : levelRefusal(topic)
    }

    @inline(never)
    private func levelRefusal(_ topic: UnsafeRawBufferPointer) -> ReasonCode? {
        var levels = 1
        for byte in topic where byte == UInt8(ascii: "/") { levels += 1 }
        return levels > limits.topicLevelsMaximum ? .topicNameInvalid : nil
    }

    /// Whether a user is the relay of an app's wake-ups, to whom only the broker sends: its queue
    /// would be full of other messages, and nobody would be woken.
    @inline(never)
    private func isWakeRelay(_ name: some Sequence<UInt8>, of app: Index<App>) -> Bool {
        limits.policy(ofApp: registry.apps[app].name).wake?.relay.elementsEqual(name) ?? false
    }

    private func appAndUser(of requester: Requester) -> (app: Index<App>, user: Index<User>?) {
        switch requester {
        case .session(let session):
            let user = sessions[session].user
            return (registry.users[user].app, user)
        case .principal(let principal): return (principal.app, principal.user)
        }
    }

    // MARK: - Filters

    /// Checks a filter that a session subscribes to.
    mutating func authorize(
        filter: UnsafeRawBufferPointer, of session: Index<Session>
    ) -> (decision: Decision, filter: AuthorizedFilter?) {
        let decision: Decision
        // In the common case the list is not read.
        if live.accesses[access(of: session)].rights.allowsAll(.subscribe),
            ReservedTopic(filter) == nil
        {
            return (.right([]), AuthorizedFilter(filter))
        }
        decision = authorize(.subscribe(filter: filter), by: principal(session))
        switch decision {
        case .right, .own, .everybody, .member, .key, .operation:
            return (decision, AuthorizedFilter(filter))
        case .joins: return (decision, nil)
        case .denied, .refused:
            counters.rightsRefusals += 1
            return (decision, nil)
        }
    }

    // MARK: - The decision

    /// A connected session with its current rights.
    func principal(_ session: Index<Session>) -> Principal {
        Principal(
            app: registry.users[sessions[session].user].app, user: sessions[session].user,
            names: principalNames(session), rights: live.accesses[access(of: session)].rights,
            isMQTT: sessions[session].dialect.isMQTT)
    }

    /// Whether an action is allowed. Counts a refusal.
    @inline(__always)
    mutating func allows(_ action: RightsAction, _ requester: Requester) -> Bool {
        switch requester {
        case .session(let session): allows(action, session)
        case .principal(let principal): allows(action, principal)
        }
    }

    /// Whether a connected session may do something. Counts a refusal.
    @inline(__always)
    mutating func allows(_ action: RightsAction, _ session: Index<Session>) -> Bool {
        if live.accesses[access(of: session)].rights.allowsAll(action.kind) { return true }
        return allows(action, principal(session))
    }

    @inline(never)
    private mutating func allows(_ action: RightsAction, _ principal: Principal) -> Bool {
        if authorize(action, by: principal).isAllowed { return true }
        counters.rightsRefusals += 1
        return false
    }

    /// The decision on an action. Its comparisons are charged to the turn.
    mutating func authorize(_ action: RightsAction, by principal: Principal) -> Decision {
        var comparisons = 0
        let decision = decision(action, principal, comparisons: &comparisons)
        workload.charge(comparisons: comparisons)
        return decision
    }

    /// The decision on an action. The function changes nothing, so that an operator's question and
    /// the request get the same answer.
    func decision(_ action: RightsAction, _ principal: Principal) -> Decision {
        var ignored = 0
        return decision(action, principal, comparisons: &ignored)
    }

    /// - Parameter comparisons: increased by the comparisons made, in the unit of
    ///   ``CoreLimits/comparisonsPerWork``.
    private func decision(
        _ action: RightsAction, _ principal: Principal, comparisons: inout Int
    ) -> Decision {
        switch action {
        case .subscribe(let filter):
            return decision(subscribing: filter, principal, comparisons: &comparisons)
        case .sendGroup(let name):
            guard let group = registry.apps[principal.app].groups.value(for: name) else {
                return .refused(.topicNameInvalid)
            }
            return isMember(principal.user, of: group) ? .member : .refused(.notAuthorized)
        case .send(let user):
            return !wakes.isEmpty && isWakeRelay(user, of: principal.app)
                ? .refused(.notAuthorized) : right(action, principal, comparisons: &comparisons)
        case .broadcast, .publish, .presence, .receipts, .wake, .attach, .createGroup:
            return right(action, principal, comparisons: &comparisons)
        }
    }

    /// Whether a key of an app logs in as a user of the app: one with the role `operate` and
    /// without rights as any, one with rights as those whom a right to attach names, and one with
    /// the role `view` as none, because who logs in acknowledges messages, sends and changes
    /// groups. A key is neither a user nor a device, so that `%u` and `%d` stand for nobody.
    ///
    /// - Parameter comparisons: increased by the comparisons made, in the unit of
    ///   ``CoreLimits/comparisonsPerWork``.
    func decision(
        attaching user: [UInt8], by entry: AppKeyTable.Entry, comparisons: inout Int
    ) -> Decision {
        guard entry.key.role == .operate else { return .refused(.notAuthorized) }
        guard let rights = entry.key.rights else { return .key }
        let nobody = Name([UInt8]())
        let principal = Principal(
            app: entry.app, user: nil, names: PrincipalNames(user: nobody, device: nobody),
            rights: rights, isMQTT: false)
        return user.withUnsafeBytes {
            right(.attach(user: $0), principal, comparisons: &comparisons)
        }
    }

    private func right(
        _ action: RightsAction, _ principal: Principal, comparisons: inout Int
    ) -> Decision {
        Decision(
            principal.rights.deciding(action, for: principal.names, comparisons: &comparisons))
    }

    private func isMember(_ user: Index<User>?, of group: Index<Group>) -> Bool {
        guard let user else { return false }
        return membership(of: user, in: group) != nil
    }

    /// Rights apply to plain topics and, by name, to the broker's own. A user needs none for its
    /// own address and its groups.
    private func decision(
        subscribing filter: UnsafeRawBufferPointer, _ principal: Principal, comparisons: inout Int
    ) -> Decision {
        switch ReservedTopic(filter) {
        case .address?: return decision(address: filter, principal)
        case .presence?: return decision(presence: filter, principal, comparisons: &comparisons)
        case .unread?:
            // What a user has read concerns its own devices only.
            let prefixCount = Self.unreadPrefix.utf8CodeUnitCount
            guard filter.count > prefixCount,
                principal.names.user.elementsEqual(filter[prefixCount...])
            else { return .refused(.notAuthorized) }
            return .own
        case .system?:
            guard principal.isMQTT else { return .refused(.notAuthorized) }
            // A right that begins with a wildcard does not cover it.
            return Decision(
                principal.rights.decidingByName(
                    .subscribe(filter: filter), for: principal.names, comparisons: &comparisons))
        case .share?:
            guard principal.isMQTT, let shared = SharedFilter(filter),
                ReservedTopic(shared.pattern) == nil
            else { return .refused(.notAuthorized) }
            return right(.subscribe(filter: shared.pattern), principal, comparisons: &comparisons)
        case nil: return right(.subscribe(filter: filter), principal, comparisons: &comparisons)
        }
    }

    /// The decision on a filter that is an address: the user's messages, groups that the user is in
    /// or may join by subscribing, and broadcasts. An MRT session receives all of them without a
    /// subscription.
    private func decision(address filter: UnsafeRawBufferPointer, _ principal: Principal)
        -> Decision
    {
        guard principal.isMQTT else { return .refused(.notAuthorized) }
        switch AddressedTopic(filter) {
        case .user(let name)?:
            return principal.names.user == name ? .own : .refused(.notAuthorized)
        case .group(let name)?:
            guard let group = registry.apps[principal.app].groups.value(for: name) else {
                return .refused(.notAuthorized)
            }
            if isMember(principal.user, of: group) { return .member }
            let joins = limits.policy(ofApp: registry.apps[principal.app].name)
                .joinsGroupsBySubscribing
            return joins && mayJoin(group, named: principal.names.user)
                ? .joins : .refused(.notAuthorized)
        case .everybody?: return .everybody
        case .list?, nil: return .refused(.notAuthorized)
        }
    }

    /// The decision on a filter of presence: of one user, or with `+` of all.
    private func decision(
        presence filter: UnsafeRawBufferPointer, _ principal: Principal, comparisons: inout Int
    ) -> Decision {
        let prefixCount = Self.presencePrefix.utf8CodeUnitCount
        guard filter.count > prefixCount else { return .refused(.notAuthorized) }
        let name = UnsafeRawBufferPointer(rebasing: filter[prefixCount...])
        if name.count == 1, name[0] == UInt8(ascii: "+") {
            return Decision(principal.rights.decidingAll(.presence))
        }
        guard PrincipalNames.isSpellable(name) else { return .refused(.notAuthorized) }
        return right(.presence(user: name), principal, comparisons: &comparisons)
    }
}
