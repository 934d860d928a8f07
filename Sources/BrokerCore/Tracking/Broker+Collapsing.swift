// Collapse keys: a send takes the place of the sender's earlier one with the same key. The earlier
// message is held until the newer one is stored, so that no failure leaves both out, and then
// withdrawn. The row of the newer send says so until that is done.

import BrokerTerms
import Primitives

extension Broker {
    /// Begins to withdraw an earlier send with the same key.
    mutating func beginCollapse(of earlier: Index<TrackedSend>, by newer: Index<TrackedSend>) {
        // One that is recalled, or gives way already, is on its way out.
        guard tracking.sends[earlier].revision == nil,
            tracking.sends[earlier].revisionState == .none,
            !tracking.sends[earlier].marks.contains(.isOld),
            tracking.takesRevision
        else { return }
        tracking.sends[newer].collapses = tracking.sends[earlier].reference
        var revision = Revision(
            .collapse(by: tracking.sends.handle(newer)), of: earlier,
            users: receivers(of: earlier), for: .nobody)
        revision.phase = .awaiting
        let index = tracking.insert(revision)
        decide(.held, of: earlier)
        tracking.noteChange(of: earlier)
        commits.continueAtCommit(tracking.revisions.handle(index))
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
            if tracking.sends.contains(newer) {
                tracking.sends[newer.index].collapses = 0
                tracking.noteChange(of: newer.index)
                settleIfTold(newer.index)
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
}
