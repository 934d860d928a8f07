// Withdrawals: finds the copies of a message, in the windows of connected sessions and in the
// queues of the store, and takes them out unless they may have been sent. A receiver with a copy
// that was taken out, and with none that may have been sent, never had the message.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - What is decided at once

    /// Decides what happens to the copies of a message from now on, in memory and when they are
    /// loaded.
    mutating func decide(_ fate: MessageFate, of index: Index<TrackedSend>) {
        if let message = messageInMemory(of: index) { memory.decide(fate, of: message) }
        switch fate {
        case .held: tracking.decide(.held, of: index)
        case .recalled: tracking.decide(.recalled, of: index)
        case .delivered, .takenBack: tracking.decide(nil, of: index)
        }
    }

    /// The message of a send, if it is in memory and can be found.
    func messageInMemory(of index: Index<TrackedSend>) -> Index<Message>? {
        let batch = tracking.sends[index].batch
        if batch == commits.pendingSequence
            || commits.isCommitting && batch == commits.inFlightBatch.sequence
        {
            return tracking.sends[index].message
        }
        let stored = tracking.sends[index].stored
        return stored == 0 ? nil : memory.residentMessages[stored]
    }

    /// Gives the messages of the pending batch their ids, if rows contain them.
    mutating func identifyMessages() {
        for message in commits.pendingBatch.messages
        where memory.messages[message].pendingEntries > 0 {
            memory.store(message, as: commits.identifiers.makeMessageIdentifier())
        }
    }

    /// Notes the id of the message that the pending batch stores for a send.
    mutating func identify(_ index: Index<TrackedSend>) {
        guard tracking.sends[index].batch == commits.pendingSequence,
            let message = tracking.sends[index].message
        else { return }
        tracking.identify(index, as: memory.messages[message].identifier)
    }

    /// Gives the withdrawals of the pending batch the ids of their messages.
    mutating func identifyWithdrawals() {
        for position in commits.pendingBatch.revising.withdrawals.indices {
            let revision = commits.pendingBatch.revising.withdrawals[position].revision
            guard tracking.revisions.contains(revision) else { continue }
            let send = tracking.revisions[revision.index].send
            commits.identify(
                withdrawal: position,
                as: StoredMessageID(raw: tracking.sends[send].stored))
        }
    }

    // MARK: - Loads

    /// Whether a loaded entry does not enter the window, because its message is recalled.
    mutating func takesRevised(
        _ entry: LoadedEntry, into connected: Index<ConnectedSession>
    ) -> Bool {
        guard case .recalled? = tracking.fate(ofStored: entry.message.raw) else { return false }
        let session = live.connectedSessions[connected].session
        guard entry.number > sessions[session].sentThrough,
            entry.state.options.isDisjoint(with: [.sentBefore, .received]),
            let send = tracking.revised[entry.message.raw],
            !tracking.stays(send, of: sessions[session].user)
        else { return false }
        live.connectedSessions[connected].noteRead(entry.number)
        countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
        commits.remove(entry.number, from: sessions[session].inbox.queue)
        noteWithdrawn(stored: entry.message.raw, of: sessions[session].user)
        return true
    }

    /// Decides what happens to a message that was loaded.
    mutating func decideFate(of message: Index<Message>, loaded entry: LoadedEntry) {
        switch tracking.fate(ofStored: entry.message.raw) {
        case nil: break
        case .held?: memory.decide(.held, of: message)
        case .recalled?: memory.decide(.recalled, of: message)
        case .replaced(let block, _)?:
            let stamp = makeUnmeasuredStamp()
            memory.replace(message, block: block, stamp: stamp)
        }
    }

    /// Notes that a copy was taken out before its receiver had its turn.
    mutating func noteWithdrawn(_ message: Index<Message>, of session: Index<Session>) {
        guard let index = tracked(message), let revision = tracking.sends[index].revision else {
            return
        }
        counters.copiesWithdrawn += 1
        tracking.revisions[revision].early.insert(sessions[session].user)
    }

    private mutating func noteWithdrawn(stored: UInt64, of user: Index<User>) {
        counters.copiesWithdrawn += 1
        guard let index = tracking.revised[stored],
            let revision = tracking.sends[index].revision
        else { return }
        tracking.revisions[revision].early.insert(user)
    }

    // MARK: - One piece

    /// Takes the message from the next receivers. The result follows the commit.
    mutating func withdrawPiece(of index: Index<Revision>, in step: inout Step) {
        guard commits.takesWithdrawals else {
            // The store's time is for all: the piece is a part of a later batch.
            tracking.revisions[index].phase = .queued
            return commits.continueAtCommit(tracking.revisions.handle(index))
        }
        let start = tracking.revisions[index].next
        let end = min(
            start + CoreLimits.revisionUsersPerStepMaximum, tracking.revisions[index].users.count)
        tracking.revisions[index].phase = .removing
        tracking.revisions[index].next = end
        tracking.revisions[index].piece = tracking.revisions[index].users[start..<end].map {
            Revision.Receiver(user: $0)
        }
        for position in 0..<(end - start) {
            withdraw(from: position, of: index, in: &step)
        }
        commits.continueAtCommit(tracking.revisions.handle(index))
    }

    private mutating func withdraw(
        from position: Int, of index: Index<Revision>, in step: inout Step
    ) {
        let user = tracking.revisions[index].piece[position].user
        let send = tracking.revisions[index].send
        if isKnownSent(send, to: user) { tracking.revisions[index].piece[position].isSent = true }
        var next = registry.users[user].firstSession
        while let session = next {
            next = sessions[session].nextOfUser
            workload.charge(1)
            withdraw(from: session, position, of: index, in: &step)
        }
        workload.charge(1)
        guard let offlineQueue = registry.users[user].offlineQueue else { return }
        let inbox = queues.offlineQueues[offlineQueue]
        guard inbox.count > 0 || commits.awaitsArrivals(in: inbox.queue) else { return }
        withdraw(
            from: inbox.queue,
            after: max(inbox.acknowledgedThrough, queues.sentThrough[inbox.queue.raw] ?? 0),
            position, of: index)
    }

    /// Whether a device of a user may have been sent a message, as far as it was noted.
    func isKnownSent(_ send: Index<TrackedSend>, to user: Index<User>) -> Bool {
        let known: TrackedSend.Facts = [.sent, .delivered, .applied]
        if let receiver = tracking.sends[send].receivers.first(where: { $0.user == user }),
            !receiver.facts.isDisjoint(with: known)
        {
            return true
        }
        if let member = tracking.sends[send].members[user], !member.isDisjoint(with: known) {
            return true
        }
        return tracking.sends[send].marks.contains(.isSentUnknown)
    }

    private mutating func withdraw(
        from session: Index<Session>, _ position: Int, of index: Index<Revision>,
        in step: inout Step
    ) {
        let send = tracking.revisions[index].send
        if let connected = sessions[session].connected,
            let place = windowPosition(of: send, connected)
        {
            let entry = live.connectedSessions[connected].window[place]
            if place < live.connectedSessions[connected].sentCount || mayBeSent(entry, session) {
                tracking.revisions[index].piece[position].isSent = true
                return
            }
            tracking.revisions[index].piece[position].isFound = true
            guard !tracking.revisions[index].keepsCopies else {
                return takeContent(of: index, entry.message)
            }
            counters.copiesWithdrawn += 1
            drop(session, place, in: &step)
            pump(session, in: &step)
            return
        }
        guard sessions[session].isPersistent else { return }
        let inbox = sessions[session].inbox
        var sentThrough = max(inbox.acknowledgedThrough, sessions[session].sentThrough)
        var waits = inbox.count > 0
        if let connected = sessions[session].connected {
            sentThrough = max(sentThrough, live.connectedSessions[connected].sentThrough)
            waits = live.connectedSessions[connected].backlogCount > 0
        }
        guard waits || commits.awaitsArrivals(in: inbox.queue) else { return }
        withdraw(from: inbox.queue, after: sentThrough, position, of: index)
    }

    private mutating func withdraw(
        from queue: QueueID, after number: UInt64, _ position: Int?, of index: Index<Revision>
    ) {
        commits.withdraw(
            PendingWithdrawal(
                withdrawal: EntryWithdrawal(
                    queue: queue, message: StoredMessageID(raw: 0), afterNumber: number,
                    isProbe: tracking.revisions[index].keepsCopies),
                revision: tracking.revisions.handle(index), position: position))
    }

    /// The position of a message in a window: of the same stored message, or of the same message
    /// in memory.
    private mutating func windowPosition(
        of send: Index<TrackedSend>, _ connected: Index<ConnectedSession>
    ) -> Int? {
        let (stored, stamp) = (tracking.sends[send].stored, tracking.sends[send].stamp)
        let known = messageInMemory(of: send)
        let window = live.connectedSessions[connected].window.count
        workload.charge(window / CoreLimits.looksPerWork)
        for position in 0..<window {
            let message = live.connectedSessions[connected].window[position].message
            if message == known { return position }
            guard memory.messages[message].hasFields else { continue }
            if stored != 0 && memory.messages[message].identifier == stored
                || stamp != 0 && memory.messages[message].stamp == stamp
                || isMessage(message, of: send)
            {
                return position
            }
        }
        return nil
    }

    private func isMessage(_ message: Index<Message>, of send: Index<TrackedSend>) -> Bool {
        let block = MessageBlock(memory.messages[message].block)
        return block.kind != .recall && block.kind != .update
            && MessageFields(of: block).reference == tracking.sends[send].reference
    }

    /// Gives a message that is in memory only its new content.
    private mutating func takeContent(of index: Index<Revision>, _ message: Index<Message>) {
        let send = tracking.revisions[index].send
        let stamp = tracking.sends[send].stamp
        guard memory.messages[message].stamp != stamp, memory.messages[message].identifier == 0
        else { return }
        let block = block(of: send, content: tracking.revisions[index].content)
        memory.replace(message, block: block, stamp: stamp)
    }

    /// Removes a recalled message from the conversations that keep it.
    mutating func withdrawFromHistory(_ index: Index<Revision>) {
        guard case .recall = tracking.revisions[index].kind else { return }
        let send = tracking.sends[tracking.revisions[index].send]
        var parties: [ConversationParties] = []
        if send.targetKind == .group {
            let group = send.address.withUnsafeBytes {
                registry.apps[send.app].groups.value(for: $0)
            }
            if let group { parties = [.group(group)] }
        } else {
            parties = send.receivers.map { .users(of: send.sender, and: $0.user) }
        }
        for parties in parties {
            guard let conversation = conversationTable.find(parties) else { continue }
            // With the newest message the store forgets its number, which must not be used again.
            storeLastNumber(of: conversation)
            withdraw(
                from: conversationTable.conversations[conversation].kept.queue, after: 0, nil,
                of: index)
        }
    }

    // MARK: - Results

    /// Subtracts the entries that withdrawals have taken out.
    mutating func countOut(withdrawn result: borrowing StoreResult) {
        precondition(
            result.withdrawn.count == commits.inFlightBatch.revising.withdrawals.count,
            "\(result.withdrawn.count) answers to "
                + "\(commits.inFlightBatch.revising.withdrawals.count) withdrawals")
        for position in 0..<result.withdrawn.count {
            let outcome = result.withdrawn[position]
            let pending = commits.inFlightBatch.revising.withdrawals[position]
            if outcome.state == .found, !pending.withdrawal.isProbe {
                counters.copiesWithdrawn += 1
                countOut(
                    QueueTally(
                        queue: pending.withdrawal.queue, count: 1,
                        byteCount: UInt64(outcome.byteCount)))
                if !wakes.isEmpty { noteFewerWaiting(in: pending.withdrawal.queue) }
            }
            guard tracking.revisions.contains(pending.revision), let place = pending.position
            else { continue }
            let index = pending.revision.index
            switch outcome.state {
            case .absent: break
            case .sent: tracking.revisions[index].piece[place].isSent = true
            case .found: tracking.revisions[index].piece[place].isFound = true
            }
        }
    }

    /// Continues the recalls, replacements and collapses that waited for a commit.
    mutating func continueRevisions(
        _ result: borrowing StoreResult, in step: inout Step
    ) {
        for handle in commits.inFlightBatch.revising.revisions
        where tracking.revisions.contains(handle) {
            let index = handle.index
            switch tracking.revisions[index].phase {
            case .awaiting: continueCollapse(index, isStored: result.refusal == nil, in: &step)
            case .queued: withdrawPiece(of: index, in: &step)
            case .removing: finishPiece(of: index, in: &step)
            case .telling where result.refusal != nil: tellLater(index, at: step.moment)
            case .telling: advance(index, in: &step)
            case .waiting: break
            }
        }
    }

    /// Counts the receivers of a piece whose withdrawals are committed.
    private mutating func finishPiece(of index: Index<Revision>, in step: inout Step) {
        let send = tracking.revisions[index].send
        if case .replaced(_, let batch)? = tracking.sends[send].fate,
            batch <= commits.inFlightBatch.sequence
        {
            // The store has the new content.
            tracking.decide(nil, of: send)
        }
        let isGroup = tracking.sends[send].targetKind == .group
        let sender = tracking.sends[send].sender
        var late: [Index<User>] = []
        for receiver in tracking.revisions[index].piece where !isGroup || receiver.user != sender {
            // What an earlier attempt withdrew is not found again.
            let isEarly =
                tracking.revisions[index].early.contains(receiver.user)
                || !tracking.revisions[index].keepsCopies
                    && tracking.isWithdrawn(send, of: receiver.user)
            // A device may have read it meanwhile in the history.
            let isSent = receiver.isSent || isKnownSent(send, to: receiver.user)
            if !isSent && (receiver.isFound || isEarly) {
                tracking.revisions[index].withdrawnCount += 1
                if !tracking.revisions[index].keepsCopies {
                    tracking.noteWithdrawn(send, of: receiver.user)
                }
                continue
            }
            tracking.revisions[index].lateCount += 1
            late.append(receiver.user)
            if tracking.revisions[index].namesLate,
                tracking.revisions[index].names.count < CoreLimits.lateNamesMaximum
            {
                tracking.revisions[index].names.append(Array(registry.users[receiver.user].name))
            }
        }
        tracking.revisions[index].piece = []
        tracking.revisions[index].late = tracking.revisions[index].tells ? late : []
        if tracking.revisions[index].late.isEmpty {
            advance(index, in: &step)
        } else {
            tell(index, in: &step)
        }
    }

    /// Continues with the next piece, or ends.
    private mutating func advance(_ index: Index<Revision>, in step: inout Step) {
        tracking.revisions[index].late = []
        guard tracking.revisions[index].next < tracking.revisions[index].users.count else {
            guard !tracking.revisions[index].untold.isEmpty,
                messageDeadline(of: tracking.revisions[index].send) > step.moment.instant
            else { return complete(index, in: &step) }
            let untold = tracking.revisions[index].untold
            (tracking.revisions[index].late, tracking.revisions[index].untold) = (untold, [])
            return tellLater(index, at: step.moment)
        }
        // The next piece follows at once, between events.
        wait(index, until: step.moment.instant)
    }

    /// Continues at a time.
    mutating func wait(_ index: Index<Revision>, until time: Instant) {
        tracking.revisions[index].phase = .waiting
        tracking.revisions[index].token = deadlines.insert(.revision(index), at: time)
    }

    /// Takes the next turn of a recall, a replacement or a collapse.
    mutating func continueRevision(_ index: Index<Revision>, in step: inout Step) {
        tracking.revisions[index].token = .none
        if tracking.revisions[index].late.isEmpty {
            withdrawPiece(of: index, in: &step)
        } else {
            tell(index, in: &step)
        }
    }
}
