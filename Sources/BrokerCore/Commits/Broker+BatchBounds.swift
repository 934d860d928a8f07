// What may be added to the pending batch. Everybody who waits for a commit waits for all of it,
// so that events wait for the next batch once this one has enough.

import Primitives

extension Broker {
    /// Whether an event, the first of a packet, has to wait until the pending batch is handed
    /// over. ``takeResumption()`` tells when that is.
    ///
    /// - Parameter isNewcomer: its client has had no share of late. Those have room of their own,
    ///   so that the clients of another loop do not fill each batch before it is their turn.
    @inline(__always)
    public mutating func mustWait(
        _ event: Event, bytes: UnsafeRawBufferPointer, isNewcomer: Bool
    ) -> Bool {
        let waits =
            hasChanges(factor: isNewcomer ? 2 : 1) && event.growsBatch && commits.pendingBatch.isDue
            || hasMoves && movesQueue(event, bytes: bytes)
        // Acknowledgements may make room in this batch, and nobody would tell of that.
        if waits { commits.awaitNextBatch() }
        return waits
    }

    /// Whether what is due waits, and any event that moves as much.
    var isBatchFull: Bool { hasMoves || hasChanges(factor: 1) && commits.pendingBatch.isDue }

    /// Whether a batch that was full has been handed over since the last call: events that waited
    /// for that, and what is due, may go on.
    public mutating func takeResumption() -> Bool { commits.takeResumption() }

    @inline(__always)
    private func hasChanges(factor: Int) -> Bool {
        commits.pendingBatch.changeCount >= factor * limits.batchChangesMaximum
            || commits.pendingBatch.memoryByteCount >= factor * limits.batchBytesMaximum
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
