// One deadline per connection. Received bytes only update a time stamp, which is compared when the
// timer fires, so that a packet does not restart a timer.
import BrokerTerms
import Primitives

extension EventLoop {
    /// Sets the connection's one deadline, in place of its previous one. A `keepAlive` starts again
    /// with every byte that arrives.
    public mutating func setDeadline(
        _ deadline: ConnectionDeadline, for connection: ConnectionID,
        afterMilliseconds milliseconds: UInt64
    ) {
        guard let slot = slot(of: connection), slots[slot].phase == .open else { return }
        switch deadline {
        case .authentication: startTimer(.authentication, slot, milliseconds: milliseconds)
        case .keepAlive:
            settlePending(slot)
            startTimer(.keepAlive, slot, milliseconds: milliseconds)
        }
    }

    /// Removes the connection's deadline, and enables TCP keep-alive to detect a lost peer.
    public mutating func clearDeadline(of connection: ConnectionID) {
        guard let slot = slot(of: connection), slots[slot].phase == .open else { return }
        settlePending(slot)
        cancelTimer(slot)
        probePeer(slot)
    }

    /// Stops counting a connection as pending: it has logged in or is closing.
    mutating func settlePending(_ slot: Int) {
        guard details[slot].isPending else { return }
        pendingHeld -= pendingShare(of: slot)
        details[slot].isPending = false
        pendingCount -= 1
        settleHandshake(slot)
    }

    /// Stops counting the handshake of a pending connection, which counts from accept, also while
    /// the PROXY header before it has not arrived.
    mutating func settleHandshake(_ slot: Int) {
        switch slots[slot].phase {
        case .handshaking: handshakingCount -= 1
        case .awaitingHeader: if slots[slot].tls != nil { handshakingCount -= 1 }
        case .free, .connecting, .open, .flushing, .draining, .dead: return
        }
    }

    // MARK: - Timers

    mutating func startTimer(
        _ timer: ConnectionDetails.Timer, _ slot: Int, milliseconds: UInt64
    ) {
        cancelTimer(slot)
        details[slot].timer = timer
        (details + slot).pointee.timerMilliseconds = Int(milliseconds)
        insertTimer(slot, at: now.advanced(byMilliseconds: milliseconds))
    }

    mutating func cancelTimer(_ slot: Int) {
        wheel.cancel(details[slot].timerToken)
        details[slot].timer = .none
        details[slot].timerToken = .none
    }

    private mutating func insertTimer(_ slot: Int, at deadline: Instant) {
        details[slot].timerToken = wheel.insert(
            deadline: deadline, payload: name(of: slot).rawValue)
    }

    /// Handles all due deadlines.
    @usableFromInline
    mutating func reachDeadlines<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        while let payload = wheel.popDue(at: now) {
            let connection = ConnectionID(rawValue: payload)
            guard let slot = slot(of: connection) else {
                preconditionFailure("the closed connection \(connection) has a timer")
            }
            switch details[slot].timer {
            case .authentication where slots[slot].phase == .awaitingHeader:
                failHeader(slot, .late)
            case .authentication where slots[slot].phase == .handshaking:
                finishClose(slot, .handshakeTimeout)
            case .authentication:
                details[slot].timer = .none
                handler.deadlineReached(.authentication, connection, in: &self)
            case .keepAlive:
                let start = slots[slot].flags.contains(.readPaused) ? now : slots[slot].lastActivity
                let due = start.advanced(
                    byMilliseconds: UInt64(details[slot].timerMilliseconds))
                if due > now {
                    // Bytes have arrived since, or reading was paused.
                    insertTimer(slot, at: due)
                } else {
                    details[slot].timer = .none
                    handler.deadlineReached(.keepAlive, connection, in: &self)
                }
            case .connect:
                finishClose(slot, .connectTimeout)
            case .linger:
                // In the draining phase all bytes have been sent, so the original cause stays.
                finishClose(
                    slot, slots[slot].phase == .draining ? details[slot].cause : .lingerTimeout)
            case .none:
                preconditionFailure(
                    "a timer of connection \(connection) fired that was not started")
            }
        }
    }
}
