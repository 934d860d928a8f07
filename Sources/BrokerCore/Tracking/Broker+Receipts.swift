// Receipts: what receivers did with a message, told to its sender. A receipt is a message to the
// sender's user. It is committed together with its fact, and delivered after that commit:
//
//     fact ──► row: untold ──► batch: row, told, and message ──committed──► delivered
//                  ▲                        │
//                  └──── no room, later ◄───┘ the store refused it
//
// The batch has two rows of a send whose receipts it tells. The first says that they are untold;
// the second is a part of the message, so a store without room leaves out both.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Facts

    /// Notes that a receiver's device has acknowledged a message with fields.
    @inline(never)
    mutating func noteDelivered(
        _ message: Index<Message>, by session: Index<Session>, in step: inout Step
    ) {
        guard let index = tracked(message) else { return }
        let user = sessions[session].user
        // A member with several devices must not count twice.
        let hasOthers =
            registry.users[user].firstSession != session || sessions[session].nextOfUser != nil
        if hasOthers || registry.users[user].offlineQueue != nil { noteSent(index, to: user) }
        guard tracking.sends[index].asks.contains(.delivered) else { return }
        guard
            !hasOthers || tracking.remembers(user, of: index)
                || limitOfRemembering(memberOf: index) == .none
        else {
            counters.membersUncounted += 1
            return
        }
        guard tracking.note(.delivered, by: user, of: index, remembers: hasOthers) else { return }
        let receipt = Receipt(
            kind: .delivered, user: user, device: Array(sessions[session].device),
            unixMilliseconds: step.moment.unixMilliseconds)
        takeFact(receipt, of: index, in: &step)
    }

    /// Notes what a receiver has told about a message.
    ///
    /// - Returns: the reason of the answer, and what it does not tell.
    mutating func noteApplied(
        _ reference: UInt64, code: UInt8, text: [UInt8], by user: Index<User>, device: [UInt8],
        in step: inout Step
    ) -> (reason: ReasonCode, cause: LimitName) {
        // The same answer for a message of others, one that has expired, and one that never was.
        guard let index = tracking.find(reference, ofApp: registry.users[user].app),
            tracking.sends[index].asks.contains(.applied), isReceiver(user, of: index)
        else { return (.topicNameInvalid, .unknownReference) }
        var receipt = Receipt(
            kind: .applied, user: user, device: device,
            unixMilliseconds: step.moment.unixMilliseconds)
        receipt.code = code
        receipt.text = text
        // The text is in the row until it is told.
        let limit =
            tracking.remembers(user, of: index) ? .none : limitOfRemembering(memberOf: index)
        guard limit == .none else {
            counters.membersRefused += 1
            return (.quotaExceeded, limit)
        }
        guard hasRoomForReceipt(of: index), hasRoom(for: receipt.rowByteCount) else {
            return (.quotaExceeded, commits.room.limit)
        }
        // A repeated request changes nothing. A member that joined when all that received the
        // message have told is no receiver.
        guard tracking.note(.applied, by: user, of: index, remembers: true) else {
            return tracking.knows(.applied, by: user, of: index)
                ? (.success, .none) : (.topicNameInvalid, .none)
        }
        if code >= ReceiptLimits.failureCode { tracking.sends[index].counts.failed += 1 }
        takeFact(receipt, of: index, in: &step)
        return (.success, .none)
    }

    /// Whether one more receipt of a send may wait.
    private func hasRoomForReceipt(of index: Index<TrackedSend>) -> Bool {
        tracking.sends[index].untold.count < CoreLimits.untoldReceiptsMaximum
    }

    /// Whether a user received a message: one that the send named, or another member of the group.
    private func isReceiver(_ user: Index<User>, of index: Index<TrackedSend>) -> Bool {
        switch tracking.sends[index].targetKind {
        case .users: return tracking.sends[index].receivers.contains { $0.user == user }
        case .group:
            let group = group(of: tracking.sends[index])
            guard let group, user != tracking.sends[index].sender else { return false }
            // Of a message to those whom it mentions, they are known.
            let receivers = tracking.sends[index].receivers
            guard receivers.isEmpty || receivers.contains(where: { $0.user == user }) else {
                return false
            }
            // Who joined later did not get it.
            return membership(of: user, in: group).map {
                groupTable.memberships[$0].joinNumber <= tracking.sends[index].joinedThrough
            } ?? false
        case .everybody, .topic: return false
        }
    }

    /// Takes a fact into the row of its send, and tells it.
    private mutating func takeFact(
        _ receipt: Receipt, of index: Index<TrackedSend>, in step: inout Step
    ) {
        commits.commitSoon()
        workload.charge(1)
        tracking.noteChange(of: index)
        guard tracking.sends[index].targetKind == .group else {
            // The row has the receipt until it is told. For what a receiver tells, the room was
            // looked for before.
            let hasRoom =
                hasRoomForReceipt(of: index) && admitGrowth(of: receipt.rowByteCount) != nil
            if hasRoom || receipt.kind == .applied {
                tracking.sends[index].untold.append(receipt)
                tellReceipts(of: index, in: &step)
            } else {
                counters.receiptsDelayed += 1
                tracking.postpone(receipt, of: index)
                startPace(of: index, at: step.moment)
            }
            return
        }
        writeMember(receipt.user, of: index)
        let (counts, memberCount) = (
            tracking.sends[index].counts, tracking.sends[index].memberCount
        )
        let isComplete =
            counts.delivered == memberCount && receipt.kind == .delivered
            || counts.applied == memberCount && receipt.kind == .applied
        guard isComplete || tracking.sends[index].paceToken == .none else { return }
        tellCounts(of: index, by: receipt, in: &step)
    }

    /// Stores what is known of a member of a group. A store without room leaves it out; then a
    /// member may count twice after a failure of the broker, never more than there are members.
    mutating func writeMember(_ user: Index<User>, of index: Index<TrackedSend>) {
        guard let facts = tracking.sends[index].members[user] else { return }
        let key = memberKey(user, of: index)
        var row = RecordWriter(version: 1)
        row.write(facts.rawValue)
        let byteCount = RecordChange.pageByteCount(key: key.count, value: row.bytes.count)
        guard let permit = admitGrowth(of: byteCount) else { return }
        commits.put(RecordChange(table: .trackedSends, key: key, value: row.bytes), permit)
    }

    func memberKey(_ user: Index<User>, of index: Index<TrackedSend>) -> [UInt8] {
        Records.key(
            ofMember: Array(registry.users[user].name),
            tracked: tracking.sends[index].reference,
            app: registry.apps[tracking.sends[index].app].name)
    }

    // MARK: - Telling

    /// Tells how many members of a group have the message. The next receipt follows after an
    /// interval, whatever the number of members.
    private mutating func tellCounts(
        of index: Index<TrackedSend>, by last: Receipt, in step: inout Step
    ) {
        tracking.sends[index].untold = [
            Receipt(
                // Several members are counted, so it is from none of them.
                kind: .counts, user: tracking.sends[index].sender, device: [],
                unixMilliseconds: last.unixMilliseconds)
        ]
        tracking.noteChange(of: index)
        commits.commitSoon()
        startPace(of: index, at: step.moment)
        tellReceipts(of: index, in: &step)
    }

    /// Sends the receipts of a send that are due. What cannot be sent now is tried again later.
    private mutating func tellReceipts(of index: Index<TrackedSend>, in step: inout Step) {
        while let receipt = tracking.sends[index].untold.first {
            guard !commits.room.isFull, send(receipt, of: index, in: &step) else {
                workload.charge(CoreLimits.receiptRetryWork)
                tracking.noteFailure(of: index)
                startPace(of: index, at: step.moment)
                return
            }
            tracking.noteSuccess(of: index)
            tracking.sends[index].untold.removeFirst()
            tracking.sends[index].toldCounts = tracking.sends[index].counts
            tracking.noteChange(of: index)
            commits.commitSoon()
        }
    }

    mutating func startPace(of index: Index<TrackedSend>, at moment: Moment) {
        guard tracking.sends[index].paceToken == .none else { return }
        tracking.sends[index].paceToken = deadlines.insert(
            .receipts(index),
            at: moment.instant.advanced(byMilliseconds: tracking.sends[index].paceMilliseconds))
    }

    /// The interval after a receipt, or after one that could not be sent, has ended.
    mutating func paceReceipts(of index: Index<TrackedSend>, in step: inout Step) {
        tracking.sends[index].paceToken = .none
        // Nobody is left to be told.
        if registry.isDeleted(tracking.sends[index].sender) { return }
        takePostponed(of: index, at: step.moment)
        if !tracking.sends[index].untold.isEmpty {
            tellReceipts(of: index, in: &step)
        } else if tracking.sends[index].counts != tracking.sends[index].toldCounts {
            let receipt = Receipt(
                kind: .counts, user: tracking.sends[index].sender, device: [],
                unixMilliseconds: step.moment.unixMilliseconds)
            tellCounts(of: index, by: receipt, in: &step)
        }
    }

    /// Makes the receipts for which the store had no room.
    private mutating func takePostponed(of index: Index<TrackedSend>, at moment: Moment) {
        for position in tracking.sends[index].receivers.indices
        where tracking.sends[index].receivers[position].facts.contains(.postponed) {
            let receipt = Receipt(
                kind: .delivered, user: tracking.sends[index].receivers[position].user, device: [],
                unixMilliseconds: moment.unixMilliseconds)
            guard hasRoomForReceipt(of: index), admitGrowth(of: receipt.rowByteCount) != nil else {
                startPace(of: index, at: moment)
                return
            }
            tracking.sends[index].receivers[position].facts.remove(.postponed)
            tracking.sends[index].untold.append(receipt)
            tracking.noteChange(of: index)
            commits.commitSoon()
        }
    }

    /// Puts a receipt into the queues of the sender's user. Returns false if no queue takes it.
    private mutating func send(
        _ receipt: Receipt, of index: Index<TrackedSend>, in step: inout Step
    ) -> Bool {
        let (stamp, number) = (makeStamp(), tracking.begin(receipt, of: index))
        let sender = tracking.sends[index].sender
        let deadline = deadline(after: nil, at: step.moment)
        var both = Array(registry.users[receipt.user].name)
        let nameCount = both.count
        both.reserveCapacity(nameCount + 96 + receipt.device.count + receipt.text.count)
        tracking.sends[index].appendPayload(of: receipt, to: &both)
        let message = both.withUnsafeBytes { both in
            let none = ByteRange.empty.bytes(in: both)
            return memory.insert(
                MessageParts(
                    kind: .receipt, marks: [], grade: .durable, time: receipt.unixMilliseconds,
                    sender: ByteRange(offset: 0, count: nameCount).bytes(in: both), address: none,
                    properties: none,
                    payload: ByteRange(offset: nameCount, count: both.count - nameCount)
                        .bytes(in: both)),
                messageIdentifier: none, stamp: stamp, deadline: deadline, sender: .none,
                senderNumber: number, followsCommit: true)
        }
        defer { memory.release(message) }
        var tally = RoutingTally(stamp: stamp)
        if hasReceiver(sender) {
            enqueueReceipt(message, of: sender, tally: &tally, in: &step)
        } else {
            enqueue(message, offlineQueueOf: sender, grade: .durable, tally: &tally, in: &step)
        }
        guard tally.taken > 0 || tally.refusedCount == 0 else {
            tracking.end(number)
            counters.receiptsDelayed += 1
            return false
        }
        counters.receiptsSent += 1
        memory.noteTaken(tally.taken, of: message)
        memory.noteRouted(message)
        completeIfSettled(message, in: &step)
        return true
    }

    mutating func enqueueReceipt(
        _ message: Index<Message>, of user: Index<User>, tally: inout RoutingTally,
        in step: inout Step
    ) {
        var next = registry.users[user].firstSession
        while let session = next {
            if !sessions[session].dialect.isMQTT {
                enqueue(
                    message, session: session, state: EntryState(grade: .durable), tally: &tally,
                    in: &step)
            }
            next = sessions[session].nextOfUser
        }
        let (name, app) = (registry.users[user].name, registry.users[user].app)
        if let audience = audience(ofAddress: .user, name, app: app) {
            enqueue(message, audience: audience, excluding: nil, tally: &tally, in: &step)
        }
    }

    /// Takes the result of the commit of a receipt.
    mutating func settleReceipt(_ number: UInt64, isTakenBack: Bool, in step: inout Step) {
        guard let (handle, receipt) = tracking.end(number), tracking.sends.contains(handle) else {
            return
        }
        guard isTakenBack else { return settleIfTold(handle.index) }
        counters.receiptsDelayed += 1
        counters.receiptsSent -= 1
        // The row in the store says that it is untold.
        let index = handle.index
        if receipt.kind == .counts,
            tracking.sends[index].untold.contains(where: { $0.kind == .counts })
        {
            return
        }
        tracking.sends[index].untold.insert(receipt, at: 0)
        startPace(of: index, at: step.moment)
    }

    // MARK: - Requests

    /// Notes what a receiving application did with a message. The answer waits until that is on
    /// disk.
    mutating func reportApplied(
        _ connection: ConnectionID, identifier: UInt64, _ request: AppliedRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let (reason, cause) = noteApplied(
            request.reference, code: request.code, text: Array(request.text.bytes(in: step.bytes)),
            by: sessions[session].user, device: Array(sessions[session].device), in: &step)
        if reason == .success {
            respondAtCommit(to: connection, request: identifier, reason: .success, body: [])
        } else {
            if reason == .quotaExceeded { counters.requestsOverQuota += 1 }
            let digits = String(request.reference, radix: 16)
            let zeros = repeatElement(UInt8(ascii: "0"), count: 16 - digits.utf8.count)
            refuse(
                connection, request: identifier, reason, cause: cause,
                about: Array(zeros) + Array(digits.utf8), in: &step)
        }
    }
}

extension TrackedSend {
    /// Appends the payload of a receipt: the fields that its kind has, in the form of MRT.
    ///
    ///     | kind | reference, 8 bytes | message id | device | code | text |
    ///     | 3 | reference | message id | group | delivered | applied | failed | members |
    ///
    /// Texts have one byte of length, except the last one; counts have four bytes.
    fileprivate func appendPayload(of receipt: Receipt, to bytes: inout [UInt8]) {
        func append(_ text: some Collection<UInt8>) {
            bytes.append(UInt8(text.count))
            bytes.append(contentsOf: text)
        }
        bytes.append(receipt.kind.rawValue)
        withUnsafeBytes(of: reference.bigEndian) { bytes.append(contentsOf: $0) }
        append(messageIdentifier)
        switch receipt.kind {
        case .delivered: append(receipt.device.prefix(Int(UInt8.max)))
        case .applied:
            append(receipt.device.prefix(Int(UInt8.max)))
            bytes.append(receipt.code)
            bytes.append(contentsOf: receipt.text)
        case .counts:
            append(address)
            for count in [counts.delivered, counts.applied, counts.failed, memberCount] {
                withUnsafeBytes(of: count.bigEndian) { bytes.append(contentsOf: $0) }
            }
        }
    }
}

/// Limits of receipts that are part of the protocols.
public enum ReceiptLimits {
    /// Bytes of what a receiver tells beside its code: two lines of a display.
    public static let textByteCountMaximum = 128
    /// Codes from here on are failures, as reason codes are.
    public static let failureCode: UInt8 = 0x80
}
