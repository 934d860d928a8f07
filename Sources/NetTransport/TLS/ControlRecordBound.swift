// The bound of TLS records without application data. OpenSSL reads on within one call as long as
// such records come: a peer that sends key updates (RFC 8446, 4.6.3) without end would keep the
// loop, and no deadline would be looked at.

import COpenSSL

/// Counts the records without application data that a loop reads from one connection in a turn, and
/// ends a connection that sends too many.
final class ControlRecordBound {
    /// Records of handshakes, alerts and key updates of a connection in one turn. A handshake with
    /// fragments of 512 bytes has about twenty; a key update takes 15 µs, so that these take 2 ms.
    static let maximum = 128

    private var count = 0

    /// Begins the turn of a connection.
    func begin() { count = 0 }

    /// Watches a session of the loop.
    func watch(_ session: OpaquePointer) {
        SSL_ctrl(
            session, SSL_CTRL_SET_MSG_CALLBACK_ARG, 0, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Lets the sessions of a context be watched.
    static func enable(in context: OpaquePointer) {
        SSL_CTX_set_msg_callback(context) { isSent, _, part, bytes, _, session, bound in
            // TLS 1.3 has the type of a record within it, other versions before it.
            guard isSent == 0, part == SSL3_RT_HEADER || part == SSL3_RT_INNER_CONTENT_TYPE,
                bytes?.load(as: UInt8.self) != UInt8(SSL3_RT_APPLICATION_DATA),
                let session, let bound
            else { return }
            Unmanaged<ControlRecordBound>.fromOpaque(bound).takeUnretainedValue().add(to: session)
        }
    }

    /// Above the maximum, OpenSSL loses the descriptor: the call fails after the records that it
    /// has read already.
    private func add(to session: OpaquePointer) {
        count += 1
        guard count == Self.maximum + 1 else { return }
        BIO_int_ctrl(SSL_get_rbio(session), BIO_C_SET_FD, Int(BIO_NOCLOSE), -1)
    }

    /// Whether a session has failed for too many such records. Then OpenSSL's error says so.
    static func hasEnded(_ session: OpaquePointer) -> Bool {
        guard SSL_get_fd(session) < 0 else { return false }
        ERR_clear_error()
        ERR_new()
        withVaList([]) { ERR_vset_error(ERR_LIB_SSL, SSL_R_TOO_MANY_KEY_UPDATES, nil, $0) }
        return true
    }
}
