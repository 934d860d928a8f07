// Reports the state of the service to systemd [sd_notify(3)]: one datagram to the socket that
// NOTIFY_SOCKET names. The protocol is stable and small, so libsystemd is not needed.
import Glibc

/// Reports to the service manager. Without one, every call has no effect.
public struct ServiceNotifier: Sendable {
    private let socketPath: String?
    /// The watchdog interval, within which ``alive()`` must be called repeatedly; nil without a
    /// watchdog. Call it at half this interval.
    public let watchdogMilliseconds: UInt64?

    /// Reads the environment that systemd gives to a service of `Type=notify`.
    public init() {
        socketPath = Self.variable("NOTIFY_SOCKET")
        // A child process that inherited the variables is not watched.
        let isMeant = Self.variable("WATCHDOG_PID").map { $0 == String(getpid()) } ?? true
        let microseconds = Self.variable("WATCHDOG_USEC").flatMap(UInt64.init)
        watchdogMilliseconds = isMeant ? microseconds.map { $0 / 1000 } : nil
    }

    /// Reports that the listeners are open: services that depend on the broker may start.
    public func ready() { notify("READY=1") }

    /// Reports that a reload begins; ``ready()`` ends it. The time lets systemd distinguish this
    /// reload from an earlier one.
    public func reloading() {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000
        notify("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    /// Reports that the broker is stopping.
    public func stopping() { notify("STOPPING=1") }

    /// Reports to the watchdog that the broker is running.
    public func alive() { notify("WATCHDOG=1") }

    /// Sets the line that `systemctl status` shows.
    public func status(_ line: String) { notify("STATUS=\(line)") }

    /// Failures are ignored: the broker serves clients regardless of the service manager.
    private func notify(_ message: String) {
        guard let socketPath, let first = socketPath.utf8.first else { return }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var name = Array(socketPath.utf8)
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        // A leading @ means a name without a file: its first byte is NUL [unix(7)].
        if first == UInt8(ascii: "@") { name[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(message.utf8)
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(
                    descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT), $0,
                    length)
            }
        }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }
}
