// The conversations of all apps, and the sums of their messages.
//
// The table refers to groups, users and apps by index, and to messages by their number only: the
// store has them. It requests nothing from the store.
//
// Invariants: a conversation is found by its parties; the sums of an app are those of its
// conversations; `keptCount` is the sum of all.

import Primitives

/// The conversations of all apps.
struct ConversationTable: ~Copyable {
    private(set) var conversations = Slab<KeptConversation>()
    private var indexes: [ConversationParties: Index<KeptConversation>] = [:]
    /// Conversations of two users, by each of them.
    private var ofUsers: [Index<User>: [Index<KeptConversation>]] = [:]
    private var sums: [Index<App>: Sum] = [:]
    private var readers: [Reader: UInt64] = [:]
    /// Messages in all conversations.
    private(set) var keptCount: UInt64 = 0

    /// A member of a group that has a conversation.
    struct Reader: Hashable {
        let conversation: Index<KeptConversation>
        let user: Index<User>
    }

    /// The conversations of one app.
    struct Sum: Equatable {
        var conversationCount = 0
        /// Bytes of their messages.
        var byteCount: UInt64 = 0
    }

    var isEmpty: Bool { conversations.count == 0 }

    func sum(of app: Index<App>) -> Sum { sums[app] ?? Sum() }

    func find(_ parties: ConversationParties) -> Index<KeptConversation>? { indexes[parties] }

    /// The conversations of a user with other users, in the order in which they began.
    func conversations(ofUser user: Index<User>) -> [Index<KeptConversation>] {
        ofUsers[user] ?? []
    }

    // MARK: - Conversations

    mutating func insert(_ new: KeptConversation) -> Index<KeptConversation> {
        let index = conversations.insert(new).index
        indexes[new.parties] = index
        sums[new.app, default: Sum()].conversationCount += 1
        if case .users(let first, let second) = new.parties {
            ofUsers[first, default: []].append(index)
            if second != first { ofUsers[second, default: []].append(index) }
        }
        return index
    }

    /// Removes a conversation with all its messages, and returns its queue.
    mutating func remove(_ index: Index<KeptConversation>) -> QueueID {
        let removed = conversations.remove(index)
        indexes[removed.parties] = nil
        keptCount -= UInt64(removed.kept.count)
        var sum = self.sum(of: removed.app)
        sum.conversationCount -= 1
        sum.byteCount -= removed.kept.byteCount
        sums[removed.app] = sum == Sum() ? nil : sum
        if case .users(let first, let second) = removed.parties {
            for user in Set([first, second]) {
                ofUsers[user]!.removeAll { $0 == index }
                if ofUsers[user]!.isEmpty { ofUsers[user] = nil }
            }
        }
        return removed.kept.queue
    }

    // MARK: - Readers

    /// The number after which a member may read; 0 for a member from the beginning.
    func start(of reader: Reader) -> UInt64 { readers[reader] ?? 0 }

    mutating func setStart(_ number: UInt64, of reader: Reader) { readers[reader] = number }

    /// Removes what is known of a member. Returns whether there was anything.
    mutating func remove(_ reader: Reader) -> Bool { readers.removeValue(forKey: reader) != nil }

    // MARK: - Messages

    /// Counts a new message and returns its number.
    mutating func add(byteCount: UInt32, to index: Index<KeptConversation>) -> UInt64 {
        keptCount += 1
        sums[conversations[index].app]!.byteCount += UInt64(byteCount)
        return conversations[index].kept.add(byteCount: byteCount)
    }

    /// Subtracts messages that have left a conversation.
    mutating func countOut(_ index: Index<KeptConversation>, count: UInt64, byteCount: UInt64) {
        let before = conversations[index].kept.byteCount
        conversations[index].kept.subtract(count: count, byteCount: byteCount)
        keptCount -= count
        sums[conversations[index].app]!.byteCount -= before - conversations[index].kept.byteCount
    }

    /// Counts messages that a limit has removed.
    mutating func noteDropped(_ count: UInt32, of index: Index<KeptConversation>) {
        conversations[index].kept.overflowCount += count
    }

    /// Sets the counts of a conversation to those of the store.
    mutating func restore(_ outline: QueueOutline, of index: Index<KeptConversation>) {
        conversations[index].kept.restore(outline.tally, lastNumber: outline.lastNumber)
        keptCount += outline.tally.count
        sums[conversations[index].app]!.byteCount += outline.tally.byteCount
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
            if case .users(let first, let second) = conversation.parties {
                pairs += first == second ? 1 : 2
            }
        }
        expect(keptCount, equals: count, "messages in all conversations")
        expect(indexes.count, equals: conversations.count, "parties of conversations")
        expect(
            ofUsers.values.reduce(0) { $0 + $1.count }, equals: pairs,
            "conversations in the lists of users")
        for reader in readers.keys {
            precondition(
                conversations.contains(reader.conversation),
                "user \(reader.user.place) reads conversation \(reader.conversation.place)")
        }
        precondition(sums == byApp, "sums of conversations by app: \(sums), and \(byApp)")
    }
}
