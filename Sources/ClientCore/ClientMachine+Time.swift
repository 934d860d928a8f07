// Actions at deadlines: reconnects, late logins, pings.

import BrokerTerms
import Primitives
import WireFormat

extension ClientMachine {
    /// When ``timePassed(now:)`` is due; ``Instant/never`` if nothing is.
    public var nextDeadline: Instant {
        min(phaseDeadline, phase == .joined ? min(keepAliveDeadline, waitingAckDeadline) : .never)
    }

    private var waitingAckDeadline: Instant {
        acknowledgesInbox ? acknowledgementDeadline : .never
    }

    /// When a ping is due, or its answer overdue. Silence of either side counts: a client that only
    /// sends would otherwise never detect a dead peer.
    private var keepAliveDeadline: Instant {
        if pingDeadline != .never { return pingDeadline }
        if accepted.keepAliveSeconds == 0 { return .never }
        return min(lastSent, lastReceived).advanced(bySeconds: UInt64(accepted.keepAliveSeconds))
    }

    /// The clock shows `now`. An early or repeated call is harmless.
    public mutating func timePassed(now: Instant) {
        if now >= phaseDeadline {
            switch phase {
            case .waiting:
                phase = .opening
                phaseDeadline = now.advanced(byMilliseconds: ClientLimits.loginMillisecondsMaximum)
                wantsConnection = true
            case .opening, .joining, .leaving: lose(.keepAliveTimeout, now: now)
            case .stopped, .joined: break
            }
        }
        if phase == .joined, now >= keepAliveDeadline {
            if pingDeadline == .never {
                writesPing = true
                pingDeadline = now.advanced(
                    byMilliseconds: UInt64(accepted.keepAliveSeconds) * 1000 / 2)
            } else {
                lose(.keepAliveTimeout, now: now)
            }
        }
    }
}
