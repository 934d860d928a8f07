// The errors of setting up a transport: one enum for the module. A later failure of a connection is
// a TransportCloseCause; a fault of this code traps.
import Glibc

/// The reason why a listener, a TLS context, a connect or the loop itself could not be set up.
public enum TransportError: Error, Equatable, Sendable {
    /// A system call failed: its name, its object, and its errno.
    case system(call: String, subject: String, errno: Int32)
    /// OpenSSL failed: the operation, the file concerned (empty if none), and OpenSSL's text.
    case tls(action: String, file: String, detail: String)
    /// A name that does not resolve, or an invalid address.
    case address(String, detail: String)
    /// The loop's table is full.
    case connectionsMaximumReached(Int)
    /// The loop is stopping and starts nothing new.
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

/// The system's text for an errno, with its number.
func systemErrorText(_ errno: Int32) -> String {
    // glibc's strerror is safe to call from several threads since 2.32.
    "\(String(cString: strerror(errno))) (errno \(errno))"
}
