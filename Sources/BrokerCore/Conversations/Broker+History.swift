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
        case topic([UInt8])
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
    private var content = ByteSearch([])
    /// Only messages whose content contains these bytes; empty for all. At most
    /// ``CoreLimits/searchByteCountMaximum``.
    public var text: [UInt8] {
        get { content.text }
        set { content = ByteSearch(newValue) }
    }
    /// Only messages of this user.
    public var sender: [UInt8]?
    /// Only messages that were sent at this time or later, in Unix milliseconds.
    public var since: UInt64 = 0
    /// Only messages that were sent before this time, in Unix milliseconds.
    public var until = UInt64.max

    public init() {}

    init(_ request: HistoryRequest.Search, in bytes: UnsafeRawBufferPointer) {
        text = Array(request.text.bytes(in: bytes))
        sender = request.sender.isEmpty ? nil : Array(request.sender.bytes(in: bytes))
        (since, until) = (request.since, request.until)
    }

    /// Whether it finds a message.
    func matches(_ block: MessageBlock) -> Bool {
        guard block.time >= since, block.time < until else { return false }
        if let sender, !block.sender.elementsEqual(sender) { return false }
        return content.isIn(block.payload.bytes)
    }

    /// What the search for the text in a message costs.
    func work(in block: MessageBlock) -> Int {
        content.isEmpty ? 0 : block.payload.count / CoreLimits.searchedBytesPerWork
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
    ///   - reader: a user who sees a part of it, from when it joined or what it has hidden; nil for
    ///     all of it.
    /// - Returns: the number under which ``takeHistory(_:)`` has the page when the batch that is
    ///   pending now has its result; 0 for a conversation without messages; nil if there is no
    ///   such user or group, or the reader is no member of it or none of the two users.
    public mutating func readHistory(
        of selection: ConversationSelection, before number: UInt64, search: HistorySearch,
        countMaximum: Int, contentMaximum: Int, seenBy reader: [UInt8]? = nil
    ) -> UInt64? {
        guard let app = app(named: selection.app),
            let parties = parties(of: selection, app: app)
        else { return nil }
        var start: UInt64 = 0
        if let reader {
            guard let user = user(named: reader, app: app) else { return nil }
            if case .group(let group) = parties, membership(of: user, in: group) == nil {
                return nil
            }
            if case .users(let first, let second) = parties, user != first, user != second {
                return nil
            }
            guard let index = conversationTable.find(parties) else { return 0 }
            start =
                conversationTable.reading(
                    of: ConversationTable.Reader(conversation: index, user: user)
                ).start
        }
        guard let index = conversationTable.find(parties) else { return 0 }
        let read = HistoryRead(search: search, contentMaximum: contentMaximum)
        return readHistory(
            of: index, after: start, before: number, countMaximum: countMaximum,
            for: .history(read))
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

    func parties(
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
        case .topic(let topic): return .topic(app, topic)
        }
    }

    /// Asks the store for messages before a number.
    mutating func readHistory(
        of index: Index<KeptConversation>, after start: UInt64 = 0, before number: UInt64,
        countMaximum: Int, for purpose: Inspections.Purpose
    ) -> UInt64 {
        inspect(
            conversationTable.conversations[index].kept.queue, after: start, before: number,
            countMaximum: min(max(countMaximum, 1), CoreLimits.inspectionCountMaximum),
            for: purpose)
    }

    /// The page of what the store has read.
    mutating func historyPage(
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
                workload.chargeNextTurn(read.search.work(in: block))
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

/// Why a user may not read a conversation.
struct ReadRefusal: Error {
    let reason: ReasonCode
    /// What the reason does not tell.
    let cause: LimitName
}

/// The answer that a client waits for.
struct ClientHistoryRead {
    let connection: ConnectionID
    let requestIdentifier: UInt64
    /// Bytes of the answer.
    let byteCountMaximum: Int
    let wantsFields: Bool
    /// Whether it is of a topic, whose messages may be raw.
    var isTopic = false
    let search: HistorySearch
}

extension Broker {
    // MARK: - Users

    /// Answers a user's request, now or when the store has read the messages. A user reads the
    /// conversations with other users, of groups as a member, from the time of joining, and of
    /// topics that it may subscribe to.
    mutating func requestHistory(
        _ connection: ConnectionID, identifier: UInt64, _ request: HistoryRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let user = sessions[session].user
        let parties: ConversationParties
        switch self.parties(of: request.party, for: session, in: step) {
        case .success(let found): parties = found
        case .failure(let refusal):
            return refuse(
                connection, request: identifier, refusal.reason, cause: refusal.cause,
                about: Array(request.party.name.bytes(in: step.bytes)), in: &step)
        }
        guard let index = conversationTable.find(parties) else {
            step.effects[connection.loop].effects.append(
                .mrt(
                    .reportHistory(
                        connection, requestIdentifier: identifier, next: 0, entries: .empty,
                        hasFields: request.wantsFields, isTopic: parties.isTopic)))
            return
        }
        // A client waits for one answer before it asks again, and all together for their share.
        guard commits.takesHistory, inspections.begin(connection) else {
            return refuse(connection, request: identifier, .serverBusy, in: &step)
        }
        commits.open(RequestKey(connection: connection, identifier: identifier))
        let start = conversationTable.reading(
            of: ConversationTable.Reader(conversation: index, user: user)
        ).start
        _ = inspect(
            conversationTable.conversations[index].kept.queue, after: start,
            before: request.before,
            countMaximum: min(max(request.countMaximum, 1), CoreLimits.inspectionCountMaximum),
            byteMaximum: CoreLimits.groupAnswerMaximum,
            for: .clientHistory(
                ClientHistoryRead(
                    connection: connection, requestIdentifier: identifier,
                    byteCountMaximum: request.byteCountMaximum,
                    wantsFields: request.wantsFields, isTopic: parties.isTopic,
                    search: HistorySearch(request.search, in: step.bytes))))
    }

    /// The conversation that a user names by its other party, whether or not it has begun.
    mutating func parties(
        of party: HistoryRequest.Party, for session: Index<Session>, in step: borrowing Step
    ) -> Result<ConversationParties, ReadRefusal> {
        let user = sessions[session].user
        let app = registry.users[user].app
        switch party {
        case .user(let name):
            guard let other = self.user(named: name.bytes(in: step.bytes), app: app) else {
                return .failure(ReadRefusal(reason: .topicNameInvalid, cause: .unknownParty))
            }
            return .success(.users(of: user, and: other))
        case .group(let name):
            guard let group = registry.apps[app].groups.value(for: name.bytes(in: step.bytes))
            else {
                return .failure(ReadRefusal(reason: .topicNameInvalid, cause: .unknownParty))
            }
            guard membership(of: user, in: group) != nil else {
                return .failure(ReadRefusal(reason: .notAuthorized, cause: .memberOnly))
            }
            return .success(.group(group))
        case .topic(let topic): return readableTopic(topic, by: session, in: step)
        }
    }

    /// Refuses a request. The client and the log are told a cause that the reason does not tell.
    ///
    /// - Parameter subject: what the request is about, for the log.
    mutating func refuse(
        _ connection: ConnectionID, request identifier: UInt64, _ reason: ReasonCode,
        cause: LimitName = .none, about subject: [UInt8] = [], in step: inout Step
    ) {
        counters.requestsRefused += 1
        if cause != .none, let session = session(of: connection) {
            note(
                .requestRefused, session: session, reason: reason, about: subject, limit: cause,
                in: &step)
        }
        step.effects[connection.loop].respond(
            to: connection, request: identifier, reason: reason, body: cause.text)
    }

    /// Answers a client with what the store has read.
    mutating func report(
        _ load: LoadedQueue, in blocks: [UInt8], to read: ClientHistoryRead, in step: inout Step
    ) {
        let connection = read.connection
        inspections.end(connection)
        commits.close(
            RequestKey(connection: connection, identifier: read.requestIdentifier))
        guard let session = session(of: connection) else { return }
        let (loop, user) = (connection.loop, sessions[session].user)
        let leaving = leavingNumbers(of: load.queue)
        let room = min(read.byteCountMaximum, CoreLimits.groupAnswerMaximum)
        var next = load.reachedEnd ? 0 : load.examinedThrough
        // The number of the next page takes at most nine bytes.
        var byteCount = 9
        let start = step.effects[loop].bytes.count
        for entry in load.entries where !leaving.contains(entry.number) {
            let isWithin = blocks.withUnsafeBytes { bytes in
                let block = MessageBlock(entry.block.bytes(in: bytes))
                workload.charge(read.search.work(in: block))
                guard read.search.matches(block) else { return true }
                byteCount +=
                    HistoryEntry.wireOverhead + (read.isTopic ? HistoryEntry.formOverhead : 0)
                    + block.sender.count + block.payload.count
                    + (read.wantsFields
                        ? HistoryEntry.fieldsOverhead + block.fieldsAndProperties.count : 0)
                guard byteCount <= room else { return false }
                step.effects[loop].bytes.append(block, number: entry.number)
                noteRead(block, by: user)
                return true
            }
            guard isWithin else {
                next = entry.number + 1
                break
            }
        }
        let entries = ByteRange(offset: start, count: step.effects[loop].bytes.count - start)
        workload.charge(Int(entries.count) / CoreLimits.answerBytesPerWork)
        if entries.isEmpty, next > load.examinedThrough {
            // The client would request the same page for ever.
            step.effects[loop].respond(
                to: connection, request: read.requestIdentifier, reason: .packetTooLarge)
            return
        }
        step.effects[loop].effects.append(
            .mrt(
                .reportHistory(
                    connection, requestIdentifier: read.requestIdentifier, next: next,
                    entries: entries, hasFields: read.wantsFields, isTopic: read.isTopic)))
    }
}

extension ByteArena {
    /// Appends a message as ``HistoryEntry/read(_:in:)`` reads it.
    mutating func append(_ block: MessageBlock, number: UInt64) {
        let head = mutableBytes(reserve(HistoryEntry.headByteCount))
        head.storeBytes(of: number.littleEndian, as: UInt64.self)
        head.storeBytes(
            of: UInt32(block.bytes.count).littleEndian, toByteOffset: 8, as: UInt32.self)
        _ = append(block.bytes)
    }
}
