// Broker time: the one place that reads clocks. It goes on where the store's last commit left off
// and adds only downtime that can be believed, so that a clock that is set ages nothing.

import BrokerCore
import Glibc
import Primitives
import QueueStore

/// Reads broker time and the wall clock. A plain value: every thread has a copy.
package struct BrokerClock: Sendable {
    /// What is added to the monotonic clock's milliseconds to give broker time.
    let offsetMilliseconds: Int64
    /// Unix milliseconds at broker time 0 where no clock is read at all; nil for the system's
    /// clocks.
    private let simulatedStart: UInt64?

    /// A clock without a clock: the wall clock goes with the broker time that it is asked about,
    /// and ``moment()`` is always the start. For tests that repeat a run exactly.
    package init(simulatedFromUnixMilliseconds start: UInt64) {
        offsetMilliseconds = 0
        simulatedStart = start
    }

    /// Broker time that goes on from a store's last commit.
    ///
    /// On the same boot of the machine the time since then is known exactly. After another boot
    /// only the wall clock can tell: what it says is believed up to `downtimeMaximumSeconds`, and
    /// not at all when it went back.
    init(after stamp: StoreStamp?, downtimeMaximumSeconds: Int) {
        simulatedStart = nil
        let monotonic = Self.milliseconds(of: CLOCK_MONOTONIC)
        guard let stamp else {
            offsetMilliseconds = -monotonic
            return
        }
        let downtime: Int64
        if stamp.boot == Self.currentBoot, stamp.boot != StoreIdentity(high: 0, low: 0) {
            downtime = max(Self.milliseconds(of: CLOCK_BOOTTIME) - Int64(stamp.bootMilliseconds), 0)
        } else {
            let wall = Self.milliseconds(of: CLOCK_REALTIME)
            let passed = wall - Int64(stamp.moment.unixMilliseconds)
            downtime = min(max(passed, 0), Int64(downtimeMaximumSeconds) * 1000)
        }
        // A millisecond more, so that the new run begins after everything the old one did.
        offsetMilliseconds =
            Int64(stamp.moment.instant.milliseconds) + downtime + 1 - monotonic
    }

    /// The time now, in both clocks.
    package func moment() -> Moment {
        if simulatedStart != nil { return moment(at: Instant(milliseconds: 0)) }
        return moment(
            at: Instant(
                milliseconds: UInt64(
                    Self.milliseconds(of: CLOCK_MONOTONIC) + offsetMilliseconds)))
    }

    /// The time now, for who has read the monotonic clock already.
    package func moment(at instant: Instant) -> Moment {
        if let simulatedStart {
            return Moment(
                instant: instant, unixMilliseconds: simulatedStart + instant.milliseconds)
        }
        return Moment(
            instant: instant,
            unixMilliseconds: UInt64(max(Self.milliseconds(of: CLOCK_REALTIME), 0)))
    }

    private static let currentBoot = StoreIdentity.currentBoot()

    private static func milliseconds(of clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
