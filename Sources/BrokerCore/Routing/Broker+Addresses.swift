// The addresses of users, groups and broadcasts in MQTT: filters that begin with `$`, in the same
// tree as all others. An MRT session receives its own addresses without a subscription, and is not
// in the tree.

import BrokerTerms
import Primitives

/// What a filter that begins with `$` may stand for.
enum AddressKind {
    /// `$u/` and a user.
    case user
    /// `$g/` and a group.
    case group
    /// `$b`.
    case everybody

    var prefix: StaticString {
        switch self {
        case .user: "$u/"
        case .group: "$g/"
        case .everybody: "$b"
        }
    }
}

/// A topic or filter that is an address, taken apart. Whether users and groups can have that name
/// is another question.
public enum AddressedTopic {
    /// `$u/` and a user.
    case user(UnsafeRawBufferPointer)
    /// `$u`: users who are named elsewhere.
    case list
    /// `$g/` and a group.
    case group(UnsafeRawBufferPointer)
    /// `$b`.
    case everybody

    /// Nil for whatever is no address.
    public init?(_ topic: UnsafeRawBufferPointer) {
        guard topic.count >= 2, topic[0] == UInt8(ascii: "$") else { return nil }
        if topic.count == 2 {
            switch topic[1] {
            case UInt8(ascii: "b"): self = .everybody
            case UInt8(ascii: "u"): self = .list
            default: return nil
            }
            return
        }
        guard topic[2] == UInt8(ascii: "/") else { return nil }
        let name = UnsafeRawBufferPointer(rebasing: topic[3...])
        switch topic[1] {
        case UInt8(ascii: "u"): self = .user(name)
        case UInt8(ascii: "g"): self = .group(name)
        default: return nil
        }
    }
}

/// Topics and filters that begin with `$` and have a meaning of their own. No client publishes on
/// them.
enum ReservedTopic {
    /// A user, a group or everybody.
    case address
    /// A shared subscription.
    case share
    /// Who is online.
    case presence
    /// The broker's own values.
    case system

    /// Nil for a topic or filter like any other.
    init?(_ name: UnsafeRawBufferPointer) {
        guard name.first == UInt8(ascii: "$") else { return nil }
        let end = name.firstIndex(of: UInt8(ascii: "/")) ?? name.count
        let level = UnsafeRawBufferPointer(rebasing: name[1..<end])
        switch level.count {
        case 1 where "ugb".utf8.contains(level[0]): self = .address
        case 3 where level.elementsEqual("SYS".utf8): self = .system
        case 5 where level.elementsEqual("share".utf8): self = .share
        case 8 where level.elementsEqual("presence".utf8): self = .presence
        default: return nil
        }
    }
}

extension Broker {
    /// Those MQTT sessions that subscribe to an address; nil for none.
    func audience(
        ofAddress kind: AddressKind, _ name: some Collection<UInt8>, app: Index<App>
    ) -> Index<Audience>? {
        guard registry.apps[app].addressCount > 0 else { return nil }
        let prefix = kind.prefix
        return withUnsafeTemporaryAllocation(
            byteCount: prefix.utf8CodeUnitCount + name.count, alignment: 1
        ) { filter in
            filter.copyMemory(
                from: UnsafeRawBufferPointer(
                    start: prefix.utf8Start, count: prefix.utf8CodeUnitCount))
            UnsafeMutableRawBufferPointer(rebasing: filter[prefix.utf8CodeUnitCount...])
                .copyBytes(from: name)
            return registry.apps[app].topics.target(of: UnsafeRawBufferPointer(filter))
        }
    }

    func isGroupAddress(_ filter: UnsafeRawBufferPointer) -> Bool {
        if case .group? = AddressedTopic(filter) { return true }
        return false
    }

    /// The group that a filter is the address of.
    private func group(_ session: Index<Session>, of filter: UnsafeRawBufferPointer) -> Index<
        Group
    >? {
        guard sessions[session].dialect.isMQTT, case .group(let name)? = AddressedTopic(filter)
        else { return nil }
        return registry.apps[registry.users[sessions[session].user].app].groups.value(for: name)
    }

    /// Joins a group for a subscription to it; why not, where its owner or a limit does not allow
    /// it.
    mutating func join(
        _ session: Index<Session>, by filter: UnsafeRawBufferPointer, in step: inout Step
    ) -> ReasonCode? {
        guard let group = group(session, of: filter) else { return .notAuthorized }
        let actor = GroupActor(user: sessions[session].user, session: session)
        guard mayJoin(group, actor.user) else { return .notAuthorized }
        switch joinGroup(group, actor, in: &step) {
        case .done: return nil
        case .refused(let reason, _): return reason
        }
    }

    /// A session has begun, or ceased, to subscribe to an address.
    mutating func addressChanged(_ session: Index<Session>, filter: [UInt8], isHeard: Bool) {
        guard filter.withUnsafeBytes({ ReservedTopic($0) == .address }) else { return }
        let user = sessions[session].user
        if let group = addressedGroup(by: filter, registry.users[user].app) {
            if commits.restoration == nil { countHearer(user, group, isNew: isHeard) }
            return
        }
        let isUser = filter.withUnsafeBytes { filter in
            if case .user? = AddressedTopic(filter) { return true }
            return false
        }
        guard isUser else { return }
        sessions[session].receivesUserMessages = isHeard
        if isHeard && sessions[session].isPersistent {
            noteListener(session)
            inherit(session)
        }
        if commits.restoration == nil { updateWaiting(of: user) }
    }

    /// The group whose address a filter is.
    func addressedGroup(by filter: [UInt8], _ app: Index<App>) -> Index<Group>? {
        filter.withUnsafeBytes { filter in
            guard case .group(let name)? = AddressedTopic(filter) else { return nil }
            return registry.apps[app].groups.value(for: name)
        }
    }

    /// The first persistent session that hears its user's messages inherits what waits.
    private mutating func inherit(_ session: Index<Session>) {
        guard commits.restoration == nil,
            let offlineQueue = takeOfflineQueue(of: sessions[session].user)
        else {
            return
        }
        let expected = commits.expectedArrivals(in: offlineQueue.queue)
        let queue = sessions[session].inbox.queue
        commits.inherit(
            QueueTransfer(
                source: offlineQueue.queue, destination: queue,
                firstNumber: sessions[session].inbox.nextNumber,
                countMaximum: UInt64(offlineQueue.count) + expected.count),
            arriving: expected)
        // What the store has yet to report of the old queue is about this one.
        queues.pass(offlineQueue.queue, into: queue)
        sessions[session].inbox.append(offlineQueue, expecting: expected.count)
        if let connected = sessions[session].connected {
            live.connectedSessions[connected].addToBacklog(offlineQueue.count)
        }
        reserveNumbers(session)
    }
}
