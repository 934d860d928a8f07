// Conversations, as an operator reads them.

import Primitives

@testable import BrokerCore

/// A kept message.
struct KeptMessage: Equatable {
    let number: UInt64
    let sender: String
    let text: String
}

extension World {
    func history(_ selection: ConversationSelection, pageCount: Int = 100) -> [KeptMessage] {
        var messages: [KeptMessage] = []
        var before: UInt64? = .max
        while let number = before {
            let page = historyPage(selection, before: number, count: pageCount)!
            messages += page.messages.map {
                KeptMessage(
                    number: $0.number, sender: String(decoding: $0.sender, as: UTF8.self),
                    text: String(decoding: $0.content, as: UTF8.self))
            }
            before = page.next
        }
        return messages
    }

    func history(of user: String, and other: String, pageCount: Int = 100) -> [KeptMessage] {
        history(.pair(user, other), pageCount: pageCount)
    }

    /// One page; nil if there are no such parties.
    func historyPage(
        _ selection: ConversationSelection, before number: UInt64 = .max, count: Int = 100,
        search: HistorySearch = HistorySearch(), seenBy reader: String? = nil
    ) -> HistoryPage? {
        let inspection = broker.readHistory(
            of: selection, before: number, search: search, countMaximum: count,
            contentMaximum: 100, seenBy: reader.map { Array($0.utf8) })
        guard let inspection else { return nil }
        guard inspection > 0 else { return HistoryPage(messages: [], next: nil) }
        settle()
        return broker.takeHistory(inspection)
    }

    /// A message that is kept and not delivered.
    func insert(
        _ name: String, _ number: UInt64, to target: Target, _ text: String,
        grade: Grade = .durable, time: UInt64 = 0, asks: SendAsks = []
    ) {
        var bytes = World.preceding
        var request = SendRequest(
            number: number, grade: grade, target: target.append(to: &bytes),
            senderUnixMilliseconds: time, payload: bytes.appendRange("\0" + text),
            messageByteCount: UInt32(text.utf8.count) + 16)
        request.isKept = true
        request.isUndelivered = true
        request.asks = asks
        if !asks.isEmpty { request.reference = 0xA0 + number }
        step(.sendReceived(connections[name]!, request), bytes: bytes)
    }

    /// A user asks for a page.
    func requestHistory(
        _ name: String, of party: Target, before number: UInt64 = .max, count: Int = 100,
        byteCount: Int = 16_384, search: HistorySearch = HistorySearch()
    ) {
        var bytes = World.preceding
        var request = HistoryRequest(
            party: conversationParty(party, &bytes), before: number, countMaximum: count,
            byteCountMaximum: byteCount)
        request.search.text = bytes.appendRange(String(decoding: search.text, as: UTF8.self))
        request.search.sender = bytes.appendRange(
            String(decoding: search.sender ?? [], as: UTF8.self))
        (request.search.since, request.search.until) = (search.since, search.until)
        step(
            .historyRequested(
                connections[name]!, requestIdentifier: freeRequest(name), request),
            bytes: bytes)
    }

    private func conversationParty(
        _ party: Target, _ bytes: inout [UInt8]
    ) -> HistoryRequest.Party {
        switch party.append(to: &bytes) {
        case .user(let user): .user(user)
        case .group(let group): .group(group)
        case .topic(let topic): .topic(topic)
        default: preconditionFailure("\(party) is no conversation")
        }
    }

    /// A user tells what it has read.
    func markRead(
        _ name: String, of party: Target, through number: UInt64, hides: Bool = false
    ) {
        var bytes = World.preceding
        let wanted = conversationParty(party, &bytes)
        step(
            .markReadRequested(
                connections[name]!, requestIdentifier: freeRequest(name),
                ReadMarkRequest(party: wanted, number: number, hides: hides)),
            bytes: bytes)
    }

    /// A user asks for its conversations.
    func requestConversations(
        _ name: String, after place: UInt64 = 0, isUnreadOnly: Bool = false, count: Int = 100,
        byteCount: Int = 16_384, hasMessages: Bool = false
    ) {
        step(
            .conversationsRequested(
                connections[name]!, requestIdentifier: freeRequest(name),
                ConversationListRequest(
                    after: place, isUnreadOnly: isUnreadOnly, wantsMessages: hasMessages,
                    countMaximum: count, byteCountMaximum: byteCount)))
    }

    /// The conversations of a user, as operators see them.
    func conversations(
        of user: String, isUnreadOnly: Bool = false, pageCount: Int = 100
    ) -> [ConversationSummary] {
        var all: [ConversationSummary] = []
        var place: UInt64? = 0
        while let after = place {
            let page = broker.conversations(
                ofUser: Array(user.utf8), app: World.app, after: after,
                isUnreadOnly: isUnreadOnly, countMaximum: pageCount)!
            all += page.conversations
            place = page.next
        }
        return all
    }

    func removeFromHistory(_ number: UInt64, _ selection: ConversationSelection) -> QueueDrop? {
        guard case .pending(let inspection)? = broker.removeFromHistory(number, of: selection)
        else { return nil }
        settle()
        return broker.takeDrop(inspection)
    }
}

extension ConversationSelection {
    static func pair(_ user: String, _ other: String) -> ConversationSelection {
        ConversationSelection(
            app: World.app, parties: .users(Array(user.utf8), Array(other.utf8)))
    }

    static func group(_ group: String) -> ConversationSelection {
        ConversationSelection(app: World.app, parties: .group(Array(group.utf8)))
    }

    static func topic(_ topic: String) -> ConversationSelection {
        ConversationSelection(app: World.app, parties: .topic(Array(topic.utf8)))
    }
}
