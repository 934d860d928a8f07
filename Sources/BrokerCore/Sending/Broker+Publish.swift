// Publications of QoS 1 and 2 of MQTT clients. Packet identifiers name them and are used again and
// again. They are answered in their order, and remembered until they are released.
//
//     QoS 1   PUBLISH ──routed, committed──► PUBACK, forgotten
//     QoS 2   PUBLISH ──routed, committed──► PUBREC ──PUBREL, committed──► PUBCOMP, forgotten
//
// The session's outbox contains them under numbers that the broker assigns.

import BrokerTerms
import Primitives

extension Broker {
    /// Accepts a publication, or recognises a repeated one of QoS 2.
    mutating func publish(_ request: SendRequest, from sender: Index<Session>, in step: inout Step)
    {
        if request.grade == .once, isRepeated(request.packetIdentifier, of: sender, in: &step) {
            return
        }
        guard unreleasedCount(of: sender) < publicationMaximum(of: sender) else {
            close(sender, .receiveMaximumExceeded, in: &step)
            return
        }
        countUnanswered(sender, in: &step)
        sessions[sender].lastSendNumber += 1
        var request = request
        request.number = sessions[sender].lastSendNumber
        if !request.messageIdentifier.isEmpty {
            let identifier = Array(request.messageIdentifier.bytes(in: step.bytes))
            sessions[sender].senderState.value.setApplicationIdentifier(
                identifier, of: request.number)
            if let earlier = recentSend(identifier, of: sender) {
                repeatSend(earlier, request, from: sender, in: &step)
                return
            }
        }
        acceptOrRefuse(request, from: sender, in: &step)
    }

    /// Takes the publication of a request, and answers it in its turn: the broker carries the
    /// request out, and the reply tells the rest.
    ///
    /// - Returns: whether the request is carried out. A repeated QoS 2 publication is not, and has
    ///   no reply.
    mutating func take(
        _ request: PublishedRequest, from sender: Index<Session>, in step: inout Step
    ) -> Bool {
        counters.requestsPublished += 1
        guard request.packetIdentifier > 0 else { return true }
        if request.isOnce, isRepeated(request.packetIdentifier, of: sender, in: &step) {
            let connection = liveConnection(of: sender)
            step.effects[connection.loop].effects.append(
                .mqtt(.dropReply(connection, requestIdentifier: request.number)))
            return false
        }
        guard unreleasedCount(of: sender) < publicationMaximum(of: sender) else {
            close(sender, .receiveMaximumExceeded, in: &step)
            return false
        }
        countUnanswered(sender, in: &step)
        sessions[sender].lastSendNumber += 1
        var entry = OutboxEntry(
            number: sessions[sender].lastSendNumber, stamp: 0,
            grade: request.isOnce ? .once : .durable)
        entry.packetIdentifier = request.packetIdentifier
        if request.isOnce && sessions[sender].isPersistent {
            // In the batch of what the request changes: the identifier names it until it is
            // released, also after a crash.
            entry.awaitsRow = true
            commits.putWithSends(sendRow(entry, of: sender))
            commits.note(repeat: entry.number, of: sessions.handle(sender))
        }
        entry.isComplete = !entry.awaitsRow
        addPublication(entry, of: sender)
        if entry.isComplete { reportInOrder(sender, in: &step) }
        return true
    }

    /// Whether a QoS 2 identifier names a publication that the broker already has. Then its result
    /// is answered again.
    private mutating func isRepeated(
        _ identifier: UInt16, of sender: Index<Session>, in step: inout Step
    ) -> Bool {
        guard sessions[sender].senderState.exists,
            let state = sessions[sender].senderState.value.identifiers[identifier]
        else { return false }
        counters.sendsRepeated += 1
        switch state {
        case .underWay:
            // If the connection has not ended meanwhile, the answer is already on its way.
            guard let entry = sessions[sender].senderState.value.interrupted.take(identifier)
            else { return true }
            countUnanswered(sender, in: &step)
            sessions[sender].outbox.insert(entry)
        case .answered(let reason):
            countUnanswered(sender, in: &step)
            answerAgain(identifier, reason, of: sender, in: &step)
        }
        return true
    }

    /// Answers a repeated QoS 2 publication with its result.
    private mutating func answerAgain(
        _ identifier: UInt16, _ reason: ReasonCode, of sender: Index<Session>, in step: inout Step
    ) {
        var entry = OutboxEntry(number: 0, stamp: 0, grade: .once)
        entry.packetIdentifier = identifier
        entry.reason = reason
        entry.refusedCount = sessions[sender].senderState.value.identifiers.refused(of: identifier)
        let named = sessions[sender].senderState.value.names(ofAnswered: identifier)
        answer(sender, entry, named: named, in: &step)
        // The publication was refused while the client was disconnected. Its identifier is free
        // again [MQTT-4.3.3-4].
        if reason.isFailure { sessions[sender].senderState.value.free(identifier) }
    }

    /// The number of QoS 1 and 2 publications without an answer, and of answered QoS 2 publications
    /// that are not released.
    private func unreleasedCount(of sender: Index<Session>) -> Int {
        let count = sessions[sender].outbox.count
        guard sessions[sender].senderState.exists else { return count }
        return count + sessions[sender].senderState.value.interrupted.count
            + sessions[sender].senderState.value.identifiers.answeredCount
    }

    /// The maximum number of publications without an answer, or of QoS 2 and not released. A 3.1.1
    /// client cannot be told a window, and common clients of 5.0 send everything after an outage
    /// regardless of it. If the rule is not enforced [MQTT-3.3.4-7], ``countUnanswered(_:in:)``
    /// stops reading from such a client instead.
    private func publicationMaximum(of sender: Index<Session>) -> Int {
        guard sessions[sender].dialect == .mqtt5 && limits.enforcesPublishWindow else {
            return limits.unreleasedMaximum
        }
        return Int(live.connectedSessions[connectedIndex(of: sender)].publishWindow)
    }

    /// Counts one more publication without an answer. The broker stops reading from a client with
    /// too many, until half of the answers have been sent.
    ///
    /// PUBREL and PUBACK packets, which free its window, may follow its own publications in the
    /// stream. This is no deadlock: only publications without an answer count, and an answer
    /// depends on the store and on nothing that the client sends.
    private mutating func countUnanswered(_ sender: Index<Session>, in step: inout Step) {
        let connected = connectedIndex(of: sender)
        guard live.connectedSessions[connected].countUnanswered() else { return }
        counters.readingPauses += 1
        let connection = live.connectedSessions[connected].connection
        step.effects[connection.loop].effects.append(.pauseReading(connection))
    }

    private mutating func countAnswered(_ sender: Index<Session>, in step: inout Step) {
        let connected = connectedIndex(of: sender)
        guard live.connectedSessions[connected].countAnswered() else { return }
        let connection = live.connectedSessions[connected].connection
        step.effects[connection.loop].effects.append(.resumeReading(connection))
    }

    // MARK: - Unanswered publications

    /// Adds a publication that waits for its answer.
    mutating func addPublication(_ entry: OutboxEntry, of sender: Index<Session>) {
        sessions[sender].outbox.insert(entry)
        if entry.grade == .once {
            sessions[sender].senderState.value.begin(entry.packetIdentifier)
        }
    }

    /// Stores the refused receivers of a send by name.
    mutating func storeRefusals(
        _ refusals: [Refusal], in entry: inout OutboxEntry, of sender: Index<Session>
    ) {
        guard !refusals.isEmpty else { return }
        sessions[sender].senderState.value.storeRefusals(refusals, in: &entry)
    }

    /// The names of the refused receivers of an entry.
    func refusals(of entry: OutboxEntry, _ sender: Index<Session>) -> [Refusal] {
        entry.namesRefusals ? sessions[sender].senderState.value.names(of: entry) : []
    }

    /// A publication without an answer, of this connection or an earlier one.
    func publication(_ number: UInt64, of sender: Index<Session>) -> OutboxEntry? {
        if let position = sessions[sender].outbox.position(of: number) {
            return sessions[sender].outbox[position]
        }
        guard sessions[sender].senderState.exists else { return nil }
        return sessions[sender].senderState.value.interrupted.entry(number)
    }

    /// Stores the progress of a publication without an answer. Answers it in its turn if the client
    /// is waiting for that.
    mutating func update(_ entry: OutboxEntry, of sender: Index<Session>, in step: inout Step) {
        if let position = sessions[sender].outbox.position(of: entry.number) {
            sessions[sender].outbox[position] = entry
            if entry.isComplete { reportInOrder(sender, in: &step) }
        } else if sessions[sender].senderState.value.interrupted.update(entry), entry.isComplete {
            keepAnswer(entry, of: sender)
        }
    }

    /// Removes a QoS 2 publication from the outbox, and keeps its identifier in use until it is
    /// released.
    private mutating func keepAnswer(_ entry: OutboxEntry, of sender: Index<Session>) {
        let refusals = sessions[sender].senderState.value.takeNames(of: entry)
        sessions[sender].senderState.value.answer(
            entry.packetIdentifier, entry.reason, refusedCount: entry.refusedCount, named: refusals)
    }

    /// Refusals are answered in the order of the publications too.
    mutating func rememberRefusal(
        _ request: SendRequest, _ reason: ReasonCode, cause: LimitName,
        from sender: Index<Session>, in step: inout Step
    ) {
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.isComplete = true
        entry.reason = reason
        entry.cause = cause
        addPublication(entry, of: sender)
        reportInOrder(sender, in: &step)
    }

    /// Takes the result of a publication.
    mutating func completePublication(
        _ message: Index<Message>, of sender: Index<Session>, isTakenBack: Bool, in step: inout Step
    ) {
        guard var entry = publication(memory.messages[message].senderNumber, of: sender),
            entry.stamp == memory.messages[message].stamp
        else {
            // After a lost connection the client may send it again under the same application id.
            completeRecentSend(of: message, reason: isTakenBack ? .quotaExceeded : .sent, in: &step)
            return
        }
        entry.isComplete = true
        if isTakenBack {
            counters.sendsTakenBack += 1
            note(
                .sendRefused, session: sender, reason: .quotaExceeded, limit: commits.room.limit,
                in: &step)
            entry.reason = .quotaExceeded
        } else {
            entry.refusedCount += memory.messages[message].refusedCount
        }
        update(entry, of: sender, in: &step)
        completeRecentSend(of: message, reason: entry.reason, in: &step)
    }

    /// Sends the answers that are complete, up to the first publication that is not:
    /// [MQTT-4.6.0-2], [MQTT-4.6.0-3].
    mutating func reportInOrder(_ sender: Index<Session>, in step: inout Step) {
        guard liveConnection(of: sender) != .none else { return }
        while !sessions[sender].outbox.isEmpty, sessions[sender].outbox[0].isComplete {
            let entry = sessions[sender].outbox.remove(at: 0)
            if !entry.reason.isFailure { measureAcknowledgement(of: entry.stamp) }
            answer(sender, entry, named: refusals(of: entry, sender), in: &step)
            if entry.grade == .once && !entry.reason.isFailure {
                keepAnswer(entry, of: sender)
            } else {
                forget(entry, of: sender)
            }
        }
    }

    /// Removes an answered publication. A refused identifier is free again [MQTT-4.3.3-4].
    private mutating func forget(_ entry: OutboxEntry, of sender: Index<Session>) {
        if entry.grade == .once { sessions[sender].senderState.value.free(entry.packetIdentifier) }
        if entry.namesRefusals { sessions[sender].senderState.value.takeNames(of: entry) }
    }

    private mutating func answer(
        _ sender: Index<Session>, _ entry: OutboxEntry, named refusals: [Refusal],
        in step: inout Step
    ) {
        let connection = liveConnection(of: sender)
        // MRT uses the same outboxes with another reason for success.
        let reason = entry.reason == .sent ? ReasonCode.success : entry.reason
        var answer = PacketAnswer(
            to: connection, packet: entry.packetIdentifier,
            step: entry.grade == .once ? .received : .accepted, reason: reason)
        answer.result = entry.reason
        answer.cause = entry.cause
        answer.refusedCount = entry.refusedCount
        answer.reference = reference(of: entry, sender)
        if sessions[sender].senderState.exists,
            let identifier = sessions[sender].senderState.value.takeApplicationIdentifier(
                of: entry.number)
        {
            answer.messageIdentifier = step.effects[connection.loop].bytes.append(identifier)
        }
        if moderation.isOn, let note = takeVerdict(of: entry, sender),
            note.isRefusal == entry.reason.isFailure
        {
            let identifier = Array(
                answer.messageIdentifier.bytes(in: step.effects[connection.loop].bytes.bytes))
            answer.cause = note.cause
            answer.messageIdentifier = step.effects[connection.loop].append(
                messageIdentifier: identifier, note)
        } else if answer.cause.hasVerdict {
            answer.cause = .none
        }
        if !refusals.isEmpty {
            answer.firstRefusal = UInt32(step.effects[connection.loop].refusals.count)
            answer.namedRefusalCount = UInt32(refusals.count)
            step.effects[connection.loop].refusals.append(contentsOf: refusals)
        }
        step.effects[connection.loop].effects.append(.mqtt(.answerPacket(answer)))
        countAnswered(sender, in: &step)
    }

    /// What the answer tells of the verdict on the message.
    mutating func takeVerdict(of entry: OutboxEntry, _ sender: Index<Session>) -> VerdictNote? {
        guard sessions[sender].senderState.exists else { return nil }
        return sessions[sender].senderState.value.takeVerdict(of: entry.number)
    }

    /// Handles a PUBREL: the client has seen the answer to a QoS 2 publication, so its identifier
    /// is removed. The answer waits for the commit, also if the identifier is not known: the store
    /// may still have one that an earlier PUBREL removed.
    mutating func releasePublication(
        _ sender: Index<Session>, _ identifier: UInt16, in step: inout Step
    ) {
        let connection = liveConnection(of: sender)
        let isKnown = sessions[sender].senderState.exists
        switch isKnown ? sessions[sender].senderState.value.identifiers[identifier] : nil {
        case nil:
            confirmRelease(
                sender,
                PacketAnswer(
                    to: connection, packet: identifier, step: .complete,
                    reason: .packetIdentifierNotFound),
                in: &step)
            return
        case .underWay?:
            // The client releases a publication before its PUBREC.
            close(sender, .protocolError, in: &step)
            return
        case .answered?:
            sessions[sender].senderState.value.free(identifier)
        }
        if sessions[sender].isPersistent {
            // This removal is not optional in a full store, because the identifier will name
            // another message.
            commits.remove(
                .outboxes, key: RecordKey.packet(sessions[sender].identifier, identifier))
        }
        confirmRelease(
            sender, PacketAnswer(to: connection, packet: identifier, step: .complete), in: &step)
    }

    private mutating func confirmRelease(
        _ sender: Index<Session>, _ answer: PacketAnswer, in step: inout Step
    ) {
        if sessions[sender].isPersistent {
            commits.confirm(.answerPacket(answer))
        } else {
            step.effects[answer.connection.loop].effects.append(.mqtt(.answerPacket(answer)))
        }
    }

    /// Handles the end of a connection. MQTT clients repeat publications without an answer, so only
    /// those of QoS 2 must be remembered.
    ///
    /// The result of an unfinished publication is answered when the client repeats it. Its refusal
    /// must not be answered earlier, because the client would take it for the answer to a
    /// publication that it is sending, and would send that as a new one.
    mutating func forgetUnfinishedSends(of sender: Index<Session>) {
        if sessions[sender].senderState.exists {
            sessions[sender].senderState.value.removeVerdicts()
        }
        guard sessions[sender].dialect.isMQTT else {
            for position in 0..<sessions[sender].outbox.count {
                sessions[sender].outbox[position].isToldOnRepeat = true
            }
            return
        }
        if sessions[sender].senderState.exists { forgetUntoldRefusals(of: sender) }
        trimRecentSends(of: sender)
        for position in 0..<sessions[sender].outbox.count {
            let entry = sessions[sender].outbox[position]
            if entry.grade != .once || (entry.isComplete && entry.reason.isFailure) {
                forget(entry, of: sender)
            } else if entry.isComplete {
                keepAnswer(entry, of: sender)
            } else {
                sessions[sender].senderState.value.interrupted.insert(entry)
            }
        }
        sessions[sender].outbox.removeAll()
    }

    /// Removes publications that were refused while the client was disconnected and that it has not
    /// repeated.
    private mutating func forgetUntoldRefusals(of sender: Index<Session>) {
        sessions[sender].senderState.value.removeApplicationIdentifiers()
        guard sessions[sender].senderState.value.identifiers.refusedCount > 0 else { return }
        var refused: [UInt16] = []
        sessions[sender].senderState.value.identifiers.forEach { identifier, state in
            if case .answered(let reason) = state, reason.isFailure { refused.append(identifier) }
        }
        for identifier in refused { sessions[sender].senderState.value.free(identifier) }
    }

    // MARK: - Rows

    /// Writes the row of an accepted QoS 2 publication, together with its message.
    mutating func writeSend(_ entry: OutboxEntry, of sender: Index<Session>) {
        commits.putWithSends(sendRow(entry, of: sender))
    }

    func sendRow(_ entry: OutboxEntry, of sender: Index<Session>) -> RecordChange {
        // Version 2 contains the names of refused receivers, which few sends have. Version 3 also
        // contains their number, named or not.
        let refusals = self.refusals(of: entry, sender)
        let version: UInt8 = entry.refusedCount > 0 ? 3 : refusals.isEmpty ? 1 : 2
        var row = RecordWriter(version: version)
        row.write(entry.number)
        row.write(entry.reason.rawValue)
        if version > 2 { row.write(entry.refusedCount) }
        if version > 1 { row.write(UInt16(refusals.count)) }
        for refusal in refusals {
            row.write(UInt16(refusal.index))
            row.write(refusal.reason.rawValue)
        }
        return RecordChange(
            table: .outboxes,
            key: RecordKey.packet(sessions[sender].identifier, entry.packetIdentifier),
            value: row.bytes, part: .send)
    }

    mutating func restoreSend(of session: Index<Session>, key: [UInt8], value: [UInt8])
        throws(RestoreError)
    {
        let version = value.first.map { (2...3).contains($0) ? $0 : 1 } ?? 1
        var row = try RecordReader(value, version: version, table: .outboxes, key: key)
        let number = try row.read(UInt64.self)
        guard let result = ReasonCode(rawValue: try row.read(UInt8.self)) else {
            throw .unreadableRecord(.outboxes, key: key)
        }
        let refusedCount = version > 2 ? try row.read(UInt32.self) : 0
        var refusals: [Refusal] = []
        for _ in 0..<(version > 1 ? try row.read(UInt16.self) : 0) {
            let index = UInt32(try row.read(UInt16.self))
            guard let reason = ReasonCode(rawValue: try row.read(UInt8.self)) else {
                throw .unreadableRecord(.outboxes, key: key)
            }
            refusals.append(Refusal(index: index, reason: reason))
        }
        sessions[session].senderState.value.answer(
            RecordKey.readPacket(key), result, refusedCount: refusedCount, named: refusals)
        sessions[session].lastSendNumber = max(sessions[session].lastSendNumber, number)
    }

    /// Frees the identifiers of QoS 2 publications that a restored backup contains as unreleased.
    /// Their client may have released them after the backup, so that they now name other
    /// publications. DUP does not distinguish the two, because the new ones may be repeated too. A
    /// publication in the backup is routed a second time if its client repeats it; the alternative
    /// would lose one.
    mutating func forgetUnreleasedSends(of session: Index<Session>) {
        guard sessions[session].senderState.exists else { return }
        var unreleased: [UInt16] = []
        sessions[session].senderState.value.identifiers.forEach { identifier, _ in
            unreleased.append(identifier)
        }
        for identifier in unreleased {
            sessions[session].senderState.value.free(identifier)
            commits.remove(
                .outboxes, key: RecordKey.packet(sessions[session].identifier, identifier))
        }
    }

    /// Deletes the rows of a session's QoS 2 publications together with the session. If there are
    /// many, later batches delete the rest; after a crash the restore does.
    mutating func deleteSends(of session: Index<Session>) {
        guard sessions[session].senderState.exists else { return }
        let identifiers = sessions[session].senderState.value.identifiers
        guard identifiers.count > 0 else { return }
        commits.deleteSends(of: sessions[session].identifier, identifiers)
    }
}

extension RecordKey {
    /// Sorted by session, after the session's own row.
    static func packet(_ session: UInt64, _ identifier: UInt16) -> [UInt8] {
        withUnsafeBytes(of: (session.bigEndian, identifier.bigEndian)) { Array($0) }
    }

    static func readPacket(_ key: [UInt8]) -> UInt16 {
        UInt16(key[8]) << 8 | UInt16(key[9])
    }
}
