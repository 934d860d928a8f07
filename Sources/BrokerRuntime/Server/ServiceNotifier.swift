// Tells systemd how the service is [sd_notify(3)]: one datagram to the socket that NOTIFY_SOCKET
// names. The protocol is stable and this small, so libsystemd is not needed.
import Glibc

/// The service manager, if there is one; without one, every call does nothing.
public struct ServiceNotifier: Sendable {
    private let socketPath: String?
    /// Milliseconds within which ``alive()`` is expected again and again; nil where nobody watches.
    /// Call it at half this interval.
    public let watchdogMilliseconds: UInt64?

    /// Reads the environment that systemd gives to a service of `Type=notify`.
    public init() {
        socketPath = Self.variable("NOTIFY_SOCKET")
        // A child that inherited the variables is not the one that is watched.
        let isMeant = Self.variable("WATCHDOG_PID").map { $0 == String(getpid()) } ?? true
        let microseconds = Self.variable("WATCHDOG_USEC").flatMap(UInt64.init)
        watchdogMilliseconds = isMeant ? microseconds.map { $0 / 1000 } : nil
    }

    /// Listeners are open: what depends on the broker may start.
    public func ready() { notify("READY=1") }

    /// A reload begins; ``ready()`` ends it. The time lets systemd tell this reload from an older
    /// one.
    public func reloading() {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000
        notify("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    /// The broker drains and will end.
    public func stopping() { notify("STOPPING=1") }

    /// The broker is not stuck.
    public func alive() { notify("WATCHDOG=1") }

    /// One line for `systemctl status`.
    public func status(_ line: String) { notify("STATUS=\(line)") }

    /// Failures are not told: nobody is there who could act on them, and the broker serves
    /// regardless.
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
