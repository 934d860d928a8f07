// Requests of a device: subscriptions, groups, wills. A request without an answer is repeated on
// the next connection, and lost with the device's power.

import ClientCore
import Primitives
import WireFormat

extension SimulatedClient {
    // MARK: Subscriptions

    /// Subscribes to a filter.
    func subscribe(_ filter: Int, _ grade: MRT.Grade) {
        guard machine != nil, !isAsked(about: filter) else { return }
        let text = Array(Profile.filters[filter].utf8)
        let part = MRT.Subscribe(
            highestGrade: grade, filter: ByteRange(offset: 0, count: text.count))
        guard let identifier = request(.subscribe, part, from: text) else { return }
        wishes[filter] = grade
        oracle.subscribing(index, filter: .topics(filter), grade: grade)
        requests[identifier] = .subscription(filter: filter, grade: grade, isSubscribing: true)
    }

    /// Unsubscribes from a filter.
    func unsubscribe(_ filter: Int) {
        guard isConnected, !isAsked(about: filter) else { return }
        guard let identifier = request(.unsubscribe, Array(Profile.filters[filter].utf8)) else {
            return
        }
        wishes[filter] = nil
        oracle.unsubscribing(index, filter: .topics(filter))
        requests[identifier] = .subscription(
            filter: filter, grade: .transient, isSubscribing: false)
    }

    /// Whether a request about a filter has no answer yet.
    private func isAsked(about filter: Int) -> Bool {
        requests.values.contains {
            if case .subscription(filter, _, _) = $0 { true } else { false }
        }
    }

    // MARK: Groups

    func createGroup() {
        guard isConnected else { return }
        let part = MRT.GroupCreate(
            key: context.useRandom.next(), title: .empty, meta: .empty, allowList: .everybody)
        guard let identifier = request(.groupCreate, part, from: []) else { return }
        requests[identifier] = .groupCreation(askedAt: context.now)
    }

    /// Joins a group or leaves it.
    func changeMembership(of group: Int, isJoin: Bool) {
        guard isConnected else { return }
        let name = oracle.groups[group].name
        let part = MRT.GroupJoin(group: ByteRange(offset: 0, count: name.count))
        guard let identifier = request(isJoin ? .groupJoin : .groupLeave, part, from: name) else {
            return
        }
        let change = oracle.membershipChanging(
            habits.user, isJoin: isJoin, in: group, device: habits.device)
        requests[identifier] = .membership(group: group, change: change)
    }

    /// Removes a member from a group that it owns.
    func kick(_ user: Int, outOf group: Int) {
        guard isConnected, user != habits.user else { return }
        let name = oracle.groups[group].name
        let member = Array(Profile.userName(user).utf8)
        let part = MRT.GroupMember(
            group: ByteRange(offset: 0, count: name.count),
            user: ByteRange(offset: name.count, count: member.count))
        guard let identifier = request(.groupKick, part, from: name + member) else { return }
        let change = oracle.membershipChanging(user, isJoin: false, in: group)
        requests[identifier] = .membership(group: group, change: change)
    }

    /// Replaces the allow list of a group that it owns with one that names all users, and as many
    /// other names.
    func setAllowList(of group: Int, fillerCount: Int) {
        guard isConnected else { return }
        let name = oracle.groups[group].name
        let users = (0..<context.profile.userCount).map(Profile.userName)
        let fillers = (0..<fillerCount).map { "filler-\($0)-\(String(repeating: "x", count: 40))" }
        var ids: [UInt8] = []
        for user in users + fillers { ids += [UInt8(user.utf8.count)] + Array(user.utf8) }
        let part = MRT.GroupSetAllowList(
            group: ByteRange(offset: 0, count: name.count),
            allowList: .only(
                count: users.count + fillerCount,
                ids: ByteRange(offset: name.count, count: ids.count)))
        guard let identifier = request(.groupSetAllowList, part, from: name + ids) else { return }
        requests[identifier] = .groupChange
    }

    /// Replaces the meta text of a group that it owns.
    func setMeta(of group: Int, byteCount: Int) {
        guard isConnected else { return }
        let name = oracle.groups[group].name
        let meta = [UInt8](repeating: UInt8(ascii: "m"), count: byteCount)
        let part = MRT.GroupSetMeta(
            group: ByteRange(offset: 0, count: name.count),
            meta: ByteRange(offset: name.count, count: byteCount))
        guard let identifier = request(.groupSetMeta, part, from: name + meta) else { return }
        requests[identifier] = .groupChange
    }

    // MARK: Wills

    /// Sets a will, in place of the previous one.
    func setWill(to receivers: Receivers, delaySeconds: UInt32) {
        guard isConnected else { return }
        let message = oracle.willAsked(index, to: receivers, delaySeconds: delaySeconds)
        let (packet, source) = encode(Order(receivers: receivers, grade: .once), message)
        let part = MRT.Will(
            delaySeconds: delaySeconds, target: packet.target, isRaw: false,
            payload: packet.payload)
        guard let identifier = request(.setWill, part, from: source) else {
            oracle.willWithdrawn(message)
            return
        }
        requests[identifier] = .will(message)
    }

    func clearWill() {
        guard isConnected, let identifier = request(.clearWill, []) else { return }
        oracle.doubtWills(of: habits.device)
        requests[identifier] = .willRemoval
    }

    // MARK: Loss of power

    /// A device that loses power forgets its requests.
    func forgetRequests() {
        for request in requests.values {
            if case .membership(let group, let change) = request {
                oracle.membershipForgotten(change, in: group)
            }
        }
        requests = [:]
    }

    func request<Part: RequestPart>(
        _ operation: MRT.Operation, _ part: Part, from source: [UInt8]
    ) -> UInt64? {
        source.withUnsafeBytes { try? machine?.request(operation, part, from: $0) }
    }

    private func request(_ operation: MRT.Operation, _ parameters: [UInt8]) -> UInt64? {
        parameters.withUnsafeBytes { try? machine?.request(operation, parameters: $0) }
    }
}
