// Recall and replace: the request of a sender, and its answer. From the request on, no copy is sent
// that was not sent before. The answer follows the commit of all that it tells.

import BrokerTerms
import Primitives

extension Broker {
    /// Recalls a message, or gives it new content.
    mutating func revise(
        _ connection: ConnectionID, identifier: UInt64, _ request: RecallRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let decision = begin(
            request, ofUser: sessions[session].user, by: .session(session),
            for: .client(connection, identifier: identifier), in: &step)
        switch decision {
        case .begun:
            commits.open(RequestKey(connection: connection, identifier: identifier))
        case .known(let answer):
            step.effects[connection.loop].reportRecall(
                to: connection, request: identifier,
                answer: encoded(answer, byteCountMaximum: request.byteCountMaximum))
        case .refused(let reason, let cause):
            if reason == .quotaExceeded { counters.requestsOverQuota += 1 }
            refuse(
                connection, request: identifier, reason, cause: cause,
                about: name(of: request.message, in: step), in: &step)
        }
    }

    /// How the log names a message.
    private func name(
        of message: RecallRequest.Message, in step: borrowing Step
    ) -> [UInt8] {
        switch message {
        case .messageIdentifier(let identifier): return Array(identifier.bytes(in: step.bytes))
        case .reference(let reference):
            let digits = Array(String(reference, radix: 16).utf8)
            return [UInt8](repeating: UInt8(ascii: "0"), count: 16 - digits.count) + digits
        }
    }

    /// What becomes of a request.
    enum RevisionDecision {
        case begun
        /// The message is recalled already.
        case known(RecallAnswer)
        case refused(ReasonCode, LimitName)
    }

    /// Checks a request and begins to carry it out.
    mutating func begin(
        _ request: RecallRequest, ofUser user: Index<User>, by rights: Requester,
        for requester: Revision.Requester, in step: inout Step
    ) -> RevisionDecision {
        let app = registry.users[user].app
        guard limits.policy(ofApp: registry.apps[app].name).allowsRecall else {
            return .refused(.notAuthorized, .recallsOff)
        }
        // The same answer for a message of others, one that has expired, and one that never was.
        guard let index = sentMessage(request.message, ofUser: user, in: step),
            tracking.sends[index].targetKind == .users
                || tracking.sends[index].targetKind == .group,
            !tracking.sends[index].marks.contains(.isOld),
            messageDeadline(of: index) > step.moment.instant
        else { return .refused(.topicNameInvalid, .unknownSend) }
        guard tracking.sends[index].revision == nil else {
            return .refused(.serverBusy, .revisionUnderWay)
        }
        // The moderator has decided on another content.
        if request.content != nil, moderation.isOn, isModerated(index, ofUser: user) {
            return .refused(.notAuthorized, .moderatedReplacement)
        }
        let (right, cause) = authorizeAgain(index, by: rights)
        // Who may not send to the receivers any more takes the copies out, and learns and tells
        // nothing else.
        let maySend = right == .success
        let namesLate = maySend && mayNameReceivers(of: index, rights)
        let state = tracking.sends[index].revisionState
        if state != .none, state != .collapsed || request.content != nil {
            return request.content == nil
                ? .known(answer(ofRecalled: index, naming: namesLate))
                : .refused(.topicNameInvalid, .recalledBefore)
        }
        let byteCount = Int(request.content?.payload.count ?? 0)
        let limit = tracking.limitOfRevisions(
            by: user, ofApp: app, userMaximum: limits.revisionsPerUserMaximum,
            contentByteCount: byteCount)
        guard limit == .none else { return .refused(.quotaExceeded, limit) }
        guard Int(request.detail.count) <= CoreLimits.revisionDetailBytesMaximum else {
            return .refused(.packetTooLarge, .none)
        }
        let detail = maySend ? Array(request.detail.bytes(in: step.bytes)) : []
        var content: [UInt8] = []
        if let new = request.content {
            guard maySend else { return .refused(right, cause == .none ? .sendRight : cause) }
            content = Array(new.payload.bytes(in: step.bytes))
            let (reason, limit) = replace(
                index, with: content, messageByteCount: new.messageByteCount)
            guard reason == .success else { return .refused(reason, limit) }
            counters.messagesReplaced += 1
        } else {
            tracking.sends[index].revisionState = .recalling
            tracking.sends[index].detail = detail
            decide(.recalled, of: index)
            counters.messagesRecalled += 1
        }
        tracking.clearStaying(of: index)
        tracking.noteChange(of: index)
        wakes.noteRevision(of: tracking.sends[index].reference)
        let revision = tracking.insert(
            Revision(
                request.content == nil ? .recall : .replacement, of: index,
                users: receivers(of: index), for: requester, detail: detail, content: content,
                namesLate: namesLate, byteCountMaximum: request.byteCountMaximum))
        withdrawFromHistory(revision)
        withdrawPiece(of: revision, in: &step)
        return .begun
    }

    /// Whether an answer names the receivers who have a message: those that the sender named, if
    /// the sender may ask all of them for receipts.
    private mutating func mayNameReceivers(
        of index: Index<TrackedSend>, _ requester: Requester
    ) -> Bool {
        guard tracking.sends[index].targetKind == .users else { return false }
        for position in tracking.sends[index].receivers.indices {
            let user = tracking.sends[index].receivers[position].user
            let isAllowed = Array(registry.users[user].name).withUnsafeBytes {
                allows(.receipts(of: $0), requester)
            }
            guard isAllowed else { return false }
        }
        return true
    }

    /// The message that a user names, if that user sent it.
    private func sentMessage(
        _ message: RecallRequest.Message, ofUser user: Index<User>, in step: borrowing Step
    ) -> Index<TrackedSend>? {
        switch message {
        case .reference(let reference):
            let found = tracking.find(reference, ofApp: registry.users[user].app)
            return found.flatMap { tracking.sends[$0].sender == user ? $0 : nil }
        case .messageIdentifier(let identifier):
            return tracking.find(
                sentBy: user, messageIdentifier: identifier.bytes(in: step.bytes))
        }
    }

    /// When the message of a send expires.
    func messageDeadline(of index: Index<TrackedSend>) -> Instant {
        let deadline = tracking.sends[index].deadline
        guard !tracking.sends[index].asks.isDisjoint(with: .receipts) else { return deadline }
        let grace = CoreLimits.receiptGraceSeconds * 1_000
        return Instant(milliseconds: deadline.milliseconds - min(grace, deadline.milliseconds))
    }

    /// The receivers of a send: those that it named, or the members of its group that were members
    /// when it was accepted.
    func receivers(of index: Index<TrackedSend>) -> [Index<User>] {
        let send = tracking.sends[index]
        guard send.targetKind == .group, send.receivers.isEmpty else {
            return send.receivers.map(\.user)
        }
        guard let group = group(of: send) else { return [] }
        // Who joined later is not among them.
        return groupTable.groups[group].memberships.compactMap {
            let membership = groupTable.memberships[$0]
            return membership.joinNumber <= send.joinedThrough ? membership.user : nil
        }
    }

    /// The group that a send was addressed to; nil if it has ended.
    func group(of send: borrowing TrackedSend) -> Index<Group>? {
        guard send.targetKind == .group else { return nil }
        return send.address.withUnsafeBytes { registry.apps[send.app].groups.value(for: $0) }
    }

    // MARK: - New content

    /// Gives a message new content, wherever it waits.
    ///
    /// - Returns: the reason of a refusal and its cause, or success.
    private mutating func replace(
        _ index: Index<TrackedSend>, with content: [UInt8], messageByteCount: UInt32
    ) -> (ReasonCode, LimitName) {
        guard Int(messageByteCount) <= limits.messageMaximum else {
            return (.packetTooLarge, .messageBytes)
        }
        guard !commits.room.isFull else { return (.quotaExceeded, commits.room.limit) }
        let block = block(of: index, content: content)
        guard block.count <= replacedBytesMaximum(of: index) else {
            return (.quotaExceeded, .replacedBytes)
        }
        let byteCount = RecordChange.pageByteCount(key: 8, value: block.count)
        guard let permit = admitGrowth(of: byteCount) else {
            return (.quotaExceeded, commits.room.limit)
        }
        let stamp = makeStamp()
        if let message = messageInMemory(of: index) {
            memory.replace(message, block: block, stamp: stamp)
        }
        tracking.sends[index].stamp = stamp
        // The message of the pending batch is stored with the new content.
        if tracking.sends[index].batch != commits.pendingSequence {
            if tracking.sends[index].stored != 0 {
                commits.replace(
                    StoredMessageID(raw: tracking.sends[index].stored), block: block, permit)
            }
            tracking.decide(
                .replaced(block: block, batch: commits.pendingSequence), of: index)
        }
        return (.success, .none)
    }

    /// Bytes that the block of a message may have with new content. Its entries count with the
    /// bytes that it had, so it may grow by what a queue has for each of its messages: then all
    /// messages of a queue that are replaced take no more than twice its bytes.
    private func replacedBytesMaximum(of index: Index<TrackedSend>) -> Int {
        var growth = limits.queueBytesMaximum / UInt64(max(limits.queueCountMaximum, 1))
        if tracking.sends[index].keptNumber != 0 {
            growth = min(
                growth, limits.historyBytesMaximum / UInt64(max(limits.historyCountMaximum, 1)))
        }
        return Int(tracking.sends[index].blockByteCount) + Int(min(growth, UInt64(UInt32.max)))
    }

    /// Whether the sender may still send to the receivers of a message.
    private mutating func authorizeAgain(
        _ index: Index<TrackedSend>, by rights: Requester
    ) -> (ReasonCode, LimitName) {
        var bytes = tracking.sends[index].address
        var target = SendTarget.group(ByteRange(offset: 0, count: bytes.count))
        if tracking.sends[index].targetKind == .users {
            let names = tracking.sends[index].receivers.map {
                Array(registry.users[$0.user].name)
            }
            bytes = names.flatMap { [UInt8($0.count)] + $0 }
            target =
                names.count == 1
                ? .user(ByteRange(offset: 1, count: bytes.count - 1))
                : .users(ids: ByteRange(offset: 0, count: bytes.count), count: names.count)
        }
        return bytes.withUnsafeBytes { bytes in
            switch authorize(target, by: rights, in: bytes) {
            case .refused(let reason, let cause): (reason, cause)
            case .allowed(let target):
                // One of a list is enough: the detail would reach it.
                if case .users(_, _, let refused) = target.receivers, !refused.isEmpty {
                    (.notAuthorized, .sendRight)
                } else {
                    (.success, .none)
                }
            }
        }
    }

    /// The block of a message with other content.
    func block(of index: Index<TrackedSend>, content: [UInt8]) -> [UInt8] {
        let send = tracking.sends[index]
        var fields = MessageFields()
        fields.reference = send.reference
        fields.receipts = send.asks.intersection(.receipts)
        fields.keptNumber = send.keptNumber
        fields.isLate = send.marks.contains(.isLate)
        fields.isUndelivered = send.marks.contains(.isUndelivered)
        let (name, section) = (Array(registry.users[send.sender].name), fields.section())
        let bytes = name + send.address + section + content
        return bytes.withUnsafeBytes { bytes in
            var offset = 0
            func part(_ count: Int) -> ByteRange {
                defer { offset += count }
                return ByteRange(offset: offset, count: count)
            }
            let parts = MessageParts(
                kind: send.targetKind == .group ? .group : .unicast,
                marks: send.marks.contains(.expires) ? [.fields, .expires] : .fields,
                grade: send.grade, time: send.acceptedUnixMilliseconds,
                sender: part(name.count).bytes(in: bytes),
                address: part(send.address.count).bytes(in: bytes),
                properties: part(section.count).bytes(in: bytes),
                payload: part(content.count).bytes(in: bytes))
            var block = [UInt8](repeating: 0, count: parts.blockByteCount)
            block.withUnsafeMutableBytes { parts.write(to: $0) }
            return block
        }
    }

    // MARK: - The answer

    /// - Parameter namesLate: whether the sender is told who is late.
    private func answer(
        ofRecalled index: Index<TrackedSend>, naming namesLate: Bool
    ) -> RecallAnswer {
        let send = tracking.sends[index]
        var answer = RecallAnswer(withdrawn: send.withdrawnCount, late: send.lateCount)
        guard namesLate, send.lateCount > 0 else { return answer }
        let late = send.receivers.lazy.filter { !$0.facts.contains(.withdrawn) }
        answer.names = late.prefix(CoreLimits.lateNamesMaximum).map {
            Array(registry.users[$0.user].name)
        }
        return answer
    }

    func encoded(_ answer: RecallAnswer, byteCountMaximum: Int) -> [UInt8] {
        answer.encoded(
            byteCountMaximum: min(byteCountMaximum, CoreLimits.recallAnswerBytesMaximum))
    }

    /// Ends a recall, a replacement or a collapse, and answers it with the pending batch.
    mutating func end(_ index: Index<Revision>, _ reason: ReasonCode) {
        let revision = tracking.remove(revision: index)
        settleIfTold(revision.send)
        if revision.token != .none { deadlines.cancel(revision.token) }
        let answer = RecallAnswer(
            withdrawn: revision.withdrawnCount, late: revision.lateCount, names: revision.names)
        respond(to: revision.requester, of: revision, reason: reason, answer: answer)
    }

    /// Ends a recall or a replacement whose answer need not wait for a commit.
    mutating func endAtOnce(_ index: Index<Revision>, in step: inout Step) {
        let revision = tracking.remove(revision: index)
        settleIfTold(revision.send)
        let answer = RecallAnswer(
            withdrawn: revision.withdrawnCount, late: revision.lateCount, names: revision.names)
        switch revision.requester {
        case .client(let connection, let identifier):
            commits.close(RequestKey(connection: connection, identifier: identifier))
            guard session(of: connection) != nil else { return }
            step.effects[connection.loop].reportRecall(
                to: connection, request: identifier,
                answer: encoded(answer, byteCountMaximum: revision.byteCountMaximum))
        case .operator(let number):
            operatorRecalls.complete(
                number, reason: .success, answer: answer, batch: commits.pendingSequence - 1)
        case .nobody: break
        }
    }

    /// Answers a request with the pending batch.
    mutating func respond(
        to requester: Revision.Requester, of revision: Revision, reason: ReasonCode,
        answer: RecallAnswer
    ) {
        switch requester {
        case .client(let connection, let identifier) where reason == .success:
            commits.answer(
                RequestKey(connection: connection, identifier: identifier),
                .reportRecall(
                    connection, requestIdentifier: identifier,
                    answer: encoded(answer, byteCountMaximum: revision.byteCountMaximum)))
        case .client(let connection, let identifier):
            respondAtCommit(to: connection, request: identifier, reason: reason, body: [])
        case .operator(let number):
            operatorRecalls.complete(
                number, reason: reason, answer: reason == .success ? answer : nil,
                batch: commits.pendingSequence)
            commits.commitSoon()
        case .nobody: break
        }
    }
}
