// What may be added to the pending batch. Everybody who waits for a commit waits for all of it,
// so that events wait for the next batch once this one has enough.

import Primitives

extension Broker {
    /// Whether an event, the first of a packet, has to wait until the pending batch is handed
    /// over. ``takeResumption()`` tells when that is.
    ///
    /// A batch is full with ``CoreLimits/batchChangesMaximum`` changes. A quarter of these is for
    /// clients that have had a share of late: the others, who come first, would else fill each
    /// batch. Beyond these there is room for as many again: for clients that have had no share and
    /// ask for little, and for acknowledgements, which take entries out that are not stored yet.
    ///
    /// - Parameter isNewcomer: its client has had no share of late.
    @inline(__always)
    public mutating func mustWait(
        _ event: Event, bytes: UnsafeRawBufferPointer, isNewcomer: Bool
    ) -> Bool {
        let waits =
            hasChanges(quarters: 3) && exceedsBatch(event, bytes: bytes, isNewcomer: isNewcomer)
            || hasMoves && movesQueue(event, bytes: bytes)
        // Acknowledgements may make room in this batch, and nobody would tell of that.
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

    /// Whether what is due waits, and any event that moves as much.
    var isBatchFull: Bool { hasMoves || hasChanges(quarters: 4) && commits.pendingBatch.isDue }

    /// Whether a batch that was full has been handed over since the last call: events that waited
    /// for that, and what is due, may go on.
    public mutating func takeResumption() -> Bool { commits.takeResumption() }

    @inline(__always)
    private func hasChanges(quarters: Int) -> Bool {
        4 * commits.pendingBatch.changeCount >= quarters * limits.batchChangesMaximum
            || 4 * commits.pendingBatch.memoryByteCount >= quarters * limits.batchBytesMaximum
    }

    /// Whether whole queues that are moved or removed are enough for one commit.
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
            // Whose session it ends, or what it acknowledges, is not known before it is let in.
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
