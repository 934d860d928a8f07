// What happens in runs with a relay or a moderator: users set targets and disappear, others write
// to them, operators set templates; the service itself loses its connection or its power.

import BrokerCore
import Primitives
import WireFormat

extension Simulation {
    /// The services of a run, whose indexes follow those of the clients.
    static func makeServices(
        _ context: SimulationContext, _ network: SimulatedNetwork
    ) -> [ServiceClient] {
        context.profile.services.enumerated().map { position, service in
            let index = context.profile.clients.count + position
            switch service {
            case .relay: return SimulatedRelay(index, context: context, network: network)
            case .moderator: return SimulatedModerator(index, context: context, network: network)
            }
        }
    }

    /// Something happens around the services, and the next time is scheduled.
    func useServices() {
        guard !context.isRecovering, let service = services.first else { return }
        let interval = context.profile.serviceInterval
        let pause =
            context.serviceRandom.happens(perTenThousand: 3_000)
            ? 0 : context.serviceRandom.milliseconds(in: 0...3 * interval)
        context.enter(.serviceUsed, after: pause)
        if context.serviceRandom.happens(perTenThousand: 300) { return fault(service) }
        if context.profile.wakePolicy != nil { useWakes() }
    }

    private func fault(_ service: ServiceClient) {
        let faults = context.options.faults
        switch context.serviceRandom.below(4) {
        case 0 where faults.contains(.cuts): if let link = service.link { network.cut(link) }
        case 1 where faults.contains(.stalls):
            if let link = service.link {
                network.stall(
                    link, milliseconds: context.serviceRandom.milliseconds(in: 100...10_000))
            }
        case 2 where faults.contains(.power): service.powerOff()
        case 3 where faults.contains(.absences): service.leave()
        default: break
        }
    }

    // MARK: Wake-ups

    /// The users that may have targets: those whose devices all speak MRT on their own connections.
    private var sleepers: [Int] {
        (0..<context.profile.userCount).filter { user in
            context.profile.clients.allSatisfy {
                $0.user != user || $0.mqtt == nil && $0.gateways.isEmpty && !$0.isGateway
            }
        }
    }

    private func clients(of user: Int) -> [SimulatedClient] {
        clients.compactMap { $0 as? SimulatedClient }.filter { $0.habits.user == user }
    }

    /// Whether no device of a user is connected, as an operator sees it, and none is about to be.
    private func isAbsent(_ user: Int) -> Bool {
        for index in network.links.indices.reversed().prefix(200) {
            let link = network.links[index]
            guard link.client < clients.count, link.isOpenAtBroker,
                clients[link.client].habits.user == user
            else { continue }
            return false
        }
        guard let process else { return true }
        return process.connectionCount(ofUser: user) == 0
    }

    private func useWakes() {
        let sleepers = sleepers
        guard !sleepers.isEmpty else { return }
        for user in sleepers where !isAbsent(user) {
            oracle.wakeFacts.presentAt[user] = context.now
        }
        let user = context.serviceRandom.pick(sleepers)
        if oracle.lastingTargets(of: user).isEmpty { return setTarget(of: user) }
        switch context.serviceRandom.below(24) {
        case 0, 1: setTarget(of: user)
        case 2: removeTarget(of: user)
        case 3..<9: for client in clients(of: user) { client.leave() }
        case 9, 10: clients(of: user).first { !$0.habits.isRival }?.logOut()
        case 11, 12: setTemplate()
        default: wake(sleepers)
        }
    }

    private func setTarget(of user: Int) {
        guard oracle.lastingTargets(of: user).count < 4,
            let client = clients(of: user).first(where: { !$0.habits.isRival && $0.isConnected })
        else { return }
        client.setTarget(
            kind: UInt8(context.serviceRandom.number(in: 1...6)),
            isOwn: context.serviceRandom.happens(perTenThousand: 5_000))
        client.runOn()
    }

    private func removeTarget(of user: Int) {
        guard let target = oracle.lastingTargets(of: user).first,
            let client = clients(of: user).first(where: { !$0.habits.isRival && $0.isConnected })
        else { return }
        client.removeTarget(target)
        client.runOn()
    }

    private func setTemplate() {
        guard let process, !store.isFull else { return }
        let version = oracle.wakeFacts.templates.count + 1
        let kind = UInt8(context.serviceRandom.number(in: 1...3))
        guard process.setTemplate("{\"v\":\(version)}", kind: kind) else { return }
        oracle.history.note(.broker, "template \(version) for kind \(kind) is set")
        oracle.wakeFacts.templates.append(
            TemplateFact(version: version, kind: kind, commit: oracle.wakeFacts.takenCount + 1))
    }

    /// Somebody writes to a user who has targets, preferably to one who is not there.
    private func wake(_ sleepers: [Int]) {
        let asleep = sleepers.filter { !oracle.lastingTargets(of: $0).isEmpty }
        let absent = asleep.filter(isAbsent)
        guard !asleep.isEmpty else { return }
        let user = context.serviceRandom.pick(absent.isEmpty ? asleep : absent)
        let senders = clients.compactMap { $0 as? SimulatedClient }.filter {
            $0.isConnected && !$0.habits.isRival && $0.habits.user != user
                && context.profile.restrictions[$0.habits.user] == nil
        }
        guard !senders.isEmpty else { return }
        let sender = context.serviceRandom.pick(senders)
        let grade = context.serviceRandom.pick(
            [.transient, .durable, .once, .once] as [MRT.Grade])
        var order = Order(receivers: .users([user], isList: false), grade: grade)
        order.isWithoutWake = context.serviceRandom.happens(perTenThousand: 1_000)
        let message = oracle.sends.count
        if order.isWithoutWake { oracle.wakeFacts.withoutWake.insert(message) }
        if absent.contains(user), grade != .transient, !order.isWithoutWake {
            oracle.expectWake(of: user, for: message)
        }
        sender.send(order)
        sender.runOn()
    }
}
