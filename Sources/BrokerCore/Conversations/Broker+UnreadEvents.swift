// Tells the devices of a user what the user has read on another one: a JSON text on
// `$unread/USER`, once the mark is on disk. It goes to connected subscribers and is never stored; a
// device that connects later lists its conversations. Only the user itself can subscribe, and no
// client may publish on such a topic.

import Primitives

/// A mark that a batch stores, for the other devices of its user.
struct ReadMarkNews {
    let reader: ConversationTable.Reader
    /// The queue of the conversation, which has ended if another one has its place.
    let queue: QueueID
    /// The user has read all messages up to this number.
    let number: UInt64
    /// The session that told it.
    let teller: Handle<Session>?
}

extension Broker {
    static let unreadPrefix: StaticString = "$unread/"
    static let unreadEvent: StaticString = "UNREAD_MESSAGES_COUNT_UPDATE"

    /// Publishes a mark after the commit of the pending batch. Costs one comparison in an app
    /// without such subscriptions.
    mutating func announceAtCommit(_ mark: PendingMark) {
        let conversation = conversationTable.conversations[mark.reader.conversation]
        guard registry.apps[conversation.app].unreadFilterCount > 0 else { return }
        commits.confirm(
            .announce(
                ReadMarkNews(
                    reader: mark.reader, queue: conversation.kept.queue, number: mark.number,
                    teller: mark.teller.connection.flatMap { session(of: $0) }
                        .map { sessions.handle($0) })))
    }

    /// Publishes a mark that is on disk.
    mutating func announce(_ news: ReadMarkNews, in step: inout Step) {
        guard case .conversation(news.reader.conversation)? = owner(of: news.queue),
            // A later mark has an event of its own. A member that has left has no mark.
            conversationTable.reading(of: news.reader).mark == news.number
        else { return }
        publishUnread(
            of: news.reader, from: news.teller.flatMap { sessions.contains($0) ? $0.index : nil },
            in: &step)
    }

    /// Publishes what a user has not read of a conversation, except to the session that told it.
    mutating func publishUnread(
        of reader: ConversationTable.Reader, from teller: Index<Session>?, in step: inout Step
    ) {
        counters.unreadEvents += 1
        let user = reader.user
        var topic: [UInt8] = []
        Self.unreadPrefix.withUTF8Buffer { topic += $0 }
        topic += registry.users[user].name
        publish(
            text(of: summary(of: reader.conversation, for: user)), on: topic, from: teller,
            ofUser: user, excluding: teller, in: &step)
    }

    /// The event, with the members that JSON clients know from lists of conversations.
    private func text(of summary: ConversationSummary) -> [UInt8] {
        var text = Array(#"{"event":""#.utf8)
        Self.unreadEvent.withUTF8Buffer { text += $0 }
        text += (summary.isGroup ? #"","group":""# : #"","user":""#).utf8
        for byte in summary.name {
            // Ids contain no control characters.
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
                text.append(UInt8(ascii: "\\"))
            }
            text.append(byte)
        }
        text += #"","last":\#(summary.lastNumber),"read":\#(summary.readThrough)"#.utf8
        text += #","unread":\#(summary.unreadCount)}"#.utf8
        return text
    }
}
