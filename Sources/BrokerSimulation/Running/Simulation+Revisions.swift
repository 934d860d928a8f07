// What clients of some runs do with messages that they have sent: they recall them, give them new
// content, or let a newer one take their place.

import Primitives
import WireFormat

extension Simulation {
    /// Some client sends a message that it may revise, or revises one, and the next time is
    /// scheduled.
    func useRevisions() {
        guard !context.isRecovering, let interval = context.profile.revisionInterval else { return }
        let pause =
            context.revisionRandom.happens(perTenThousand: 5_000)
            ? 0 : context.revisionRandom.milliseconds(in: 0...4 * interval)
        context.enter(.revisionDue, after: pause)
        let own = clients.compactMap { $0 as? SimulatedClient }.filter {
            !$0.habits.isRival && context.profile.restrictions[$0.habits.user] == nil
        }
        guard !own.isEmpty else { return }
        let client = context.revisionRandom.pick(own)
        if context.revisionRandom.happens(perTenThousand: 6_000) {
            sendRevisable(from: client)
        } else {
            client.revise()
        }
        client.runOn()
    }

    private func sendRevisable(from client: SimulatedClient) {
        // What an MQTT client is told of a recall has another form.
        let users = (0..<context.profile.userCount).filter { !oracle.mqttUsers.contains($0) }
        guard !users.isEmpty else { return }
        var receivers: [Int] = []
        for _ in 0...context.revisionRandom.below(2) {
            let user = context.revisionRandom.pick(users)
            if !receivers.contains(user) { receivers.append(user) }
        }
        var order = Order(
            receivers: .users(receivers, isList: receivers.count > 1),
            grade: context.revisionRandom.pick([.durable, .once] as [MRT.Grade]))
        if context.revisionRandom.happens(perTenThousand: 3_000) {
            // Of one client, so that the order of the messages with a key is known.
            order.collapseKey =
                context.revisionRandom.pick(["valve", "pump"]) + "-\(client.index)"
        } else {
            order.asks = .reference
        }
        order.messageIdentifier = oracle.makeRevisableIdentifier(
            order, user: client.habits.user)
        client.send(order)
    }
}
