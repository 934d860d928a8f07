// What clients of some runs do with conversations: they keep messages, read pages, and tell what
// they have read; an operator removes messages. At the end every conversation is read.

import BrokerCore
import Primitives
import WireFormat

extension Simulation {
    // MARK: Use

    /// Some client uses a conversation, and the next time is scheduled.
    func useHistory() {
        guard !context.isRecovering, let interval = context.profile.historyInterval else { return }
        let pause =
            context.historyRandom.happens(perTenThousand: 5_000)
            ? 0 : context.historyRandom.milliseconds(in: 0...4 * interval)
        context.enter(.historyDue, after: pause)
        let users = clients.compactMap { $0 as? SimulatedClient }.filter { !$0.habits.isRival }
        guard !users.isEmpty else { return }
        let client = context.historyRandom.pick(users)
        switch context.historyRandom.below(16) {
        case 0..<8: keep(from: client)
        case 8..<12: readPage(client)
        case 12..<15: markRead(client)
        default: if context.historyRandom.happens(perTenThousand: 2_000) { removeOne() }
        }
        client.runOn()
    }

    private func keep(from client: SimulatedClient) {
        let grade = context.historyRandom.pick([.durable, .once] as [MRT.Grade])
        var order = Order(receivers: .everybody, grade: grade)
        let userCount = context.profile.userCount
        switch context.historyRandom.below(4) {
        case 0:
            let some = (0..<userCount).filter { _ in
                context.historyRandom.happens(perTenThousand: 5_000)
            }
            order.receivers = .users(some.isEmpty ? [0] : some, isList: true)
        case 1 where oracle.groups.count > 0:
            order.receivers = .group(context.historyRandom.below(oracle.groups.count))
        default:
            // Few pairs, so that their conversations become long.
            let user = context.historyRandom.below(min(userCount, 3))
            order.receivers = .users([user], isList: false)
        }
        order.isKept = true
        let topics = context.profile.keptTopics
        if !topics.isEmpty, context.historyRandom.happens(perTenThousand: 3_000) {
            order.receivers = .topic(context.historyRandom.pick(topics))
            order.isRaw = context.historyRandom.happens(perTenThousand: 5_000)
            order.isKept = context.historyRandom.happens(perTenThousand: 5_000)
        }
        client.send(order)
    }

    /// A conversation that has messages, as far as is known.
    private func drawConversation(of client: SimulatedClient) -> ConversationName? {
        let user = client.habits.user
        let own = oracle.conversationFacts.keys.filter { conversation in
            switch conversation {
            case .users(let first, let second): first == user || second == user
            case .group, .topic: true
            }
        }
        // Not in the order of a dictionary, so that a run can be repeated.
        let known = own.sorted { "\($0)" < "\($1)" }
        return known.isEmpty ? nil : context.historyRandom.pick(known)
    }

    private func readPage(_ client: SimulatedClient) {
        let drawn = drawConversation(of: client)
        var conversation = ConversationName.users(
            of: client.habits.user,
            and: context.historyRandom.below(context.profile.userCount))
        if oracle.groups.count > 0, context.historyRandom.happens(perTenThousand: 3_000) {
            conversation = .group(context.historyRandom.below(oracle.groups.count))
        }
        if let drawn, context.historyRandom.happens(perTenThousand: 5_000) { conversation = drawn }
        let topics = context.profile.keptTopics
        if !topics.isEmpty, context.historyRandom.happens(perTenThousand: 3_000) {
            conversation = .topic(context.historyRandom.pick(topics))
        }
        var before: UInt64 = 0
        if let fact = oracle.conversationFacts[conversation], fact.highestSeen > 0,
            context.historyRandom.happens(perTenThousand: 3_000)
        {
            before = UInt64(context.historyRandom.below(Int(fact.highestSeen))) + 2
        }
        let count = UInt8(context.historyRandom.pick([1, 3, 20, 100]))
        client.readPage(of: conversation, before: before, count: count)
    }

    private func markRead(_ client: SimulatedClient) {
        guard let conversation = drawConversation(of: client), !conversation.isTopic,
            let highest = oracle.conversationFacts[conversation]?.highestSeen, highest > 0
        else { return }
        let back = context.historyRandom.below(Int(min(highest, 5)))
        client.markRead(
            conversation, through: highest - UInt64(back),
            hides: context.historyRandom.happens(perTenThousand: 1_000))
    }

    private func removeOne() {
        let known = oracle.conversationFacts.keys.sorted { "\($0)" < "\($1)" }
        guard let process, !known.isEmpty else { return }
        let conversation = context.historyRandom.pick(known)
        guard let highest = oracle.conversationFacts[conversation]?.highestSeen, highest > 0 else {
            return
        }
        // Often the newest one: then only the row of the conversation knows its number.
        let back = context.historyRandom.below(Int(min(highest, 3)))
        let number = highest - UInt64(back)
        oracle.removing(number, from: conversation)
        process.removeFromHistory(number, of: selection(conversation))
    }

    // MARK: The end

    /// Reads every conversation, and what their users are told of them.
    func checkHistory() {
        guard let process, context.profile.historyInterval != nil else { return }
        var messages: [ConversationName: [KeptFact]] = [:]
        for conversation in oracle.keptConversations {
            let count = context.historyRandom.pick([2, 7, 100])
            let page = process.readHistory(
                of: selection(conversation), pageCount: count, in: store)
            // A group may have ended.
            guard let page else { continue }
            let facts = page.reversed().map { message in
                KeptFact(
                    number: message.number, sender: String(decoding: message.sender, as: UTF8.self),
                    message: message.content.withUnsafeBytes {
                        MessageText.message(in: $0, isRaw: true)
                    })
            }
            messages[conversation] = facts
            oracle.checkConversation(conversation, facts)
        }
        for user in 0..<context.profile.userCount {
            for told in unread(of: user, process) {
                oracle.checkUnread(told, of: user, messages[told.conversation] ?? [])
            }
        }
    }

    private func unread(of user: Int, _ process: BrokerProcess) -> [UnreadFact] {
        let page = process.broker.conversations(
            ofUser: Array(Profile.userName(user).utf8), app: Array(Profile.app.utf8), after: 0,
            isUnreadOnly: false, countMaximum: 100)
        return (page?.conversations ?? []).compactMap { summary in
            guard
                let conversation = oracle.conversationNamed(
                    summary.isGroup, summary.name, of: user)
            else { return nil }
            return UnreadFact(
                conversation: conversation, lastNumber: summary.lastNumber,
                readThrough: summary.readThrough, unreadCount: summary.unreadCount)
        }
    }

    private func selection(_ conversation: ConversationName) -> ConversationSelection {
        let parties: ConversationSelection.Parties =
            switch conversation {
            case .users(let first, let second):
                .users(Array(Profile.userName(first).utf8), Array(Profile.userName(second).utf8))
            case .group(let group): .group(oracle.groups[group].name)
            case .topic(let topic): .topic(Array(Profile.topics[topic].utf8))
            }
        return ConversationSelection(app: Array(Profile.app.utf8), parties: parties)
    }
}
