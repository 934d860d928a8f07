// The only place that checks rights. It checks every request that names receivers (a send of any
// kind, a will when it is set and when it is sent, a retained publication, a list, a group, a
// broadcast) and every request to receive from others (a subscription, a query of presence).
// Routing takes a ``JudgedTarget`` and the topic tree a ``JudgedFilter``. Only this file creates
// these, so that no message reaches a receiver without a verdict. `martlet explain` calls the same
// function.

import BrokerTerms
import Primitives

/// The user and device that ask, as far as a verdict depends on them.
struct Asker {
    let app: Index<App>
    /// Nil if the user does not exist yet.
    let user: Index<User>?
    let bearer: RightsBearer
    let rights: Rights
    /// Whether the client uses MQTT, which subscribes to addresses.
    let isMQTT: Bool
}

/// The owner of the rights that are judged.
enum Judged {
    /// A connected session, with its current rights.
    case session(Index<Session>)
    /// A user that need not be connected, for a will that is due or an operator's question.
    case asker(Asker)
}

/// The basis of a permission, or the reason of a refusal.
public enum Verdict: Hashable, Sendable {
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
    case refused(ReasonCode)

    public var isAllowed: Bool {
        if case .refused = self { return false }
        return true
    }
}

/// The receivers that a sender may send to. Its pointers are valid as long as the bytes of the
/// request.
struct JudgedTarget {
    enum Receivers {
        case user(UnsafeRawBufferPointer)
        /// The ids of a list, and a mark for each one that was refused.
        case users(UnsafeRawBufferPointer, count: Int, refused: ReceiverMask)
        case group(Index<Group>)
        case everybody
        case topic(UnsafeRawBufferPointer)
    }

    let receivers: Receivers

    fileprivate init(_ receivers: Receivers) { self.receivers = receivers }

    /// The subscribers of a user's presence. Each was checked when it subscribed.
    static func presence(topic: UnsafeRawBufferPointer) -> JudgedTarget {
        precondition(
            ReservedTopic(topic) == .presence,
            "\(String(decoding: topic, as: UTF8.self)) is no topic of presence")
        return JudgedTarget(.topic(topic))
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
enum Judgement {
    case allowed(JudgedTarget)
    case refused(ReasonCode, LimitName = .none)
}

/// A filter that a session may subscribe to, or that it had when the broker ended. The filters of a
/// session are checked again at its login and when its rights change.
struct JudgedFilter {
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
    mutating func judge(_ target: SendTarget, by judged: Judged, in bytes: UnsafeRawBufferPointer)
        -> Judgement
    {
        switch target {
        case .user(let name):
            let name = name.bytes(in: bytes)
            guard allows(.send(user: name), judged) else { return .refused(.notAuthorized) }
            return .allowed(JudgedTarget(.user(name)))
        case .users(let ids, let count):
            return judge(list: ids.bytes(in: bytes), count: count, by: judged)
        case .group(let name):
            let (app, user) = place(of: judged)
            guard let group = registry.apps[app].groups.value(for: name.bytes(in: bytes)) else {
                return .refused(.topicNameInvalid)
            }
            guard let user, membership(of: user, in: group) != nil else {
                return .refused(.notAuthorized)
            }
            return .allowed(JudgedTarget(.group(group)))
        case .everybody:
            guard allows(.broadcast, judged) else { return .refused(.notAuthorized) }
            return .allowed(JudgedTarget(.everybody))
        case .topic(let topic):
            let topic = topic.bytes(in: bytes)
            guard allows(.publish(topic: topic), judged) else {
                return .refused(.notAuthorized)
            }
            // A message reaches an address by its kind, never as a plain topic.
            if let reason = topicRefusal(topic) { return .refused(reason) }
            return .allowed(JudgedTarget(.topic(topic)))
        }
    }

    @inline(never)
    private mutating func judge(
        list: UnsafeRawBufferPointer, count: Int, by judged: Judged
    ) -> Judgement {
        guard count <= CoreLimits.listCountMaximum else {
            return .refused(.quotaExceeded, .listLength)
        }
        guard count > 0 else { return .refused(.topicNameInvalid) }
        var refused = ReceiverMask()
        var reader = ListReader(list)
        for index in 0..<count where !allows(.send(user: reader.next()), judged) {
            refused.insert(index)
        }
        return .allowed(JudgedTarget(.users(list, count: count, refused: refused)))
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

    private func place(of judged: Judged) -> (app: Index<App>, user: Index<User>?) {
        switch judged {
        case .session(let session):
            let user = sessions[session].user
            return (registry.users[user].app, user)
        case .asker(let asker): return (asker.app, asker.user)
        }
    }

    // MARK: - Filters

    /// Checks a filter that a session subscribes to.
    mutating func judge(
        filter: UnsafeRawBufferPointer, of session: Index<Session>
    ) -> (verdict: Verdict, filter: JudgedFilter?) {
        let verdict: Verdict
        // In the common case the list is not read.
        if live.accesses[access(of: session)].rights.allowsAll(.subscribe),
            ReservedTopic(filter) == nil
        {
            return (.right([]), JudgedFilter(filter))
        }
        verdict = judge(.subscribe(filter: filter), by: asker(session))
        switch verdict {
        case .right, .own, .everybody, .member: return (verdict, JudgedFilter(filter))
        case .joins: return (verdict, nil)
        case .refused:
            counters.rightsRefusals += 1
            return (verdict, nil)
        }
    }

    // MARK: - The verdict

    /// A connected session with its current rights.
    func asker(_ session: Index<Session>) -> Asker {
        Asker(
            app: registry.users[sessions[session].user].app, user: sessions[session].user,
            bearer: bearer(session), rights: live.accesses[access(of: session)].rights,
            isMQTT: sessions[session].dialect.isMQTT)
    }

    /// Whether an action is allowed. Counts a refusal.
    @inline(__always)
    mutating func allows(_ action: RightsAction, _ judged: Judged) -> Bool {
        switch judged {
        case .session(let session): allows(action, session)
        case .asker(let asker): allows(action, asker)
        }
    }

    /// Whether a connected session may do something. Counts a refusal.
    @inline(__always)
    mutating func allows(_ action: RightsAction, _ session: Index<Session>) -> Bool {
        if live.accesses[access(of: session)].rights.allowsAll(action.kind) { return true }
        return allows(action, asker(session))
    }

    @inline(never)
    private mutating func allows(_ action: RightsAction, _ asker: Asker) -> Bool {
        if judge(action, by: asker).isAllowed { return true }
        counters.rightsRefusals += 1
        return false
    }

    /// The verdict on an action. Its comparisons are charged to the turn.
    mutating func judge(_ action: RightsAction, by asker: Asker) -> Verdict {
        var comparisons = 0
        let verdict = verdict(action, asker, comparisons: &comparisons)
        workload.charge(comparisons: comparisons)
        return verdict
    }

    /// The verdict on an action. The function changes nothing, so that an operator's question and
    /// the request get the same answer.
    func verdict(_ action: RightsAction, _ asker: Asker) -> Verdict {
        var ignored = 0
        return verdict(action, asker, comparisons: &ignored)
    }

    /// - Parameter comparisons: increased by the comparisons made, in the unit of
    ///   ``CoreLimits/comparisonsPerWork``.
    private func verdict(
        _ action: RightsAction, _ asker: Asker, comparisons: inout Int
    ) -> Verdict {
        switch action {
        case .subscribe(let filter):
            return verdict(subscribing: filter, asker, comparisons: &comparisons)
        case .sendGroup(let name):
            guard let group = registry.apps[asker.app].groups.value(for: name) else {
                return .refused(.topicNameInvalid)
            }
            return isMember(asker.user, of: group) ? .member : .refused(.notAuthorized)
        case .send, .broadcast, .publish, .presence, .attach, .createGroup:
            return right(action, asker, comparisons: &comparisons)
        }
    }

    private func right(
        _ action: RightsAction, _ asker: Asker, comparisons: inout Int
    ) -> Verdict {
        asker.rights.deciding(action, for: asker.bearer, comparisons: &comparisons)
            .map { .right($0) } ?? .refused(.notAuthorized)
    }

    private func isMember(_ user: Index<User>?, of group: Index<Group>) -> Bool {
        guard let user else { return false }
        return membership(of: user, in: group) != nil
    }

    /// Rights apply to plain topics and, by name, to the broker's own. A user needs none for its
    /// own address and its groups.
    private func verdict(
        subscribing filter: UnsafeRawBufferPointer, _ asker: Asker, comparisons: inout Int
    ) -> Verdict {
        switch ReservedTopic(filter) {
        case .address?: return verdict(address: filter, asker)
        case .presence?: return verdict(presence: filter, asker, comparisons: &comparisons)
        case .system?:
            guard asker.isMQTT else { return .refused(.notAuthorized) }
            // A right that begins with a wildcard does not cover it.
            return asker.rights.decidingByName(
                .subscribe(filter: filter), for: asker.bearer, comparisons: &comparisons
            ).map { .right($0) } ?? .refused(.notAuthorized)
        case .share?:
            guard asker.isMQTT, let shared = SharedFilter(filter),
                ReservedTopic(shared.pattern) == nil
            else { return .refused(.notAuthorized) }
            return right(.subscribe(filter: shared.pattern), asker, comparisons: &comparisons)
        case nil: return right(.subscribe(filter: filter), asker, comparisons: &comparisons)
        }
    }

    /// The verdict on a filter that is an address: the user's own messages, groups that the user is
    /// in or may join by subscribing, and broadcasts. An MRT session receives all of them without a
    /// subscription.
    private func verdict(address filter: UnsafeRawBufferPointer, _ asker: Asker) -> Verdict {
        guard asker.isMQTT else { return .refused(.notAuthorized) }
        switch AddressedTopic(filter) {
        case .user(let name)?:
            return asker.bearer.user == name ? .own : .refused(.notAuthorized)
        case .group(let name)?:
            guard let group = registry.apps[asker.app].groups.value(for: name) else {
                return .refused(.notAuthorized)
            }
            if isMember(asker.user, of: group) { return .member }
            let joins = limits.policy(ofApp: registry.apps[asker.app].name).joinsGroupsBySubscribing
            return joins && mayJoin(group, named: asker.bearer.user)
                ? .joins : .refused(.notAuthorized)
        case .everybody?: return .everybody
        case .list?, nil: return .refused(.notAuthorized)
        }
    }

    /// The verdict on a filter of presence: of one user, or with `+` of all.
    private func verdict(
        presence filter: UnsafeRawBufferPointer, _ asker: Asker, comparisons: inout Int
    ) -> Verdict {
        let prefixCount = Self.presencePrefix.utf8CodeUnitCount
        guard filter.count > prefixCount else { return .refused(.notAuthorized) }
        let name = UnsafeRawBufferPointer(rebasing: filter[prefixCount...])
        if name.count == 1, name[0] == UInt8(ascii: "+") {
            return asker.rights.decidingAll(.presence).map { .right($0) }
                ?? .refused(.notAuthorized)
        }
        guard RightsBearer.isSpellable(name) else { return .refused(.notAuthorized) }
        return right(.presence(user: name), asker, comparisons: &comparisons)
    }
}
