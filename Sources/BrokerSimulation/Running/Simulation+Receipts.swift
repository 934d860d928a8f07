// What clients of some runs do with receipts: they ask for them, and tell what they did with
// messages whose senders ask.

import Primitives
import WireFormat

extension Simulation {
    /// Some client asks for receipts or tells something, and the next time is scheduled.
    func useReceipts() {
        guard !context.isRecovering, let interval = context.profile.receiptInterval else { return }
        let pause =
            context.receiptRandom.happens(perTenThousand: 5_000)
            ? 0 : context.receiptRandom.milliseconds(in: 0...4 * interval)
        context.enter(.receiptDue, after: pause)
        // Receipts come to all devices of a user, and only these clients read them.
        let users = clients.compactMap { $0 as? SimulatedClient }.filter {
            !$0.habits.isRival && !oracle.mqttUsers.contains($0.habits.user)
                && context.profile.restrictions[$0.habits.user] == nil
        }
        guard !users.isEmpty else { return }
        let client = context.receiptRandom.pick(users)
        if context.receiptRandom.happens(perTenThousand: 7_000) {
            ask(from: client)
        } else {
            client.tellApplied()
        }
        client.runOn()
    }

    private func ask(from client: SimulatedClient) {
        let grade = context.receiptRandom.pick([.durable, .once] as [MRT.Grade])
        var receivers: [Int] = []
        for _ in 0...context.receiptRandom.below(3) {
            let user = context.receiptRandom.below(context.profile.userCount)
            if !receivers.contains(user) { receivers.append(user) }
        }
        var order = Order(
            receivers: .users(receivers, isList: receivers.count > 1), grade: grade)
        order.asks = context.receiptRandom.pick(
            [.delivered, .applied, [.delivered, .applied], .delivered] as [MRT.SendAsks])
        order.messageIdentifier = oracle.makeReceiptIdentifier(order.asks)
        client.send(order)
    }
}
