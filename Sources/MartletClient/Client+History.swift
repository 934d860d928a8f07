// Kept messages of the user's conversations.

import Primitives
import WireFormat

/// The other party of a conversation of this user.
public enum ConversationParty: Hashable, Sendable {
    /// Another user, or this user for messages to oneself.
    case user(String)
    /// A group of which this user is a member.
    case group(String)
}

/// A kept message.
public struct KeptMessage: Hashable, Sendable {
    /// Its number in the conversation: higher for later messages, with gaps.
    public var number: UInt64
    /// The user who sent it, as the broker authenticated it.
    public var sender: String
    /// Unix milliseconds.
    public var time: UInt64
    /// The type, 0 for text.
    public var type: UInt8
    /// The text, or for the types 1 to 4 a URL.
    public var text: String
}

/// Kept messages of a conversation, the newest first.
public struct HistoryPage: Hashable, Sendable {
    /// At most 100; there may be none although there is a next page.
    public var messages: [KeptMessage]
    /// Where the next page begins; nil at the oldest message. A page may be empty and have a next
    /// one.
    public var next: UInt64?
}

extension Client {
    /// The messages of a conversation that their senders wanted kept
    /// (``OutgoingMessage/isKept``), from the newest to older ones.
    ///
    /// - Parameters:
    ///   - party: the user or the group of the conversation.
    ///   - number: the page begins before this number, the ``HistoryPage/next`` of another page;
    ///     nil for the newest message.
    ///   - count: 1...100; a page may have fewer, because it is one packet.
    /// - Throws: ``MartletError/refused(_:_:)`` if there is no such user or group, or if the user
    ///   is not a member.
    public func history(
        with party: ConversationParty, before number: UInt64? = nil, count: Int = 100
    ) async throws(MartletError) -> HistoryPage {
        guard (1...Int(WireLimits.historyCountMaximum)).contains(count) else {
            throw .invalid("a page of history has 1 to \(WireLimits.historyCountMaximum) messages")
        }
        var bytes = ByteBuilder()
        let wire: MRT.ConversationParty =
            switch party {
            case .user(let user): .user(try bytes.append(identifier: user))
            case .group(let group): .group(try bytes.append(identifier: group))
            }
        let answer = try await request(
            .history,
            part: MRT.HistoryQuery(party: wire, before: number ?? 0, count: UInt8(count)),
            bytes: bytes)
        guard let page = HistoryPage(answer.content) else { throw .unreadableAnswer }
        return page
    }
}

extension HistoryPage {
    init?(_ content: [UInt8]) {
        let bytes = content.span.bytes
        guard let page = try? MRT.HistoryPage(bytes) else { return nil }
        messages = []
        next = page.next == 0 ? nil : page.next
        var walk = MRT.HistoryEntryList(page.entries, in: bytes)
        while let entry = walk.next() {
            let payload = content[entry.payload.offsets]
            messages.append(
                KeptMessage(
                    number: entry.number,
                    sender: String(decoding: content[entry.from.offsets], as: UTF8.self),
                    time: entry.time, type: payload[payload.startIndex],
                    text: String(decoding: payload.dropFirst(), as: UTF8.self)))
        }
    }
}
