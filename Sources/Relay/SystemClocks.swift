// Where relays read the clocks: their values get the time.

import Glibc
import Primitives

/// The clocks of the system.
package enum SystemClocks {
    /// The monotonic clock and the wall clock. The former counts on while the machine is suspended,
    /// as the broker's clock does (``BrokerTime``).
    package static var now: Moment {
        Moment(
            instant: Instant(milliseconds: milliseconds(CLOCK_BOOTTIME)),
            unixMilliseconds: milliseconds(CLOCK_REALTIME))
    }

    private static func milliseconds(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        // A wall clock may be before 1970.
        return UInt64(max(time.tv_sec, 0)) * 1_000 + UInt64(time.tv_nsec) / 1_000_000
    }
}
