// Limits what events add to the pending batch. A commit delays everyone who waits for it, so events
// wait for the next batch once this one is full. The schedule of events asks before each packet.

import Primitives

extension Broker {
    /// Whether an event must wait until the pending batch is handed over, which
    /// ``takeResumption()`` reports.
    ///
    /// A batch is full with ``CoreLimits/batchChangesMaximum`` changes. A quarter of these is
    /// reserved for clients that have had a share recently: newcomers are served first and would
    /// otherwise fill every batch. As many changes again are allowed for newcomers that ask for
    /// little, and for acknowledgements, which remove entries that are not stored yet.
    ///
    /// - Parameter isNewcomer: the client has had no share recently.
    @inline(__always)
    public mutating func mustWait(
        _ event: Event, bytes: UnsafeRawBufferPointer, isNewcomer: Bool
    ) -> Bool {
        let waits =
            hasChanges(quarters: 3) && exceedsBatch(event, bytes: bytes, isNewcomer: isNewcomer)
            || hasMoves && movesQueue(event, bytes: bytes)
        // Acknowledgements may make room in this batch, and nothing reports that.
        if waits { commits.awaitNextBatch() }
        return waits
    }

    /// Whether a batch that is nearly full has no room for an event.
    @inline(never)
    private mutating func exceedsBatch(
        _ event: Event, bytes: UnsafeRawBufferPointer, isNewcomer: Bool
    ) -> Bool {
        guard commits.pendingBatch.isDue else { return false }
        switch event.batchEffect {
        case .none: return false
        case .settles: return hasChanges(quarters: 8)
        case .adds where isNewcomer && asksForLittle(event, bytes: bytes):
            return hasChanges(quarters: 8)
        case .adds: return isNewcomer || hasChanges(quarters: 4)
        }
    }

    /// Whether an event adds few changes, as far as that can be told.
    private mutating func asksForLittle(_ event: Event, bytes: UnsafeRawBufferPointer) -> Bool {
        let changeCount =
            switch event {
            case .sendReceived(_, let request):
                if case .users(_, let count) = request.target {
                    count
                } else {
                    expectedWork(of: event, bytes: bytes)
                }
            case .subscribeReceived(_, let request): request.filters.count
            case .unsubscribeReceived(_, let request): request.filters.count
            default: expectedWork(of: event, bytes: bytes)
            }
        return changeCount <= limits.smallEventChangesMaximum
    }

    /// Whether deadlines wait for the next batch. Events come first in a turn and may fill each
    /// batch, so deadlines have a share that events cannot take: wills, the end of sessions and the
    /// end of credentials are due at their time, however much clients ask for.
    var mustDeadlinesWait: Bool {
        let share = commits.pendingBatch.deadlineShare
        guard
            share.changeCount >= limits.deadlineChangesMaximum
                || share.movedCount >= limits.batchMovesMaximum
                || share.memoryByteCount >= limits.batchBytesMaximum / 4
        else { return false }
        return hasMoves || hasChanges(quarters: 4) && commits.pendingBatch.isDue
    }

    /// Whether a full batch has been handed over since the last call: the events and deadlines that
    /// waited for it may continue.
    public mutating func takeResumption() -> Bool { commits.takeResumption() }

    @inline(__always)
    private func hasChanges(quarters: Int) -> Bool {
        4 * commits.pendingBatch.changeCount >= quarters * limits.batchChangesMaximum
            || 4 * commits.pendingBatch.memoryByteCount >= quarters * limits.batchBytesMaximum
    }

    /// Whether the batch moves or removes as many entries of whole queues as one commit may.
    @inline(__always)
    private var hasMoves: Bool { commits.pendingBatch.movedCount >= limits.batchMovesMaximum }

    /// Whether the store may move or remove a whole queue for an event.
    private func movesQueue(_ event: Event, bytes: UnsafeRawBufferPointer) -> Bool {
        switch event {
        case .subscribeReceived(let connection, let request):
            guard let session = session(of: connection), sessions[session].isPersistent
            else { return false }
            // The packet is taken as a whole: any filter of a list may be the address.
            if case .one(let request) = request.filters,
                !request.filter.bytes(in: bytes).starts(with: "$u/".utf8)
            {
                return false
            }
            return registry.users[sessions[session].user].offlineQueue != nil
        case .connectReceived(_, let request):
            // The session that a login ends, and what it acknowledges, are not known before it is
            // accepted.
            return request.startsClean || request.resume != nil
        case .disconnectReceived(let connection, let request):
            guard let session = session(of: connection) else { return false }
            return leavesQueue(
                session, expirySeconds: request.sessionExpirySeconds)
        case .connectionClosed(let connection, _), .peerFaulted(let connection, _):
            guard let session = session(of: connection) else { return false }
            return leavesQueue(session, expirySeconds: nil)
        default:
            return false
        }
    }

    /// Whether a session has a queue and ends with its connection.
    private func leavesQueue(_ session: Index<Session>, expirySeconds: UInt32?) -> Bool {
        sessions[session].isPersistent
            && (expirySeconds ?? sessions[session].expirySeconds) == 0
            && (sessions[session].inbox.count > 0
                || commits.awaitsArrivals(in: sessions[session].inbox.queue))
    }
}
