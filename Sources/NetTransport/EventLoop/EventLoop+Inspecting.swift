// Queries about a connection, for logs and for logins by certificate.
import BrokerTerms
import COpenSSL
import Primitives

/// The TLS parameters of a connection.
public struct TLSSummary: Sendable, Equatable {
    /// Such as `TLSv1.3`.
    public let version: String
    /// Such as `TLS_AES_128_GCM_SHA256`.
    public let cipher: String
    /// True when an earlier session was resumed.
    public let isResumed: Bool
}

extension EventLoop {
    /// The peer's address; ``SocketAddress/local`` over a Unix-domain socket. Valid during `closed`
    /// too.
    public func peer(of connection: ConnectionID) -> SocketAddress {
        let slot = connection.slot
        guard slot < slotsTouched, slots[slot].generation == connection.generation else {
            return .local
        }
        return details[slot].peer
    }

    /// When the last bytes of a connection arrived, or it was accepted; the start of the clock for
    /// an unknown connection.
    public func lastReceived(of connection: ConnectionID) -> Instant {
        slot(of: connection).map { slots[$0].lastActivity } ?? Instant(milliseconds: 0)
    }

    /// The connections whose peers do not read, among some slots.
    ///
    /// - Parameters:
    ///   - start: the first slot, `next` of the previous call.
    ///   - count: the maximum number of slots to look at.
    /// - Returns: the connections, and the slot to continue with; 0 at the end.
    public func blockedConnections(
        from start: Int, slotCount count: Int
    ) -> (found: [ConnectionID], next: Int) {
        let start = min(start, slotsTouched)
        let end = min(start + count, slotsTouched)
        var found: [ConnectionID] = []
        for slot in start..<end
        where slots[slot].phase == .open && slots[slot].flags.contains(.sendBlocked) {
            found.append(
                ConnectionID(
                    loop: configuration.loopIndex, slot: slot,
                    generation: slots[slot].generation))
        }
        return (found, end == slotsTouched ? 0 : end)
    }

    /// Whether a proxy named the peer of a connection, so that ``peer(of:)`` is not the other end
    /// of its socket.
    public func isPeerNamed(of connection: ConnectionID) -> Bool {
        guard let slot = slot(of: connection) else { return false }
        if case .named = details[slot].proxyState { return true }
        return false
    }

    /// The TLS parameters; nil for a plain or unknown connection.
    public func tlsSummary(of connection: ConnectionID) -> TLSSummary? {
        guard let slot = slot(of: connection), let session = slots[slot].tls,
            let version = SSL_get_version(session), let cipher = SSL_get_current_cipher(session),
            let cipherName = SSL_CIPHER_get_name(cipher)
        else { return nil }
        return TLSSummary(
            version: String(cString: version), cipher: String(cString: cipherName),
            isResumed: SSL_session_reused(session) == 1)
    }

    /// The identity whose pre-shared key the connection uses; nil if it uses none, or the key was
    /// removed or replaced since.
    public func preSharedIdentity(of connection: ConnectionID) -> PreSharedIdentity? {
        guard let slot = slot(of: connection), let session = slots[slot].tls else { return nil }
        return PreSharedKeys.identity(of: session)
    }

    /// The pre-shared identity that the client has presented and that has no key, printable and of
    /// at most 128 characters; nil for none.
    public func refusedPreSharedIdentity(of connection: ConnectionID) -> String? {
        guard let slot = slot(of: connection), let session = slots[slot].tls else { return nil }
        return PreSharedKeys.refusedIdentity(of: session)
    }

    /// The certificate that the peer presented, in DER; nil if it presented none. It was verified
    /// according to the TLS context.
    public func peerCertificate(of connection: ConnectionID) -> [UInt8]? {
        guard let slot = slot(of: connection), let session = slots[slot].tls,
            let certificate = SSL_get1_peer_certificate(session)
        else { return nil }
        defer { X509_free(certificate) }
        let byteCount = i2d_X509(certificate, nil)
        guard byteCount > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(byteCount))
        bytes.withUnsafeMutableBufferPointer { buffer in
            var end = buffer.baseAddress
            _ = i2d_X509(certificate, &end)
        }
        return bytes
    }
}
