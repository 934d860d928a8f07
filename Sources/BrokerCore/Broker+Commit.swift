// The meeting of core and store: a batch is handed over whenever the store is free, and its result
// settles what waited for it. Nothing waits on purpose: what comes while one batch is being
// committed gathers in the next.

import Primitives

extension Broker {
    /// Whether the store may be given a batch now.
    public var hasBatch: Bool { !isCommitting && gathering.isDue }

    /// Whether a batch is still gathering and has nothing that must be stored.
    public func isIdle(_ sequence: UInt64) -> Bool {
        gathering.sequence == sequence && !gathering.isDue
    }

    /// Closes the gathering batch and writes it out for the store. Its result comes back through
    /// ``stored(_:at:effects:)``; until then there is no other.
    ///
    /// - Returns: false when there is nothing to store or a batch is under way.
    public mutating func takeBatch(into batch: inout StoreBatch, at moment: Moment) -> Bool {
        guard hasBatch else { return false }
        batch.removeAll()
        batch.sequence = gathering.sequence
        batch.moment = moment
        writeDirtySessions()
        gathering.records.append(contentsOf: gathering.lazyRecords)
        swap(&gathering, &committing)
        isCommitting = true
        batchSequence += 1
        gathering.reset(sequence: batchSequence)
        writeMessages(to: &batch)
        writeEntries(to: &batch)
        batch.acknowledgements.append(contentsOf: committing.acknowledgements)
        batch.removals.append(contentsOf: committing.removals)
        batch.states.append(contentsOf: committing.states)
        batch.transfers.append(contentsOf: committing.transfers)
        batch.deletedQueues.append(contentsOf: committing.deletedQueues)
        swap(&batch.records, &committing.records)
        swap(&batch.sendRecords, &committing.sendRecords)
        batch.loads.append(contentsOf: committing.loads)
        batch.sweepMaximum = committing.sweepMaximum
        return true
    }

    /// Takes the result of the batch that was handed over last.
    public mutating func stored(
        _ result: borrowing StoreResult, at moment: Moment, effects: inout Effects
    ) {
        precondition(
            isCommitting && result.sequence == committing.sequence,
            "a result for a batch that is not under way")
        isCommitting = false
        counters.batchesCommitted += 1
        noteFill(result)
        let wasRefused = result.refusal != nil
        if wasRefused { takeBackEntries() }
        settleMessages(wasRefused: wasRefused, &effects)
        for reservation in committing.reservations
        where sessions.contains(reservation.session) {
            sessions[reservation.session.index].reservedThrough = reservation.through
            committing.waitingSessions.append(reservation.session)
        }
        confirm(moment, &effects)
        for tally in result.tallies { countOut(tally) }
        for tally in result.expired {
            counters.expired += tally.count
            countOut(tally)
        }
        for tally in result.damaged {
            counters.damagedEntries += tally.count
            countOut(tally)
        }
        if result.isUnfinished { gathering.isUrgent = true }
        takeLoads(result, moment, &effects)
        for session in committing.waitingSessions where sessions.contains(session) {
            pump(session.index, moment, &effects)
        }
    }

    // MARK: - Handing over

    /// Puts a message into the gathering batch, if it is not there.
    mutating func attachToBatch(_ message: UInt32) {
        if messages[message].batch == gathering.sequence { return }
        precondition(
            messages[message].batch == 0 && messages[message].identifier == 0,
            "a message is stored once")
        messages[message].batch = gathering.sequence
        messages[message].references += 1
        gathering.messages.append(message)
    }

    private mutating func writeMessages(to batch: inout StoreBatch) {
        for message in committing.messages where messages[message].pendingEntries > 0 {
            messages[message].identifier = nextMessageIdentifier
            nextMessageIdentifier += 1
            let range = ByteRange(
                offset: batch.blocks.count, count: messages[message].blockByteCount)
            batch.blocks.append(contentsOf: messages[message].block)
            batch.messages.append(
                MessagePut(
                    id: MessageID(raw: messages[message].identifier),
                    receiverCount: messages[message].pendingEntries, block: range))
        }
        counters.messagesStored += UInt64(batch.messages.count)
    }

    private mutating func writeEntries(to batch: inout StoreBatch) {
        for entry in committing.entries where !entry.isElided {
            batch.entries.append(
                EntryPut(
                    queue: entry.queue, number: entry.number,
                    message: MessageID(raw: messages[entry.message].identifier),
                    deadline: messages[entry.message].deadline, byteCount: entry.byteCount,
                    state: entry.state))
        }
        counters.entriesStored += UInt64(batch.entries.count)
    }

    // MARK: - Taking the result

    private mutating func noteFill(_ result: borrowing StoreResult) {
        if result.refusal != nil {
            counters.batchesRefused += 1
            isStoreFull = true
        } else {
            // A little below the limit, so that it does not flap with every message.
            let resume = result.softLimitBytes - result.softLimitBytes / 32
            if result.usedBytes >= result.softLimitBytes {
                isStoreFull = true
            } else if result.usedBytes < resume {
                isStoreFull = false
            }
        }
    }

    /// The messages of the batch are stored, or refused as a whole: their senders are told.
    private mutating func settleMessages(wasRefused: Bool, _ effects: inout Effects) {
        for message in committing.messages {
            messages[message].batch = 0
            messages[message].pendingEntries = 0
            if wasRefused {
                messages[message].identifier = 0
                if messages[message].unsettled == 0 { completeSend(message, &effects) }
            } else {
                if messages[message].unsettled > 0 {
                    messages[message].unsettled = 0
                    completeSend(message, &effects)
                }
                if messages[message].identifier != 0 && messages[message].references > 1 {
                    residentMessages[messages[message].identifier] = message
                }
            }
            release(message)
        }
    }

    /// The store had no room. What is on its way to a receiver stays in that window and is settled
    /// by its acknowledgement; every other entry of the batch is a receiver refused.
    private mutating func takeBackEntries() {
        for entry in committing.entries where !entry.isElided {
            switch queueOwners[entry.queue.raw] {
            case .session(let session)?:
                takeBack(entry, session)
            case .user(let user)?:
                users[user].mailbox!.subtract(count: 1, byteCount: UInt64(entry.byteCount))
                refuseReceiver(of: entry.message)
            case nil:
                refuseReceiver(of: entry.message)
            }
        }
        for message in committing.messages where messages[message].grade == .once {
            // Its outbox row was left out with it, so nothing of it waits for the store any more.
            if messages[message].awaitsOutboxRow {
                messages[message].awaitsOutboxRow = false
                messages[message].unsettled -= 1
            }
            if let (sender, _) = outboxEntry(of: message) {
                markDirty(sender, .outbox, isUrgent: true)
            }
        }
    }

    private mutating func takeBack(_ entry: PendingEntry, _ session: UInt32) {
        if let position = windowPosition(session, entry.number) {
            if position < sessions[session].sentCount {
                sessions[session].window[position].isUnstored = true
                return
            }
            let taken = sessions[session].window.remove(at: position)
            sessions[session].windowByteCount -= Int(taken.byteCount)
            release(taken.message)
        } else if entry.number > sessions[session].loadedThrough {
            sessions[session].backlogCount -= 1
        } else {
            // It was delivered and acknowledged while the batch was under way.
            return
        }
        sessions[session].inbox.subtract(count: 1, byteCount: UInt64(entry.byteCount))
        refuseReceiver(of: entry.message)
    }

    /// One receiver that will not get the message after all.
    mutating func refuseReceiver(of message: UInt32) {
        messages[message].unsettled -= 1
        messages[message].refusedCount += 1
        counters.receiversRefused += 1
    }

    private func windowPosition(_ session: UInt32, _ number: UInt64) -> Int? {
        for position in 0..<sessions[session].window.count
        where sessions[session].window[position].number == number {
            return position
        }
        return nil
    }

    private mutating func confirm(_ moment: Moment, _ effects: inout Effects) {
        for confirmation in committing.confirmations {
            switch confirmation {
            case .accept(let connection):
                guard let session = session(of: connection) else { continue }
                accept(session, moment, &effects)
            case .disconnect(let connection):
                effects[connection.lane].effects.append(.confirmDisconnect(connection))
            case .respond(let connection, let identifier, let reason, let body):
                guard session(of: connection) != nil else { continue }
                effects[connection.lane].respond(
                    connection, identifier, reason, body: body)
            }
        }
    }

    /// Entries that the store removed by itself, or at a resume.
    private mutating func countOut(_ tally: QueueTally) {
        switch queueOwners[tally.queue.raw] {
        case .session(let session)?:
            sessions[session].inbox.subtract(count: tally.count, byteCount: tally.byteCount)
            precondition(
                sessions[session].backlogCount >= tally.count, "a backlog below empty")
            sessions[session].backlogCount -= tally.count
        case .user(let user)?:
            users[user].mailbox!.subtract(count: tally.count, byteCount: tally.byteCount)
        case nil:
            break
        }
    }

    private mutating func takeLoads(
        _ result: borrowing StoreResult, _ moment: Moment, _ effects: inout Effects
    ) {
        precondition(
            result.loads.count == committing.loadOwners.count, "one answer for each load")
        result.blocks.withUnsafeBytes { blocks in
            for index in 0..<result.loads.count {
                let owner = committing.loadOwners[index]
                guard sessions.contains(owner.session),
                    sessions[owner.session.index].attachment == owner.attachment
                else { continue }
                takeLoad(result.loads[index], owner.session.index, blocks)
                pump(owner.session.index, moment, &effects)
            }
        }
    }

    private mutating func takeLoad(
        _ load: LoadedQueue, _ session: UInt32, _ blocks: UnsafeRawBufferPointer
    ) {
        sessions[session].isLoading = false
        for entry in load.entries {
            let message = residentMessage(entry, blocks)
            messages[message].references += 1
            sessions[session].window.append(
                WindowEntry(
                    number: entry.number, message: message, batchEntry: .max,
                    byteCount: entry.byteCount, state: entry.state))
            sessions[session].windowByteCount += Int(entry.byteCount)
            sessions[session].loadedThrough = entry.number
            precondition(sessions[session].backlogCount > 0, "a backlog below empty")
            sessions[session].backlogCount -= 1
        }
    }

    /// The message of a loaded entry, shared with other sessions that hold it in memory.
    private mutating func residentMessage(
        _ entry: LoadedEntry, _ blocks: UnsafeRawBufferPointer
    ) -> UInt32 {
        if let message = residentMessages[entry.message.raw] { return message }
        let message = messages.insert(
            Message(
                identifier: entry.message, block: entry.block.bytes(in: blocks),
                stamp: makeStamp(), deadline: entry.deadline)
        ).index
        residentMessages[entry.message.raw] = message
        return message
    }

    // MARK: - Messages in memory

    /// One holder less; the last one frees the message.
    mutating func release(_ message: UInt32) {
        messages[message].references -= 1
        guard messages[message].references == 0 else { return }
        if messages[message].identifier != 0 {
            residentMessages[messages[message].identifier] = nil
        }
        messages.remove(message)
    }

    /// Nothing more can become of a send: every persistent receiver has acknowledged the message,
    /// has it in the store, or was refused. The sender is told, now or when it asks again.
    mutating func completeSend(_ message: UInt32, _ effects: inout Effects) {
        guard let (sender, position) = outboxEntry(of: message) else { return }
        if messages[message].refusedCount > 0 && messages[message].takenCount == 0 {
            takeBackSend(message, sender, position, &effects)
            return
        }
        sessions[sender].outbox[position].isComplete = true
        sessions[sender].outbox[position].refusedCount += messages[message].refusedCount
        reportResult(
            sender, position, messageIdentifier: messages[message].messageIdentifier, &effects)
    }

    /// The store refused an accepted message and nobody took it: no trace of it remains, and the
    /// sender may send it again.
    private mutating func takeBackSend(
        _ message: UInt32, _ sender: UInt32, _ position: Int, _ effects: inout Effects
    ) {
        counters.sendsRefused += 1
        let number = sessions[sender].outbox.remove(at: position).number
        let connection = sessions[sender].connection
        guard sessions[sender].isConfirmed, connection != .none else { return }
        effects[connection.lane].appendResult(
            connection, number: number, reason: .quotaExceeded,
            messageIdentifier: messages[message].messageIdentifier)
    }

    private func outboxEntry(of message: UInt32) -> (sender: UInt32, position: Int)? {
        let sender = messages[message].sender
        guard sessions.contains(sender),
            sessions[sender.index].outboxEpoch == messages[message].senderEpoch,
            let position = sessions[sender.index].outboxPosition(messages[message].senderNumber)
        else { return nil }
        return (sender.index, position)
    }

    /// Tells a sender what became of a send, if it is there to be told.
    func reportResult(
        _ sender: UInt32, _ position: Int, messageIdentifier: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) {
        let connection = sessions[sender].connection
        guard sessions[sender].isConfirmed, connection != .none else { return }
        let entry = sessions[sender].outbox[position]
        effects[connection.lane].appendResult(
            connection, number: entry.number, reason: entry.reason,
            messageIdentifier: messageIdentifier, refusedCount: entry.refusedCount,
            refusals: entry.refusals)
    }
}

extension EffectLane {
    mutating func appendResult(
        _ connection: ConnectionID, number: UInt64, reason: ReasonCode,
        messageIdentifier: UnsafeRawBufferPointer, refusedCount: UInt32 = 0,
        refusals: [Refusal] = []
    ) {
        let first = UInt32(self.refusals.count)
        if !refusals.isEmpty { self.refusals.append(contentsOf: refusals) }
        effects.append(
            .reportResult(
                SendResult(
                    connection: connection, number: number, reason: reason,
                    messageIdentifier: messageIdentifier.isEmpty
                        ? .empty : bytes.append(messageIdentifier),
                    refusedCount: refusedCount, firstRefusal: first,
                    namedRefusalCount: UInt32(refusals.count))))
    }

    mutating func respond(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ reason: ReasonCode,
        body: [UInt8] = []
    ) {
        effects.append(
            .respond(
                connection, requestIdentifier: requestIdentifier, reason,
                body: bytes.append(body)))
    }
}

extension ByteArena {
    /// Appends an array's bytes.
    mutating func append(_ array: [UInt8]) -> ByteRange {
        array.withUnsafeBytes { append($0) }
    }
}
