// Sessions that pull: a message that history keeps for their user is not queued for them. Their
// devices learn at login how many conversations have unread messages, and from events while they
// are connected, and read what they want. All other messages are queued as for any session.
//
// What is kept is decided before a message is routed. A message that is not kept for a receiver is
// queued for all its devices, and so is one whose sender asks for receipts: reading tells nobody
// that it arrived. Publications on topics are queued as well, for a topic has no members and so
// nothing that is unread.

import Primitives

/// The receivers for whom history keeps a message.
enum KeptReceivers {
    case nobody
    /// All receivers: members of a group.
    case members
    case users(Set<Index<User>>)

    func contains(_ user: Index<User>) -> Bool {
        switch self {
        case .nobody: false
        case .members: true
        case .users(let users): users.contains(user)
        }
    }
}

/// The routing of a message that history keeps: apart from the tally of other messages, which
/// nobody retains.
struct PullRouting {
    /// The receivers whose devices that pull need no copy.
    var kept = KeptReceivers.nobody
    /// The users of connected ones that are told of new messages.
    var newsUsers: [Index<User>] = []
}

extension Broker {
    /// Sets whether a session pulls.
    mutating func setPulling(_ pulls: Bool, of session: Index<Session>) {
        guard sessions[session].pulls != pulls else { return }
        sessions[session].pulls = pulls
        conversationTable.countPulling(isNew: pulls)
    }

    /// Takes over what a login says. The client is accepted when it is durable: a session that
    /// begins to get copies must not miss one.
    mutating func changePulling(_ pulls: Bool, of session: Index<Session>) {
        guard sessions[session].pulls != pulls else { return }
        setPulling(pulls, of: session)
        guard sessions[session].isPersistent else { return }
        sessions[session].decisiveBatch = commits.pendingSequence
        markDirty(session, .session, isUrgent: true)
    }

    // MARK: - Sends

    /// Notes the receivers whose devices that pull need no copy of a message.
    @inline(never)
    mutating func notePullable(
        _ plan: HistoryPlan, _ request: SendRequest, sentTo target: AuthorizedTarget,
        fromUser user: Index<User>, tally: inout RoutingTally
    ) {
        guard request.asks.isDisjoint(with: .receipts), let kept = plan.first else { return }
        if case .topic = target.receivers { return }
        if case .group = target.receivers {
            conversationTable.pull = PullRouting(kept: .members)
            tally.isPullable = true
            return
        }
        var users: Set<Index<User>> = []
        for place in [kept] + plan.others {
            guard case .users(let first, let second) = place.parties else { continue }
            users.insert(first == user ? second : first)
        }
        conversationTable.pull = PullRouting(kept: .users(users))
        tally.isPullable = true
    }

    /// Whether a session needs no copy of a message. It counts as a receiver that takes it.
    @inline(never)
    mutating func isPulled(
        _ session: Index<Session>, _ message: Index<Message>, tally: inout RoutingTally,
        in step: inout Step
    ) -> Bool {
        guard sessions[session].pulls, conversationTable.pull.kept.contains(sessions[session].user)
        else {
            return false
        }
        tally.taken += 1
        tally.pulledCount += 1
        counters.messagesPulled += 1
        let user = sessions[session].user
        if sessions[session].isConnected,
            registry.apps[registry.users[user].app].unreadFilterCount > 0
        {
            conversationTable.pull.newsUsers.append(user)
        }
        if !wakes.isEmpty, !sessions[session].isConnected {
            noteWaiting(message, for: user, isPulled: true, in: &step)
        }
        return true
    }

    // MARK: - News

    /// The number of a user's conversations with unread messages, at most
    /// ``CoreLimits/unreadCountMaximum``. At least 1 for a user with more conversations than are
    /// looked at: the client asks for them.
    mutating func unreadConversationCount(of user: Index<User>) -> UInt8 {
        var (count, place) = (0, UInt64(0))
        for _ in 0..<CoreLimits.unreadPagesMaximum {
            let page = conversations(
                of: user, after: place, isUnreadOnly: true,
                countMaximum: CoreLimits.unreadCountMaximum - count)
            count += page.conversations.count
            guard count < CoreLimits.unreadCountMaximum, let next = page.next else {
                return UInt8(count)
            }
            place = next
        }
        return UInt8(max(count, 1))
    }

    /// Notes that a conversation keeps a message whose receivers have connected devices that pull.
    mutating func noteNews(in index: Index<KeptConversation>, for users: [Index<User>]) {
        var pair: (Index<User>, Index<User>)?
        if case .users(let first, let second) = conversationTable.conversations[index].parties {
            pair = (first, second)
        }
        // A list is kept in many conversations, each of which has two of its users at most.
        for user in users where pair.map({ user == $0.0 || user == $0.1 }) ?? true {
            let reader = ConversationTable.Reader(conversation: index, user: user)
            if mayRead(reader) { conversationTable.noteNews(for: reader) }
        }
    }

    /// Tells these devices after the commit of the pending batch, once for each conversation.
    mutating func announceNewsAtCommit() {
        let readers = conversationTable.takeNewsReaders().sorted {
            ($0.conversation.place, $0.user.place) < ($1.conversation.place, $1.user.place)
        }
        for reader in readers {
            let queue = conversationTable.conversations[reader.conversation].kept.queue
            commits.confirm(.announceNews(reader, queue: queue))
        }
    }

    /// Publishes how many messages a user has not read.
    mutating func announceNews(
        for reader: ConversationTable.Reader, queue: QueueID, in step: inout Step
    ) {
        guard case .conversation(reader.conversation)? = owner(of: queue), mayRead(reader) else {
            return
        }
        publishUnread(of: reader, from: nil, in: &step)
    }
}
