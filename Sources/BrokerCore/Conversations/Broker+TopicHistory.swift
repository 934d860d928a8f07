// History of topics: publications on a topic that a filter of the app's settings matches are kept
// in a conversation of the topic. It has no members: whoever may subscribe to the topic reads it,
// and there are no read marks.
//
// Transient publications are not kept: a kept message is acknowledged when it is on disk, and they
// have no acknowledgement.

import BrokerTerms
import Primitives

/// A topic with kept messages, as operators see it.
public struct KeptTopic: Hashable, Sendable {
    /// Its place in the order in which conversations began; never given to another one.
    public var place: UInt64
    public var topic: [UInt8]
    /// The number of the newest message.
    public var lastNumber: UInt64
    /// Messages that are kept.
    public var messageCount: UInt64
    /// Bytes of these.
    public var byteCount: UInt64
}

/// A part of an app's topics with kept messages.
public struct KeptTopicPage: Hashable, Sendable {
    public var topics: [KeptTopic]
    /// The place after which the next page begins; nil at the end.
    public var next: UInt64?
}

extension Broker {
    // MARK: - Filters

    /// Takes over the topic filters of the settings.
    mutating func renewFilters() {
        for app in registry.apps.places where registry.apps.contains(app) {
            registry.setFilters(limits.policy(ofApp: registry.apps[app].name), of: app)
        }
    }

    /// Whether publications on a topic are kept unless their senders say no. Costs one comparison
    /// in an app without such filters.
    func keepsHistory(ofTopic topic: RawSpan, _ app: Index<App>) -> Bool {
        guard !registry.apps[app].historyTopics.isEmpty,
            topic.byteCount <= CoreLimits.historyTopicBytesMaximum
        else { return false }
        return registry.apps[app].historyTopics.matches(topic)
    }

    // MARK: - Reading

    /// The conversation of a topic that a client wants to read, or why it may not.
    mutating func readableTopic(
        _ name: ByteRange, by session: Index<Session>, in step: borrowing Step
    ) -> Result<ConversationParties, ReadRefusal> {
        let topic = name.bytes(in: step.bytes)
        if let reason = topicRefusal(topic) {
            return .failure(ReadRefusal(reason: reason, cause: .topicNotKept))
        }
        // Who may not subscribe does not learn whether anything is kept.
        guard allows(.subscribe(filter: topic), session) else {
            return .failure(ReadRefusal(reason: .notAuthorized, cause: .topicRight))
        }
        let app = registry.users[sessions[session].user].app
        let parties = ConversationParties.topic(app, Array(topic))
        guard conversationTable.find(parties) != nil || keepsHistory(ofTopic: topic.bytes, app)
        else {
            return .failure(ReadRefusal(reason: .topicNameInvalid, cause: .topicNotKept))
        }
        return .success(parties)
    }

    // MARK: - Operators

    /// A page of an app's topics that have a conversation, in the order in which they began.
    ///
    /// - Parameters:
    ///   - place: the page begins after this place; 0 for the first page.
    ///   - countMaximum: at least 1; a page has at most
    ///     ``CoreLimits/historyTopicsOfPageMaximum``.
    /// - Returns: nil if there is no such app.
    public mutating func keptTopics(
        ofApp name: [UInt8], after place: UInt64, countMaximum: Int
    ) -> KeptTopicPage? {
        guard let app = app(named: name) else { return nil }
        let count = min(max(countMaximum, 1), CoreLimits.historyTopicsOfPageMaximum)
        let found = conversationTable.topics(ofApp: app, behind: place, countMaximum: count + 1)
        workload.charge(found.count)
        var page = KeptTopicPage(topics: [], next: nil)
        for index in found.prefix(count) {
            let conversation = conversationTable.conversations[index]
            guard case .topic(_, let topic) = conversation.parties else {
                preconditionFailure("conversation \(index.place) is in the list of topics")
            }
            page.topics.append(
                KeptTopic(
                    place: conversation.kept.queue.raw, topic: topic,
                    lastNumber: conversation.lastNumber,
                    messageCount: UInt64(conversation.kept.count),
                    byteCount: conversation.kept.byteCount))
        }
        if found.count > count { page.next = page.topics.last?.place }
        return page
    }
}
