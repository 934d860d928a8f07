// Tells the newest messages of conversations: the store reads one message of each with a batch, and
// the client gets all of them with one answer.

import BrokerTerms
import Primitives

/// One kept message, as the store has read it.
struct KeptMessage {
    let number: UInt64
    /// The message block.
    let block: [UInt8]
}

/// What a client asked for together with newest messages.
struct NewestRead {
    enum Answer {
        /// A page of conversations. The next one begins after the place `next`; 0 at the end.
        case conversations(after: UInt64, next: UInt64)
        /// What a group keeps.
        case group(Index<Group>)
    }

    let connection: ConnectionID
    let requestIdentifier: UInt64
    let user: Index<User>
    /// Bytes of the answer.
    let byteCountMaximum: Int
    let answer: Answer
    /// The queues of the conversations, in the order of the answer.
    let queues: [QueueID]
    /// Their newest messages, as far as the store has been read; nil for none.
    var messages: [KeptMessage?] = []

    var isComplete: Bool { messages.count == queues.count }
}

extension Broker {
    /// Asks the store for the newest message of each conversation.
    ///
    /// - Parameter read: has at least one conversation.
    mutating func readNewest(_ read: NewestRead, in step: inout Step) {
        let (connection, identifier) = (read.connection, read.requestIdentifier)
        // A client waits for one answer before it asks again, and all together for their share.
        guard commits.takesHistory, inspections.begin(connection) else {
            return refuse(connection, request: identifier, .serverBusy, in: &step)
        }
        commits.open(RequestKey(connection: connection, identifier: identifier))
        let list = inspections.add(read)
        for queue in read.queues {
            guard case .conversation(let index)? = owner(of: queue) else {
                preconditionFailure("queue \(queue.raw) is of no conversation")
            }
            let reader = ConversationTable.Reader(conversation: index, user: read.user)
            _ = inspect(
                queue, after: conversationTable.reading(of: reader).start, before: .max,
                countMaximum: 1, byteMaximum: CoreLimits.newestMessageBytes,
                for: .newest(list: list))
        }
    }

    /// Continues with what the store has read, and answers when it was the last message.
    mutating func take(
        _ load: LoadedQueue, in blocks: [UInt8], forList list: UInt64, in step: inout Step
    ) {
        var message: KeptMessage?
        if let entry = load.entries.first, !leavingNumbers(of: load.queue).contains(entry.number) {
            message = KeptMessage(
                number: entry.number,
                block: blocks.withUnsafeBytes { Array(entry.block.bytes(in: $0)) })
        }
        guard let read = inspections.complete(list: list, with: message) else { return }
        inspections.end(read.connection)
        commits.close(
            RequestKey(connection: read.connection, identifier: read.requestIdentifier))
        guard session(of: read.connection) != nil else { return }
        switch read.answer {
        case .conversations(let after, let next):
            report(read, after: after, next: next, in: &step)
        case .group(let group): report(read, of: group, in: &step)
        }
    }

    /// The conversation of a queue if the user still takes part in it.
    private func conversation(
        of queue: QueueID, for user: Index<User>
    ) -> Index<KeptConversation>? {
        guard case .conversation(let index)? = owner(of: queue),
            mayRead(ConversationTable.Reader(conversation: index, user: user))
        else { return nil }
        return index
    }

    private mutating func report(
        _ read: NewestRead, after: UInt64, next: UInt64, in step: inout Step
    ) {
        let loop = read.connection.loop
        let room = min(read.byteCountMaximum, CoreLimits.groupAnswerMaximum)
        let start = step.effects[loop].bytes.count
        // The place of the next page takes at most nine bytes.
        var (byteCount, next, last, isEmpty) = (9, next, after, true)
        for (queue, message) in zip(read.queues, read.messages) {
            guard let index = conversation(of: queue, for: read.user) else { continue }
            isEmpty = false
            let summary = summary(of: index, for: read.user)
            byteCount += ConversationEntry.wireOverhead + summary.name.count
            if let message {
                let block = message.block.withUnsafeBytes { MessageBlock($0).wireByteCount }
                byteCount += HistoryEntry.wireOverhead + block
            } else {
                byteCount += 1
            }
            guard byteCount <= room else {
                next = last
                break
            }
            step.effects[loop].bytes.append(summary, newest: NewestKept(message: message))
            if let message {
                message.block.withUnsafeBytes { noteRead(MessageBlock($0), by: read.user) }
            }
            last = summary.place
        }
        let entries = ByteRange(offset: start, count: step.effects[loop].bytes.count - start)
        workload.charge(Int(entries.count) / CoreLimits.answerBytesPerWork)
        if entries.isEmpty, !isEmpty {
            // The client would request the same page for ever.
            return refuse(
                read.connection, request: read.requestIdentifier, .packetTooLarge, in: &step)
        }
        step.effects[loop].effects.append(
            .mrt(
                .reportConversations(
                    read.connection, requestIdentifier: read.requestIdentifier, next: next,
                    entries: entries)))
    }

    private mutating func report(_ read: NewestRead, of group: Index<Group>, in step: inout Step) {
        let (connection, identifier) = (read.connection, read.requestIdentifier)
        guard let queue = read.queues.first, conversation(of: queue, for: read.user) != nil else {
            // The group has ended, or the membership.
            return refuse(connection, request: identifier, .notAuthorized, in: &step)
        }
        var report = GroupHistoryReport(
            history: groupTable.groups[group].history, lastNumber: lastNumber(ofGroup: group),
            wantsMessage: true)
        if let message = read.messages[0] {
            let loop = connection.loop
            let start = step.effects[loop].bytes.count
            let byteCount = message.block.withUnsafeBytes { bytes in
                let block = MessageBlock(bytes)
                step.effects[loop].bytes.append(block, number: message.number)
                noteRead(block, by: read.user)
                return block.wireByteCount
            }
            let fixed = GroupHistoryReport.wireOverhead + HistoryEntry.wireOverhead
            guard fixed + byteCount <= read.byteCountMaximum else {
                return refuse(connection, request: identifier, .packetTooLarge, in: &step)
            }
            report.newest = ByteRange(
                offset: start, count: step.effects[loop].bytes.count - start)
            workload.charge(Int(report.newest.count) / CoreLimits.answerBytesPerWork)
        }
        step.effects[connection.loop].effects.append(
            .mrt(.reportGroupHistory(connection, requestIdentifier: identifier, report)))
    }
}

extension GroupHistoryReport {
    /// Bytes that a report takes on the wire besides its newest message, at most.
    fileprivate static let wireOverhead = 1 + 5 + 9
}

extension MessageBlock {
    /// Bytes of the parts that an answer has.
    fileprivate var wireByteCount: Int { sender.count + payload.count }
}

/// The newest message of a conversation whose reader wants it.
struct NewestKept {
    /// Nil if there is none any more.
    let message: KeptMessage?
}
