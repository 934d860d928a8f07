// Errors of the broker's own keys and files. An invalid credential of a peer is not an error but a
// result of the function that verified it.
import COpenSSL
import Glibc

/// A failure of OpenSSL or the file system.
public enum CredentialError: Error, Hashable, Sendable, CustomStringConvertible {
    /// An OpenSSL function failed; the reason is OpenSSL's own text.
    case cryptography(call: String, reason: String)
    /// A system call on a file failed with this errno.
    case file(call: String, path: String, code: Int32)
    /// The file exists and has invalid contents.
    case unusable(path: String, reason: String)

    public var description: String {
        switch self {
        case .cryptography(let call, let reason): "\(call): \(reason)"
        case .file(let call, let path, let code):
            "\(call) \(path): \(String(cString: strerror(code)))"
        case .unusable(let path, let reason): "\(path): \(reason)"
        }
    }

    /// Takes the oldest error off OpenSSL's queue for this thread and empties the queue, so that
    /// the next failure is not told with this one's reason.
    static func openSSL(_ call: String) -> CredentialError {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0, let text = ERR_reason_error_string(code) else {
            return .cryptography(call: call, reason: "failed without a reason")
        }
        return .cryptography(call: call, reason: String(cString: text))
    }
}
