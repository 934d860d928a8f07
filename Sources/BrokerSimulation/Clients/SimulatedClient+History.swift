// Requests of a device about conversations: pages of kept messages, and what its user has read.

import ClientCore
import Primitives
import WireFormat

extension SimulatedClient {
    /// Asks for messages of a conversation before a number, or for the newest ones.
    func readPage(of conversation: ConversationName, before: UInt64, count: UInt8) {
        guard isConnected, requests.count < 4 else { return }
        let (party, name) = party(of: conversation)
        let query = MRT.HistoryQuery(party: party, before: before, count: count)
        guard let identifier = request(.history, query, from: name) else { return }
        let highest = oracle.conversationFacts[conversation]?.highestSeen ?? 0
        requests[identifier] = .page(
            conversation, before: before,
            asked: PageRequest(
                at: context.now, highestSeen: highest,
                hiddenThrough: oracle.readingFact(conversation, client: index).hiddenThrough))
    }

    /// Tells that its user has read a conversation up to a number, or does not want to see it up to
    /// there.
    func markRead(_ conversation: ConversationName, through number: UInt64, hides: Bool) {
        guard isConnected, requests.count < 4 else { return }
        let (party, name) = party(of: conversation)
        let mark = MRT.ReadMark(party: party, number: number)
        let operation = hides ? MRT.Operation.hideHistory : .markRead
        guard let identifier = request(operation, mark, from: name) else { return }
        oracle.marking(number, in: conversation, hides: hides, client: index)
        requests[identifier] =
            hides ? .hiding(conversation, number) : .mark(conversation, number)
    }

    /// Handles a page, or the refusal of one.
    func handle(
        _ response: MRT.Response, of conversation: ConversationName, before: UInt64,
        asked: PageRequest
    ) {
        guard !response.reason.isFailure else {
            if !oracle.isPlausibleRefusal(response.reason, of: conversation, client: index) {
                oracle.fail(
                    .historyIsKept, "a page is refused: \(response.reason.name)", client: index)
            }
            return
        }
        let content = Array(
            bytes(through: response.content.endOffset)[Int(response.content.offset)...])
        guard let page = try? MRT.HistoryPage(content.span.bytes) else {
            oracle.fail(.nobodyIsAtFault, "a page that cannot be read", client: index)
            return
        }
        var messages: [KeptFact] = []
        var entries = MRT.HistoryEntryList(page, in: content.span.bytes)
        while let entry = entries.next() {
            messages.append(
                KeptFact(
                    number: entry.number,
                    sender: String(decoding: content[entry.from.offsets], as: UTF8.self),
                    message: message(in: content[entry.payload.offsets], of: conversation)))
        }
        oracle.pageReceived(
            messages, of: conversation, before: before, asked: asked, client: index)
    }

    /// The message whose payload a page has; nil if no client made it.
    private func message(in payload: ArraySlice<UInt8>, of conversation: ConversationName) -> Int? {
        guard case .topic = conversation else {
            return payload.withUnsafeBytes { MessageText.message(in: $0, isRaw: false) }
        }
        guard let form = payload.first.flatMap({ MRT.KeptForm(rawValue: $0) }) else { return nil }
        return payload.dropFirst().withUnsafeBytes {
            MessageText.message(in: $0, isRaw: form == .raw)
        }
    }

    private func party(
        of conversation: ConversationName
    ) -> (party: MRT.ConversationParty, name: [UInt8]) {
        switch conversation {
        case .users(let first, let second):
            let name = Array(Profile.userName(first == habits.user ? second : first).utf8)
            return (.user(ByteRange(offset: 0, count: name.count)), name)
        case .group(let group):
            let name = oracle.groups[group].name
            return (.group(ByteRange(offset: 0, count: name.count)), name)
        case .topic(let topic):
            let name = Array(Profile.topics[topic].utf8)
            return (.topic(ByteRange(offset: 0, count: name.count)), name)
        }
    }
}
