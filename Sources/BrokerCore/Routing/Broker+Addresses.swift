// The addresses of users, groups and broadcasts in MQTT: filters that begin with `$`, in the same
// tree as other filters. An MRT session receives its addresses without a subscription, and is not
// in the tree.

import BrokerTerms
import Primitives

/// The kind of a filter that begins with `$`.
enum AddressKind {
    /// `$u/`, then a user.
    case user
    /// `$g/`, then a group.
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

/// A topic or filter that is an address, parsed. The name may be one that no user or group can
/// have.
public enum AddressedTopic {
    /// `$u/`, then a user.
    case user(UnsafeRawBufferPointer)
    /// `$u`: a list of users, which the topic does not contain.
    case list
    /// `$g/`, then a group.
    case group(UnsafeRawBufferPointer)
    /// `$b`.
    case everybody

    /// Nil if the topic is no address.
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

/// Topics and filters that begin with `$` and have a special meaning. No client may publish on
/// them.
enum ReservedTopic {
    /// The address of a user, a group or all users.
    case address
    /// A shared subscription.
    case share
    /// The presence of users.
    case presence
    /// What a user has read, for its devices.
    case unread
    /// The values of the broker.
    case system

    /// Nil for any other topic or filter.
    init?(_ name: UnsafeRawBufferPointer) {
        guard name.first == UInt8(ascii: "$") else { return nil }
        let end = name.firstIndex(of: UInt8(ascii: "/")) ?? name.count
        let level = UnsafeRawBufferPointer(rebasing: name[1..<end])
        switch level.count {
        case 1 where "ugb".utf8.contains(level[0]): self = .address
        case 3 where level.elementsEqual("SYS".utf8): self = .system
        case 5 where level.elementsEqual("share".utf8): self = .share
        case 6 where level.elementsEqual("unread".utf8): self = .unread
        case 8 where level.elementsEqual("presence".utf8): self = .presence
        default: return nil
        }
    }
}

extension Broker {
    /// The MQTT sessions that subscribe to an address; nil if there are none.
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

    /// The group whose address a filter is.
    private func group(_ session: Index<Session>, of filter: UnsafeRawBufferPointer) -> Index<
        Group
    >? {
        guard sessions[session].dialect.isMQTT, case .group(let name)? = AddressedTopic(filter)
        else { return nil }
        return registry.apps[registry.users[sessions[session].user].app].groups.value(for: name)
    }

    /// Makes the user of a session a member of a group because of its subscription. Returns the
    /// reason if the owner or a limit forbids it.
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

    /// Updates the users and groups of a session that began or ended a subscription to an address.
    mutating func addressChanged(_ session: Index<Session>, filter: [UInt8], isSubscribed: Bool) {
        guard filter.withUnsafeBytes({ ReservedTopic($0) == .address }) else { return }
        let user = sessions[session].user
        if let group = addressedGroup(by: filter, registry.users[user].app) {
            if commits.restoration == nil { countReceiver(user, group, isNew: isSubscribed) }
            return
        }
        let isUser = filter.withUnsafeBytes { filter in
            if case .user? = AddressedTopic(filter) { return true }
            return false
        }
        guard isUser else { return }
        sessions[session].receivesUserMessages = isSubscribed
        if isSubscribed && sessions[session].isPersistent {
            noteReceiver(session)
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

    /// Gives the offline queue to the first persistent session that receives the user's messages.
    private mutating func inherit(_ session: Index<Session>) {
        let user = sessions[session].user
        let sentThrough = registry.users[user].offlineQueue.flatMap {
            queues.sentThrough[queues.offlineQueues[$0].queue.raw]
        }
        guard commits.restoration == nil, let offlineQueue = takeOfflineQueue(of: user) else {
            return
        }
        let expected = commits.expectedArrivals(in: offlineQueue.queue)
        let queue = sessions[session].inbox.queue
        commits.inherit(
            QueueTransfer(
                source: offlineQueue.queue, destination: queue,
                firstNumber: sessions[session].inbox.nextNumber,
                countMaximum: UInt64(offlineQueue.count) + expected.count,
                sentThrough: sentThrough ?? 0),
            arriving: expected)
        // Results of the store for the old queue now belong to this one.
        queues.pass(offlineQueue.queue, into: queue)
        sessions[session].inbox.append(offlineQueue, expecting: expected.count)
        if let connected = sessions[session].connected {
            live.connectedSessions[connected].addToBacklog(offlineQueue.count)
        }
        reserveNumbers(session)
    }
}
