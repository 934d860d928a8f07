// Tells late receivers that a message was recalled or changed. The messages are committed together
// with the row that says that they are told, and delivered after that commit.

import BrokerTerms
import Primitives

extension Broker {
    /// Puts a message for the late receivers of a piece into their queues.
    mutating func tell(_ index: Index<Revision>, in step: inout Step) {
        guard !commits.room.isFull else { return tellLater(index, at: step.moment) }
        tracking.revisions[index].phase = .telling
        let send = tracking.revisions[index].send
        let isLast = tracking.revisions[index].next == tracking.revisions[index].users.count
        if isLast, case .recall = tracking.revisions[index].kind { noteRecalled(index) }
        let message = insertEvent(of: index, at: step.moment)
        defer { memory.release(message) }
        var tally = RoutingTally(stamp: memory.messages[message].stamp)
        for user in tracking.revisions[index].late {
            if hasReceiver(user) {
                enqueueReceipt(message, of: user, tally: &tally, in: &step)
            } else {
                enqueue(
                    message, offlineQueueOf: user, grade: .durable, tally: &tally, in: &step)
            }
        }
        counters.revisionsTold += UInt64(tracking.revisions[index].late.count)
        counters.receiversRefused += UInt64(tally.refusedCount)
        memory.noteTaken(tally.taken, of: message)
        memory.noteRouted(message)
        tracking.noteChange(of: send)
        commits.continueAtCommit(tracking.revisions.handle(index))
    }

    private mutating func insertEvent(
        of index: Index<Revision>, at moment: Moment
    ) -> Index<Message> {
        let (revision, stamp) = (tracking.revisions[index], makeStamp())
        let send = tracking.sends[revision.send]
        let name = Array(registry.users[send.sender].name)
        var payload = RecordKey.number(send.reference)
        payload.append(UInt8(send.messageIdentifier.count))
        payload += send.messageIdentifier
        // By the sender.
        payload.append(0)
        payload.append(UInt8(revision.detail.count))
        payload += revision.detail + revision.content
        let bytes = name + send.address + payload
        return bytes.withUnsafeBytes { bytes in
            let none = ByteRange.empty.bytes(in: bytes)
            let start = name.count + send.address.count
            return memory.insert(
                MessageParts(
                    kind: revision.keepsCopies ? .update : .recall, marks: [], grade: .durable,
                    time: moment.unixMilliseconds,
                    sender: ByteRange(offset: 0, count: name.count).bytes(in: bytes),
                    address: ByteRange(offset: name.count, count: send.address.count)
                        .bytes(in: bytes), properties: none,
                    payload: ByteRange(offset: start, count: payload.count).bytes(in: bytes)),
                messageIdentifier: none, stamp: stamp,
                deadline: deadline(after: nil, at: moment), sender: .none, senderNumber: 0,
                followsCommit: true)
        }
    }

    /// Tells the late receivers of a piece after an interval: the store had no room.
    mutating func tellLater(_ index: Index<Revision>, at moment: Moment) {
        counters.revisionsDelayed += 1
        // The sender knows already what there is to know.
        if tracking.revisions[index].next == tracking.revisions[index].users.count {
            answerEarly(index)
        }
        wait(
            index,
            until: moment.instant.advanced(byMilliseconds: CoreLimits.receiptMilliseconds))
    }

    private mutating func answerEarly(_ index: Index<Revision>) {
        let revision = tracking.revisions[index]
        tracking.revisions[index].requester = .nobody
        respond(
            to: revision.requester, of: revision, reason: .success,
            answer: RecallAnswer(
                withdrawn: revision.withdrawnCount, late: revision.lateCount,
                names: revision.names))
    }

    /// Notes what the answer to a recall says.
    private mutating func noteRecalled(_ index: Index<Revision>) {
        let revision = tracking.revisions[index]
        tracking.sends[revision.send].revisionState = .recalled
        tracking.sends[revision.send].withdrawnCount = revision.withdrawnCount
        tracking.sends[revision.send].lateCount = revision.lateCount
        tracking.sends[revision.send].detail = []
        tracking.noteChange(of: revision.send)
    }

    /// Ends a recall, a replacement or a collapse whose receivers are all told.
    mutating func complete(_ index: Index<Revision>) {
        let revision = tracking.revisions[index]
        switch revision.kind {
        case .recall: noteRecalled(index)
        case .replacement: break
        case .collapse(let newer):
            noteRecalled(index)
            if tracking.sends.contains(newer) {
                tracking.sends[newer.index].collapses = 0
                tracking.noteChange(of: newer.index)
                settleIfTold(newer.index)
            }
        }
        commits.commitSoon()
        end(index, .success)
    }

    /// Continues a recall or a collapse after a restart. A replacement had its effect with its
    /// first commit; who is told of it is not known any more.
    mutating func resumeRevision(of index: Index<TrackedSend>, at moment: Moment) {
        let send = tracking.sends[index]
        switch send.revisionState {
        case .none, .recalled: break
        case .recalling: resume(.recall, of: index, detail: send.detail, at: moment)
        case .collapsing: resume(.collapse(by: .none), of: index, detail: [], at: moment)
        }
        guard send.collapses != 0 else { return }
        guard let earlier = tracking.find(send.collapses),
            tracking.sends[earlier].revisionState == .none
        else {
            tracking.sends[index].collapses = 0
            return
        }
        tracking.sends[earlier].revisionState = .collapsing
        tracking.noteChange(of: earlier)
        tracking.decide(.recalled, of: earlier)
        resume(
            .collapse(by: tracking.sends.handle(index)), of: earlier, detail: [], at: moment)
    }

    private mutating func resume(
        _ kind: Revision.Kind, of index: Index<TrackedSend>, detail: [UInt8], at moment: Moment
    ) {
        guard tracking.sends[index].revision == nil else { return }
        let new = tracking.insert(
            Revision(kind, of: index, users: receivers(of: index), for: .nobody, detail: detail))
        wait(new, until: moment.instant)
    }
}
