// The only place that judges rights. It judges every request that names receivers (a send of any
// kind, a will when it is set and when it is sent, a retained publication, a list, a group, a
// broadcast) and every request to receive from others (a subscription, a question about presence).
// Routing takes a ``JudgedTarget`` and the topic tree a ``JudgedFilter``. Only this file makes
// these, so that no message reaches a receiver without a verdict. `martlet explain` calls the same
// function.

import BrokerTerms
import Primitives

/// The user and the session that ask, as far as a verdict depends on them.
struct Asker {
    let app: Index<App>
    /// Nil for a user that is not known yet.
    let user: Index<User>?
    let bearer: RightsBearer
    let rights: Rights
    /// Whether it speaks MQTT, where addresses are subscribed to.
    let isMQTT: Bool
}

/// The owner of the rights that are judged.
enum Judged {
    /// A connected session's, as they are now.
    case session(Index<Session>)
    /// A user that need not be connected: for a will that is due, or an operator's question.
    case asker(Asker)
}

/// What a request rests on, or why it is refused.
public enum Verdict: Hashable, Sendable {
    /// A right, as it was written.
    case right([UInt8])
    /// It is the user's own address.
    case own
    /// Everybody of the app hears broadcasts.
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

/// Receivers that a sender may send to. Pointers are valid as long as the bytes of the request.
struct JudgedTarget {
    enum Receivers {
        case user(UnsafeRawBufferPointer)
        /// Ids in a row, and which of them were refused.
        case users(UnsafeRawBufferPointer, count: Int, refused: ReceiverMask)
        case group(Index<Group>)
        case everybody
        case topic(UnsafeRawBufferPointer)
    }

    let receivers: Receivers

    fileprivate init(_ receivers: Receivers) { self.receivers = receivers }

    /// Those who subscribe to a user's presence, each judged by its subscription.
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

    /// Those who were, with commas between them.
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

/// What became of a request to send.
enum Judgement {
    case allowed(JudgedTarget)
    case refused(ReasonCode, LimitName = .none)
}

/// A filter that a session may have, or had when the broker ended: what a session has is judged
/// again at its login and whenever its rights change.
struct JudgedFilter {
    let bytes: [UInt8]

    fileprivate init(_ bytes: some Collection<UInt8>) { self.bytes = Array(bytes) }

    /// A filter of the store.
    init(restored bytes: [UInt8]) { self.bytes = bytes }
}

/// Some of the receivers of a list, by their place in it: one bit each.
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

    /// Judges the receivers of a message. Each user of a list is judged alone; refused ones are
    /// marked. If a sender may not send to a user, it does not learn whether that user is known.
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
            // Addresses are not plain topics: they are reached as what they are.
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

    /// Why no client can publish on a topic, whatever its rights are.
    @inline(__always)
    func topicRefusal(_ topic: UnsafeRawBufferPointer) -> ReasonCode? {
        // What else begins with `$` is reserved for the broker.
        if topic.first == UInt8(ascii: "$") { return .topicNameInvalid }
        // Most topics have fewer bytes than they may have levels.
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

    /// Judges a filter that a session asks for.
    mutating func judge(
        filter: UnsafeRawBufferPointer, of session: Index<Session>
    ) -> (verdict: Verdict, filter: JudgedFilter?) {
        let verdict: Verdict
        // The common case needs no look at the list.
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

    /// Who a connected session is, with what it was let in with.
    func asker(_ session: Index<Session>) -> Asker {
        Asker(
            app: registry.users[sessions[session].user].app, user: sessions[session].user,
            bearer: bearer(session), rights: live.accesses[access(of: session)].rights,
            isMQTT: sessions[session].dialect.isMQTT)
    }

    /// Whether something is allowed; a refusal is counted.
    @inline(__always)
    mutating func allows(_ action: RightsAction, _ judged: Judged) -> Bool {
        switch judged {
        case .session(let session): allows(action, session)
        case .asker(let asker): allows(action, asker)
        }
    }

    /// Whether a connected session may do something; a refusal is counted.
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

    /// The verdict on an action, charged to the turn.
    mutating func judge(_ action: RightsAction, by asker: Asker) -> Verdict {
        var comparisons = workload.comparisonCount
        let verdict = verdict(action, asker, comparisons: &comparisons)
        workload.charge(comparisons: comparisons)
        return verdict
    }

    /// The verdict, and what it rests on. It changes nothing, so that a question and the deed get
    /// the same.
    func verdict(_ action: RightsAction, _ asker: Asker) -> Verdict {
        var ignored = 0
        return verdict(action, asker, comparisons: &ignored)
    }

    /// - Parameter comparisons: grows by what was compared, in the unit of
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
        asker.rights.deciding(action, asker.bearer, comparisons: &comparisons)
            .map { .right($0) } ?? .refused(.notAuthorized)
    }

    private func isMember(_ user: Index<User>?, of group: Index<Group>) -> Bool {
        guard let user else { return false }
        return membership(of: user, in: group) != nil
    }

    /// Rights are about plain topics and, by name, the broker's own; what is sent to a client's own
    /// user and groups is its own.
    private func verdict(
        subscribing filter: UnsafeRawBufferPointer, _ asker: Asker, comparisons: inout Int
    ) -> Verdict {
        switch ReservedTopic(filter) {
        case .address?: return verdict(hearing: filter, asker)
        case .presence?: return verdict(presence: filter, asker, comparisons: &comparisons)
        case .system?:
            guard asker.isMQTT else { return .refused(.notAuthorized) }
            // No right covers it that begins with a wildcard.
            return asker.rights.decidingByName(
                .subscribe(filter: filter), asker.bearer, comparisons: &comparisons
            ).map { .right($0) } ?? .refused(.notAuthorized)
        case .share?:
            guard asker.isMQTT, let shared = SharedFilter(filter),
                ReservedTopic(shared.pattern) == nil
            else { return .refused(.notAuthorized) }
            return right(.subscribe(filter: shared.pattern), asker, comparisons: &comparisons)
        case nil: return right(.subscribe(filter: filter), asker, comparisons: &comparisons)
        }
    }

    /// A filter that is an address: the user's own messages, groups that the user is in or may join
    /// by subscribing, and broadcasts. An MRT session receives all of them without a subscription.
    private func verdict(hearing filter: UnsafeRawBufferPointer, _ asker: Asker) -> Verdict {
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

    /// A filter about presence: of one user, or with `+` of all.
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
