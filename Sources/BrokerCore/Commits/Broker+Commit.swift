// Hands batches to the store and takes their results. A batch is handed over as soon as the store
// is free. Changes that come while one batch is being committed are added to the next. There is no
// other delay.

import Primitives

extension Broker {
    /// Whether the store may be given a batch now.
    public var hasBatch: Bool { !commits.isCommitting && commits.pendingBatch.isDue }

    /// Whether the pending batch has nothing that must be stored.
    public func isIdle(_ sequence: UInt64) -> Bool {
        commits.pendingSequence == sequence && !commits.pendingBatch.isDue
    }

    /// Closes the pending batch and writes it out for the store. Its result comes back through
    /// ``stored(_:at:effects:)``; until then there is no other.
    ///
    /// - Returns: false when there is nothing to store or a batch is under way.
    public mutating func takeBatch(into batch: inout StoreBatch, at moment: Moment) -> Bool {
        guard hasBatch else { return false }
        batch.removeAll()
        batch.sequence = commits.pendingSequence
        if mustDeadlinesWait { commits.awaitNextBatch() }
        batch.moment = moment
        settleReceivers()
        writeDirtySessions()
        if conversationTable.hasChangedReaders { writeChangedReaders() }
        if conversationTable.hasNews { announceNewsAtCommit() }
        if !tracking.changed.isEmpty { writeChangedTracked() }
        if commits.pendingBatch.revising.changeCount > 0 { identifyWithdrawals() }
        commits.handOver()
        requestWaitingLoads()
        writeMessages(to: &batch)
        writeEntries(to: &batch)
        for trim in commits.inFlightBatch.trims {
            batch.trims.append(
                QueueTrim(
                    queue: trim.queue, afterNumber: frontier(of: trim.queue),
                    count: trim.amount.count, byteCount: trim.amount.byteCount))
        }
        commits.write(to: &batch)
        return true
    }

    /// Takes the result of the batch that was handed over last.
    public mutating func stored(
        _ result: borrowing StoreResult, at moment: Moment, effects: inout Effects
    ) {
        var step = Step(at: moment, effects: effects)
        commits.take(result)
        let start = work + effects.work
        let storedLoops = result.refusal == nil ? effects.storedLoops : 0
        defer { workload.chargeNextTurn(work + effects.work - start) }
        counters.batchesCommitted += 1
        if result.refusal != nil {
            counters.batchesRefused += 1
            takeBackSends(in: &step)
            takeBackImports()
        }
        settleMessages(isStored: result.refusal == nil, in: &step)
        if !tracking.superseded.isEmpty { finishSuperseded() }
        if sendKeys.awaitsCommit {
            settleKeys(batch: result.sequence, isStored: result.refusal == nil)
        }
        if wakes.awaitsCommit {
            wakes.settleRows(batch: result.sequence, isStored: result.refusal == nil)
        }
        settleWills(isStored: result.refusal == nil, at: step.moment)
        if !commits.inFlightBatch.repeats.isEmpty {
            settleRepeats(isStored: result.refusal == nil, in: &step)
        }
        completeHandovers(isStored: result.refusal == nil, in: &step)
        for reservation in commits.inFlightBatch.reservations
        where sessions.contains(reservation.session) {
            let session = reservation.session.index
            sessions[session].reservedThrough = reservation.through
            if sessions[session].isConnected {
                commits.deliverWithResult(
                    to: live.connectedSessions.handle(connectedIndex(of: session)))
            }
        }
        confirm(in: &step)
        settleQueues(result, in: &step)
        if result.isUnfinished { commits.commitSoon() }
        if !commits.inFlightBatch.revising.isEmpty { continueRevisions(result, in: &step) }
        effects.noteStored(storedLoops)
        commits.releaseDeliveries()
        // Entries that the store refused leave the windows at once.
        let end = result.refusal == nil ? start + limits.turnWorkMaximum : Int.max
        deliverWaiting(untilWork: end, effects, in: &step)
        commits.finishResult()
        // Entries that were taken back have left windows, and nothing else serves these windows.
        if result.refusal != nil { resumeReplays(in: &step) }
        scheduleHousekeeping(at: step.moment)
    }

    /// Whether deliveries that waited for a commit are still to be made.
    public var hasWaitingDeliveries: Bool { commits.hasWaitingDeliveries }

    /// Delivers to the sessions that waited for a commit, in their order, up to the work of one
    /// turn. The next turn continues at once: ten thousand sessions with full windows take a third
    /// of a second.
    mutating func deliverWaiting(
        untilWork end: Int, _ effects: borrowing Effects, in step: inout Step
    ) {
        while commits.hasWaitingDeliveries, work + effects.work < end {
            let connected = commits.nextDelivery()
            workload.charge(1)
            // A connected session that has ended needs no delivery.
            guard live.connectedSessions.contains(connected) else { continue }
            pump(live.connectedSessions[connected.index].session, in: &step)
        }
        if commits.hasWaitingDeliveries { deadlines.insertDeliveries(at: step.moment.instant) }
    }

    // MARK: - Handing over

    /// Puts a message into the pending batch, if it is not there.
    mutating func attachToBatch(_ message: Index<Message>) {
        guard memory.join(commits.pendingSequence, message) else { return }
        commits.store(message: message, byteCount: memory.messages[message].blockByteCount)
    }

    private mutating func writeMessages(to batch: inout StoreBatch) {
        for message in commits.inFlightBatch.messages
        where memory.messages[message].pendingEntries > 0 {
            if memory.messages[message].identifier == 0 {
                memory.store(message, as: commits.identifiers.makeMessageIdentifier())
            }
            let range = ByteRange(
                offset: batch.blocks.count, count: memory.messages[message].blockByteCount)
            batch.blocks.append(contentsOf: memory.messages[message].block)
            batch.messages.append(
                MessagePut(
                    id: StoredMessageID(raw: memory.messages[message].identifier),
                    receiverCount: memory.messages[message].pendingEntries, block: range))
        }
        counters.messagesStored += UInt64(batch.messages.count)
    }

    private mutating func writeEntries(to batch: inout StoreBatch) {
        let historyEnd = batch.moment.instant.advanced(bySeconds: limits.historyAgeSecondsMaximum)
        for entry in commits.inFlightBatch.entries where !entry.isSettled {
            batch.entries.append(
                EntryPut(
                    queue: entry.queue, number: entry.number,
                    message: StoredMessageID(raw: memory.messages[entry.message].identifier),
                    deadline: entry.state.options.contains(.kept)
                        ? historyEnd : memory.messages[entry.message].deadline,
                    byteCount: entry.byteCount, state: entry.state))
        }
        counters.entriesStored += UInt64(batch.entries.count)
    }

    // MARK: - Taking the result

    /// Reports the results of the messages of the batch, which are stored or were taken back.
    private mutating func settleMessages(isStored: Bool, in step: inout Step) {
        if isStored {
            for (message, subscriber, isRetained) in commits.inFlightBatch.lateDeliveries
            where session(of: subscriber.connection) != nil {
                deliverTransiently(message, to: subscriber, isRetained, in: &step)
            }
        }
        for message in commits.inFlightBatch.messages {
            if memory.leaveBatch(message, isStored: isStored) {
                completeIfSettled(message, in: &step)
            }
            if isStored { memory.makeResident(message) }
            memory.release(message)
        }
    }

    /// The store had no room. Each entry of the batch that is not acknowledged counts as a refused
    /// receiver. One that was sent to its receiver stays in the window until the acknowledgement or
    /// the end of the connection. A send of grade *once* is taken back as a whole: it was not
    /// delivered, and its record is not in the store.
    private mutating func takeBackSends(in step: inout Step) {
        for entry in commits.inFlightBatch.entries where !entry.isSettled {
            takeBack(entry, in: &step)
        }
        if !tracking.superseded.isEmpty { takeBackSuperseded() }
        for message in commits.inFlightBatch.messages where memory.messages[message].awaitsRow {
            // Rows are stored also if messages are refused.
            memory.take(message)
        }
        for message in commits.inFlightBatch.messages
        where memory.messages[message].awaitsTracking {
            memory.endTracking(of: message)
        }
        for message in commits.inFlightBatch.messages where memory.messages[message].grade == .once
        {
            memory.withdraw(message)
            // In MQTT each send has a row of its own, which was refused with it.
            if let (sender, _) = outboxEntry(of: message), !sessions[sender].dialect.isMQTT {
                markDirty(sender, .outbox, isUrgent: false)
            }
        }
    }

    private mutating func takeBack(_ entry: PendingEntry, in step: inout Step) {
        switch owner(of: entry.queue) {
        case .session(let session)?:
            takeBack(entry, session, in: &step)
        case .offlineQueue(let user)?:
            noteTakenBack(user: user, device: nil, in: &step)
            queues.countOut(
                offlineQueue: offlineQueueIndex(of: user), count: 1,
                byteCount: UInt64(entry.byteCount))
            refuseReceiver(of: entry.message)
        case .inherited?:
            countOut(
                QueueTally(queue: entry.queue, count: 1, byteCount: UInt64(entry.byteCount)))
            refuseReceiver(of: entry.message)
        case .conversation(let conversation)?:
            countOut(
                conversation: conversation,
                QueueTally(queue: entry.queue, count: 1, byteCount: UInt64(entry.byteCount)))
            refuseReceiver(of: entry.message)
        case .leftover?, nil:
            // The session of an entry has ended meanwhile. If another session of the share could
            // have got the entry, it counts as refused; other entries have no receiver any more.
            if entry.state.options.contains(.shared) || !entry.state.options.contains(.ownOnly) {
                refuseReceiver(of: entry.message)
            } else {
                memory.dropReceiver(of: entry.message)
            }
        }
    }

    private mutating func takeBack(
        _ entry: PendingEntry, _ session: Index<Session>, in step: inout Step
    ) {
        if let connected = sessions[session].connected,
            let position = live.connectedSessions[connected].position(of: entry.number)
        {
            if position < live.connectedSessions[connected].sentCount {
                // The sender does not wait for the acknowledgement: the broker may read nothing
                // from a sender with too many unanswered sends, and the receiver may be one.
                live.connectedSessions[connected].noteUnstored(at: position)
                memory.noteDoubt(about: entry.message)
                refuseReceiver(of: entry.message)
                return
            }
            let taken = live.connectedSessions[connected].remove(at: position)
            countOut(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            memory.release(taken.message)
        } else {
            countOutBacklog(session: session, count: 1, byteCount: UInt64(entry.byteCount))
            let resumedThrough = tracking.resumed.isEmpty ? 0 : tracking.resumed[session] ?? 0
            if entry.number <= max(sessions[session].inbox.acknowledgedThrough, resumedThrough) {
                if memory.messages[entry.message].hasFields {
                    noteDelivered(entry.message, by: session, in: &step)
                }
                // The session has connected again, and its client has said that it has the message.
                memory.take(entry.message)
                return
            }
            // Whether a connection that has ended delivered it is not known.
            if !sessions[session].isConnected {
                memory.noteDoubt(about: entry.message)
            }
        }
        sessions[session].inbox.overflowCount += 1
        noteTakenBack(
            user: sessions[session].user, device: sessions[session].device, in: &step)
        refuseReceiver(of: entry.message)
    }

    /// Counts a receiver that does not get the message.
    mutating func refuseReceiver(of message: Index<Message>) {
        memory.refuse(message)
        counters.receiversRefused += 1
    }

    private mutating func confirm(in step: inout Step) {
        for confirmation in commits.inFlightBatch.confirmations {
            switch confirmation {
            case .accept(let connection):
                guard let session = session(of: connection) else { continue }
                accept(session, in: &step)
            case .respond(let connection, let identifier, let reason, let body):
                commits.close(
                    RequestKey(connection: connection, identifier: identifier))
                guard session(of: connection) != nil else { continue }
                step.effects[connection.loop].respond(
                    to: connection, request: identifier, reason: reason, body: body)
            case .reportRecall(let connection, let identifier, let answer):
                commits.close(
                    RequestKey(connection: connection, identifier: identifier))
                guard session(of: connection) != nil else { continue }
                step.effects[connection.loop].reportRecall(
                    to: connection, request: identifier, answer: answer)
            case .reportWakeTarget(let connection, let identifier, let target):
                commits.close(
                    RequestKey(connection: connection, identifier: identifier))
                guard session(of: connection) != nil else { continue }
                step.effects[connection.loop].reportWakeTarget(
                    to: connection, request: identifier, target: target)
            case .answerFilters(let connection, let request, let identifier, let codes):
                commits.close(
                    RequestKey(
                        connection: connection, identifier: identifier,
                        isUnsubscribe: request == .unsubscribe))
                guard session(of: connection) != nil else { continue }
                step.effects[connection.loop].answerFilters(
                    to: connection, request: request, identifier: identifier, codes: codes)
            case .answerPacket(let answer):
                guard let session = session(of: answer.connection) else { continue }
                if answer.step == .release { noteReleased(answer.packetIdentifier, session) }
                step.effects[answer.connection.loop].effects.append(.mqtt(.answerPacket(answer)))
            case .disconnect(let connection):
                step.effects[connection.loop].effects.append(.confirmDisconnect(connection))
            case .announce(let news): announce(news, in: &step)
            case .announceNews(let reader, let queue):
                announceNews(for: reader, queue: queue, in: &step)
            }
        }
    }

    /// Counts the changes of the queues by the store.
    ///
    /// Several operations of one batch may meet on one queue. The store executes them in the order
    /// of the properties of ``StoreBatch``, and what it reports is settled in this order:
    ///
    /// 1. Transfers and the arrivals they bring are counted in. No later step can find a queue
    ///    with less than the store had: a load may have removed expired arrivals, and a clear that
    ///    was requested after the transfer removes arrivals too.
    /// 2. Clears, trims, moves that found nothing, and what loads and transfers found expired or
    ///    damaged, are counted out, in any order: each entry is in one of these reports at most,
    ///    because the store removes it with the first that meets it.
    /// 3. Loads fill windows. What they bring is in the backlog by then, and what they removed is
    ///    not.
    /// 4. Backlogs that a load contradicts are corrected, and only then is more requested.
    /// 5. What the sweep found expired is removed with the next batch. The sweep reads the state
    ///    that all of the above left, and windows and moves show what is on its way out.
    /// 6. What operators look at is read in the same state, and what they drop is removed like
    ///    expired entries.
    ///
    /// Who counts a queue is asked here, and not when an operation was requested: the session may
    /// have ended since. docs/ARCHITECTURE.md lists the pairs of operations that can meet.
    ///
    /// A client cannot clear arrivals by a resume: ``checkResume`` refuses numbers that wait for a
    /// transfer, which nobody was given.
    private mutating func settleQueues(_ result: borrowing StoreResult, in step: inout Step) {
        settleTransfers(result)
        countOut(result)
        settleMoves(result)
        for queue in commits.inFlightBatch.inheritedQueues { queues.endPassing(queue) }
        takeLoads(result, in: &step)
        remove(expired: result.swept)
        if !inspections.isEmpty { takeInspections(result, in: &step) }
    }

    /// Subtracts entries that the store removed by itself, or whose number only the store knows.
    private mutating func countOut(_ result: borrowing StoreResult) {
        for tally in result.tallies { countOut(tally) }
        precondition(
            result.trimmed.count == commits.inFlightBatch.trims.count,
            "\(result.trimmed.count) answers to \(commits.inFlightBatch.trims.count) trims")
        for index in 0..<result.trimmed.count {
            countOut(trimmed: result.trimmed[index], commits.inFlightBatch.trims[index].amount)
        }
        if !result.withdrawn.isEmpty { countOut(withdrawn: result) }
        for tally in result.expired {
            counters.expired += tally.count
            countOut(tally)
        }
        for tally in result.damaged {
            counters.damagedEntries += tally.count
            countOut(tally)
        }
        counters.damagedEntries += result.damagedUncounted
    }

    private mutating func countOut(trimmed tally: QueueTally, _ amount: TrimAmount) {
        countOut(tally)
        let counter = counter(of: tally.queue)
        if case .conversation? = counter {
            counters.historyDropped += tally.count
        } else {
            counters.queueDropped += tally.count
        }
        switch counter {
        case .session(let session)?:
            sessions[session].inbox.overflowCount += UInt32(clamping: tally.count)
        case .offlineQueue(let user)?:
            let queue = offlineQueueIndex(of: user)
            queues.noteOverflow(UInt32(clamping: tally.count), ofOfflineQueue: queue)
        case .conversation(let conversation)?:
            conversationTable.noteDropped(
                UInt32(clamping: tally.count), asked: amount.byteCount, of: conversation)
        case .inherited, .leftover, nil: break
        }
        queues.endTrim(of: tally.queue, amount)
    }

    /// The number after which a queue's entries are on disk only.
    private func frontier(of queue: QueueID) -> UInt64 {
        switch owner(of: queue) {
        case .session(let session)?: frontier(of: session)
        case .offlineQueue(let user)?:
            queues.offlineQueues[offlineQueueIndex(of: user)].acknowledgedThrough
        // A conversation has no window.
        case .conversation, .inherited, .leftover, nil: 0
        }
    }

    private mutating func takeLoads(_ result: borrowing StoreResult, in step: inout Step) {
        precondition(
            result.loads.count == commits.inFlightBatch.loadOwners.count,
            "\(result.loads.count) answers to \(commits.inFlightBatch.loadOwners.count) loads"
        )
        var contradicted: [Handle<ConnectedSession>] = []
        result.blocks.withUnsafeBytes { bytes in
            for index in 0..<result.loads.count {
                switch commits.inFlightBatch.loadOwners[index] {
                case .connected(let owner):
                    // The load belongs to a connection that has ended; the next connection makes
                    // its own.
                    guard live.connectedSessions.contains(owner) else { continue }
                    takeLoad(result.loads[index], into: owner.index, blocks: bytes, in: &step)
                    if result.loads[index].entries.isEmpty && result.loads[index].reachedEnd
                        && live.connectedSessions[owner.index].backlogCount > 0
                    {
                        contradicted.append(owner)
                        continue
                    }
                    pump(live.connectedSessions[owner.index].session, in: &step)
                case .leftover(let owner):
                    correct(owner.index, after: result.loads[index], result)
                    handOn(result.loads[index], of: owner.index, bytes, in: &step)
                case .ending(let owner):
                    let through = numberAwaited(byEnding: owner)
                    let messages = result.loads[index].entries.filter { $0.number <= through }
                        .map { entry in
                            let message = memory.resident(entry, in: bytes) {
                                commits.identifiers.makeUnmeasuredStamp()
                            }
                            memory.retain(message)
                            return message
                        }
                    takeLast(messages, in: result.loads[index], of: owner, in: &step)
                case .inspection: continue
                }
            }
        }
        if !contradicted.isEmpty { correct(contradicted, after: result, in: &step) }
    }

    private mutating func takeLoad(
        _ load: LoadedQueue, into connected: Index<ConnectedSession>,
        blocks bytes: UnsafeRawBufferPointer, in step: inout Step
    ) {
        live.connectedSessions[connected].endLoad()
        live.connectedSessions[connected].takeFromBacklog(UInt64(load.entries.count))
        let session = live.connectedSessions[connected].session
        let resumedThrough = tracking.resumed.isEmpty ? 0 : tracking.resumed[session] ?? 0
        var received: [Index<Message>] = []
        for entry in load.entries {
            if !tracking.revised.isEmpty, entry.number > resumedThrough,
                takesRevised(entry, into: connected)
            {
                continue
            }
            let message = memory.resident(entry, in: bytes) {
                commits.identifiers.makeUnmeasuredStamp()
            }
            memory.retain(message)
            if !tracking.revised.isEmpty { decideFate(of: message, loaded: entry) }
            if entry.number <= resumedThrough {
                settleResumed(entry, session)
                received.append(message)
                continue
            }
            live.connectedSessions[connected].append(
                WindowEntry(
                    number: entry.number, message: message, batchEntry: .max,
                    byteCount: entry.byteCount, state: entry.state))
        }
        if resumedThrough > 0 {
            let isComplete =
                load.reachedEnd || load.entries.last.map { $0.number > resumedThrough } == true
            finishResuming(session, received, isComplete: isComplete, in: &step)
        }
    }

    // MARK: - Results of sends

    /// Sends the result of a send, now or when the sender asks again, once it is final: every
    /// persistent receiver has acknowledged the message, has it in the store, or was refused.
    @inline(__always)
    mutating func completeIfSettled(_ message: Index<Message>, in step: inout Step) {
        if memory.takesResult(of: message) { completeSend(message, in: &step) }
    }

    private mutating func completeSend(_ message: Index<Message>, in step: inout Step) {
        let isTakenBack =
            memory.messages[message].refusedCount > 0 && memory.messages[message].takenCount == 0
        if isTakenBack { untrack(takenBack: message) }
        let handle = memory.messages[message].sender
        if handle == .none {
            let number = memory.messages[message].senderNumber
            if number >= TrackedSends.receiptNumbers {
                settleReceipt(number, isTakenBack: isTakenBack, in: &step)
            } else {
                completeOperatorSend(message, isTakenBack: isTakenBack)
            }
            return
        }
        guard sessions.contains(handle) else { return }
        if sessions[handle.index].dialect.isMQTT {
            completePublication(message, of: handle.index, isTakenBack: isTakenBack, in: &step)
            return
        }
        guard let (sender, position) = outboxEntry(of: message) else { return }
        if isTakenBack {
            takeBackSend(of: message, sender: sender, position: position, in: &step)
            return
        }
        sessions[sender].outbox[position].isComplete = true
        sessions[sender].outbox[position].refusedCount += memory.messages[message].refusedCount
        // The block tells what a look-up by session and number would find.
        let reference =
            sessions[sender].outbox[position].isTracked
            ? MessageFields.reference(of: MessageBlock(memory.messages[message].block)) : 0
        let isTold = reportResult(
            sender, position, messageIdentifier: memory.messages[message].messageIdentifier,
            reference: reference, in: &step)
        if isTold { measureAcknowledgement(of: memory.messages[message].stamp) }
    }

    /// The store refused an accepted message, and no receiver took it. Nothing of it remains, and
    /// the sender may send it again.
    private mutating func takeBackSend(
        of message: Index<Message>, sender: Index<Session>, position: Int, in step: inout Step
    ) {
        counters.sendsTakenBack += 1
        note(
            .sendRefused, session: sender, reason: .quotaExceeded, limit: commits.room.limit,
            in: &step)
        let entry = sessions[sender].outbox.remove(at: position)
        if entry.namesRefusals { sessions[sender].senderState.value.takeNames(of: entry) }
        if memory.messages[message].mayHaveArrived {
            sessions[sender].unknownThrough = max(sessions[sender].unknownThrough, entry.number)
        }
        let connection = liveConnection(of: sender)
        guard connection != .none, !entry.isToldOnRepeat else { return }
        step.effects[connection.loop].appendResult(
            connection, number: entry.number, reason: .quotaExceeded,
            messageIdentifier: memory.messages[message].messageIdentifier)
    }

    private func outboxEntry(of message: Index<Message>) -> (sender: Index<Session>, position: Int)?
    {
        let sender = memory.messages[message].sender
        guard sessions.contains(sender),
            let position = sessions[sender.index].outbox.position(
                of: memory.messages[message].senderNumber),
            sessions[sender.index].outbox[position].stamp == memory.messages[message].stamp
        else { return nil }
        return (sender.index, position)
    }

    /// The reference of a send; 0 for none.
    @inline(__always)
    func reference(of entry: OutboxEntry, _ sender: Index<Session>) -> UInt64 {
        entry.isTracked
            ? tracking.reference(ofSession: trackingKey(of: sender), number: entry.number) : 0
    }

    /// Sends the result to a sender that is connected. Returns whether it is.
    ///
    /// - Parameter reference: that of the send, if it is known; nil to look it up.
    @discardableResult
    mutating func reportResult(
        _ sender: Index<Session>, _ position: Int, messageIdentifier: UnsafeRawBufferPointer,
        reference: UInt64? = nil, in step: inout Step
    ) -> Bool {
        let connection = liveConnection(of: sender)
        guard connection != .none else { return false }
        let entry = sessions[sender].outbox[position]
        let verdict = moderation.isOn ? takeVerdict(of: entry, sender) : nil
        step.effects[connection.loop].appendResult(
            connection, number: entry.number, reason: entry.reason,
            messageIdentifier: messageIdentifier,
            reference: reference ?? self.reference(of: entry, sender),
            refusedCount: entry.refusedCount,
            refusals: refusals(of: entry, sender), verdict: verdict)
        return true
    }
}
