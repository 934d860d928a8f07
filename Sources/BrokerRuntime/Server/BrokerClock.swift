// Broker time, and the only code that computes it. Broker time continues from the store's last
// commit and includes only a plausible downtime, so that setting a clock expires no messages.

import BrokerCore
import Glibc
import Primitives
import QueueStore

/// Reads broker time and the wall clock. Every thread has its own copy.
package struct BrokerClock: Sendable {
    /// Broker time minus the monotonic clock, in milliseconds.
    let offsetMilliseconds: Int64
    /// Unix milliseconds at broker time 0 for a simulated clock; nil for the system's clocks.
    private let simulatedStart: UInt64?

    /// A simulated clock, for tests that repeat a run exactly: the wall clock follows broker time,
    /// and ``moment()`` always returns the start.
    package init(simulatedFromUnixMilliseconds start: UInt64) {
        offsetMilliseconds = 0
        simulatedStart = start
    }

    /// Broker time that continues from a store's last commit.
    ///
    /// On the same boot of the machine, the time since then is known exactly. After another boot,
    /// it is the difference of the wall clock, between 0 and `downtimeMaximumSeconds`.
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
        // One millisecond more, so that the new run begins after the last moment of the old one.
        offsetMilliseconds =
            Int64(stamp.moment.instant.milliseconds) + downtime + 1 - monotonic
    }

    private init(offsetMilliseconds: Int64, simulatedStart: UInt64?) {
        self.offsetMilliseconds = offsetMilliseconds
        self.simulatedStart = simulatedStart
    }

    /// The clock whose broker time is that much ahead of this one's.
    func shifted(byMilliseconds difference: Int64) -> BrokerClock {
        BrokerClock(
            offsetMilliseconds: offsetMilliseconds + difference, simulatedStart: simulatedStart)
    }

    /// The time now, in both clocks.
    package func moment() -> Moment {
        if simulatedStart != nil { return moment(at: Instant(milliseconds: 0)) }
        return moment(
            at: Instant(
                milliseconds: UInt64(
                    Self.milliseconds(of: CLOCK_MONOTONIC) + offsetMilliseconds)))
    }

    /// The time now, for callers that have already read the monotonic clock.
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
