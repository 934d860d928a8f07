// Shows the messages of a queue to an operator, and removes single ones. What is in a window is
// read from memory. The rest is on disk only: the store reads a bounded piece of it with a batch,
// as it loads a window, and changes nothing.
//
// A message that is removed is a gap in the numbers of its receiver, as an expired one is.

import Primitives

/// The queue that an operator selects.
public struct QueueSelection: Hashable, Sendable {
    public var app: [UInt8]
    public var user: [UInt8]
    /// The device whose session has the queue; nil for the user's offline queue.
    public var device: [UInt8]?

    public init(app: [UInt8], user: [UInt8], device: [UInt8]?) {
        self.app = app
        self.user = user
        self.device = device
    }
}

/// A message that is still in its queue.
private enum QueuedPlace {
    /// Only the store has it.
    case disk
    /// It is in the window and has not been sent.
    case window(position: Int)
    /// It was sent and is not acknowledged.
    case underWay
}

extension Broker {
    // MARK: - Looking

    /// Shows messages of a queue with higher numbers than `after`.
    ///
    /// - Parameters:
    ///   - countMaximum: at least 1; a page has at most ``CoreLimits/inspectionCountMaximum``, and
    ///     may have fewer, or none, before the end.
    ///   - contentMaximum: bytes of each message's content.
    /// - Returns: nil if there is no such user or session.
    public mutating func inspectQueue(
        _ selection: QueueSelection, after number: UInt64, countMaximum: Int, contentMaximum: Int
    ) -> QueueInspection? {
        guard let user = user(of: selection) else { return nil }
        let countMaximum = min(max(countMaximum, 1), CoreLimits.inspectionCountMaximum)
        guard let device = selection.device else {
            guard let index = registry.users[user].offlineQueue else {
                return .complete(QueuePage(messages: [], next: nil))
            }
            let queue = queues.offlineQueues[index]
            return .pending(
                number: inspect(
                    queue.queue, after: max(number, queue.acknowledgedThrough),
                    countMaximum: countMaximum, for: .page(contentMaximum: contentMaximum)))
        }
        guard let session = session(of: user, device: device) else { return nil }
        if let page = windowPage(
            session, after: number, countMaximum: countMaximum, contentMaximum: contentMaximum)
        {
            return .complete(page)
        }
        return .pending(
            number: inspect(
                sessions[session].inbox.queue, after: max(number, frontier(of: session)),
                sentThrough: numberSentThrough(by: session), countMaximum: countMaximum,
                for: .page(contentMaximum: contentMaximum)))
    }

    /// Removes and returns a page; nil if it is not complete.
    public mutating func takeInspection(_ number: UInt64) -> QueuePage? {
        inspections.takePage(number)
    }

    /// The messages of a window with higher numbers; nil if these are on disk only.
    private func windowPage(
        _ session: Index<Session>, after number: UInt64, countMaximum: Int, contentMaximum: Int
    ) -> QueuePage? {
        guard let connected = sessions[session].connected else { return nil }
        let hasBacklog = live.connectedSessions[connected].backlogCount > 0
        let count = live.connectedSessions[connected].window.count
        let start =
            number == .max
            ? count : live.connectedSessions[connected].position(notBefore: number + 1)
        guard start < count else {
            return hasBacklog ? nil : QueuePage(messages: [], next: nil)
        }
        var page = QueuePage(messages: [], next: nil)
        var byteCount = 0
        for position in start..<count {
            let entry = live.connectedSessions[connected].window[position]
            guard memory.messages[entry.message].fate != .takenBack else { continue }
            byteCount += Int(entry.byteCount)
            if page.messages.count == countMaximum
                || byteCount > CoreLimits.inspectionBytesMaximum && !page.messages.isEmpty
            {
                page.next = page.messages.last?.number
                return page
            }
            let isUnderWay =
                position < live.connectedSessions[connected].sentCount
                || entry.number <= numberSentThrough(by: session)
            page.messages.append(
                QueuedMessage(
                    MessageBlock(memory.messages[entry.message].block), number: entry.number,
                    state: entry.state, byteCount: entry.byteCount,
                    deadline: memory.messages[entry.message].deadline, isUnderWay: isUnderWay,
                    contentMaximum: contentMaximum))
        }
        page.next =
            hasBacklog ? live.connectedSessions[connected].window[count - 1].number : nil
        return page
    }

    // MARK: - Dropping

    /// Removes one message of a queue.
    ///
    /// - Returns: nil if there is no such user or session.
    public mutating func dropMessage(
        _ number: UInt64, of selection: QueueSelection, at moment: Moment, effects: inout Effects
    ) -> QueueDrop? {
        guard let user = user(of: selection) else { return nil }
        guard number > 0 else { return .absent }
        guard let device = selection.device else {
            guard let index = registry.users[user].offlineQueue else { return .absent }
            return .pending(
                number: inspect(
                    queues.offlineQueues[index].queue, after: number - 1, countMaximum: 1,
                    for: .drop(number)))
        }
        guard let session = session(of: user, device: device) else { return nil }
        var step = Step(at: moment, effects: effects)
        guard number <= frontier(of: session), sessions[session].isConnected else {
            return .pending(
                number: inspect(
                    sessions[session].inbox.queue, after: number - 1,
                    sentThrough: numberSentThrough(by: session), countMaximum: 1,
                    for: .drop(number)))
        }
        return dropFromWindow(number, of: session, in: &step)
    }

    /// Removes and returns what became of a message; nil if it is not decided.
    public mutating func takeDrop(_ number: UInt64) -> QueueDrop? { inspections.takeDrop(number) }

    private mutating func dropFromWindow(
        _ number: UInt64, of session: Index<Session>, in step: inout Step
    ) -> QueueDrop {
        switch place(of: number, session) {
        case nil, .disk: return .absent
        case .underWay: return .underWay
        case .window(let position):
            counters.discarded += 1
            drop(session, position, in: &step)
            pump(session, in: &step)
            return .dropped(batch: commits.pendingSequence)
        }
    }

    // MARK: - The store

    /// Asks the store for messages of a queue, and returns the number of the inspection.
    mutating func inspect(
        _ queue: QueueID, after number: UInt64, before end: UInt64? = nil,
        sentThrough: UInt64 = 0, countMaximum: Int,
        byteMaximum: Int = CoreLimits.inspectionBytesMaximum, for purpose: Inspections.Purpose
    ) -> UInt64 {
        let inspection = inspections.add(purpose)
        commits.load(
            LoadRequest(
                queue: queue, afterNumber: number, beforeNumber: end, sentThrough: sentThrough,
                countMaximum: countMaximum, byteMaximum: byteMaximum,
                isInspection: true),
            for: .inspection(inspection), expecting: countMaximum,
            byteCount: byteMaximum)
        return inspection
    }

    /// Takes what the store has read for operators. Windows have taken their loads, and expired
    /// entries are on their way out.
    mutating func takeInspections(_ result: borrowing StoreResult, in step: inout Step) {
        for index in 0..<result.loads.count {
            guard case .inspection(let number) = commits.inFlightBatch.loadOwners[index] else {
                continue
            }
            switch inspections.purpose(of: number) {
            case .page(let contentMaximum):
                let page = page(
                    result.loads[index], in: result.blocks, contentMaximum: contentMaximum)
                inspections.complete(number, with: page)
            case .drop(let wanted):
                var outcome = QueueDrop.absent
                if let entry = result.loads[index].entries.first, entry.number == wanted {
                    outcome = drop(entry, of: result.loads[index].queue, in: &step)
                }
                inspections.complete(number, with: outcome)
            case .history(let read):
                inspections.complete(
                    number, with: historyPage(result.loads[index], in: result.blocks, read))
            case .clientHistory(let read):
                inspections.end(number)
                report(result.loads[index], in: result.blocks, to: read, in: &step)
            case .mark(let mark):
                inspections.end(number)
                take(result.loads[index], in: result.blocks, for: mark, in: &step)
            case .newest(let list):
                inspections.end(number)
                take(result.loads[index], in: result.blocks, forList: list, in: &step)
            }
        }
    }

    private func page(
        _ load: LoadedQueue, in blocks: [UInt8], contentMaximum: Int
    ) -> QueuePage {
        var page = QueuePage(messages: [], next: load.reachedEnd ? nil : load.examinedThrough)
        let leaving = leavingNumbers(of: load.queue)
        for entry in load.entries where !leaving.contains(entry.number) {
            guard let place = place(of: entry, in: load.queue) else { continue }
            var isUnderWay = false
            if case .underWay = place { isUnderWay = true }
            let message = blocks.withUnsafeBytes {
                QueuedMessage(
                    MessageBlock(entry.block.bytes(in: $0)), number: entry.number,
                    state: entry.state, byteCount: entry.byteCount, deadline: entry.deadline,
                    isUnderWay: isUnderWay, contentMaximum: contentMaximum)
            }
            page.messages.append(message)
        }
        return page
    }

    private mutating func drop(
        _ entry: LoadedEntry, of queue: QueueID, in step: inout Step
    ) -> QueueDrop {
        if leavingNumbers(of: queue).contains(entry.number) { return .absent }
        switch place(of: entry, in: queue) {
        case nil: return .absent
        case .underWay: return .underWay
        case .window:
            guard case .session(let session)? = owner(of: queue) else { return .absent }
            return dropFromWindow(entry.number, of: session, in: &step)
        case .disk:
            countOut(QueueTally(queue: queue, count: 1, byteCount: UInt64(entry.byteCount)))
            if case .conversation(let conversation)? = owner(of: queue) {
                storeLastNumber(of: conversation)
            } else {
                counters.discarded += 1
            }
            commits.remove(entry.number, from: queue)
            return .dropped(batch: commits.pendingSequence)
        }
    }

    /// The place of an entry that the store has read; nil if it has left the queue meanwhile, or
    /// if the queue is being moved.
    private func place(of entry: LoadedEntry, in queue: QueueID) -> QueuedPlace? {
        switch owner(of: queue) {
        case .session(let session)?:
            guard let place = place(of: entry.number, session) else { return nil }
            guard case .disk = place else { return place }
            let isUnderWay =
                entry.state.options.contains(.received)
                || entry.state.lasts(entry.number, sentThrough: numberSentThrough(by: session))
            return isUnderWay ? .underWay : .disk
        case .offlineQueue(let user)?:
            let queue = queues.offlineQueues[offlineQueueIndex(of: user)]
            return entry.number > queue.acknowledgedThrough ? .disk : nil
        case .conversation?: return .disk
        case .inherited, .leftover, nil: return nil
        }
    }

    /// The place of a number of a session's queue, as far as memory tells: a number that is not in
    /// the window may be on disk.
    private func place(of number: UInt64, _ session: Index<Session>) -> QueuedPlace? {
        guard number > sessions[session].inbox.acknowledgedThrough else { return nil }
        guard let connected = sessions[session].connected,
            number <= live.connectedSessions[connected].loadedThrough
        else { return .disk }
        guard let position = live.connectedSessions[connected].position(of: number),
            memory.messages[live.connectedSessions[connected].window[position].message].fate
                != .takenBack
        else { return nil }
        // Its packet identifier is in use if it was sent before.
        let isUnderWay =
            position < live.connectedSessions[connected].sentCount
            || number <= numberSentThrough(by: session)
        return isUnderWay ? .underWay : .window(position: position)
    }

    /// Entries that the pending batch takes out of a queue. They have been subtracted already.
    func leavingNumbers(of queue: QueueID) -> Set<UInt64> {
        var numbers: Set<UInt64> = []
        for removal in commits.pendingBatch.removals where removal.queue == queue {
            numbers.insert(removal.number)
        }
        for move in commits.pendingBatch.moves where move.queue == queue {
            numbers.insert(move.number)
        }
        return numbers
    }

    // MARK: - Selecting

    private func user(of selection: QueueSelection) -> Index<User>? {
        app(named: selection.app).flatMap { user(named: selection.user, app: $0) }
    }

    private func session(of user: Index<User>, device: [UInt8]) -> Index<Session>? {
        var found: Index<Session>?
        forEachSession(of: user) { if sessions[$0].device == device { found = $0 } }
        return found
    }
}

extension QueuedMessage {
    init(
        _ block: MessageBlock, number: UInt64, state: EntryState, byteCount: UInt32,
        deadline: Instant, isUnderWay: Bool, contentMaximum: Int
    ) {
        // Messages of users that are not arbitrary bytes begin with their type.
        let hasType: Bool
        switch block.kind {
        case .topic, .unicast, .group, .broadcast: hasType = !block.marks.contains(.raw)
        case .kicked, .groupEvent, .presence, .receipt, .recall, .update, .brokerEvent:
            hasType = false
        }
        let content = hasType ? block.payload.dropFirst() : block.payload[...]
        self.init(
            number: number, grade: state.grade, kind: block.kind, sender: Array(block.sender),
            address: Array(block.address), type: hasType ? block.payload.first : nil,
            content: Array(content.prefix(contentMaximum)), contentByteCount: content.count,
            byteCount: byteCount, unixMilliseconds: block.time, deadline: deadline,
            isUnderWay: isUnderWay)
        if block.hasFieldsOrProperties {
            fields = MessageFields(of: block)
            properties = Array(block.properties)
        }
    }
}
