// What happens in the storm: clients are used, and troubles come.

import Primitives
import WireFormat

extension Simulation {
    // MARK: Use

    /// Some client is used, and the next use is entered.
    func useClient() {
        guard !surroundings.isHealing else { return }
        let interval = surroundings.profile.useInterval
        // Bursts: half of the uses follow at once.
        let pause =
            surroundings.useRandom.happens(perTenThousand: 5_000)
            ? 0 : surroundings.useRandom.milliseconds(in: 0...2 * interval)
        surroundings.enter(.clientUsed, after: pause)
        let client = clients[surroundings.useRandom.below(clients.count)]
        // A rival asks for nothing: its requests are asked again when it comes back, and would
        // change the other's subscriptions at a time that nobody can tell.
        let weights = surroundings.profile.useWeights
        switch client.habits.isRival ? 0 : surroundings.useRandom.index(weights: weights) {
        case 0: client.send(drawOrder(client.habits))
        case 1: subscribe(client)
        case 2: client.unsubscribe(surroundings.useRandom.below(Profile.filters.count))
        case 3: if surroundings.options.troubles.contains(.absences) { client.leave() }
        case 4: useGroup(client)
        default: useWill(client)
        }
        client.runOn()
    }

    private func subscribe(_ client: any NetworkedClient) {
        let filter = surroundings.useRandom.below(Profile.filters.count)
        let grade = surroundings.useRandom.pick(
            [.transient, .durable, .once, .once] as [MRT.Grade])
        if let client = client as? SimulatedMQTTClient,
            surroundings.useRandom.happens(perTenThousand: 1_500)
        {
            client.want(.share(filter), grade)
        } else {
            client.subscribe(filter, grade)
        }
    }

    /// Creates a group, joins one, leaves one, or throws somebody out.
    private func useGroup(_ client: any NetworkedClient) {
        let groupCount = ledger.groups.count
        guard let client = client as? SimulatedClient else {
            if groupCount > 0, let client = client as? SimulatedMQTTClient {
                client.want(
                    .group(surroundings.useRandom.below(groupCount)),
                    surroundings.useRandom.pick([.durable, .once]))
            }
            return
        }
        guard groupCount > 0 else { return client.createGroup() }
        let group = surroundings.useRandom.below(groupCount)
        switch surroundings.useRandom.below(20) {
        case 0..<2: if groupCount < Profile.groupCountMaximum { client.createGroup() }
        case 2..<13: client.changeMembership(of: group, isJoin: true)
        case 13..<16: client.changeMembership(of: group, isJoin: false)
        default:
            let user = surroundings.useRandom.below(surroundings.profile.userCount)
            let owner = ledger.groups[group].owner
            let ownersClient = clients.lazy.compactMap { $0 as? SimulatedClient }
                .first { $0.habits.user == owner && $0.isConnected }
            guard let ownersClient else { return }
            ownersClient.kick(user, outOf: group)
            ownersClient.runOn()
        }
    }

    private func useWill(_ client: any NetworkedClient) {
        guard let client = client as? SimulatedClient else {
            // In MQTT a will comes with CONNECT: what there is to do is to lose the connection.
            (client as? SimulatedMQTTClient)?.hangUp()
            return
        }
        if surroundings.useRandom.happens(perTenThousand: 2_000) { return client.clearWill() }
        let users = [surroundings.useRandom.below(surroundings.profile.userCount)]
        let receivers = surroundings.useRandom.pick([
            Receivers.users(users, isList: false), .users(users, isList: true), .everybody,
            .topic(surroundings.useRandom.below(Profile.topics.count)),
        ])
        client.setWill(
            to: receivers, delaySeconds: surroundings.useRandom.pick([0, 0, 5, 60, 400]))
    }

    private func drawOrder(_ habits: ClientHabits) -> Order {
        let profile = surroundings.profile
        let grades: [MRT.Grade] = [.transient, .durable, .once]
        let grade = grades[surroundings.useRandom.index(weights: profile.gradeWeights)]
        var order = Order(receivers: drawReceivers(), grade: habits.isRival ? .transient : grade)
        if surroundings.useRandom.happens(perTenThousand: profile.expiringSends) {
            order.expirySeconds = UInt32(surroundings.useRandom.number(in: 1...60))
        }
        if surroundings.useRandom.happens(perTenThousand: 5_000) {
            order.messageIdentifier = "id-\(surroundings.useRandom.below(1_000_000))"
        }
        if case .topic = order.receivers {
            order.isRaw = surroundings.useRandom.happens(perTenThousand: 5_000)
        }
        order.padding = surroundings.useRandom.number(in: 0...profile.paddingMaximum)
        if let mqtt = habits.mqtt { fit(&order, to: mqtt) }
        return order
    }

    /// Leaves out of an order what an MQTT client cannot say, and adds what only it can.
    private func fit(_ order: inout Order, to mqtt: MQTTHabits) {
        if mqtt.version < .v5 {
            // It is never told of a refusal, and would try for ever to send to who does not exist.
            switch order.receivers {
            case .users(let users, _):
                let user = users[0] == surroundings.profile.userCount ? 0 : users[0]
                order.receivers = .users([user], isList: false)
            case .group: order.receivers = .everybody
            case .everybody, .topic: break
            }
            order.expirySeconds = 0
        }
        let isTopic = order.receivers.kind == .topic
        if isTopic || order.grade == .transient || mqtt.version < .v5 {
            order.messageIdentifier = ""
        }
        order.isRaw = isTopic
        guard isTopic, surroundings.useRandom.happens(perTenThousand: 3_000) else { return }
        order.isRetained = true
        order.isClearing = surroundings.useRandom.happens(perTenThousand: 1_500)
    }

    private func drawReceivers() -> Receivers {
        let userCount = surroundings.profile.userCount
        // Now and then somebody whom nobody knows.
        func drawUser() -> Int {
            surroundings.useRandom.happens(perTenThousand: 300)
                ? userCount : surroundings.useRandom.below(userCount)
        }
        switch surroundings.useRandom.index(weights: surroundings.profile.targetWeights) {
        case 0: return .users([drawUser()], isList: false)
        case 1:
            var users: [Int] = []
            for _ in 0..<surroundings.useRandom.number(in: 1...userCount) {
                let user = drawUser()
                if !users.contains(user) { users.append(user) }
            }
            return .users(users, isList: true)
        case 2: return .everybody
        case 3 where ledger.groups.count > 0:
            return .group(surroundings.useRandom.below(ledger.groups.count))
        default: return .topic(surroundings.useRandom.below(Profile.topics.count))
        }
    }

    // MARK: Troubles

    /// Some trouble comes, and the next is entered.
    func makeTrouble() {
        guard !surroundings.isHealing else { return }
        let interval = surroundings.profile.troubleInterval
        surroundings.enter(
            .troubleComes,
            after: surroundings.troubleRandom.milliseconds(in: interval / 2...2 * interval))
        let weights = surroundings.profile.troubleWeights.map(\.weight)
        guard weights.contains(where: { $0 > 0 }) else { return }
        let index = surroundings.troubleRandom.index(weights: weights)
        make(surroundings.profile.troubleWeights[index].trouble)
    }

    private func make(_ trouble: Troubles) {
        let client = clients[surroundings.troubleRandom.below(clients.count)]
        switch trouble {
        case .cuts: if let link = client.link { network.cut(link) }
        case .stalls:
            let milliseconds = surroundings.troubleRandom.milliseconds(in: 100...30_000)
            if let link = client.link { network.stall(link, milliseconds: milliseconds) }
        case .power: client.powerOff()
        case .crashes:
            crash(inFlightBatch: surroundings.troubleRandom.happens(perTenThousand: 5_000))
        case .restarts: stop()
        case .fullStore:
            guard !store.isFull else { return }
            setStore(isFull: true)
            surroundings.enter(
                .storeHasRoom, after: surroundings.troubleRandom.milliseconds(in: 10...10_000))
        case .slowStore: isStoreSlow.toggle()
        case .absences: client.leave()
        case .clockSteps:
            // Up to a month ahead of the truth, and back again.
            let day: UInt64 = 86_400_000
            surroundings.clockStep = surroundings.troubleRandom.milliseconds(in: 0...30 * day)
        default:
            // Rivals log in again by themselves whenever they have been thrown out.
            break
        }
    }
}
