// Publications of QoS 1 and 2 as MQTT clients send them: named by packet identifiers that are used
// again and again, answered in the order in which they came, remembered until they are released.
//
//     QoS 1   PUBLISH ──routed, committed──► PUBACK, forgotten
//     QoS 2   PUBLISH ──routed, committed──► PUBREC ──PUBREL, committed──► PUBCOMP, forgotten
//
// What is remembered stands in the session's outbox under numbers that the broker gives.

import Primitives

extension Broker {
    /// Takes a publication, or recognises one of QoS 2 that it has.
    mutating func publish(
        _ request: SendRequest, from sender: UInt32, _ bytes: UnsafeRawBufferPointer,
        _ moment: Moment, _ effects: inout Effects
    ) {
        if request.grade == .once,
            let position = outboxPosition(ofPacket: request.packetIdentifier, sender)
        {
            counters.sendsRepeated += 1
            // Where it is not told on repeat, an answer to it is on its way already.
            if sessions[sender].outbox[position].isToldOnRepeat {
                countUnanswered(sender, &effects)
            }
            guard sessions[sender].outbox[position].isComplete else {
                sessions[sender].outbox[position].isToldOnRepeat = false
                return
            }
            answer(sender, position, &effects)
            if sessions[sender].outbox[position].reason.isFailure {
                // Refused while it was away: the identifier is free again [MQTT-4.3.3-4].
                sessions[sender].outbox.remove(at: position)
            } else {
                sessions[sender].outbox[position].isToldOnRepeat = true
            }
            return
        }
        guard sessions[sender].outbox.count < publicationMaximum(of: sender) else {
            close(sender, .receiveMaximumExceeded, moment, &effects)
            return
        }
        countUnanswered(sender, &effects)
        sessions[sender].lastSendNumber += 1
        var request = request
        request.number = sessions[sender].lastSendNumber
        if !request.messageIdentifier.isEmpty {
            let identifier = Array(request.messageIdentifier.bytes(in: bytes))
            sessions[sender].sendTags.append(
                SendTag(number: request.number, identifier: identifier))
            if let recent = recentSend(identifier, of: sender) {
                repeatSend(recent, request, from: sender, &effects)
                return
            }
        }
        acceptOrRefuse(request, from: sender, bytes, moment, &effects)
    }

    /// Publications that may be unanswered, or received in QoS 2 and not released, at a time. A
    /// 3.1.1 client cannot be told a window, and common clients of 5.0 send all they have after an
    /// outage, whatever they were told. Where the rule is not enforced [MQTT-3.3.4-7] such a client
    /// is held instead, see ``countUnanswered(_:_:)``.
    private func publicationMaximum(of sender: UInt32) -> Int {
        guard sessions[sender].dialect == .mqtt5 && limits.enforcesPublishWindow else {
            return limits.unreleasedMaximum
        }
        return Int(attachments[sessions[sender].attachment].publishWindow)
    }

    /// One more publication has to be answered. A client with too many is not read from until half
    /// of the answers have left.
    ///
    /// What it sent to free its window (PUBREL, PUBACK) may stand behind its own publications. That
    /// is no deadlock: only publications without an answer count, and an answer waits for the store
    /// and for nothing that the client sends.
    private mutating func countUnanswered(_ sender: UInt32, _ effects: inout Effects) {
        let attachment = sessions[sender].attachment
        attachments[attachment].unansweredCount += 1
        guard attachments[attachment].unansweredCount > attachments[attachment].publishWindow,
            !attachments[attachment].isHeld
        else { return }
        attachments[attachment].isHeld = true
        counters.sendersHeld += 1
        let connection = attachments[attachment].connection
        effects[connection.lane].effects.append(.holdReading(connection))
    }

    private mutating func countAnswered(_ sender: UInt32, _ effects: inout Effects) {
        let attachment = sessions[sender].attachment
        attachments[attachment].unansweredCount -= 1
        guard attachments[attachment].isHeld,
            attachments[attachment].unansweredCount <= attachments[attachment].publishWindow / 2
        else { return }
        attachments[attachment].isHeld = false
        let connection = attachments[attachment].connection
        effects[connection.lane].effects.append(.resumeReading(connection))
    }

    /// Place of a QoS 2 publication that has not been released.
    private mutating func outboxPosition(
        ofPacket identifier: UInt16, _ sender: UInt32
    ) -> Int? {
        // It is looked for, and passed over by answers, entry by entry.
        work += sessions[sender].outbox.count / CoreLimits.looksPerWork
        return sessions[sender].outbox.firstIndex {
            $0.packetIdentifier == identifier && $0.grade == .once
        }
    }

    /// A refusal is answered in its turn, like everything else.
    mutating func rememberRefusal(
        _ request: SendRequest, _ reason: ReasonCode, from sender: UInt32, _ effects: inout Effects
    ) {
        var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
        entry.packetIdentifier = request.packetIdentifier
        entry.isComplete = true
        entry.reason = reason
        sessions[sender].outbox.append(entry)
        reportInOrder(sender, &effects)
    }

    /// Answers what is complete, as far as nothing before it is not: [MQTT-4.6.0-2],
    /// [MQTT-4.6.0-3].
    mutating func reportInOrder(_ sender: UInt32, _ effects: inout Effects) {
        guard liveConnection(of: sender) != .none else { return }
        var position = 0
        while position < sessions[sender].outbox.count {
            let entry = sessions[sender].outbox[position]
            if entry.isToldOnRepeat {
                position += 1
                continue
            }
            guard entry.isComplete else { return }
            answer(sender, position, &effects)
            // A refused identifier is free again [MQTT-4.3.3-4].
            if entry.grade == .once && !entry.reason.isFailure {
                sessions[sender].outbox[position].isToldOnRepeat = true
                position += 1
            } else {
                sessions[sender].outbox.remove(at: position)
            }
        }
    }

    private mutating func answer(_ sender: UInt32, _ position: Int, _ effects: inout Effects) {
        let connection = liveConnection(of: sender)
        let entry = sessions[sender].outbox[position]
        // Outboxes are shared with MRT, whose word for success is another one.
        let reason = entry.reason == .sent ? ReasonCode.success : entry.reason
        var answer = PacketAnswer(
            connection, entry.packetIdentifier, entry.grade == .once ? .received : .accepted,
            reason)
        answer.result = entry.reason
        answer.refusedCount = entry.refusedCount
        if let tag = sessions[sender].sendTags.firstIndex(where: { $0.number == entry.number }) {
            let identifier = sessions[sender].sendTags.remove(at: tag).identifier
            answer.messageIdentifier = effects[connection.lane].bytes.append(identifier)
        }
        if !entry.refusals.isEmpty {
            answer.firstRefusal = UInt32(effects[connection.lane].refusals.count)
            answer.namedRefusalCount = UInt32(entry.refusals.count)
            effects[connection.lane].refusals.append(contentsOf: entry.refusals)
        }
        effects[connection.lane].effects.append(.answerPacket(answer))
        countAnswered(sender, &effects)
    }

    /// The sender has seen the answer to a QoS 2 publication: its identifier is forgotten, and that
    /// is confirmed when it is committed. Where it is not known the answer waits for a commit all
    /// the same: the identifier that was forgotten before may still be in the store.
    mutating func releasePublication(
        _ sender: UInt32, _ identifier: UInt16, _ moment: Moment, _ effects: inout Effects
    ) {
        let connection = liveConnection(of: sender)
        guard let position = outboxPosition(ofPacket: identifier, sender) else {
            confirmRelease(
                sender,
                PacketAnswer(connection, identifier, .complete, .packetIdentifierNotFound),
                &effects)
            return
        }
        // In the outbox what has been answered is told again only on repeat.
        guard sessions[sender].outbox[position].isComplete,
            sessions[sender].outbox[position].isToldOnRepeat
        else {
            // It releases what it has not been told that it was received.
            close(sender, .protocolError, moment, &effects)
            return
        }
        sessions[sender].outbox.remove(at: position)
        if sessions[sender].isPersistent {
            // Not among the rows that a full store leaves out: the identifier will mean another
            // message.
            gathering.remove(
                .outboxes, key: RecordKey.packet(sessions[sender].identifier, identifier))
        }
        confirmRelease(sender, PacketAnswer(connection, identifier, .complete), &effects)
    }

    private mutating func confirmRelease(
        _ sender: UInt32, _ answer: PacketAnswer, _ effects: inout Effects
    ) {
        if sessions[sender].isPersistent {
            gathering.confirmations.append(.answerPacket(answer))
        } else {
            effects[answer.connection.lane].effects.append(.answerPacket(answer))
        }
    }

    /// The connection is gone: what it was not answered an MQTT client sends again, and only of
    /// QoS 2 has to be known.
    ///
    /// What is still under way is told when it comes again. A refusal that went ahead of that would
    /// be the answer to what is on its way, which is then taken for a new send.
    mutating func forgetUnfinishedSends(of sender: UInt32) {
        if sessions[sender].dialect.isMQTT {
            sessions[sender].outbox.removeAll {
                $0.grade != .once || ($0.isComplete && $0.reason.isFailure)
            }
            sessions[sender].sendTags = []
        }
        for position in sessions[sender].outbox.indices {
            sessions[sender].outbox[position].isToldOnRepeat = true
        }
    }

    // MARK: - Rows

    /// Stores that a QoS 2 publication was accepted, together with its message.
    mutating func writeSend(_ entry: OutboxEntry, of sender: UInt32) {
        gathering.putWithSends(sendRow(entry, of: sender))
    }

    func sendRow(_ entry: OutboxEntry, of sender: UInt32) -> RecordChange {
        // Version 2 tells what is told of receivers, which few sends have refused; version 3 also
        // how many there were, named or not.
        let version: UInt8 = entry.refusedCount > 0 ? 3 : entry.refusals.isEmpty ? 1 : 2
        var row = RecordWriter(version: version)
        row.write(entry.number)
        row.write(entry.reason.rawValue)
        if version > 2 { row.write(entry.refusedCount) }
        if version > 1 { row.write(UInt16(entry.refusals.count)) }
        for refusal in entry.refusals {
            row.write(UInt16(refusal.index))
            row.write(refusal.reason.rawValue)
        }
        return RecordChange(
            table: .outboxes,
            key: RecordKey.packet(sessions[sender].identifier, entry.packetIdentifier),
            value: row.bytes, part: .send)
    }

    mutating func restoreSend(
        _ session: UInt32, _ key: [UInt8], _ value: [UInt8]
    ) throws(RestoreError) {
        let version = value.first.map { (2...3).contains($0) ? $0 : 1 } ?? 1
        var row = try RecordReader(value, version: version, table: .outboxes, key: key)
        var entry = OutboxEntry(number: try row.read(UInt64.self), stamp: 0, grade: .once)
        guard let reason = ReasonCode(rawValue: try row.read(UInt8.self)) else {
            throw .unreadableRecord(.outboxes, key: key)
        }
        entry.reason = reason
        if version > 2 { entry.refusedCount = try row.read(UInt32.self) }
        for _ in 0..<(version > 1 ? try row.read(UInt16.self) : 0) {
            let index = UInt32(try row.read(UInt16.self))
            guard let reason = ReasonCode(rawValue: try row.read(UInt8.self)) else {
                throw .unreadableRecord(.outboxes, key: key)
            }
            entry.refusals.append(Refusal(index: index, reason: reason))
        }
        entry.packetIdentifier = RecordKey.readPacket(key)
        entry.isComplete = true
        entry.isToldOnRepeat = true
        // Keys are in the order of identifiers, which is not that of the sends.
        var position = sessions[session].outbox.count
        while position > 0 && sessions[session].outbox[position - 1].number > entry.number {
            position -= 1
        }
        sessions[session].outbox.insert(entry, at: position)
        sessions[session].lastSendNumber = max(
            sessions[session].lastSendNumber, entry.number)
    }

    /// Deletes the rows of a session's QoS 2 publications with the session.
    mutating func deleteSends(of session: UInt32) {
        for entry in sessions[session].outbox where entry.packetIdentifier > 0 {
            gathering.remove(
                .outboxes,
                key: RecordKey.packet(sessions[session].identifier, entry.packetIdentifier))
        }
    }
}

extension RecordKey {
    /// Sorts by session, behind the session's own row.
    static func packet(_ session: UInt64, _ identifier: UInt16) -> [UInt8] {
        number(session) + [UInt8(identifier >> 8), UInt8(identifier & 0xFF)]
    }

    static func readPacket(_ key: [UInt8]) -> UInt16 {
        UInt16(key[8]) << 8 | UInt16(key[9])
    }
}
