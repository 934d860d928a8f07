// The conversations of one app in classes of sizes, so that the largest ones are found at once when
// the app's room for history is full. A class has the conversations whose bytes have the same
// number of bits: each of a class has less than twice the bytes of any other.
//
// Two more classes have the topics, and the conversations of two users, without messages, which may
// end to make room for others.
//
// It refers to conversations by index. The position of a conversation within its class is in the
// conversation, which `ConversationTable` keeps up to date.

import Primitives

struct ConversationSizes: Equatable {
    /// The class of topics without messages.
    static let emptyTopics = 0
    /// The class of conversations of two users without messages.
    static let emptyPairs = 1

    /// Those of topics and of pairs without messages, and behind them by the number of bits; the
    /// last one is not empty, but for these two.
    private var classes: [[Index<KeptConversation>]] = [[], []]

    /// The class of a number of bytes, at least 1.
    static func sizeClass(of byteCount: UInt64) -> Int {
        emptyPairs + UInt64.bitWidth - byteCount.leadingZeroBitCount
    }

    /// A conversation of the class of the largest ones; nil if none has messages to give up.
    var largest: Index<KeptConversation>? { classes.count > 2 ? classes.last?.last : nil }

    /// The topics without messages.
    var emptyTopicCount: Int { classes[Self.emptyTopics].count }

    /// One of these.
    var emptyTopic: Index<KeptConversation>? { classes[Self.emptyTopics].last }

    /// The topics and the conversations of two users without messages.
    var emptyCount: Int { emptyTopicCount + classes[Self.emptyPairs].count }

    /// One of these.
    var empty: Index<KeptConversation>? { classes[Self.emptyPairs].last ?? emptyTopic }

    /// Adds a conversation to a class, and returns its position there.
    mutating func insert(_ index: Index<KeptConversation>, sizeClass: Int) -> Int {
        while classes.count <= sizeClass { classes.append([]) }
        classes[sizeClass].append(index)
        return classes[sizeClass].count - 1
    }

    /// Removes the conversation at a position of its class. Returns the one that is at this
    /// position now; nil if it was the last.
    mutating func remove(at position: Int, sizeClass: Int) -> Index<KeptConversation>? {
        let last = classes[sizeClass].removeLast()
        defer { while classes.count > 2, classes.last?.isEmpty == true { classes.removeLast() } }
        guard position < classes[sizeClass].count else { return nil }
        classes[sizeClass][position] = last
        return last
    }

    /// The conversation at a position of a class; nil if there is none.
    func conversation(at position: Int, sizeClass: Int) -> Index<KeptConversation>? {
        guard classes.indices.contains(sizeClass),
            classes[sizeClass].indices.contains(position)
        else { return nil }
        return classes[sizeClass][position]
    }

    /// The conversations of all classes.
    var count: Int { classes.reduce(0) { $0 + $1.count } }
}
