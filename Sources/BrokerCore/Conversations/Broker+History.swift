// Reads the kept messages of a conversation, in bounded pieces: the store reads a piece with a
// batch, from the newest message to older ones, and changes nothing. Removes single messages.

import BrokerTerms
import Primitives

/// The conversation that a reader selects.
public struct ConversationSelection: Hashable, Sendable {
    public enum Parties: Hashable, Sendable {
        /// A group, by its id.
        case group([UInt8])
        case users([UInt8], [UInt8])
    }

    public var app: [UInt8]
    public var parties: Parties

    public init(app: [UInt8], parties: Parties) {
        self.app = app
        self.parties = parties
    }
}

/// The kept messages that a reader looks for.
public struct HistorySearch: Hashable, Sendable {
    /// Only messages whose content contains these bytes; empty for all.
    public var text: [UInt8] = []
    /// Only messages of this user.
    public var sender: [UInt8]?
    /// Only messages that were sent at this time or later, in Unix milliseconds.
    public var since: UInt64 = 0
    /// Only messages that were sent before this time, in Unix milliseconds.
    public var until = UInt64.max

    public init() {}

    /// Whether it finds a message.
    func matches(_ block: MessageBlock) -> Bool {
        guard block.time >= since, block.time < until else { return false }
        if let sender, !block.sender.elementsEqual(sender) { return false }
        return text.isEmpty || isIn(block.payload.bytes)
    }

    /// Whether bytes contain the text.
    private func isIn(_ bytes: RawSpan) -> Bool {
        var start = 0
        while start + text.count <= bytes.byteCount {
            var length = 0
            while length < text.count, bytes[start + length] == text[length] { length += 1 }
            if length == text.count { return true }
            start += 1
        }
        return false
    }
}

/// A part of a conversation, from newer messages to older ones.
public struct HistoryPage: Hashable, Sendable {
    public var messages: [QueuedMessage]
    /// The number before which the next page begins; nil at the oldest message.
    public var next: UInt64?
}

extension Broker {
    /// Asks for a page of a conversation.
    ///
    /// - Parameters:
    ///   - number: the page begins with the newest message that has a lower number.
    ///   - countMaximum: at least 1; a page has at most ``CoreLimits/inspectionCountMaximum``, and
    ///     may have fewer, or none, before the end: of those that the store reads, only those that
    ///     `search` finds.
    ///   - contentMaximum: bytes of each message's content.
    /// - Returns: the number under which ``takeHistory(_:)`` has the page when the batch that is
    ///   pending now has its result; 0 for a conversation without messages; nil if there is no
    ///   such user or group.
    public mutating func readHistory(
        of selection: ConversationSelection, before number: UInt64, search: HistorySearch,
        countMaximum: Int, contentMaximum: Int
    ) -> UInt64? {
        guard let app = app(named: selection.app),
            let parties = parties(of: selection, app: app)
        else { return nil }
        guard let index = conversationTable.find(parties) else { return 0 }
        let read = HistoryRead(search: search, contentMaximum: contentMaximum)
        return readHistory(
            of: index, before: number, countMaximum: countMaximum, for: .history(read))
    }

    /// Removes and returns a page; nil if it is not complete.
    public mutating func takeHistory(_ number: UInt64) -> HistoryPage? {
        inspections.takeHistory(number)
    }

    /// Removes a message from a conversation, for all its readers. Inboxes that have it keep it.
    ///
    /// - Returns: nil if there is no such user or group.
    public mutating func removeFromHistory(
        _ number: UInt64, of selection: ConversationSelection
    ) -> QueueDrop? {
        guard let app = app(named: selection.app),
            let parties = parties(of: selection, app: app)
        else { return nil }
        guard let index = conversationTable.find(parties), number > 0 else { return .absent }
        let queue = conversationTable.conversations[index].kept.queue
        return .pending(
            number: inspect(queue, after: number - 1, countMaximum: 1, for: .drop(number)))
    }

    private func parties(
        of selection: ConversationSelection, app: Index<App>
    ) -> ConversationParties? {
        switch selection.parties {
        case .group(let name):
            return group(named: name, app: registry.apps[app].name).map { .group($0) }
        case .users(let first, let second):
            guard let first = user(named: first, app: app),
                let second = user(named: second, app: app)
            else { return nil }
            return .users(of: first, and: second)
        }
    }

    /// Asks the store for messages before a number.
    mutating func readHistory(
        of index: Index<KeptConversation>, before number: UInt64, countMaximum: Int,
        for purpose: Inspections.Purpose
    ) -> UInt64 {
        inspect(
            conversationTable.conversations[index].kept.queue, after: 0, before: number,
            countMaximum: min(max(countMaximum, 1), CoreLimits.inspectionCountMaximum),
            for: purpose)
    }

    /// The page of what the store has read.
    func historyPage(
        _ load: LoadedQueue, in blocks: [UInt8], _ read: HistoryRead
    ) -> HistoryPage {
        var page = HistoryPage(
            messages: [], next: load.reachedEnd ? nil : load.examinedThrough)
        guard case .conversation? = owner(of: load.queue) else {
            // The group has ended meanwhile.
            page.next = nil
            return page
        }
        let leaving = leavingNumbers(of: load.queue)
        for entry in load.entries where !leaving.contains(entry.number) {
            blocks.withUnsafeBytes { bytes in
                let block = MessageBlock(entry.block.bytes(in: bytes))
                guard read.search.matches(block) else { return }
                page.messages.append(
                    QueuedMessage(
                        block, number: entry.number, state: entry.state,
                        byteCount: entry.byteCount, deadline: entry.deadline, isUnderWay: false,
                        contentMaximum: read.contentMaximum))
            }
        }
        return page
    }
}

/// What a reader of history wants to see.
struct HistoryRead {
    let search: HistorySearch
    /// Bytes of each message's content.
    let contentMaximum: Int
}
