// Rights of restricted clients, and their meaning by definition. The oracle checks with this code,
// which it does not share with the broker.

import Primitives
import WireFormat

/// The rights of one user.
struct Restriction: Hashable {
    /// Users that it may send to.
    var sendsTo: Set<Int> = []
    /// Filters of the topics on which it may publish, and that must contain its own filters.
    var publishes: [String] = []
    var subscribes: [String] = []
    var mayBroadcast = false
    /// The name of its device, in place of the default.
    var deviceName: String?

    /// The rights in the form of a token. Every restricted user may create groups, and has filters
    /// for its own user and device, which match no topic of a run.
    var texts: [String] {
        sendsTo.sorted().map { "send:\(Profile.userName($0))" }
            + publishes.map { "publish:\($0)" } + subscribes.map { "subscribe:\($0)" }
            + ["subscribe:%u/#", "subscribe:%d/#", "publish:%u/#", "group:create"]
            + (mayBroadcast ? ["broadcast"] : [])
    }

    /// Whether `right` contains every topic of `filter`.
    static func covers(_ right: String, _ filter: String) -> Bool {
        let allowed = right.split(separator: "/", omittingEmptySubsequences: false)
        let wanted = filter.split(separator: "/", omittingEmptySubsequences: false)
        for (index, level) in allowed.enumerated() {
            if level == "#" { return true }
            guard index < wanted.count, wanted[index] != "#" else { return false }
            if level != "+", level != wanted[index] { return false }
        }
        return allowed.count == wanted.count
    }
}

extension Profile {
    /// Adds restricted users, or none.
    mutating func drawRestricted(seed: UInt64) {
        var random = SimulationRandom(seed: seed ^ 0x72_6967_6874_73)
        guard random.happens(perTenThousand: 4_000) else { return }
        let others = userCount
        for _ in 0..<random.number(in: 1...3) {
            var rights = Restriction()
            rights.sendsTo = Set((0..<others).filter { _ in random.happens(perTenThousand: 4_000) })
            rights.publishes = random.pick([[], ["#"], ["a/#"], ["a/b", "+/c"]])
            rights.subscribes = random.pick([[], ["#"], ["a/#"], ["a/+", "deep/#"]])
            rights.mayBroadcast = random.happens(perTenThousand: 5_000)
            if random.happens(perTenThousand: 2_000) { rights.deviceName = "$SYS" }
            let isMQTT = random.happens(perTenThousand: 6_000)
            var habits =
                isMQTT
                ? drawMQTTHabits(&random, user: userCount, isFirst: true)
                : drawHabits(&random, user: userCount, isFirst: true)
            // Before 5.0 nobody is told of a refusal.
            habits.mqtt?.version = .v5
            habits.mqtt?.hasWills = true
            habits.mqtt?.sharedFilter = nil
            restrictions[userCount] = rights
            clients.append(habits)
            userCount += 1
            deviceCount += 1
        }
    }

    /// The name of a client's device.
    func deviceName(of client: ClientHabits) -> String {
        restrictions[client.user]?.deviceName ?? "device\(client.device)"
    }
}

extension Oracle {
    private func restriction(of client: Int) -> Restriction? {
        profile.restrictions[profile.clients[client].user]
    }

    /// Whether a client may not send to a user.
    func isForbidden(_ send: SendFact, to user: Int) -> Bool {
        restriction(of: send.client).map { !$0.sendsTo.contains(user) } ?? false
    }

    /// Whether a send is not permitted to some of its receivers, or to any.
    func isForbidden(_ send: SendFact) -> Bool {
        guard let rights = restriction(of: send.client) else { return false }
        switch send.receivers {
        case .users(let users, _): return users.contains { !rights.sendsTo.contains($0) }
        case .everybody: return !rights.mayBroadcast
        case .group: return false
        case .topic(let topic):
            return !rights.publishes.contains {
                Oracle.matches(topic: Profile.topics[topic], filter: $0)
            }
        }
    }

    /// Whether a client may subscribe to a filter.
    func maySubscribe(_ client: Int, to filter: FilterName) -> Bool {
        guard let rights = restriction(of: client) else { return true }
        switch filter {
        case .topics(let index), .share(let index):
            return rights.subscribes.contains { Restriction.covers($0, Profile.filters[index]) }
        case .user, .everybody, .group: return true
        case .system: return false
        }
    }

    /// Whether a client may read the history of a topic: if it may subscribe to the topic.
    func mayRead(_ topic: Int, client: Int) -> Bool {
        guard let rights = restriction(of: client) else { return true }
        return rights.subscribes.contains { Restriction.covers($0, Profile.topics[topic]) }
    }

    /// A client was told that it is subscribed.
    func checkSubscribed(_ client: Int, to filter: FilterName) {
        guard !maySubscribe(client, to: filter) else { return }
        fail(.rightsAreKept, "subscribed to \(filter), as no right allows", client: client)
    }

    /// No receiver gets a message that its sender may not send.
    func checkRights(_ message: Int, session: Int, client: Int) {
        let send = sends[message]
        let isWrong: Bool
        if case .users = send.receivers {
            isWrong = isForbidden(send, to: devices[sessions[session].device].user)
        } else {
            isWrong = isForbidden(send)
        }
        guard isWrong else { return }
        fail(
            .rightsAreKept,
            "received, sent by client \(send.client)\(send.isWill ? " as a will" : ""), whose "
                + "rights"
                + " do not allow it", message: message, client: client)
    }
}
