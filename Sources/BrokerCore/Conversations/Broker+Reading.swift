// What the readers of a conversation have read: from where on they may read, up to which number
// they have read, and how many of the later messages are their own. Reading a page changes none of
// it: a reader tells what it has read.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Readers

    /// Lets a new member read what is kept from now on, and `shownCount` of the newest messages
    /// before.
    mutating func beginReading(
        _ user: Index<User>, _ group: Index<Group>, shownCount: UInt32
    ) {
        guard let index = conversationTable.find(.group(group)) else { return }
        let lastNumber = conversationTable.conversations[index].lastNumber
        guard lastNumber > 0 else { return }
        let reader = ConversationTable.Reader(conversation: index, user: user)
        let start = lastNumber.missing(from: UInt64(shownCount))
        conversationTable.set(ConversationTable.Reading(start: start), of: reader)
        commits.renew(row(of: reader))
        // If the newest messages are refused, only the row knows that their numbers are used.
        storeLastNumber(of: index)
    }

    /// Forgets a member.
    mutating func endReading(_ user: Index<User>, _ group: Index<Group>) {
        guard let index = conversationTable.find(.group(group)) else { return }
        remove(reader: ConversationTable.Reader(conversation: index, user: user))
    }

    /// Forgets a reader.
    mutating func remove(reader: ConversationTable.Reader) {
        let key = readerKey(reader)
        if conversationTable.remove(reader) { commits.remove(.readers, key: key) }
    }

    /// Counts a kept message for its sender, who has no need to read it.
    mutating func countOwn(
        _ user: Index<User>, in index: Index<KeptConversation>
    ) {
        let reader = ConversationTable.Reader(conversation: index, user: user)
        if mayRead(reader) { conversationTable.countOwn(of: reader) }
    }

    /// Whether a reader is one of the parties, so that it may have a row.
    func mayRead(_ reader: ConversationTable.Reader) -> Bool {
        switch conversationTable.conversations[reader.conversation].parties {
        case .group(let group): membership(of: reader.user, in: group) != nil
        case .users(let first, let second): reader.user == first || reader.user == second
        case .topic: false
        }
    }

    /// Writes the rows of the senders of kept messages into the pending batch: once for each,
    /// however many messages it has.
    mutating func writeChangedReaders() {
        for reader in conversationTable.takeChangedReaders() {
            commits.putWithSends(row(of: reader))
        }
    }

    // MARK: - Marks

    /// Notes that a user has read a conversation up to a number, or does not want to see it up to
    /// there. The answer waits until that is on disk.
    mutating func markRead(
        _ connection: ConnectionID, identifier: UInt64, _ request: ReadMarkRequest,
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
        guard !parties.isTopic else {
            return refuse(
                connection, request: identifier, .topicNameInvalid, cause: .topicMark,
                about: Array(request.party.name.bytes(in: step.bytes)), in: &step)
        }
        guard let index = conversationTable.find(parties),
            request.number <= conversationTable.conversations[index].lastNumber
        else {
            // A mark before the messages would hide them when they come.
            return refuse(
                connection, request: identifier, .topicNameInvalid, cause: .numberAhead,
                about: Array(request.party.name.bytes(in: step.bytes)), in: &step)
        }
        let reader = ConversationTable.Reader(conversation: index, user: user)
        begin(
            PendingMark(
                teller: .client(connection, requestIdentifier: identifier), reader: reader,
                number: request.number, hides: request.hides,
                start: conversationTable.reading(of: reader).readThrough),
            in: &step)
    }

    /// Sets a mark, now or when the store has been asked for own messages.
    mutating func begin(_ mark: PendingMark, in step: inout Step) {
        let reading = conversationTable.reading(of: mark.reader)
        let lastNumber = conversationTable.conversations[mark.reader.conversation].lastNumber
        if mark.number <= reading.readThrough, mark.hides {
            finish(mark, ownCount: reading.ownCount, in: &step)
        } else if mark.number <= reading.readThrough {
            answer(mark, .success, in: &step)
        } else if reading.ownCount == 0 || mark.number == lastNumber {
            finish(mark, ownCount: 0, in: &step)
        } else {
            guard commits.takesHistory,
                mark.teller.connection.map({ inspections.begin($0) }) ?? true
            else { return answer(mark, .serverBusy, in: &step) }
            if let key = mark.teller.request { commits.open(key) }
            countOwn(for: mark, before: mark.number + 1)
        }
    }

    /// Tells what became of a mark. A success is told when the pending batch is committed.
    private mutating func answer(
        _ mark: PendingMark, _ reason: ReasonCode, cause: LimitName = .none, in step: inout Step
    ) {
        switch mark.teller {
        case .operator(let number):
            if reason != .success { counters.requestsRefused += 1 }
            inspections.complete(number, with: MarkOutcome(reason: reason, cause: cause))
        case .client(let connection, let identifier):
            if reason == .success {
                respondAtCommit(to: connection, request: identifier, reason: reason, body: [])
            } else {
                refuse(connection, request: identifier, reason, cause: cause, in: &step)
            }
        }
    }

    /// Ends the reading of the store for a mark.
    private mutating func endCount(of mark: PendingMark) {
        if let connection = mark.teller.connection { inspections.end(connection) }
        if let key = mark.teller.request { commits.close(key) }
    }

    /// Asks the store for own messages that become read, from the mark down to what was read
    /// before.
    private mutating func countOwn(for mark: PendingMark, before number: UInt64) {
        _ = inspect(
            conversationTable.conversations[mark.reader.conversation].kept.queue,
            after: mark.start, before: number, countMaximum: CoreLimits.inspectionCountMaximum,
            for: .mark(mark))
    }

    /// Continues with what the store has read for a mark.
    mutating func take(
        _ load: LoadedQueue, in blocks: [UInt8], for mark: PendingMark, in step: inout Step
    ) {
        var mark = mark
        guard mark.teller.connection.map({ session(of: $0) != nil }) ?? true,
            case .conversation(mark.reader.conversation)? = owner(of: load.queue)
        else {
            endCount(of: mark)
            return answer(mark, .topicNameInvalid, cause: .unknownParty, in: &step)
        }
        guard mayRead(mark.reader) else {
            // The membership ended while the store counted.
            endCount(of: mark)
            return answer(mark, .notAuthorized, cause: .memberOnly, in: &step)
        }
        let user = registry.users[mark.reader.user].name
        for entry in load.entries {
            blocks.withUnsafeBytes { bytes in
                if user == MessageBlock(entry.block.bytes(in: bytes)).sender {
                    mark.ownCount += 1
                }
            }
        }
        guard load.reachedEnd else {
            return countOwn(for: mark, before: load.examinedThrough)
        }
        let reading = conversationTable.reading(of: mark.reader)
        if mark.number > reading.readThrough, mark.start != reading.readThrough {
            // Another device of the user was faster, and did not read as far.
            mark.start = reading.readThrough
            mark.ownCount = 0
            return countOwn(for: mark, before: mark.number + 1)
        }
        endCount(of: mark)
        if mark.number <= reading.readThrough, mark.hides {
            finish(mark, ownCount: reading.ownCount, in: &step)
        } else if mark.number <= reading.readThrough {
            answer(mark, .success, in: &step)
        } else {
            finish(mark, ownCount: reading.ownCount.missing(from: mark.ownCount), in: &step)
        }
    }

    /// Sets a mark, with the number of own messages after it.
    private mutating func finish(_ mark: PendingMark, ownCount: UInt64, in step: inout Step) {
        let isNew = !conversationTable.contains(mark.reader)
        var reading = conversationTable.reading(of: mark.reader)
        if mark.number > reading.readThrough {
            reading.mark = mark.number
            reading.ownCount = min(
                ownCount,
                conversationTable.conversations[mark.reader.conversation].lastNumber.missing(
                    from: mark.number))
        }
        if mark.hides { reading.start = max(reading.start, mark.number) }
        let growth = isNew ? row(of: mark.reader).pageByteCount : 0
        guard let permit = admitGrowth(of: growth) else {
            return answer(mark, .quotaExceeded, cause: commits.room.limit, in: &step)
        }
        conversationTable.set(reading, of: mark.reader)
        commits.put(row(of: mark.reader), permit)
        storeLastNumber(of: mark.reader.conversation)
        announceAtCommit(mark)
        answer(mark, .success, in: &step)
    }

    // MARK: - Rows

    private func row(of reader: ConversationTable.Reader) -> RecordChange {
        let reading = conversationTable.reading(of: reader)
        var row = RecordWriter(version: 1)
        row.write(reading.start)
        row.write(reading.mark)
        row.write(reading.ownCount)
        return RecordChange(table: .readers, key: readerKey(reader), value: row.bytes)
    }

    private func readerKey(_ reader: ConversationTable.Reader) -> [UInt8] {
        let queue = conversationTable.conversations[reader.conversation].kept.queue
        return RecordKey.number(queue.raw) + Array(registry.users[reader.user].name)
    }

    /// Restores one row. That of the conversation has been restored before; its messages have not.
    /// A row without its conversation, or of a user who is not a party, is removed: version 0.1
    /// wrote such a row if a member left while its mark was being counted.
    mutating func restoreReader(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .readers, key: key)
        let reading = ConversationTable.Reading(
            start: try row.readCounter(), mark: try row.readCounter(),
            ownCount: try row.readCounter())
        guard key.count > 8 else { throw .danglingRecord(.readers, key: key) }
        guard
            case .conversation(let index)? = owner(of: QueueID(raw: RecordKey.readNumber(key))),
            let user = user(
                named: Array(key[8...]), app: conversationTable.conversations[index].app)
        else { return commits.noteStray(.readers, key: key) }
        let reader = ConversationTable.Reader(conversation: index, user: user)
        guard mayRead(reader) else { return commits.noteStray(.readers, key: key) }
        conversationTable.set(reading, of: reader)
    }
}

/// A mark whose request has not been answered.
struct PendingMark {
    /// Who is told what became of it.
    enum Teller {
        case client(ConnectionID, requestIdentifier: UInt64)
        /// An operator, by the number under which ``Inspections`` keeps the outcome.
        case `operator`(UInt64)

        var connection: ConnectionID? {
            if case .client(let connection, _) = self { connection } else { nil }
        }

        var request: RequestKey? {
            guard case .client(let connection, let identifier) = self else { return nil }
            return RequestKey(connection: connection, identifier: identifier)
        }
    }

    let teller: Teller
    let reader: ConversationTable.Reader
    /// The reader has read all messages up to this number.
    let number: UInt64
    /// The reader does not want to see them again.
    let hides: Bool
    /// What the reader had read when the count began.
    var start: UInt64
    /// Messages of the reader itself that become read, as far as the store has been asked.
    var ownCount: UInt64 = 0
}
