// The log of a gateway: one line per event, and a limited number of lines about one line, whatever
// its device sends.

import Primitives

/// Counts the lines about one subject, and suppresses those above the limit.
struct LogLimiter {
    private var periodEnd = Instant(milliseconds: 0)
    private var count = 0
    private var suppressedCount = 0

    /// Whether a line may be written now; if so, how many were suppressed since the last one.
    mutating func take(now: Instant) -> Int? {
        if now >= periodEnd {
            periodEnd = now.advanced(byMilliseconds: GatewayLimits.logPeriodMilliseconds)
            count = 0
        }
        guard count < GatewayLimits.logLinesMaximum else {
            suppressedCount += 1
            return nil
        }
        count += 1
        defer { suppressedCount = 0 }
        return suppressedCount
    }
}

/// The events of the log. Operators search for these names: never change one.
public enum GatewayEvent: String, CaseIterable, Sendable {
    case brokerConnected = "broker_connected"
    case brokerLost = "broker_lost"
    /// No connection, or no login: `detail`. Once until the cause changes.
    case brokerUnreachable = "broker_unreachable"
    /// The broker refused the gateway's login: `reason`. Once until the reason changes.
    case brokerRefused = "broker_refused"
    case lineOpen = "line_open"
    case lineClosed = "line_closed"
    case lineUnavailable = "line_unavailable"
    /// Bytes arrive that are no frame: `bytes`. At most once a minute.
    case lineNoise = "line_noise"
    /// A frame was damaged or missing, or the device has closed its connection.
    case lineBroken = "line_broken"
    /// Too many bytes wait for a device that does not read.
    case lineOverrun = "line_overrun"
    /// The device sent a packet that is not allowed: `reason`.
    case deviceFaulty = "device_faulty"
    /// The broker refused the device's login: `reason`. Once until the reason changes.
    case deviceRefused = "device_refused"
    case deviceSilent = "device_silent"
    case willRefused = "will_refused"
    case gatewayStopping = "gateway_stopping"
    /// The counters since the start, after SIGUSR1 and at the end.
    case totals = "totals"
    /// The lines were read again: `lines`, `added`, `removed`.
    case reloaded = "reloaded"
    /// The lines cannot be read or used, and stay as they were: `detail`.
    case reloadFailed = "reload_failed"
}
