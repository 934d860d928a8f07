// What can go wrong while a transport is set up: one enum for the module. What goes wrong with a
// connection later is a TransportCloseCause; what is our own bug traps.
import Glibc

/// Why a listener, a TLS context, a connect or the loop itself could not be set up.
public enum TransportError: Error, Equatable, Sendable {
    /// A system call failed: which one, on what, and its errno.
    case system(call: String, subject: String, errno: Int32)
    /// OpenSSL refused: what was being done, the file concerned (empty if none), OpenSSL's own
    /// words.
    case tls(action: String, file: String, detail: String)
    /// A name that does not resolve, or an address that cannot be read.
    case address(String, detail: String)
    /// The loop's table holds as many connections as it was made for.
    case connectionsMaximumReached(Int)
    /// The loop is stopping and begins nothing new.
    case loopStopping
}

extension TransportError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .system(let call, let subject, let errno):
            subject.isEmpty
                ? "\(call): \(systemErrorText(errno))"
                : "\(call) \(subject): \(systemErrorText(errno))"
        case .tls(let action, let file, let detail):
            file.isEmpty ? "\(action): \(detail)" : "\(action) from \(file): \(detail)"
        case .address(let address, let detail):
            "\(address): \(detail)"
        case .connectionsMaximumReached(let maximum):
            "the loop already holds its \(maximum) connections"
        case .loopStopping:
            "the loop is stopping"
        }
    }
}

/// The system's sentence for an errno, with its number.
func systemErrorText(_ errno: Int32) -> String {
    // glibc's strerror is safe to call from several threads since 2.32.
    "\(String(cString: strerror(errno))) (errno \(errno))"
}
