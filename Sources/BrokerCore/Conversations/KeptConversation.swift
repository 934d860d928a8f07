// A conversation: what a group, or two users of one app, said to each other, or what was published
// on a topic. Messages that their senders want kept have numbers in it, whoever received them and
// when.
//
// The store has its messages as a queue whose entries nobody acknowledges. Their bodies are stored
// once for the conversation and for all inboxes.

import Primitives

/// The parties of a conversation.
enum ConversationParties: Hashable {
    case group(Index<Group>)
    /// Two users, the one of the lower place first; the same user twice for messages to oneself.
    case users(Index<User>, Index<User>)
    /// What is published on a topic. It has no members.
    case topic(Index<App>, [UInt8])

    var isTopic: Bool {
        if case .topic = self { true } else { false }
    }

    static func users(of sender: Index<User>, and receiver: Index<User>) -> ConversationParties {
        sender.place <= receiver.place ? .users(sender, receiver) : .users(receiver, sender)
    }
}

/// One conversation, from its first kept message on.
struct KeptConversation {
    let app: Index<App>
    let parties: ConversationParties
    /// The kept messages. Its queue is the durable identifier of the conversation.
    var kept: Inbox
    /// The last number that the row tells; the store knows higher ones by their messages.
    var storedNumber: UInt64 = 0
    /// Bytes that the store has been asked to remove and that still count.
    var leavingByteCount: UInt64 = 0
    /// Its class in ``ConversationSizes``, and its position there; nil while it is in no class.
    var size: (sizeClass: Int, position: Int)?

    init(app: Index<App>, parties: ConversationParties, queue: QueueID) {
        self.app = app
        self.parties = parties
        kept = Inbox(queue: queue)
    }

    /// The number of the newest message; 0 if there has been none.
    var lastNumber: UInt64 { kept.nextNumber - 1 }

    /// Bytes that stay after what the store has been asked to remove.
    var stayingByteCount: UInt64 { kept.byteCount.missing(from: leavingByteCount) }

    /// The class of ``ConversationSizes`` that it belongs to; nil for a group's without anything to
    /// give up, which ends with its group, and for one whose last messages are leaving.
    var sizeClass: Int? {
        guard stayingByteCount == 0 else {
            return ConversationSizes.sizeClass(of: stayingByteCount)
        }
        guard kept.count == 0 && leavingByteCount == 0 else { return nil }
        return switch parties {
        case .group: nil
        case .users: ConversationSizes.emptyPairs
        case .topic: ConversationSizes.emptyTopics
        }
    }
}

extension Records {
    /// The kinds of parties, on disk.
    enum ConversationKind: UInt8 {
        case users = 1
        case group = 2
        case topic = 3
    }

    /// - Parameters:
    ///   - lastNumber: no lower number is used again, also if no message remains.
    static func conversation(
        _ queue: QueueID, app: [UInt8], users first: [UInt8], _ second: [UInt8],
        lastNumber: UInt64
    ) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(ConversationKind.users.rawValue)
        row.write(lastNumber)
        row.write(app)
        row.write(first)
        row.write(second)
        return RecordChange(
            table: .conversations, key: RecordKey.number(queue.raw), value: row.bytes)
    }

    static func conversation(
        _ queue: QueueID, app: [UInt8], topic: [UInt8], lastNumber: UInt64
    ) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(ConversationKind.topic.rawValue)
        row.write(lastNumber)
        row.write(app)
        row.write(topic)
        return RecordChange(
            table: .conversations, key: RecordKey.number(queue.raw), value: row.bytes)
    }

    static func conversation(
        _ queue: QueueID, group: UInt64, lastNumber: UInt64
    ) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(ConversationKind.group.rawValue)
        row.write(lastNumber)
        row.write(group)
        return RecordChange(
            table: .conversations, key: RecordKey.number(queue.raw), value: row.bytes)
    }
}
