// Lists the conversations of a user: those with other users, and those of its groups, in the order
// in which they began.

import BrokerTerms
import Primitives

/// A conversation, as one of its readers sees it.
public struct ConversationSummary: Hashable, Sendable {
    /// Its place in the order of conversations; never given to another one.
    public var place: UInt64
    public var isGroup: Bool
    /// The other user, or the id of the group.
    public var name: [UInt8]
    /// The number of the newest message.
    public var lastNumber: UInt64
    /// The user has read up to this number; 0 if nothing.
    public var readThrough: UInt64
    /// Unread messages of others.
    public var unreadCount: UInt64
}

/// A part of a user's conversations.
public struct ConversationPage: Hashable, Sendable {
    public var conversations: [ConversationSummary]
    /// The place after which the next page begins; nil at the end. A page may be empty and have a
    /// next one.
    public var next: UInt64?
}

extension Broker {
    /// A page of a user's conversations that have kept messages.
    ///
    /// - Parameters:
    ///   - place: the page begins after this place; 0 for the first page.
    ///   - countMaximum: at least 1; a page looks at most at
    ///     ``CoreLimits/conversationLooksMaximum`` conversations.
    /// - Returns: nil if there is no such user.
    public mutating func conversations(
        ofUser user: [UInt8], app: [UInt8], after place: UInt64, isUnreadOnly: Bool,
        countMaximum: Int
    ) -> ConversationPage? {
        guard let app = self.app(named: app), let user = self.user(named: user, app: app) else {
            return nil
        }
        return conversations(
            of: user, after: place, isUnreadOnly: isUnreadOnly, countMaximum: countMaximum)
    }

    mutating func conversations(
        of user: Index<User>, after place: UInt64, isUnreadOnly: Bool, countMaximum: Int
    ) -> ConversationPage {
        var page = ConversationPage(conversations: [], next: nil)
        let candidates = candidates(of: user, after: place)
        workload.charge(candidates.count + registry.users[user].memberships.count)
        for (lookCount, index) in candidates.enumerated() {
            if page.conversations.count == countMaximum
                || lookCount == CoreLimits.conversationLooksMaximum
            {
                page.next = self.place(of: candidates[lookCount - 1])
                break
            }
            let reader = ConversationTable.Reader(conversation: index, user: user)
            guard conversationTable.conversations[index].lastNumber > 0,
                !isUnreadOnly || conversationTable.unreadCount(of: reader) > 0
            else { continue }
            page.conversations.append(summary(of: index, for: user))
        }
        return page
    }

    /// At least as many conversations after a place as a page looks at, in their order; fewer only
    /// at the end.
    private func candidates(
        of user: Index<User>, after place: UInt64
    ) -> [Index<KeptConversation>] {
        var candidates = Array(
            conversationTable.conversations(
                ofUser: user, behind: place,
                countMaximum: CoreLimits.conversationLooksMaximum + 1))
        let pairCount = candidates.count
        for membership in registry.users[user].memberships {
            let group = groupTable.memberships[membership].group
            guard let index = conversationTable.find(.group(group)), self.place(of: index) > place
            else { continue }
            candidates.append(index)
        }
        if candidates.count > pairCount {
            candidates.sort { self.place(of: $0) < self.place(of: $1) }
        }
        return candidates
    }

    /// Identifiers of queues rise, so a conversation's place is that of its queue.
    private func place(of index: Index<KeptConversation>) -> UInt64 {
        conversationTable.conversations[index].kept.queue.raw
    }

    func summary(
        of index: Index<KeptConversation>, for user: Index<User>
    ) -> ConversationSummary {
        let conversation = conversationTable.conversations[index]
        let reader = ConversationTable.Reader(conversation: index, user: user)
        var summary = ConversationSummary(
            place: place(of: index), isGroup: false, name: [],
            lastNumber: conversation.lastNumber,
            readThrough: conversationTable.reading(of: reader).readThrough,
            unreadCount: conversationTable.unreadCount(of: reader))
        switch conversation.parties {
        case .group(let group):
            summary.isGroup = true
            summary.name = groupTable.groups[group].name
        case .users(let first, let second):
            summary.name = Array(registry.users[first == user ? second : first].name)
        case .topic:
            preconditionFailure("user \(user.place) has no part in conversation \(index.place)")
        }
        return summary
    }

    // MARK: - Users

    /// Answers a user's request with a page of its conversations.
    mutating func reportConversations(
        to connection: ConnectionID, identifier: UInt64, _ request: ConversationListRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let user = sessions[session].user
        let page = conversations(
            of: user, after: request.after, isUnreadOnly: request.isUnreadOnly,
            countMaximum: request.wantsMessages
                ? min(request.countMaximum, CoreLimits.newestMessagesMaximum)
                : request.countMaximum)
        if request.wantsMessages, !page.conversations.isEmpty {
            return readNewest(
                NewestRead(
                    connection: connection, requestIdentifier: identifier, user: user,
                    byteCountMaximum: request.byteCountMaximum,
                    answer: .conversations(after: request.after, next: page.next ?? 0),
                    queues: page.conversations.map { QueueID(raw: $0.place) }), in: &step)
        }
        let loop = connection.loop
        let room = min(request.byteCountMaximum, CoreLimits.groupAnswerMaximum)
        let start = step.effects[loop].bytes.count
        var next = page.next ?? 0
        // The place of the next page takes at most nine bytes.
        var byteCount = 9
        var last = request.after
        for conversation in page.conversations {
            byteCount += ConversationEntry.wireOverhead + conversation.name.count
            guard byteCount <= room else {
                next = last
                break
            }
            step.effects[loop].bytes.append(conversation)
            last = conversation.place
        }
        let entries = ByteRange(offset: start, count: step.effects[loop].bytes.count - start)
        workload.charge(Int(entries.count) / CoreLimits.answerBytesPerWork)
        if entries.isEmpty, !page.conversations.isEmpty {
            // The client would request the same page for ever.
            return refuse(connection, request: identifier, .packetTooLarge, in: &step)
        }
        step.effects[loop].effects.append(
            .mrt(
                .reportConversations(
                    connection, requestIdentifier: identifier, next: next, entries: entries)))
    }
}

extension ByteArena {
    /// Appends a conversation as ``ConversationEntry/read(_:in:)`` reads it.
    ///
    /// - Parameter newest: its newest message; nil if it is not told.
    mutating func append(_ conversation: ConversationSummary, newest: NewestKept? = nil) {
        var marks: ConversationEntry.Marks = conversation.isGroup ? .group : []
        if let newest { marks.formUnion(newest.message == nil ? .newest : [.newest, .message]) }
        let range = reserve(ConversationEntry.headByteCount)
        let head = mutableBytes(range)
        let numbers = [
            conversation.lastNumber, conversation.readThrough, conversation.unreadCount,
        ]
        for (position, number) in numbers.enumerated() {
            head.storeBytes(of: number.littleEndian, toByteOffset: 8 * position, as: UInt64.self)
        }
        head[24] = marks.rawValue
        head[25] = UInt8(conversation.name.count)
        _ = conversation.name.withUnsafeBytes { append($0) }
        if let message = newest?.message {
            message.block.withUnsafeBytes { append(MessageBlock($0), number: message.number) }
        }
    }
}
