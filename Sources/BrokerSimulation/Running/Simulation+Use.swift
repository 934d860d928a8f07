// The first phase of a run: applications use clients, and faults occur.

import Primitives
import WireFormat

extension Simulation {
    // MARK: Use

    /// Some client is used, and the next use is scheduled.
    func useClient() {
        guard !context.isRecovering else { return }
        let interval = context.profile.useInterval
        // Bursts: half of the uses follow at once.
        let pause =
            context.useRandom.happens(perTenThousand: 5_000)
            ? 0 : context.useRandom.milliseconds(in: 0...2 * interval)
        context.enter(.clientUsed, after: pause)
        let client = clients[context.useRandom.below(clients.count)]
        // A rival makes no requests: they would be repeated when it returns, and change the other's
        // subscriptions at an unknown time.
        let weights = context.profile.useWeights
        switch client.habits.isRival ? 0 : context.useRandom.index(weights: weights) {
        case 0: client.send(drawOrder(client.habits))
        case 1: subscribe(client)
        case 2: client.unsubscribe(context.useRandom.below(Profile.filters.count))
        case 3: if context.options.faults.contains(.absences) { client.leave() }
        case 4: useGroup(client)
        default: useWill(client)
        }
        client.runOn()
    }

    private func subscribe(_ client: any NetworkedClient) {
        let filter = context.useRandom.below(Profile.filters.count)
        let grade = context.useRandom.pick(
            [.transient, .durable, .once, .once] as [MRT.Grade])
        if let client = client as? SimulatedMQTTClient,
            context.useRandom.happens(perTenThousand: 1_500)
        {
            client.want(.share(filter), grade)
        } else {
            client.subscribe(filter, grade)
        }
    }

    /// Creates a group, joins one, leaves one, or kicks a member.
    private func useGroup(_ client: any NetworkedClient) {
        let groupCount = oracle.groups.count
        guard let client = client as? SimulatedClient else {
            if groupCount > 0, let client = client as? SimulatedMQTTClient {
                client.want(
                    .group(context.useRandom.below(groupCount)),
                    context.useRandom.pick([.durable, .once]))
            }
            return
        }
        guard groupCount > 0 else { return client.createGroup() }
        let group = context.useRandom.below(groupCount)
        switch context.useRandom.below(20) {
        case 0..<2: if groupCount < Profile.groupCountMaximum { client.createGroup() }
        case 2..<13: client.changeMembership(of: group, isJoin: true)
        case 13..<16: client.changeMembership(of: group, isJoin: false)
        default:
            let user = context.useRandom.below(context.profile.userCount)
            let owner = oracle.groups[group].owner
            let ownersClient = clients.lazy.compactMap { $0 as? SimulatedClient }
                .first { $0.habits.user == owner && $0.isConnected }
            guard let ownersClient else { return }
            ownersClient.kick(user, outOf: group)
            ownersClient.runOn()
        }
    }

    private func useWill(_ client: any NetworkedClient) {
        // Those that a moderator would have to decide on are refused.
        if context.profile.moderation != nil { return }
        guard let client = client as? SimulatedClient else {
            // In MQTT a will is part of CONNECT: the only action is to lose the connection.
            (client as? SimulatedMQTTClient)?.hangUp()
            return
        }
        if context.useRandom.happens(perTenThousand: 2_000) { return client.clearWill() }
        let users = [context.useRandom.below(context.profile.userCount)]
        let receivers = context.useRandom.pick([
            Receivers.users(users, isList: false), .users(users, isList: true), .everybody,
            .topic(context.useRandom.below(Profile.topics.count)),
        ])
        client.setWill(
            to: receivers, delaySeconds: context.useRandom.pick([0, 0, 5, 60, 400]))
    }

    private func drawOrder(_ habits: ClientHabits) -> Order {
        let profile = context.profile
        let grades: [MRT.Grade] = [.transient, .durable, .once]
        let grade = grades[context.useRandom.index(weights: profile.gradeWeights)]
        var order = Order(receivers: drawReceivers(), grade: habits.isRival ? .transient : grade)
        if context.useRandom.happens(perTenThousand: profile.expiringSends) {
            order.expirySeconds = UInt32(context.useRandom.number(in: 1...60))
        }
        if context.useRandom.happens(perTenThousand: 5_000) {
            order.messageIdentifier = "id-\(context.useRandom.below(1_000_000))"
        }
        if case .topic = order.receivers {
            order.isRaw = context.useRandom.happens(perTenThousand: 5_000)
        }
        order.padding = context.useRandom.number(in: 0...profile.paddingMaximum)
        if let mqtt = habits.mqtt { fit(&order, to: mqtt) }
        return order
    }

    /// Removes from an order what an MQTT client cannot express, and adds what only it can.
    private func fit(_ order: inout Order, to mqtt: MQTTHabits) {
        if mqtt.version < .v5 {
            // It is never told of a refusal, and would repeat a send to an unknown user forever.
            switch order.receivers {
            case .users(let users, _):
                let user = users[0] == context.profile.userCount ? 0 : users[0]
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
        // What is retained is the last message that the moderator accepts.
        guard isTopic, context.profile.moderation == nil,
            context.useRandom.happens(perTenThousand: 3_000)
        else { return }
        order.isRetained = true
        order.isClearing = context.useRandom.happens(perTenThousand: 1_500)
        // A message without content is not recognised in a page.
        if context.profile.keepsTopic(order.receivers, order.grade) { order.isClearing = false }
    }

    private func drawReceivers() -> Receivers {
        let userCount = context.profile.userCount
        // Sometimes a user that does not exist.
        func drawUser() -> Int {
            context.useRandom.happens(perTenThousand: 300)
                ? userCount : context.useRandom.below(userCount)
        }
        switch context.useRandom.index(weights: context.profile.targetWeights) {
        case 0: return .users([drawUser()], isList: false)
        case 1:
            var users: [Int] = []
            for _ in 0..<context.useRandom.number(in: 1...userCount) {
                let user = drawUser()
                if !users.contains(user) { users.append(user) }
            }
            return .users(users, isList: true)
        case 2: return .everybody
        case 3 where oracle.groups.count > 0:
            return .group(context.useRandom.below(oracle.groups.count))
        default: return .topic(context.useRandom.below(Profile.topics.count))
        }
    }

    // MARK: Faults

    /// Injects a fault and schedules the next one.
    func injectFault() {
        guard !context.isRecovering else { return }
        let interval = context.profile.faultInterval
        context.enter(
            .faultDue,
            after: context.faultRandom.milliseconds(in: interval / 2...2 * interval))
        let weights = context.profile.faultWeights.map(\.weight)
        guard weights.contains(where: { $0 > 0 }) else { return }
        let index = context.faultRandom.index(weights: weights)
        make(context.profile.faultWeights[index].fault)
    }

    private func make(_ fault: Faults) {
        let client = clients[context.faultRandom.below(clients.count)]
        switch fault {
        case .cuts: if let link = client.link { network.cut(link) }
        case .stalls:
            let milliseconds = context.faultRandom.milliseconds(in: 100...30_000)
            if let link = client.link { network.stall(link, milliseconds: milliseconds) }
        case .power: client.powerOff()
        case .crashes:
            crash(committing: context.faultRandom.happens(perTenThousand: 5_000))
        case .restarts: stop()
        case .fullStore:
            guard !store.isFull else { return }
            setStore(isFull: true)
            context.enter(
                .storeHasRoom, after: context.faultRandom.milliseconds(in: 10...10_000))
        case .slowStore: isStoreSlow.toggle()
        case .absences: client.leave()
        case .clockSteps:
            // Up to a month ahead of the true time, and back again.
            let day: UInt64 = 86_400_000
            context.clockStep = context.faultRandom.milliseconds(in: 0...30 * day)
        default:
            // Rivals log in again by themselves after another client took their session.
            break
        }
    }
}
