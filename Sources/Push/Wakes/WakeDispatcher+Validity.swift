// When wake-ups end that were asked for before the broker's clock was set. Their ends are times of
// the clock as it was, and a clock without a battery was in 1970.

import MartletClient
import Primitives
import Relay

extension WakeDispatcher {
    /// The end of the validity of a request that has come now, in Unix milliseconds. One that seems
    /// to be over was asked for before the broker's clock was set, because the broker itself drops
    /// what is over: it has its time from now on.
    func expiry(of request: WakeRequest, now: Moment) -> UInt64 {
        let latest = BrokerTime.sum(request.time, PushLimits.validityMilliseconds)
        let expiry = request.expires == 0 ? latest : min(request.expires, latest)
        guard expiry <= brokerTime.agreed(now) else { return expiry }
        return brokerTime.end(
            afterMilliseconds: expiry > request.time ? expiry - request.time : 0, now: now)
    }

    /// Moves the ends of wake-ups that wait, if a login shows that the broker's clock was set
    /// forward.
    ///
    /// - Parameters:
    ///   - serverTime: the broker's clock, in Unix milliseconds.
    ///   - expected: what it would be if it had not been set; nil at the first login, at which only
    ///     a clock is recognised that had never been set before.
    mutating func renewValidities(serverTime: UInt64, expected: UInt64?) {
        for (key, target) in targets {
            var new = target
            new.change { renewed($0, at: serverTime, expected: expected) }
            guard new.pending != target.pending || new.next != target.next else { continue }
            targets[key] = new
            if let newest = new.newest { progress.add(.wake(newest)) }
            totals.renewed += 1
        }
    }

    private func renewed(
        _ wake: Wake, at serverTime: UInt64, expected: UInt64?
    ) -> Wake {
        let latest = BrokerTime.sum(serverTime, PushLimits.validityMilliseconds)
        var wake = wake
        if let expected {
            guard serverTime > BrokerTime.sum(expected, RelayLimits.clockStepMilliseconds),
                // Later ones were asked for by the clock as it is.
                wake.time <= BrokerTime.sum(expected, RelayLimits.clockStepMilliseconds)
            else { return wake }
            wake.expiry = min(BrokerTime.sum(wake.expiry, serverTime - expected), latest)
        } else if wake.time < RelayLimits.clockMinimum, wake.expiry <= serverTime,
            serverTime >= RelayLimits.clockMinimum, wake.expiry > wake.time
        {
            wake.expiry = min(BrokerTime.sum(serverTime, wake.expiry - wake.time), latest)
        }
        return wake
    }
}
