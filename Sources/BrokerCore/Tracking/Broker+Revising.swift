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
            step.effects[connection.loop].respond(
                to: connection, request: identifier, reason: .success,
                body: encoded(answer, byteCountMaximum: request.byteCountMaximum))
        case .refused(let reason):
            if reason == .quotaExceeded { counters.requestsOverQuota += 1 }
            counters.requestsRefused += 1
            step.effects[connection.loop].respond(
                to: connection, request: identifier, reason: reason)
        }
    }

    /// What becomes of a request.
    enum RevisionDecision {
        case begun
        /// The message is recalled already.
        case known(RecallAnswer)
        case refused(ReasonCode)
    }

    /// Checks a request and begins to carry it out.
    mutating func begin(
        _ request: RecallRequest, ofUser user: Index<User>, by rights: Requester,
        for requester: Revision.Requester, in step: inout Step
    ) -> RevisionDecision {
        let app = registry.users[user].app
        guard limits.policy(ofApp: registry.apps[app].name).allowsRecall else {
            return .refused(.notAuthorized)
        }
        // The same answer for a message of others, one that has expired, and one that never was.
        guard let index = sentMessage(request.message, ofUser: user, in: step),
            tracking.sends[index].targetKind == .users
                || tracking.sends[index].targetKind == .group,
            !tracking.sends[index].marks.contains(.isOld),
            messageDeadline(of: index) > step.moment.instant
        else { return .refused(.topicNameInvalid) }
        guard tracking.sends[index].revision == nil else { return .refused(.serverBusy) }
        if tracking.sends[index].revisionState != .none {
            return request.content == nil
                ? .known(answer(ofRecalled: index)) : .refused(.topicNameInvalid)
        }
        guard tracking.takesRevision else { return .refused(.quotaExceeded) }
        guard Int(request.detail.count) <= CoreLimits.revisionDetailBytesMaximum else {
            return .refused(.packetTooLarge)
        }
        let detail = Array(request.detail.bytes(in: step.bytes))
        var content: [UInt8] = []
        if let new = request.content {
            content = Array(new.payload.bytes(in: step.bytes))
            let reason = replace(
                index, with: content, messageByteCount: new.messageByteCount, by: rights)
            guard reason == .success else { return .refused(reason) }
            counters.messagesReplaced += 1
        } else {
            tracking.sends[index].revisionState = .recalling
            tracking.sends[index].detail = detail
            tracking.noteChange(of: index)
            decide(.recalled, of: index)
            counters.messagesRecalled += 1
        }
        let revision = tracking.insert(
            Revision(
                request.content == nil ? .recall : .replacement, of: index,
                users: receivers(of: index), for: requester, detail: detail, content: content,
                byteCountMaximum: request.byteCountMaximum))
        withdrawFromHistory(revision)
        withdrawPiece(of: revision, in: &step)
        return .begun
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

    /// The receivers of a send: those that it named, or the members of its group.
    func receivers(of index: Index<TrackedSend>) -> [Index<User>] {
        let send = tracking.sends[index]
        guard send.targetKind == .group, send.receivers.isEmpty else {
            return send.receivers.map(\.user)
        }
        let group = send.address.withUnsafeBytes {
            registry.apps[send.app].groups.value(for: $0)
        }
        return group.map { group in
            groupTable.groups[group].memberships.map { groupTable.memberships[$0].user }
        } ?? []
    }

    // MARK: - New content

    /// Gives a message new content, wherever it waits.
    ///
    /// - Returns: the reason of a refusal, or success.
    private mutating func replace(
        _ index: Index<TrackedSend>, with content: [UInt8], messageByteCount: UInt32,
        by rights: Requester
    ) -> ReasonCode {
        guard Int(messageByteCount) <= limits.messageMaximum else { return .packetTooLarge }
        let right = authorizeAgain(index, by: rights)
        guard right == .success else { return right }
        guard !commits.room.isFull else { return .quotaExceeded }
        let block = block(of: index, content: content)
        let byteCount = RecordChange.pageByteCount(key: 8, value: block.count)
        guard let permit = admitGrowth(of: byteCount) else { return .quotaExceeded }
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
        return .success
    }

    /// Whether the sender may still send to the receivers of a message.
    private mutating func authorizeAgain(
        _ index: Index<TrackedSend>, by rights: Requester
    ) -> ReasonCode {
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
            case .refused(let reason, _): reason
            case .allowed: .success
            }
        }
    }

    /// The block of a message with other content.
    func block(of index: Index<TrackedSend>, content: [UInt8]) -> [UInt8] {
        let send = tracking.sends[index]
        var fields = MessageFields()
        fields.reference = send.reference
        fields.receipts = send.asks.intersection(.receipts)
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

    private func answer(ofRecalled index: Index<TrackedSend>) -> RecallAnswer {
        let send = tracking.sends[index]
        let late = send.receivers.filter { !$0.facts.contains(.withdrawn) }
        return RecallAnswer(
            withdrawn: send.withdrawnCount, late: send.lateCount,
            names: send.lateCount == 0
                ? []
                : late.prefix(CoreLimits.lateNamesMaximum).map {
                    Array(registry.users[$0.user].name)
                })
    }

    func encoded(_ answer: RecallAnswer, byteCountMaximum: Int) -> [UInt8] {
        answer.encoded(
            byteCountMaximum: min(byteCountMaximum, CoreLimits.recallAnswerBytesMaximum))
    }

    /// Ends a recall, a replacement or a collapse, and answers it with the pending batch.
    mutating func end(_ index: Index<Revision>, _ reason: ReasonCode) {
        let revision = tracking.remove(revision: index)
        if revision.token != .none { deadlines.cancel(revision.token) }
        let answer = RecallAnswer(
            withdrawn: revision.withdrawnCount, late: revision.lateCount, names: revision.names)
        respond(to: revision.requester, of: revision, reason: reason, answer: answer)
    }

    /// Answers a request with the pending batch.
    mutating func respond(
        to requester: Revision.Requester, of revision: Revision, reason: ReasonCode,
        answer: RecallAnswer
    ) {
        switch requester {
        case .client(let connection, let identifier):
            respondAtCommit(
                to: connection, request: identifier, reason: reason,
                body: reason == .success
                    ? encoded(answer, byteCountMaximum: revision.byteCountMaximum) : [])
        case .operator(let number):
            operatorRecalls.complete(
                number, reason: reason, answer: reason == .success ? answer : nil,
                batch: commits.pendingSequence)
            commits.commitSoon()
        case .nobody: break
        }
    }
}
