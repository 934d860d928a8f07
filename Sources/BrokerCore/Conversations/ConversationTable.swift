// The conversations of all apps, and the sums of their messages.
//
// The table refers to groups, users and apps by index, and to messages by their number only: the
// store has them. It requests nothing from the store.
//
// Invariants: a conversation is found by its parties; the sums of an app are those of its
// conversations; `keptCount` is the sum of all; a reader has read no number that is not assigned; a
// conversation is in the class of the bytes that stay in it.

import Primitives

/// The conversations of all apps.
struct ConversationTable: ~Copyable {
    private(set) var conversations = Slab<KeptConversation>()
    private var indexes: [ConversationParties: Index<KeptConversation>] = [:]
    /// Conversations of two users, by each of them.
    private var ofUsers: [Index<User>: [Index<KeptConversation>]] = [:]
    /// Conversations of topics, by app, in the order in which they began.
    private var ofTopics: [Index<App>: [Index<KeptConversation>]] = [:]
    private var sums: [Index<App>: Sum] = [:]
    private var sizes: [Index<App>: ConversationSizes] = [:]
    private var readers: [Reader: Reading] = [:]
    /// Readers with own messages that their rows do not count yet.
    private var changedReaders: Set<Reader> = []
    /// Readers with connected devices that pull, for whom the pending batch keeps a message.
    private var newsReaders: Set<Reader> = []
    /// Messages in all conversations.
    private(set) var keptCount: UInt64 = 0
    /// The message that is being routed, if devices that pull need no copy of it.
    var pull = PullRouting()
    /// Sessions that pull. While there is none, no send asks who they are.
    private(set) var pullingCount = 0

    /// One of two users, or a member of a group, that has a conversation.
    struct Reader: Hashable {
        let conversation: Index<KeptConversation>
        let user: Index<User>
    }

    /// What a reader has read.
    struct Reading: Equatable {
        /// The number after which it may read; 0 for a member from the beginning.
        var start: UInt64 = 0
        /// It has read all messages up to this number.
        var mark: UInt64 = 0
        /// Its own messages after both numbers. Messages that were removed may be among them.
        var ownCount: UInt64 = 0

        /// The number after which messages are unread.
        var readThrough: UInt64 { max(start, mark) }
    }

    /// The conversations of one app.
    struct Sum: Equatable {
        var conversationCount = 0
        /// Those of them that are of topics.
        var topicCount = 0
        /// Bytes of their messages.
        var byteCount: UInt64 = 0
        /// Bytes of these that the store has been asked to remove.
        var leavingByteCount: UInt64 = 0

        /// Bytes that stay after what the store has been asked to remove.
        var stayingByteCount: UInt64 { byteCount.missing(from: leavingByteCount) }
    }

    var isEmpty: Bool { conversations.count == 0 }

    /// Counts a session that begins or ends to pull.
    mutating func countPulling(isNew: Bool) { pullingCount += isNew ? 1 : -1 }

    func sum(of app: Index<App>) -> Sum { sums[app] ?? Sum() }

    func find(_ parties: ConversationParties) -> Index<KeptConversation>? { indexes[parties] }

    /// The conversations of a user with other users, in the order in which they began, which is
    /// that of their queues: those with queues behind `queue`, at most `countMaximum`.
    func conversations(
        ofUser user: Index<User>, behind queue: UInt64 = 0, countMaximum: Int = .max
    ) -> ArraySlice<Index<KeptConversation>> {
        guard let all = ofUsers[user] else { return [] }
        return all[position(behind: queue, in: all)...].prefix(countMaximum)
    }

    /// The conversations of topics of an app, in the order in which they began: those with queues
    /// behind `queue`, at most `countMaximum`.
    func topics(
        ofApp app: Index<App>, behind queue: UInt64, countMaximum: Int
    ) -> ArraySlice<Index<KeptConversation>> {
        guard let all = ofTopics[app] else { return [] }
        return all[position(behind: queue, in: all)...].prefix(countMaximum)
    }

    /// The position of the first conversation whose queue is behind another one, in a list in the
    /// order of the queues.
    private func position(behind queue: UInt64, in list: [Index<KeptConversation>]) -> Int {
        var (start, end) = (0, list.count)
        while start < end {
            let middle = (start + end) / 2
            if conversations[list[middle]].kept.queue.raw > queue {
                end = middle
            } else {
                start = middle + 1
            }
        }
        return start
    }

    /// Topics with a conversation, of all apps.
    var topicCount: Int { ofTopics.values.reduce(0) { $0 + $1.count } }

    // MARK: - Conversations

    mutating func insert(_ new: KeptConversation) -> Index<KeptConversation> {
        let index = conversations.insert(new).index
        indexes[new.parties] = index
        sums[new.app, default: Sum()].conversationCount += 1
        switch new.parties {
        case .users(let first, let second):
            ofUsers[first, default: []].append(index)
            if second != first { ofUsers[second, default: []].append(index) }
        case .topic:
            sums[new.app]!.topicCount += 1
            ofTopics[new.app, default: []].append(index)
        case .group: break
        }
        renewClass(of: index)
        return index
    }

    /// Removes a conversation with all its messages, and returns its queue.
    mutating func remove(_ index: Index<KeptConversation>) -> QueueID {
        leaveClass(index)
        leaveTopics(index)
        leaveUsers(index)
        let removed = conversations.remove(index)
        indexes[removed.parties] = nil
        keptCount -= UInt64(removed.kept.count)
        var sum = self.sum(of: removed.app)
        sum.conversationCount -= 1
        if removed.parties.isTopic { sum.topicCount -= 1 }
        sum.byteCount -= removed.kept.byteCount
        sum.leavingByteCount -= removed.leavingByteCount
        sums[removed.app] = sum == Sum() ? nil : sum
        return removed.kept.queue
    }

    /// Takes a conversation out of the lists of its users, if it has two.
    private mutating func leaveUsers(_ index: Index<KeptConversation>) {
        guard case .users(let first, let second) = conversations[index].parties else { return }
        let queue = conversations[index].kept.queue.raw
        for user in Set([first, second]) {
            let position = position(behind: queue - 1, in: ofUsers[user]!)
            precondition(
                ofUsers[user]![position] == index,
                "conversation \(index.place) is not at \(position) in the list of a user")
            ofUsers[user]!.remove(at: position)
            if ofUsers[user]!.isEmpty { ofUsers[user] = nil }
        }
    }

    /// Takes a conversation out of the list of topics, if it is in one.
    private mutating func leaveTopics(_ index: Index<KeptConversation>) {
        guard case .topic(let app, _) = conversations[index].parties else { return }
        let position = position(
            behind: conversations[index].kept.queue.raw - 1, in: ofTopics[app]!)
        precondition(
            ofTopics[app]![position] == index,
            "conversation \(index.place) is not at \(position) in the list of topics")
        ofTopics[app]!.remove(at: position)
        if ofTopics[app]!.isEmpty { ofTopics[app] = nil }
    }

    // MARK: - Readers

    /// What a reader has read; nothing yet if it has no row.
    func reading(of reader: Reader) -> Reading { readers[reader] ?? Reading() }

    /// Every reader with a row.
    var allReaders: some Sequence<Reader> { readers.keys }

    /// Whether the reader has a row.
    func contains(_ reader: Reader) -> Bool { readers[reader] != nil }

    mutating func set(_ reading: Reading, of reader: Reader) {
        readers[reader] = reading
        changedReaders.remove(reader)
    }

    /// Counts a message of the reader itself; its row counts it with the pending batch.
    mutating func countOwn(of reader: Reader) {
        readers[reader, default: Reading()].ownCount += 1
        changedReaders.insert(reader)
    }

    /// Messages of others that a reader has not read, and that the conversation still has.
    func unreadCount(of reader: Reader) -> UInt64 {
        let (reading, conversation) = (
            reading(of: reader), conversations[reader.conversation]
        )
        let behind = conversation.lastNumber.missing(from: reading.readThrough)
        return min(behind.missing(from: reading.ownCount), UInt64(conversation.kept.count))
    }

    /// Whether there is a row to write, which is all that an ordinary batch pays for.
    var hasChangedReaders: Bool { !changedReaders.isEmpty }

    /// Returns the readers whose rows must be written with the pending batch, each once.
    mutating func takeChangedReaders() -> Set<Reader> {
        defer { changedReaders.removeAll(keepingCapacity: changedReaders.count < 64) }
        return changedReaders
    }

    /// Notes that the pending batch keeps a message for a reader with a connected device that
    /// pulls.
    mutating func noteNews(for reader: Reader) { newsReaders.insert(reader) }

    /// Whether there is such a reader.
    var hasNews: Bool { !newsReaders.isEmpty }

    /// Returns these readers, each once.
    mutating func takeNewsReaders() -> Set<Reader> {
        defer { newsReaders.removeAll(keepingCapacity: newsReaders.count < 64) }
        return newsReaders
    }

    /// Removes what is known of a reader. Returns whether there was anything.
    mutating func remove(_ reader: Reader) -> Bool {
        changedReaders.remove(reader)
        newsReaders.remove(reader)
        return readers.removeValue(forKey: reader) != nil
    }

    // MARK: - Messages

    /// Counts a new message and returns its number.
    mutating func add(byteCount: UInt32, to index: Index<KeptConversation>) -> UInt64 {
        keptCount += 1
        sums[conversations[index].app]!.byteCount += UInt64(byteCount)
        defer { renewClass(of: index) }
        return conversations[index].kept.add(byteCount: byteCount)
    }

    /// Subtracts messages that have left a conversation.
    mutating func countOut(_ index: Index<KeptConversation>, count: UInt64, byteCount: UInt64) {
        let before = conversations[index].kept.byteCount
        conversations[index].kept.subtract(count: count, byteCount: byteCount)
        keptCount -= count
        sums[conversations[index].app]!.byteCount -= before - conversations[index].kept.byteCount
        renewClass(of: index)
    }

    /// Counts messages that a limit has removed, of which the store was asked for some bytes.
    mutating func noteDropped(
        _ count: UInt32, asked byteCount: UInt64, of index: Index<KeptConversation>
    ) {
        conversations[index].kept.overflowCount += count
        conversations[index].leavingByteCount -= byteCount
        sums[conversations[index].app]!.leavingByteCount -= byteCount
        renewClass(of: index)
    }

    /// Notes that the store is asked to remove bytes of a conversation.
    mutating func noteLeaving(_ byteCount: UInt64, of index: Index<KeptConversation>) {
        conversations[index].leavingByteCount += byteCount
        sums[conversations[index].app]!.leavingByteCount += byteCount
        renewClass(of: index)
    }

    /// Sets the counts of a conversation to those of the store.
    mutating func restore(_ outline: QueueOutline, of index: Index<KeptConversation>) {
        conversations[index].kept.restore(outline.tally, lastNumber: outline.lastNumber)
        keptCount += outline.tally.count
        sums[conversations[index].app]!.byteCount += outline.tally.byteCount
        renewClass(of: index)
    }

    /// Continues after the last number that the row tells.
    mutating func restore(lastNumber: UInt64, of index: Index<KeptConversation>) {
        conversations[index].kept.nextNumber = lastNumber + 1
        conversations[index].storedNumber = lastNumber
    }

    /// Notes the last number that the row tells.
    mutating func note(storedNumber: UInt64, of index: Index<KeptConversation>) {
        conversations[index].storedNumber = storedNumber
    }

    // MARK: - Sizes

    /// A conversation of an app that has at least half as many bytes to give up as any other; nil
    /// if none has any.
    func largest(of app: Index<App>) -> Index<KeptConversation>? { sizes[app]?.largest }

    /// Topics of an app that have no messages.
    func emptyTopicCount(of app: Index<App>) -> Int { sizes[app]?.emptyTopicCount ?? 0 }

    /// One of these.
    func emptyTopic(of app: Index<App>) -> Index<KeptConversation>? { sizes[app]?.emptyTopic }

    /// Conversations of two users of an app, and topics, that have no messages.
    func emptyCount(of app: Index<App>) -> Int { sizes[app]?.emptyCount ?? 0 }

    /// One of these.
    func empty(of app: Index<App>) -> Index<KeptConversation>? { sizes[app]?.empty }

    private mutating func renewClass(of index: Index<KeptConversation>) {
        let sizeClass = conversations[index].sizeClass
        guard sizeClass != conversations[index].size?.sizeClass else { return }
        leaveClass(index)
        guard let sizeClass else { return }
        let position = sizes[conversations[index].app, default: ConversationSizes()].insert(
            index, sizeClass: sizeClass)
        conversations[index].size = (sizeClass, position)
    }

    private mutating func leaveClass(_ index: Index<KeptConversation>) {
        let app = conversations[index].app
        guard let (sizeClass, position) = conversations[index].size else { return }
        let moved = sizes[app]!.remove(at: position, sizeClass: sizeClass)
        if let moved { conversations[moved].size?.position = position }
        conversations[index].size = nil
        if sizes[app]!.count == 0 { sizes[app] = nil }
    }

    // MARK: - Invariants

    /// Traps if a sum or a reference is inconsistent.
    func checkInvariants() {
        var (count, byApp) = (UInt64(0), [Index<App>: Sum]())
        var pairs = 0
        for index in conversations.places where conversations.contains(index) {
            let conversation = conversations[index]
            precondition(
                find(conversation.parties) == index,
                "conversation \(index.place) is not found by its parties")
            count += UInt64(conversation.kept.count)
            byApp[conversation.app, default: Sum()].conversationCount += 1
            byApp[conversation.app, default: Sum()].byteCount += conversation.kept.byteCount
            byApp[conversation.app]!.leavingByteCount += conversation.leavingByteCount
            checkClass(of: index)
            switch conversation.parties {
            case .users(let first, let second): pairs += first == second ? 1 : 2
            case .topic: byApp[conversation.app]!.topicCount += 1
            case .group: break
            }
        }
        expect(
            topicCount, equals: byApp.values.reduce(0) { $0 + $1.topicCount },
            "conversations in the lists of topics")
        expect(keptCount, equals: count, "messages in all conversations")
        expect(indexes.count, equals: conversations.count, "parties of conversations")
        expect(
            ofUsers.values.reduce(0) { $0 + $1.count }, equals: pairs,
            "conversations in the lists of users")
        for list in Array(ofUsers.values) + Array(ofTopics.values) {
            let queues = list.map { conversations[$0].kept.queue.raw }
            precondition(queues == queues.sorted(), "the order of the queues \(queues)")
        }
        expect(
            sizes.values.reduce(0) { $0 + $1.count },
            equals: conversations.places.count {
                conversations.contains($0) && conversations[$0].size != nil
            }, "conversations in classes")
        for (reader, reading) in readers {
            precondition(
                conversations.contains(reader.conversation),
                "user \(reader.user.place) reads conversation \(reader.conversation.place)")
            expect(
                reading.readThrough, atMost: conversations[reader.conversation].lastNumber,
                "what user \(reader.user.place) has read")
        }
        for reader in changedReaders {
            precondition(
                contains(reader), "user \(reader.user.place) has changed, and is no reader")
        }
        precondition(sums == byApp, "sums of conversations by app: \(sums), and \(byApp)")
    }

    private func checkClass(of index: Index<KeptConversation>) {
        let conversation = conversations[index]
        precondition(
            conversation.size?.sizeClass == conversation.sizeClass,
            "conversation \(index.place) is in class \(conversation.size.debugDescription)")
        guard let (sizeClass, position) = conversation.size else { return }
        precondition(
            sizes[conversation.app]?.conversation(at: position, sizeClass: sizeClass) == index,
            "conversation \(index.place) is not in class \(sizeClass)")
    }
}
