// Conversations, as far as clients can know them: which messages were to be kept, what pages
// showed, and what users have told to have read. At the end every conversation is read as a whole.

import BrokerTerms
import Primitives
import WireFormat

/// A conversation of a run.
enum ConversationName: Hashable {
    /// Two users, the lower one first; the same user twice for messages to oneself.
    case users(Int, Int)
    case group(Int)
    /// Index of a topic.
    case topic(Int)

    static func users(of first: Int, and second: Int) -> ConversationName {
        .users(min(first, second), max(first, second))
    }

    var isTopic: Bool {
        if case .topic = self { true } else { false }
    }
}

/// What is known of a conversation.
struct ConversationFact {
    /// Messages by their numbers, as pages showed them.
    var seen: [UInt64: Int] = [:]
    var highestSeen: UInt64 = 0
    /// Numbers of messages that an operator has removed, or may have removed.
    var removed: Set<UInt64> = []
}

/// A user and a conversation.
struct ConversationReader: Hashable {
    let conversation: ConversationName
    let user: Int
}

/// What a user has told to have read.
struct ReadingFact {
    /// Numbers of its requests; a request without an answer may have been carried out.
    var asked: Set<UInt64> = [0]
    var confirmed: UInt64 = 0
    var confirmedAt = Instant(milliseconds: 0)
    /// It does not want to see what is up to this number, and has been told so.
    var hiddenThrough: UInt64 = 0
    /// The same for requests that may have been carried out.
    var hidingThrough: UInt64 = 0
}

/// A kept message, as its readers get it.
struct KeptFact {
    let number: UInt64
    let sender: String
    /// Nil if no client made it.
    let message: Int?
}

/// What a user is told of a conversation.
struct UnreadFact {
    let conversation: ConversationName
    let lastNumber: UInt64
    let readThrough: UInt64
    let unreadCount: UInt64
}

extension Oracle {
    // MARK: Model

    /// The conversations that a send belongs to, as far as its sender may send to them.
    func conversations(of send: SendFact) -> [ConversationName] {
        guard send.isKept else { return [] }
        let sender = profile.clients[send.client].user
        switch send.receivers {
        case .users(let users, _):
            return users.filter { $0 < profile.userCount && !isForbidden(send, to: $0) }
                .map { .users(of: sender, and: $0) }
        case .group(let group): return [.group(group)]
        case .topic(let topic): return isForbidden(send) ? [] : [.topic(topic)]
        case .everybody: return []
        }
    }

    /// All conversations that some send of the run belongs to.
    var keptConversations: [ConversationName] {
        var known: Set<ConversationName> = []
        return sends.flatMap { conversations(of: $0) }.filter { known.insert($0).inserted }
    }

    func conversationNamed(_ isGroup: Bool, _ name: [UInt8], of user: Int) -> ConversationName? {
        if isGroup { return groups.firstIndex { $0.name == name }.map { .group($0) } }
        return (0..<profile.userCount).first { Array(Profile.userName($0).utf8) == name }
            .map { .users(of: user, and: $0) }
    }

    /// An operator asks for the removal of a message.
    func removing(_ number: UInt64, from conversation: ConversationName) {
        conversationFacts[conversation, default: ConversationFact()].removed.insert(number)
        history.note(.broker, "an operator removes #\(number) from \(conversation)")
    }

    // MARK: Devices that pull

    /// Whether history keeps a message for a user, and a device of the user, or one of them, reads
    /// it there. What asks for receipts is queued all the same.
    func isPulled(_ message: Int, of user: Int, by device: Int? = nil) -> Bool {
        let send = sends[message]
        guard receiptFacts.asks[send.messageIdentifier] == nil,
            profile.clients.contains(where: {
                $0.user == user && $0.pulls && (device == nil || $0.device == device)
            })
        else { return false }
        return conversations(of: send).contains { conversation in
            switch conversation {
            case .users(let first, let second): first == user || second == user
            case .group: true
            // Publications are queued all the same.
            case .topic: false
            }
        }
    }

    /// A device that pulls has got a copy of what is kept. Messages from before its session wait
    /// for it, and those of the user's other devices are left to it.
    func checkPull(_ received: ReceivedMessage, message: Int, session: Int, client: Int) {
        let send = sends[message]
        let user = profile.clients[client].user
        guard profile.clients[client].pulls, !received.isMarked,
            profile.clients.allSatisfy({
                $0.user != user || $0.device == profile.clients[client].device
            }),
            sessions[session].firstSeen <= send.issuedAt, isPulled(message, of: user)
        else { return }
        fail(
            .keptIsNotQueued, "a device that pulls gets #\(received.number), which is kept",
            message: message, client: client)
    }

    // MARK: Pages

    /// A client gets a page, of messages before a number, or of the newest ones.
    func pageReceived(
        _ page: [KeptFact], of conversation: ConversationName, before: UInt64, asked: PageRequest,
        client: Int
    ) {
        history.note(
            .client(client),
            "reads \(conversation): "
                + page.map { "#\($0.number) message \($0.message ?? -1)" }.joined(separator: ", "))
        let user = profile.clients[client].user
        let isReader =
            switch conversation {
            case .users(let first, let second): user == first || user == second
            case .group(let group): !isStranger(user, to: group, from: asked.at, through: now)
            case .topic(let topic): mayRead(topic, client: client)
            }
        if !isReader {
            fail(.addresseesOnly, "user \(user) reads \(conversation)", client: client)
        }
        let fact = conversationFacts[conversation] ?? ConversationFact()
        // What a page has shown is on disk, and the next one begins with it or with newer ones.
        var isGroup = false
        if case .group = conversation { isGroup = true }
        if before == 0, !isGroup, !page.isEmpty || asked.highestSeen > 0 {
            let newest = page.first?.number ?? 0
            let hiding = readingFact(conversation, client: client).hidingThrough
            let isGone = (newest + 1..<max(newest, asked.highestSeen) + 1).allSatisfy {
                fact.removed.contains($0) || $0 <= hiding
            }
            if !isGone {
                fail(
                    .historyIsOrdered,
                    "the newest page of \(conversation) begins with #\(newest), after "
                        + "#\(asked.highestSeen) was seen", client: client)
            }
        }
        for kept in page where kept.number <= asked.hiddenThrough {
            fail(
                .hiddenStaysHidden,
                "user \(user) sees #\(kept.number) of \(conversation), hidden to "
                    + "#\(asked.hiddenThrough)", message: kept.message, client: client)
        }
        checkSequence(page.reversed(), of: conversation, client: client)
        for kept in page { note(kept, in: conversation, client: client) }
    }

    /// Numbers rise, and none is missing.
    private func checkSequence(
        _ messages: [KeptFact], of conversation: ConversationName, client: Int?
    ) {
        let removed = conversationFacts[conversation]?.removed ?? []
        for (earlier, later) in zip(messages, messages.dropFirst()) {
            if later.number <= earlier.number {
                fail(
                    .historyIsOrdered,
                    "\(conversation) has #\(later.number) behind #\(earlier.number)",
                    message: later.message, client: client)
                return
            }
            // A full store takes messages back that had numbers.
            let isGap = (earlier.number + 1..<later.number).contains { !removed.contains($0) }
            if isGap, fullTimes == 0 {
                fail(
                    .historyIsOrdered,
                    "\(conversation) has #\(later.number) next to #\(earlier.number)",
                    message: later.message, client: client)
            }
        }
    }

    /// A number names one message, one of this conversation.
    private func note(_ kept: KeptFact, in conversation: ConversationName, client: Int?) {
        guard let message = kept.message, message < sends.count else {
            fail(.historyIsKept, "\(conversation) has a message that no client sent")
            return
        }
        let send = sends[message]
        if !conversations(of: send).contains(conversation)
            || kept.sender != Profile.userName(profile.clients[send.client].user)
        {
            fail(
                .historyIsKept,
                "\(conversation) has #\(kept.number), from \(kept.sender): sent to "
                    + "\(send.receivers), \(send.isKept ? "to be kept" : "not to be kept")",
                message: message, client: client)
        }
        var fact = conversationFacts[conversation] ?? ConversationFact()
        if let other = fact.seen[kept.number], other != message {
            fail(
                .historyIsOrdered, "#\(kept.number) of \(conversation) was message \(other)",
                message: message, client: client)
        }
        fact.seen[kept.number] = message
        fact.highestSeen = max(fact.highestSeen, kept.number)
        conversationFacts[conversation] = fact
    }

    // MARK: Marks

    /// What a client's user has told of a conversation.
    func readingFact(_ conversation: ConversationName, client: Int) -> ReadingFact {
        let reader = ConversationReader(
            conversation: conversation, user: profile.clients[client].user)
        return readingFacts[reader] ?? ReadingFact()
    }

    /// A client tells that its user has read a conversation up to a number, or hides it.
    func marking(
        _ number: UInt64, in conversation: ConversationName, hides: Bool, client: Int
    ) {
        let reader = ConversationReader(
            conversation: conversation, user: profile.clients[client].user)
        var fact = readingFacts[reader] ?? ReadingFact()
        fact.asked.insert(number)
        if hides { fact.hidingThrough = max(fact.hidingThrough, number) }
        readingFacts[reader] = fact
    }

    /// A client is told that a conversation is hidden up to a number.
    func hidden(_ number: UInt64, in conversation: ConversationName, client: Int) {
        let user = profile.clients[client].user
        history.note(.client(client), "user \(user) has hidden \(conversation) to #\(number)")
        let reader = ConversationReader(conversation: conversation, user: user)
        // A member that leaves and comes again reads from there on, which is not earlier.
        readingFacts[reader, default: ReadingFact()].hiddenThrough = max(
            number, readingFacts[reader]?.hiddenThrough ?? 0)
    }

    func markAnswered(
        _ number: UInt64, in conversation: ConversationName, _ reason: ReasonCode, client: Int
    ) {
        let user = profile.clients[client].user
        history.note(
            .client(client), "user \(user) has read \(conversation) to #\(number): \(reason.name)")
        let reader = ConversationReader(conversation: conversation, user: user)
        if !reason.isFailure {
            var fact = readingFacts[reader] ?? ReadingFact()
            if number > fact.confirmed { fact.confirmedAt = now }
            fact.confirmed = max(fact.confirmed, number)
            readingFacts[reader] = fact
        } else if !isPlausibleRefusal(reason, of: conversation, client: client) {
            fail(.unreadIsRight, "a mark is refused: \(reason.name)", client: client)
        }
    }

    /// Whether a request about a conversation may have this answer.
    func isPlausibleRefusal(
        _ reason: ReasonCode, of conversation: ConversationName, client: Int
    ) -> Bool {
        switch (reason, conversation) {
        case (.serverBusy, _), (.quotaExceeded, _): true
        // The user is no member, or the group has ended.
        case (.notAuthorized, .group), (.topicNameInvalid, .group): true
        case (.notAuthorized, .topic(let topic)): !mayRead(topic, client: client)
        default: false
        }
    }

    // MARK: At the end

    /// Checks a conversation that was read as a whole, from the oldest message to the newest.
    func checkConversation(_ conversation: ConversationName, _ messages: [KeptFact]) {
        checkSequence(messages, of: conversation, client: nil)
        for kept in messages { note(kept, in: conversation, client: nil) }
        var places: [Int: [UInt64]] = [:]
        for kept in messages { places[kept.message ?? -1, default: []].append(kept.number) }
        for (message, numbers) in places.sorted(by: { $0.key < $1.key }) where message >= 0 {
            checkCopies(of: message, count: numbers.count, in: conversation)
        }
        let order = orderedSends(places)
        checkOrder(order, in: conversation)
        let first = messages.first?.number ?? .max
        for message in sends.indices
        where places[message] == nil && conversations(of: sends[message]).contains(conversation) {
            checkMissing(message, from: conversation, firstNumber: first, present: order)
        }
    }

    private func checkCopies(of message: Int, count: Int, in conversation: ConversationName) {
        let send = sends[message]
        if let outcome = send.outcome, outcome.reason.isFailure { checkRefusedDelivery(message) }
        guard count > 1 else { return }
        let isExcused =
            send.forgetfulness > 0
            || send.grade == .durable && (mayBeForgotten(message) || mayHaveFilled(send))
        if !isExcused {
            fail(
                .historyIsKept, "\(count) times in \(conversation)", message: message,
                client: send.client)
        }
    }

    /// Messages by their numbers, of those that were accepted once.
    private func orderedSends(_ places: [Int: [UInt64]]) -> [(message: Int, number: UInt64)] {
        places.compactMap { message, numbers in
            guard message >= 0, numbers.count == 1, sends[message].outcome != nil,
                !mayBeForgotten(message), !mayHaveLackedRoom(sends[message]), !isOutside(message)
            else { return nil }
            return (message, numbers[0])
        }.sorted { $0.number < $1.number }
    }

    /// Whether the store may have been full for a send. Queues of receivers do not matter here.
    private func mayHaveFilled(_ send: SendFact) -> Bool {
        fullTimes > send.fullTimesBefore || isStoreFull
    }

    /// Whether one send was certainly accepted before another.
    private func precedes(_ first: Int, _ second: Int) -> Bool {
        let (earlier, later) = (sends[first], sends[second])
        if earlier.client == later.client, earlier.outboxEpoch == later.outboxEpoch {
            return earlier.number < later.number
        }
        guard let outcome = earlier.outcome else { return false }
        return outcome.at < later.issuedAt
    }

    /// Messages have the order in which they were accepted.
    private func checkOrder(
        _ order: [(message: Int, number: UInt64)], in conversation: ConversationName
    ) {
        for (place, later) in order.enumerated() {
            guard
                let earlier = order[..<place].first(where: {
                    precedes(later.message, $0.message)
                })
            else { continue }
            fail(
                .historyIsOrdered,
                "#\(later.number) of \(conversation) was accepted before #\(earlier.number)",
                message: later.message, client: sends[later.message].client)
            return
        }
    }

    /// A message that its sender was told to be kept is not there.
    private func checkMissing(
        _ message: Int, from conversation: ConversationName, firstNumber: UInt64,
        present: [(message: Int, number: UInt64)]
    ) {
        let send = sends[message]
        guard let outcome = send.outcome, !outcome.reason.isFailure else { return }
        if case .group(let group) = conversation,
            !(0..<profile.userCount).contains(where: {
                isMember($0, of: group, from: send.issuedAt, through: now)
            })
        {
            // The group may have ended, and its conversation with it.
            return
        }
        // A store without room refuses entries, and counts them as receivers.
        if mayHaveFilled(send) {
            excusedCount += 1
            return
        }
        let fact = conversationFacts[conversation] ?? ConversationFact()
        if fact.removed.contains(where: { fact.seen[$0] == message || fact.seen[$0] == nil }) {
            excusedCount += 1
            return
        }
        // The oldest ones make room for new ones: nothing older than a missing one is there.
        let isTrimmed = firstNumber > 1 && !present.contains { precedes($0.message, message) }
        if !isTrimmed {
            fail(
                .historyIsKept, "acknowledged, and not in \(conversation)", message: message,
                client: send.client)
        }
    }

    /// Checks what a user is told of a conversation at the end.
    func checkUnread(_ told: UnreadFact, of user: Int, _ messages: [KeptFact]) {
        let reader = ConversationReader(conversation: told.conversation, user: user)
        let fact = readingFacts[reader] ?? ReadingFact()
        var isSteady = true
        if case .group(let group) = told.conversation {
            // A member that comes again reads from there on.
            isSteady = isMember(user, of: group, from: fact.confirmedAt, through: now)
        } else if !fact.asked.contains(told.readThrough) {
            fail(
                .unreadIsRight,
                "user \(user) has read \(told.conversation) to #\(told.readThrough), as nobody told"
            )
        }
        if isSteady, told.readThrough < fact.confirmed {
            fail(
                .unreadIsRight,
                "user \(user) has read \(told.conversation) to #\(told.readThrough), and said "
                    + "#\(fact.confirmed)")
        }
        let unread = messages.filter {
            $0.number > told.readThrough && $0.sender != Profile.userName(user)
        }
        // Messages that have left, and numbers that a full store took back, count as unread until
        // the mark passes them.
        let isWhole = UInt64(messages.count) == told.lastNumber
        if isWhole
            ? told.unreadCount != UInt64(unread.count)
            : told.unreadCount > UInt64(messages.count)
        {
            fail(
                .unreadIsRight,
                "\(told.unreadCount) unread for user \(user) in \(told.conversation), "
                    + "\(unread.count) of \(messages.count) after #\(told.readThrough)")
        }
    }
}

/// What was known when a page was requested.
struct PageRequest {
    let at: Instant
    let highestSeen: UInt64
    /// The user has hidden the conversation up to this number.
    let hiddenThrough: UInt64
}
