// How often an address was refused, or has registered a user.

import NetTransport
import Primitives
import Threads

/// Counts requests by address within a minute, and in total: those that are refused for their
/// credential, and registrations. It bounds the log lines that an address can cause, the passwords
/// that it can guess and the users that it can make.
final class AddressCounts: Sendable {
    private struct Window {
        let start: Instant
        var count: UInt64
    }

    private struct State {
        var total: UInt64 = 0
        var windows: [SocketAddress: Window] = [:]
    }

    private let state = Locked(State())

    /// Requests of an address within ``windowSeconds`` that are answered and logged one by one: a
    /// person who mistypes needs fewer.
    static let countMaximum: UInt64 = 10
    static let windowSeconds: UInt64 = 60
    /// Addresses that are counted at a time, about 100 bytes each. When there are more, those that
    /// began first are forgotten.
    static let addressesMaximum = 1_024

    /// All requests since the start.
    var total: UInt64 { state.withLock { $0.total } }

    /// Addresses that are counted.
    var addressCount: Int { state.withLock { $0.windows.count } }

    /// Counts a request. Returns the seconds to wait if the address has had too many.
    func note(_ peer: SocketAddress, at now: Instant) -> UInt64? {
        let address = peer.counted
        return state.withLock { state in
            state.total += 1
            var window = state.windows[address] ?? Window(start: now, count: 0)
            if Self.hasEnded(window, at: now) { window = Window(start: now, count: 0) }
            window.count += 1
            state.windows[address] = window
            if state.windows.count > Self.addressesMaximum { Self.trim(&state, at: now) }
            guard window.count > Self.countMaximum else { return nil }
            let passed = now.milliseconds(since: window.start) / 1_000
            return Self.windowSeconds - min(passed, Self.windowSeconds - 1)
        }
    }

    /// Whether another request of an address would be answered with the time to wait.
    func isExceeded(by peer: SocketAddress, at now: Instant) -> Bool {
        state.withLock { state in
            guard let window = state.windows[peer.counted], !Self.hasEnded(window, at: now)
            else { return false }
            return window.count >= Self.countMaximum
        }
    }

    private static func hasEnded(_ window: Window, at now: Instant) -> Bool {
        now.milliseconds(since: window.start) >= windowSeconds * 1_000
    }

    /// Forgets windows that have ended; if there are none, the older half.
    private static func trim(_ state: inout State, at now: Instant) {
        state.windows = state.windows.filter { !hasEnded($0.value, at: now) }
        guard state.windows.count > addressesMaximum else { return }
        let starts = state.windows.values.map(\.start).sorted { $0 < $1 }
        let middle = starts[starts.count / 2]
        state.windows = state.windows.filter { $0.value.start > middle }
    }
}
