// The habits of some runs: see ``Habit``.

import Primitives
import WireFormat

extension Simulation {
    /// A client follows a habit, and the next time is scheduled.
    func runHabit() {
        guard !context.isRecovering else { return }
        let interval = context.profile.habitInterval
        // Bursts, as for all other use.
        let pause =
            context.habitRandom.happens(perTenThousand: 5_000)
            ? 0 : context.habitRandom.milliseconds(in: 0...4 * interval)
        context.enter(.habitDue, after: pause)
        switch context.habitRandom.pick(context.profile.habits) {
        case .repeatsIdentifier: repeatIdentifier()
        case .changesRows: changeRows()
        case .changesShare: changeShare()
        case .goesAway: goAway()
        case .readsSystem:
            guard context.habitRandom.happens(perTenThousand: 500) else { return }
            let reader = pickMQTT { context.profile.restrictions[$0.habits.user] != nil }
            reader?.want(.system, .durable)
            reader?.runOn()
        }
    }

    private func repeatIdentifier() {
        guard let client = pickMQTT(where: { $0.version == .v5 }) else { return }
        if context.habitRandom.happens(perTenThousand: 5_000) { client.repeatSend() }
        // The next sends make the broker forget the id, perhaps before the repeat is stored.
        for _ in 0..<context.habitRandom.number(in: 1...3) {
            let user = context.habitRandom.below(context.profile.userCount)
            let grade = context.habitRandom.pick([.durable, .once] as [MRT.Grade])
            var order = Order(receivers: .users([user], isList: false), grade: grade)
            order.messageIdentifier = "once-\(context.habitRandom.below(1_000_000))"
            client.send(order)
        }
        client.runOn()
    }

    /// One of the siblings disconnects for a while, usually for longer than its session lasts, or
    /// somebody sends them a message.
    private func goAway() {
        guard let user = context.profile.siblings else { return }
        let own = clients.filter { $0.habits.isSibling }
        if context.habitRandom.happens(perTenThousand: 300) {
            own[context.habitRandom.below(own.count)].leave()
            return
        }
        guard context.habitRandom.happens(perTenThousand: 2_000) else { return }
        let grade = context.habitRandom.pick([.durable, .once] as [MRT.Grade])
        let senders = clients.filter { $0.isConnected && !$0.habits.isRival }
        guard !senders.isEmpty else { return }
        let sender = context.habitRandom.pick(senders)
        sender.send(Order(receivers: .users([user], isList: false), grade: grade))
        sender.runOn()
    }

    /// In some runs a backup is made and restored repeatedly.
    func enterBackup() {
        guard let longest = context.profile.backupMaximum else { return }
        let made = context.habitRandom.milliseconds(in: 100...longest)
        let putBack = made + context.habitRandom.milliseconds(in: 100...longest)
        context.enter(.backupMade, after: made)
        context.enter(.backupPutBack, after: putBack)
    }

    func makeBackup() {
        guard !context.isRecovering else { return }
        store.makeBackup()
        oracle.backupMade()
        // A client that does not read gets no results, and repeats its sends after the restore.
        for client in clients where context.habitRandom.happens(perTenThousand: 5_000) {
            guard let link = client.link else { continue }
            network.stall(link, milliseconds: context.profile.backupMaximum ?? 0)
        }
    }

    /// The process is killed, the store becomes the backup, and the broker is started several
    /// times: most devices return after that.
    func putBackupBack() {
        guard !context.isRecovering else { return }
        crash(committing: false)
        guard store.putBackupBack() else { return }
        oracle.backupPutBack()
        for _ in 0...context.habitRandom.below(2) {
            startBroker()
            stop()
        }
        enterBackup()
    }

    private func changeRows() {
        guard oracle.groups.count > 0 else {
            (clients.first { $0 is SimulatedClient && $0.isConnected } as? SimulatedClient)?
                .createGroup()
            return
        }
        let group = context.habitRandom.below(oracle.groups.count)
        let owner = oracle.groups[group].owner
        let ownersClient = clients.lazy.compactMap { $0 as? SimulatedClient }
            .first { $0.habits.user == owner && $0.isConnected && !$0.habits.isRival }
        guard let ownersClient, ownersClient.requests.count < 4 else { return }
        if context.habitRandom.happens(perTenThousand: 5_000) {
            ownersClient.setMeta(
                of: group, byteCount: context.habitRandom.pick([0, 200, 1_500]))
        } else {
            ownersClient.setAllowList(
                of: group, fillerCount: context.habitRandom.pick([0, 5, 25]))
        }
        ownersClient.runOn()
    }

    private func changeShare() {
        let filter = FilterName.share(context.profile.sharedFilter)
        let anchor = context.profile.shareAnchor
        guard let client = pickMQTT(where: { !$0.mqtt.isLate && $0.index != anchor }) else {
            return
        }
        switch context.habitRandom.below(16) {
        case 0: client.wantNoMore(filter)
        case 1, 2:
            guard client.wishes[filter] == nil else { return }
            client.want(filter, context.habitRandom.pick([.durable, .once]))
        case 3: client.hangUp()
        default:
            let topic = context.habitRandom.pick(topicsOfShare)
            let grade = context.habitRandom.pick([.durable, .once] as [MRT.Grade])
            var order = Order(receivers: .topic(topic), grade: grade)
            order.isRaw = true
            client.send(order)
        }
        client.runOn()
    }

    private var topicsOfShare: [Int] {
        let filter = FilterName.share(context.profile.sharedFilter)
        let topics = Profile.topics.indices.filter { Oracle.matches($0, share: filter) }
        return topics.isEmpty ? [0] : Array(topics)
    }

    private func pickMQTT(
        where isMeant: (SimulatedMQTTClient) -> Bool
    ) -> SimulatedMQTTClient? {
        let meant = clients.compactMap { $0 as? SimulatedMQTTClient }.filter(isMeant)
        return meant.isEmpty ? nil : context.habitRandom.pick(meant)
    }
}
