// Keeps messages in conversations. A kept message is an entry of the conversation's queue in the
// batch of its send, so its sender's result tells that it is kept too. The oldest messages of a
// conversation make room for new ones, and those of the largest conversations for others of their
// app: nobody who fills the room of an app keeps others from using it.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Admission

    /// Whether a send has to be looked at for history: an ordinary one pays for this only.
    @inline(__always)
    func mayBeKept(_ request: SendRequest) -> Bool {
        request.isKept || limits.someAppKeepsHistory || groupTable.keepingCount > 0
    }

    /// Whether a send is kept: its sender asks for it, or its group or app keeps messages by
    /// default and its sender does not say no.
    @inline(never)
    func isKept(
        _ request: SendRequest, sentTo target: AuthorizedTarget, fromUser user: Index<User>
    ) -> Bool {
        if request.isKept { return true }
        guard !request.isNeverKept, request.grade != .transient else { return false }
        switch target.receivers {
        case .everybody, .mentioned: return false
        case .topic(let topic):
            return keepsHistory(ofTopic: topic.bytes, registry.users[user].app)
        case .group(let group) where groupTable.groups[group].history.isKept: return true
        case .user, .users, .group:
            let app = registry.users[user].app
            return limits.policy(ofApp: registry.apps[app].name).keepsHistory
        }
    }

    /// Decides where a send is kept: once, and before it is composed and routed, because its fields
    /// tell its number, and its copies depend on it. If its sender asks for history, all of its
    /// conversations keep it, or it is refused. Otherwise a conversation without room is left out:
    /// the room of history must not decide whether ordinary messages arrive.
    @inline(never)
    func planHistory(
        of request: SendRequest, sentTo target: AuthorizedTarget, fromUser user: Index<User>
    ) -> HistoryDecision {
        guard isKept(request, sentTo: target, fromUser: user) else { return .notKept }
        // A transient message is nowhere else either, and everybody is no conversation.
        guard request.grade != .transient else {
            return .refused(.qosNotSupported, .historyOfTransient)
        }
        let (app, name) = (registry.users[user].app, registry.users[user].name)
        var plan = HistoryPlan()
        // The size of the message but for its fields.
        let byteCount = UInt64(
            MessageBlock.headerByteCount + name.count + Int(request.payload.count)
                + Int(request.properties.count))
        switch target.receivers {
        case .user(let receiver):
            guard let receiver = self.user(named: receiver, app: app) else { break }
            let limit = add(
                .users(of: user, and: receiver), to: &plan, for: request, byteCount: byteCount,
                ofApp: app)
            if limit != .none { return .refused(.quotaExceeded, limit) }
        case .users(let ids, let count, let refused):
            var list = ListReader(ids)
            var found: Set<Index<User>> = []
            for index in 0..<count {
                let receiver = list.next()
                guard !refused.contains(index), let receiver = self.user(named: receiver, app: app),
                    found.insert(receiver).inserted
                else { continue }
                let limit = add(
                    .users(of: user, and: receiver), to: &plan, for: request,
                    byteCount: byteCount, ofApp: app)
                if limit != .none { return .refused(.quotaExceeded, limit) }
            }
        case .group(let group):
            let limit = add(
                .group(group), to: &plan, for: request, byteCount: byteCount, ofApp: app)
            if limit != .none { return .refused(.quotaExceeded, limit) }
        case .topic(let topic):
            guard keepsHistory(ofTopic: topic.bytes, app) else {
                return .refused(.topicNameInvalid, .historyTarget)
            }
            let limit = add(
                .topic(app, Array(topic)), to: &plan, for: request, byteCount: byteCount,
                ofApp: app)
            if limit != .none { return .refused(.quotaExceeded, limit) }
        // All members could read what only some of them get.
        case .everybody, .mentioned: return .refused(.topicNameInvalid, .historyTarget)
        }
        if plan.candidateCount == 0, request.isUndelivered {
            return .refused(.topicNameInvalid, .none)
        }
        if plan.candidateCount == 1, let only = plan.first {
            plan.number =
                1 + (only.conversation.map { conversationTable.conversations[$0].lastNumber } ?? 0)
        }
        return .kept(plan)
    }

    /// Adds a conversation to a plan, or leaves it out.
    ///
    /// - Returns: the limit because of which the send is refused.
    private func add(
        _ parties: ConversationParties, to plan: inout HistoryPlan, for request: SendRequest,
        byteCount: UInt64, ofApp app: Index<App>
    ) -> LimitName {
        let place = HistoryPlan.Place(
            parties: parties, conversation: conversationTable.find(parties))
        plan.candidateCount += 1
        let isNew = place.conversation == nil
        let limit = limitOfKeeping(
            byteCount, isNew: isNew, isTopic: parties.isTopic,
            newCount: plan.newCount + (isNew ? 1 : 0), ofApp: app,
            besides: request.isKept ? 0 : UInt64(plan.count))
        guard limit == .none else {
            plan.refusedCount += 1
            return request.isKept ? limit : .none
        }
        if isNew { plan.newCount += 1 }
        plan.append(place)
        return .none
    }

    /// The limit because of which a conversation does not take a message.
    ///
    /// - Parameters:
    ///   - newCount: the conversations that the message begins up to this one.
    ///   - count: conversations that take the same message before this one.
    private func limitOfKeeping(
        _ byteCount: UInt64, isNew: Bool, isTopic: Bool, newCount: Int, ofApp app: Index<App>,
        besides count: UInt64
    ) -> LimitName {
        let sum = conversationTable.sum(of: app)
        let missing = (sum.stayingByteCount + byteCount * (count + 1)).missing(
            from: limits.historyBytesPerAppMaximum)
        if byteCount > limits.historyBytesMaximum
            || byteCount > limits.historyBytesPerAppMaximum
            || missing > 0 && missing > bytesToGiveUp(ofApp: app)
        {
            return .historyBytesOfApp
        }
        // Conversations without messages make room.
        if isNew, isTopic,
            sum.topicCount + newCount
                > limits.historyTopicsPerAppMaximum + conversationTable.emptyTopicCount(of: app)
        {
            return .historyTopicsOfApp
        }
        if isNew,
            sum.conversationCount + newCount
                > limits.conversationsPerAppMaximum + conversationTable.emptyCount(of: app)
        {
            return .conversationsOfApp
        }
        return .none
    }

    /// Bytes that the conversations of an app have to give up before one of them can take more.
    private func missingBytes(ofApp app: Index<App>, for byteCount: UInt64) -> UInt64 {
        (conversationTable.sum(of: app).stayingByteCount + byteCount).missing(
            from: limits.historyBytesPerAppMaximum)
    }

    /// Bytes that the largest conversation of an app has.
    private func bytesToGiveUp(ofApp app: Index<App>) -> UInt64 {
        conversationTable.largest(of: app).map {
            conversationTable.conversations[$0].stayingByteCount
        } ?? 0
    }

    // MARK: - Keeping

    /// Counts the receivers of a message that is kept and not delivered. Those that do not exist
    /// are refused as those of any send. None of them takes the message: without its conversations
    /// it is nowhere.
    @inline(never)
    mutating func routeNowhere(
        _ target: AuthorizedTarget, grade: Grade, fromUser user: Index<User>,
        tally: inout RoutingTally
    ) {
        forEachDestination(of: target, grade: grade, from: nil, user: user, tally: &tally) {
            _, _, tally in
            tally.taken += 1
        }
    }

    /// Keeps an accepted message.
    ///
    /// - Parameter users: receivers whose connected devices pull, and are told.
    mutating func keep(
        _ message: Index<Message>, by plan: HistoryPlan, fromUser user: Index<User>,
        news users: [Index<User>]
    ) {
        counters.historyRefused += plan.refusedCount
        guard let first = plan.first else { return }
        keep(message, in: conversation(of: first, fromUser: user), fromUser: user, news: users)
        for place in plan.others {
            keep(message, in: conversation(of: place, fromUser: user), fromUser: user, news: users)
        }
    }

    private mutating func keep(
        _ message: Index<Message>, in index: Index<KeptConversation>, fromUser user: Index<User>,
        news users: [Index<User>]
    ) {
        keep(message, in: index)
        countOwn(user, in: index)
        if !users.isEmpty { noteNews(in: index, for: users) }
    }

    private mutating func keep(_ message: Index<Message>, in index: Index<KeptConversation>) {
        let byteCount = UInt32(memory.messages[message].blockByteCount)
        makeRoom(in: index, for: byteCount)
        let number = conversationTable.add(byteCount: byteCount, to: index)
        assert(isKept(message, as: number), "message \(message.place) is not kept as \(number)")
        attachToBatch(message)
        memory.addEntry(of: message)
        _ = commits.store(
            PendingEntry(
                queue: conversationTable.conversations[index].kept.queue, number: number,
                message: message, byteCount: byteCount,
                state: EntryState(grade: memory.messages[message].grade, options: .kept)))
        counters.messagesKept += 1
    }

    /// Whether the fields of a message tell its number in the conversation, or none.
    private func isKept(_ message: Index<Message>, as number: UInt64) -> Bool {
        let told = MessageFields(of: MessageBlock(memory.messages[message].block)).keptNumber
        return told == 0 || told == number
    }

    /// The conversation of some parties, which begins now if there is none. One that begins may
    /// end an empty one, which is perhaps a later one of the plan.
    private mutating func conversation(
        of place: HistoryPlan.Place, fromUser user: Index<User>
    ) -> Index<KeptConversation> {
        let parties = place.parties
        if let index = place.conversation, conversationTable.conversations.contains(index),
            conversationTable.conversations[index].parties == parties
        {
            return index
        }
        if let index = conversationTable.find(parties) { return index }
        let app = registry.users[user].app
        let sum = conversationTable.sum(of: app)
        if parties.isTopic, sum.topicCount >= limits.historyTopicsPerAppMaximum,
            let empty = conversationTable.emptyTopic(of: app)
        {
            remove(conversation: empty)
        } else if sum.conversationCount >= limits.conversationsPerAppMaximum,
            let empty = conversationTable.empty(of: app)
        {
            remove(conversation: empty)
        }
        let index = insert(
            KeptConversation(
                app: app, parties: parties,
                queue: QueueID(raw: makeIdentifier())))
        commits.renew(row(ofConversation: index))
        return index
    }

    /// Adds a conversation, which the store has already or will have with the pending batch.
    mutating func insert(_ conversation: KeptConversation) -> Index<KeptConversation> {
        let index = conversationTable.insert(conversation)
        queues.give(conversation.kept.queue, to: index)
        return index
    }

    /// Asks the store to remove as many of the oldest messages as one more needs: its own
    /// conversation's, and the largest one's if the app has no room.
    private mutating func makeRoom(in index: Index<KeptConversation>, for byteCount: UInt32) {
        let conversation = conversationTable.conversations[index]
        let leaving = queues.pendingTrim(of: conversation.kept.queue).amount
        giveUp(
            TrimAmount(
                count: (UInt64(conversation.kept.count) + 1).missing(
                    from: UInt64(limits.historyCountMaximum) + leaving.count),
                byteCount: (conversation.kept.byteCount + UInt64(byteCount)).missing(
                    from: limits.historyBytesMaximum + leaving.byteCount)),
            of: index)
        let missing = missingBytes(ofApp: conversation.app, for: UInt64(byteCount))
        guard missing > 0, let largest = conversationTable.largest(of: conversation.app)
        else { return }
        giveUp(TrimAmount(count: 0, byteCount: missing), of: largest)
    }

    /// Asks the store to remove the oldest messages of a conversation, as far as it has them.
    private mutating func giveUp(_ amount: TrimAmount, of index: Index<KeptConversation>) {
        let kept = conversationTable.conversations[index].kept
        var pending = queues.pendingTrim(of: kept.queue)
        // A trim removes nothing that is not stored before it.
        let missing = TrimAmount(
            count: min(amount.count, UInt64(kept.count).missing(from: pending.amount.count)),
            byteCount: min(
                amount.byteCount, kept.byteCount.missing(from: pending.amount.byteCount)))
        guard missing.count > 0 || missing.byteCount > 0 else { return }
        pending.amount += missing
        commits.trim(kept.queue, by: missing, at: &pending.position)
        queues.note(pending, of: kept.queue)
        conversationTable.noteLeaving(missing.byteCount, of: index)
        // If the new message is refused, the queue may be empty, and then only the row knows.
        storeLastNumber(of: index)
    }

    // MARK: - Leaving

    /// Subtracts messages that have left a conversation. A conversation without messages, or
    /// without its newest one, has its last number in its row: no number is used twice.
    mutating func countOut(conversation index: Index<KeptConversation>, _ tally: QueueTally) {
        conversationTable.countOut(index, count: tally.count, byteCount: tally.byteCount)
        if conversationTable.conversations[index].kept.count == 0 { storeLastNumber(of: index) }
    }

    /// Writes the last number into the row of a conversation, if it does not tell it.
    mutating func storeLastNumber(of index: Index<KeptConversation>) {
        let conversation = conversationTable.conversations[index]
        guard conversation.storedNumber < conversation.lastNumber else { return }
        commits.renew(row(ofConversation: index))
        conversationTable.note(storedNumber: conversation.lastNumber, of: index)
    }

    /// Ends a conversation, and removes its messages. A group has no members any more.
    mutating func remove(conversation index: Index<KeptConversation>) {
        if case .users(let first, let second) = conversationTable.conversations[index].parties {
            for user in [first, second] {
                remove(reader: ConversationTable.Reader(conversation: index, user: user))
            }
        }
        let queue = conversationTable.remove(index)
        queues.takeFromConversation(queue)
        commits.delete(queue)
        commits.remove(.conversations, key: RecordKey.number(queue.raw))
    }

    /// Ends the conversation of a group that ends.
    mutating func removeConversation(ofGroup group: Index<Group>) {
        guard let index = conversationTable.find(.group(group)) else { return }
        remove(conversation: index)
    }

    // MARK: - Rows

    private func row(ofConversation index: Index<KeptConversation>) -> RecordChange {
        let conversation = conversationTable.conversations[index]
        switch conversation.parties {
        case .group(let group):
            return Records.conversation(
                conversation.kept.queue, group: groupTable.groups[group].identifier,
                lastNumber: conversation.lastNumber)
        case .users(let first, let second):
            return Records.conversation(
                conversation.kept.queue, app: registry.apps[conversation.app].name,
                users: Array(registry.users[first].name), Array(registry.users[second].name),
                lastNumber: conversation.lastNumber)
        case .topic(let app, let topic):
            return Records.conversation(
                conversation.kept.queue, app: registry.apps[app].name, topic: topic,
                lastNumber: conversation.lastNumber)
        }
    }

    /// Restores one row. The rows of its parties have been restored before.
    mutating func restoreConversation(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .conversations, key: key)
        let kind = Records.ConversationKind(rawValue: try row.read(UInt8.self))
        guard let kind, key.count == 8 else {
            throw .unreadableRecord(.conversations, key: key)
        }
        let lastNumber = try row.readCounter()
        let (app, parties): (Index<App>, ConversationParties)
        switch kind {
        case .group:
            guard let group = commits.restoration!.groups[try row.read(UInt64.self)] else {
                throw .danglingRecord(.conversations, key: key)
            }
            (app, parties) = (groupTable.groups[group].app, .group(group))
        case .users:
            let appName = try row.readString()
            let (first, second) = (try row.readString(), try row.readString())
            guard let found = self.app(named: appName), let first = user(named: first, app: found),
                let second = user(named: second, app: found)
            else { throw .danglingRecord(.conversations, key: key) }
            (app, parties) = (found, .users(of: first, and: second))
        case .topic:
            let (appName, topic) = (try row.readString(), try row.readString())
            guard let found = self.app(named: appName) else {
                throw .danglingRecord(.conversations, key: key)
            }
            (app, parties) = (found, .topic(found, topic))
        }
        let queue = QueueID(raw: RecordKey.readNumber(key))
        let index = insert(KeptConversation(app: app, parties: parties, queue: queue))
        conversationTable.restore(lastNumber: lastNumber, of: index)
    }
}

/// What is decided about keeping a send.
enum HistoryDecision {
    case notKept
    case kept(HistoryPlan)
    /// Its sender asks for history, and it cannot be kept.
    case refused(ReasonCode, LimitName)
}

/// The conversations that keep a message. Most messages have one, for which nothing is allocated.
struct HistoryPlan {
    /// Parties, and their conversation if there is one.
    struct Place {
        let parties: ConversationParties
        let conversation: Index<KeptConversation>?
    }

    private(set) var first: Place?
    private(set) var others: [Place] = []
    /// Conversations that the message begins.
    var newCount = 0
    /// Conversations that were looked at.
    var candidateCount = 0
    /// Those that have no room.
    var refusedCount: UInt64 = 0
    /// The number that the message gets in its only conversation; 0 if there are several, or none.
    var number: UInt64 = 0

    var count: Int { first == nil ? 0 : 1 + others.count }

    mutating func append(_ place: Place) {
        if first == nil { first = place } else { others.append(place) }
    }
}
