// Reads and empties OpenSSL's error queue: SSL_get_error is only correct if the queue has no older
// entries.
import COpenSSL

/// The error code of OpenSSL's last failure.
struct OpenSSLFailure {
    let code: UInt

    /// Takes the earliest entry of this thread's queue, which names the cause, and empties it.
    static func take() -> OpenSSLFailure {
        let code = ERR_get_error()
        ERR_clear_error()
        return OpenSSLFailure(code: code)
    }

    /// OpenSSL's text, such as `wrong version number`.
    var text: String {
        guard code != 0 else { return "no reason given" }
        if let reason = ERR_reason_error_string(code) { return String(cString: reason) }
        if openssl_error_is_system(code) != 0 { return systemErrorText(Int32(code & 0x7FFF_FFFF)) }
        return "error \(String(code, radix: 16))"
    }
}
