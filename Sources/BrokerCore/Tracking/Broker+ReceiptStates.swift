// What operators see of a message with a reference: which of its receivers have it, which have
// applied it, and what became of a recall. It changes nothing.

import BrokerTerms
import Primitives

/// What is known of one receiver of a message.
public struct ReceiverState: Hashable, Sendable {
    public var user: [UInt8]
    /// Whether a device has acknowledged it. Nil for a member of a group of whom only the count is
    /// known: members with one device are not remembered one by one.
    public var isDelivered: Bool?
    /// Whether its application has told what it did with the message.
    public var isApplied: Bool
    /// Whether the message was withdrawn before a device had it.
    public var isWithdrawn: Bool
}

/// A message with a reference, as far as it is remembered.
public struct ReceiptStates: Hashable, Sendable {
    public var sender: [UInt8]
    /// The application's id; empty for none.
    public var messageIdentifier: [UInt8]
    /// The group; nil for users.
    public var group: [UInt8]?
    /// Which receipts its sender asked for.
    public var asks: SendAsks
    public var acceptedUnixMilliseconds: UInt64
    /// When the message expires, in broker time.
    public var deadline: Instant
    public var isExpired: Bool
    public var receiverCount: UInt32
    public var deliveredCount: UInt32
    public var appliedCount: UInt32
    /// Of these, the ones who told a failure; nil for users, whose failures the receipts tell.
    public var failedCount: UInt32?
    /// Whether its sender has recalled it.
    public var isRecalled: Bool
    /// Of a recall that is complete: users who never get it.
    public var withdrawnCount: UInt32
    /// Of a recall that is complete: users who have it or may have it.
    public var lateCount: UInt32
    /// A page of the receivers, in the order of the send, or of the ids of the members.
    public var receivers: [ReceiverState]
    /// The user after whom the next page begins; nil at the end.
    public var next: [UInt8]?
}

extension Broker {
    /// What is known of a message and of a page of its receivers.
    ///
    /// - Parameters:
    ///   - user: the page begins after this user; empty for the first page.
    ///   - countMaximum: at least 1; a page has at most ``CoreLimits/receiptStatesMaximum``.
    /// - Returns: nil if no message of the app with this reference is remembered.
    public mutating func receiptStates(
        of reference: UInt64, app name: [UInt8], after user: [UInt8], countMaximum: Int,
        at moment: Moment
    ) -> ReceiptStates? {
        guard let app = app(named: name), let index = tracking.find(reference, ofApp: app) else {
            return nil
        }
        let deadline = messageDeadline(of: index)
        let send = tracking.sends[index]
        var states = ReceiptStates(
            sender: Array(registry.users[send.sender].name),
            messageIdentifier: send.messageIdentifier, group: nil, asks: send.asks,
            acceptedUnixMilliseconds: send.acceptedUnixMilliseconds, deadline: deadline,
            isExpired: deadline <= moment.instant,
            receiverCount: UInt32(send.receivers.count), deliveredCount: 0, appliedCount: 0,
            failedCount: nil, isRecalled: send.revisionState == .recalled,
            withdrawnCount: send.withdrawnCount, lateCount: send.lateCount, receivers: [], next: nil
        )
        let count = min(max(countMaximum, 1), CoreLimits.receiptStatesMaximum)
        if send.targetKind == .group {
            states.group = send.address
            states.receiverCount = send.memberCount
            states.deliveredCount = send.counts.delivered
            states.appliedCount = send.counts.applied
            states.failedCount = send.counts.failed
        } else {
            states.deliveredCount = UInt32(send.receivers.count { $0.facts.contains(.delivered) })
            states.appliedCount = UInt32(send.receivers.count { $0.facts.contains(.applied) })
        }
        // Of a message to those whom it mentions, they are known.
        if send.targetKind == .group, send.receivers.isEmpty {
            addMembers(after: user, countMaximum: count, of: send, to: &states)
        } else {
            addReceivers(after: user, countMaximum: count, of: send, to: &states)
        }
        workload.charge(states.receivers.count)
        return states
    }

    /// Adds users that the send named.
    private func addReceivers(
        after user: [UInt8], countMaximum: Int, of send: TrackedSend, to states: inout ReceiptStates
    ) {
        let last = send.receivers.firstIndex { registry.users[$0.user].name.elementsEqual(user) }
        let start = user.isEmpty ? 0 : last.map { $0 + 1 } ?? send.receivers.count
        for receiver in send.receivers[start...].prefix(countMaximum) {
            let known = send.targetKind == .group ? send.members[receiver.user] : receiver.facts
            states.receivers.append(state(of: receiver.user, known, in: send))
        }
        if start + countMaximum < send.receivers.count { states.next = states.receivers.last?.user }
    }

    /// Adds members of the group, but its sender. Members that joined later are among them: who
    /// they are is not remembered.
    private func addMembers(
        after user: [UInt8], countMaximum: Int, of send: TrackedSend, to states: inout ReceiptStates
    ) {
        let found = send.address.withUnsafeBytes { registry.apps[send.app].groups.value(for: $0) }
        // The group may have ended.
        guard let group = found else { return }
        var position =
            user.isEmpty ? 0 : memberPosition(in: group, behind: user)
        let members = groupTable.groups[group].memberships
        while position < members.count, states.receivers.count < countMaximum {
            let member = groupTable.memberships[members[position]].user
            position += 1
            guard member != send.sender else { continue }
            states.receivers.append(state(of: member, send.members[member], in: send))
        }
        if position < members.count { states.next = states.receivers.last?.user }
    }

    private func state(
        of user: Index<User>, _ facts: TrackedSend.Facts?, in send: TrackedSend
    ) -> ReceiverState {
        let isApplied = facts?.contains(.applied) == true
        var isDelivered: Bool? = facts?.contains(.delivered) == true || isApplied
        // All or nobody: then the count tells of each.
        if send.targetKind == .group, isDelivered == false {
            isDelivered =
                send.counts.delivered == 0
                ? false : send.counts.delivered == send.memberCount ? true : nil
        }
        return ReceiverState(
            user: Array(registry.users[user].name), isDelivered: isDelivered, isApplied: isApplied,
            isWithdrawn: facts?.contains(.withdrawn) == true)
    }
}
