// Pre-shared TLS keys by identity, for peers too small for certificates. It knows secrets and the
// names they go by; whom a name stands for is not decided here.
import COpenSSL
import Threads

/// The pre-shared keys of a server, shared by its TLS contexts. Lives as long as the process:
/// OpenSSL's contexts point at it.
public final class PreSharedKeys: Sendable {
    private struct State {
        var keys: [String: [UInt8]] = [:]
        /// A number for each identity ever known, by which a TLS session remembers its own.
        /// Identities come from the operator's file, so there are few.
        var numbers: [String: Int] = [:]
        var names: [String] = []
    }

    /// Shorter keys can be searched for [NIST SP 800-57: 112 bits; rounded up to AES's 128].
    public static let keyByteCountMinimum = 16
    /// As OpenSSL takes them.
    public static let keyByteCountMaximum = 64
    public static let identityByteCountMaximum = 128

    private let state = Locked(State())

    public init() {}

    /// Exchanges all keys. Connections that are open stay; whether they may is the caller's matter.
    public func replace(with keys: [String: [UInt8]]) {
        state.withLock { state in
            state.keys = keys
            for name in keys.keys where state.numbers[name] == nil {
                state.names.append(name)
                // From 1: a TLS session without one remembers 0.
                state.numbers[name] = state.names.count
            }
        }
    }

    /// Whether the identity has a key now.
    public func contains(_ identity: String) -> Bool {
        state.withLock { $0.keys[identity] != nil }
    }

    // MARK: - OpenSSL

    /// Makes a server's context ask here.
    func attach(to context: OpaquePointer) {
        SSL_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(self).toOpaque())
        SSL_CTX_set_psk_server_callback(context) { session, identity, key, keyRoom in
            guard let session, let identity, let key,
                let keys = PreSharedKeys.attached(to: SSL_get_SSL_CTX(session))
            else { return 0 }
            return keys.lend(String(cString: identity), to: session, key, Int(keyRoom))
        }
    }

    private static func attached(to context: OpaquePointer?) -> PreSharedKeys? {
        SSL_CTX_get_ex_data(context, 0).map {
            Unmanaged<PreSharedKeys>.fromOpaque($0).takeUnretainedValue()
        }
    }

    /// Writes an identity's key; 0 bytes where there is none.
    private func lend(
        _ identity: String, to session: OpaquePointer, _ key: UnsafeMutablePointer<UInt8>,
        _ room: Int
    ) -> UInt32 {
        state.withLock { state in
            guard let secret = state.keys[identity], secret.count <= room,
                let number = state.numbers[identity]
            else { return 0 }
            key.update(from: secret, count: secret.count)
            SSL_set_ex_data(session, 0, UnsafeMutableRawPointer(bitPattern: number))
            // A TLS 1.3 ticket would not say whose it is. Nothing is lost: a handshake with a
            // pre-shared key is as cheap as a resumption.
            SSL_set_num_tickets(session, 0)
            return UInt32(secret.count)
        }
    }

    /// Whose key a connection was made with, if that identity has a key now.
    static func identity(of session: OpaquePointer) -> String? {
        guard let keys = attached(to: SSL_get_SSL_CTX(session)) else { return nil }
        let number = Int(bitPattern: SSL_get_ex_data(session, 0))
        return keys.state.withLock { state in
            if number > 0 {
                let name = state.names[number - 1]
                return state.keys[name] == nil ? nil : name
            }
            // A resumed TLS 1.2 session carries its identity along.
            guard let carried = SSL_get_psk_identity(session) else { return nil }
            let name = String(cString: carried)
            return state.keys[name] == nil ? nil : name
        }
    }
}
