// How much libcurl reads of a TLS connection at once.

import CCurl
import COpenSSL

package enum TLSReading {
    /// Lets OpenSSL return after each record without application data. By default it reads on as
    /// long as such records come: a server that sends key updates (RFC 8446, 4.6.3) without end
    /// would keep the relay's thread, and no timeout would be looked at.
    package static func bound(_ handle: curl_handle) {
        curl_set_tls_preparer(handle) { _, context, _ in
            SSL_CTX_ctrl(
                context.map { OpaquePointer($0) }, SSL_CTRL_CLEAR_MODE, Int(SSL_MODE_AUTO_RETRY),
                nil)
            return CURLE_OK
        }
    }
}
