// Collapse keys: a send takes the place of the sender's earlier one with the same key. The earlier
// message is held until the newer one is stored, so that no failure leaves both out, and then
// withdrawn from those receivers that took the newer one. The row of the newer send says so until
// that is done. ``supersede(_:in:)`` needs none of this: both messages are in one batch.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - Admission

    /// What becomes of a send with a key.
    enum CollapseDecision {
        /// The earlier message cannot give way now.
        case refused(ReasonCode, LimitName)
        /// - Parameter givesPlace: whether there is an earlier one, which gives its place among
        ///   those that are remembered.
        case allowed(givesPlace: Bool)
    }

    /// Whether the earlier message with the key of a send can give way now.
    mutating func decideCollapse(
        _ request: SendRequest, to target: AuthorizedTarget, fromUser user: Index<User>,
        key: [UInt8]
    ) -> CollapseDecision {
        let (kind, address) = addressTracked(by: target)
        var send = TrackedSend(
            reference: 0, app: registry.users[user].app, sender: user, session: 0, number: 0,
            messageIdentifier: [], asks: [], grade: request.grade, targetKind: kind,
            address: address, acceptedUnixMilliseconds: 0, deadline: Instant(milliseconds: 0))
        send.collapseKey = key
        takeReceivers(of: target, into: &send)
        guard let earlier = tracking.find(collapsedBy: send) else {
            return .allowed(givesPlace: false)
        }
        if let revision = tracking.sends[earlier].revision,
            tracking.revisions[revision].keepsCopies
        {
            counters.collapsesRefused += 1
            return .refused(.serverBusy, .replacementUnderWay)
        }
        guard mayCollapse(earlier) else { return .allowed(givesPlace: false) }
        if tracking.sends[earlier].batch != commits.pendingSequence {
            let limit = tracking.limitOfRevisions(
                by: user, ofApp: send.app, userMaximum: limits.revisionsPerUserMaximum)
            guard limit == .none else {
                counters.collapsesRefused += 1
                return .refused(.quotaExceeded, limit)
            }
        }
        return .allowed(givesPlace: tracking.sends[earlier].isSettled)
    }

    /// Whether a send waits that can give way. One that is recalled, or gives way already, is on
    /// its way out.
    func mayCollapse(_ index: Index<TrackedSend>) -> Bool {
        tracking.sends[index].revision == nil && tracking.sends[index].revisionState == .none
            && !tracking.sends[index].marks.contains(.isOld)
    }

    // MARK: - Collapsing

    /// Begins to withdraw an earlier send with the same key.
    mutating func beginCollapse(
        of earlier: Index<TrackedSend>, by newer: Index<TrackedSend>, in step: inout Step
    ) {
        guard mayCollapse(earlier) else { return }
        guard noteStaying(of: earlier) else {
            // Too many to remember: the earlier message stays for all.
            counters.collapsesSkipped += 1
            return
        }
        wakes.noteRevision(of: tracking.sends[earlier].reference)
        if supersede(earlier, in: &step) { return }
        tracking.sends[newer].collapses = tracking.sends[earlier].reference
        var revision = Revision(
            .collapse(by: tracking.sends.handle(newer)), of: earlier,
            users: receiversCollapsing(earlier), for: .nobody)
        revision.phase = .awaiting
        let index = tracking.insert(revision)
        decide(.held, of: earlier)
        tracking.noteChange(of: earlier)
        commits.continueAtCommit(tracking.revisions.handle(index))
    }

    /// Notes the receivers that did not take the message that is being routed. The earlier one
    /// stays in their queues.
    ///
    /// - Returns: false if they are too many.
    private mutating func noteStaying(of earlier: Index<TrackedSend>) -> Bool {
        tracking.clearStaying(of: earlier)
        let users = untakenReceivers.users
        guard !users.isEmpty else { return true }
        let isRemembered =
            tracking.sends[earlier].targetKind == .group
            && tracking.sends[earlier].receivers.isEmpty
        guard !isRemembered || users.count <= CoreLimits.stayingMembersMaximum else {
            return false
        }
        for user in users where isRemembered && !tracking.remembers(user, of: earlier) {
            guard limitOfRemembering(memberOf: earlier) == .none else { return false }
        }
        for user in users {
            tracking.noteStaying(earlier, of: user)
            if isRemembered { writeMember(user, of: earlier) }
        }
        tracking.noteChange(of: earlier)
        return true
    }

    /// The receivers from whom a send is withdrawn that gives way.
    func receiversCollapsing(_ index: Index<TrackedSend>) -> [Index<User>] {
        let all = receivers(of: index)
        guard tracking.sends[index].marks.contains(.hasStays) else { return all }
        return all.filter { !tracking.stays(index, of: $0) }
    }

    /// Withdraws the earlier message, or lets it go on if the store refused the newer one.
    mutating func continueCollapse(
        _ index: Index<Revision>, isStored: Bool, in step: inout Step
    ) {
        guard case .collapse(let newer) = tracking.revisions[index].kind else { return }
        let earlier = tracking.revisions[index].send
        guard isStored, tracking.sends.contains(newer) else {
            // Sessions that waited for the message are served after this result.
            decide(.delivered, of: earlier)
            tracking.clearStaying(of: earlier)
            if tracking.sends.contains(newer) {
                tracking.sends[newer.index].collapses = 0
                tracking.noteChange(of: newer.index)
                settleIfTold(newer.index)
            } else {
                tracking.noteLatest(earlier)
            }
            _ = tracking.remove(revision: index)
            settleIfTold(earlier)
            return
        }
        counters.messagesCollapsed += 1
        tracking.sends[earlier].revisionState = .collapsing
        tracking.noteChange(of: earlier)
        decide(.recalled, of: earlier)
        withdrawPiece(of: index, in: &step)
    }

    /// Ends a collapse. Where copies stay, users may still be sent the earlier message, and its
    /// sender can recall it.
    mutating func completeCollapse(of earlier: Index<TrackedSend>) {
        guard tracking.sends[earlier].marks.contains(.hasStays),
            tracking.sends[earlier].targetKind == .users
        else { return }
        tracking.sends[earlier].revisionState = .none
        tracking.noteChange(of: earlier)
        decide(.delivered, of: earlier)
    }

    /// Forgets a send that has given way, if its user or its app has more than may be: it gave its
    /// place to the newer one.
    mutating func forgetCollapsed(_ index: Index<TrackedSend>) {
        let (user, app) = (tracking.sends[index].sender, tracking.sends[index].app)
        guard
            tracking.count(ofUser: user) > limits.trackedSendsPerUserMaximum
                || tracking.count(ofApp: app) > limits.trackedSendsPerAppMaximum,
            tracking.sends[index].revisionState == .collapsed,
            tracking.sends[index].hasNothingToTell, tracking.sends[index].members.isEmpty
        else { return }
        untrack(index)
    }
}
