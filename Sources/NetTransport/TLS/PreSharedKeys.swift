// Pre-shared TLS keys by identity, for devices too small for certificates. The caller decides which
// user an identity belongs to.
import COpenSSL
import Threads

/// The identity and the key with which a connection was established.
public struct PreSharedIdentity: Hashable, Sendable {
    public let name: String
    /// The key's mark: see ``PreSharedKeys/mark(of:)``.
    public let keyMark: UInt64

    public init(name: String, keyMark: UInt64) {
        self.name = name
        self.keyMark = keyMark
    }
}

/// The identity that a client has presented in a handshake.
struct PresentedIdentity {
    /// Printable.
    let name: String
    let hasKey: Bool
}

/// The pre-shared keys of a server, shared by its TLS contexts. It exists as long as the process,
/// because OpenSSL's contexts refer to it.
public final class PreSharedKeys: Sendable {
    private struct State {
        var keys: [String: [UInt8]] = [:]
        /// A number for each key ever known, by which a TLS session identifies its key. Keys come
        /// from the operator's file, so there are few.
        var numbers: [PreSharedIdentity: Int] = [:]
        var identities: [PreSharedIdentity] = []
        /// The latest identities without a key, for the log. A handshake refers to one by its
        /// number, from 1.
        var refused: [String] = []
        var refusedCount = 0

        mutating func refuse(_ identity: String) -> Int {
            let name = PreSharedKeys.printable(identity)
            if refused.count < PreSharedKeys.refusedCountMaximum {
                refused.append(name)
            } else {
                refused[refusedCount % PreSharedKeys.refusedCountMaximum] = name
            }
            refusedCount += 1
            return refusedCount
        }

        /// Whether this is an identity's key now.
        func isCurrent(_ identity: PreSharedIdentity) -> Bool {
            keys[identity.name].map { PreSharedKeys.mark(of: $0) } == identity.keyMark
        }
    }

    /// Shorter keys can be searched for [NIST SP 800-57: 112 bits; rounded up to AES's 128].
    public static let keyByteCountMinimum = 16
    /// OpenSSL's limit.
    public static let keyByteCountMaximum = 64
    public static let identityByteCountMaximum = 128
    /// Identities without a key that are remembered: more than handshakes that end in one turn.
    static let refusedCountMaximum = 256

    private let state = Locked(State())

    public init() {}

    /// Replaces all keys. Open connections stay open; the caller decides whether to close them.
    public func replace(with keys: [String: [UInt8]]) {
        state.withLock { state in
            state.keys = keys
            for (name, key) in keys {
                let identity = PreSharedIdentity(name: name, keyMark: Self.mark(of: key))
                guard state.numbers[identity] == nil else { continue }
                state.identities.append(identity)
                // From 1: a TLS session without a key has 0.
                state.numbers[identity] = state.identities.count
            }
        }
    }

    /// Distinguishes the keys of one identity: a part of the key's SHA-256.
    public static func mark(of key: [UInt8]) -> UInt64 {
        var digest = [UInt8](repeating: 0, count: 32)
        let isDone = EVP_Digest(key, key.count, &digest, nil, EVP_sha256(), nil)
        precondition(isDone == 1, "SHA-256 failed: \(OpenSSLFailure.take().text)")
        return digest.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
    }

    /// Whether the identity has a key now.
    public func contains(_ identity: String) -> Bool {
        state.withLock { $0.keys[identity] != nil }
    }

    // MARK: - OpenSSL

    /// Makes a server's context use these keys.
    func attach(to context: OpaquePointer) {
        SSL_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(self).toOpaque())
        SSL_CTX_set_psk_server_callback(context) { session, identity, key, keyRoom in
            guard let session, let identity, let key,
                let keys = PreSharedKeys.attached(to: SSL_get_SSL_CTX(session))
            else { return 0 }
            // In TLS 1.3 this is asked about tickets of earlier sessions too, which are no text.
            guard let text = String(validatingCString: identity), !PreSharedKeys.hasControl(text)
            else {
                return 0
            }
            return keys.lend(text, to: session, into: key, room: Int(keyRoom))
        }
    }

    private static func attached(to context: OpaquePointer?) -> PreSharedKeys? {
        SSL_CTX_get_ex_data(context, 0).map {
            Unmanaged<PreSharedKeys>.fromOpaque($0).takeUnretainedValue()
        }
    }

    /// Writes an identity's key and returns its length; 0 without a key.
    private func lend(
        _ identity: String, to session: OpaquePointer, into key: UnsafeMutablePointer<UInt8>,
        room: Int
    ) -> UInt32 {
        state.withLock { state in
            guard let secret = state.keys[identity], secret.count <= room else {
                // TLS 1.3 goes on with the certificate of the server.
                Self.note(-state.refuse(identity), of: session)
                return 0
            }
            var mark = Self.mark(of: secret)
            guard let number = state.numbers[PreSharedIdentity(name: identity, keyMark: mark)]
            else { return 0 }
            // The key that a TLS 1.2 ticket names; in 1.3 there is no session yet, and no ticket.
            if let started = SSL_get_session(session),
                SSL_SESSION_set1_ticket_appdata(started, &mark, MemoryLayout<UInt64>.size) != 1
            {
                return 0
            }
            key.update(from: secret, count: secret.count)
            Self.note(number, of: session)
            // A TLS 1.3 ticket would not name its identity. Nothing is lost: a handshake with a
            // pre-shared key is as cheap as a resumption.
            SSL_set_num_tickets(session, 0)
            return UInt32(secret.count)
        }
    }

    /// - Parameter number: of an identity; below 0 for one without a key.
    private static func note(_ number: Int, of session: OpaquePointer) {
        SSL_set_ex_data(session, 0, UnsafeMutableRawPointer(bitPattern: number))
    }

    /// The identity with which a connection was established, if its key is still the same.
    static func identity(of session: OpaquePointer) -> PreSharedIdentity? {
        guard let keys = attached(to: SSL_get_SSL_CTX(session)) else { return nil }
        let number = Int(bitPattern: SSL_get_ex_data(session, 0))
        return keys.state.withLock { state in
            if number > 0 {
                let identity = state.identities[number - 1]
                return state.isCurrent(identity) ? identity : nil
            }
            guard number == 0 else { return nil }
            // A resumed TLS 1.2 session contains its identity and the number of its key.
            guard let carried = SSL_get_psk_identity(session), let mark = ticketMark(of: session)
            else { return nil }
            let identity = PreSharedIdentity(name: String(cString: carried), keyMark: mark)
            return state.isCurrent(identity) ? identity : nil
        }
    }

    /// The identity without a key that a client has presented, with `?` for what cannot be printed;
    /// nil for none, for one that is no text, and for one that many others have followed.
    static func refusedIdentity(of session: OpaquePointer) -> String? {
        guard let keys = attached(to: SSL_get_SSL_CTX(session)) else { return nil }
        let number = -Int(bitPattern: SSL_get_ex_data(session, 0))
        return keys.state.withLock { state in
            guard number > 0, state.refusedCount - number < refusedCountMaximum else { return nil }
            return state.refused[(number - 1) % refusedCountMaximum]
        }
    }

    /// The identity that a client has presented in the handshake of this session; nil for none.
    static func presentedIdentity(of session: OpaquePointer) -> PresentedIdentity? {
        if let name = refusedIdentity(of: session) {
            return PresentedIdentity(name: name, hasKey: false)
        }
        return identity(of: session).map {
            PresentedIdentity(name: printable($0.name), hasKey: true)
        }
    }

    private static func hasControl(_ identity: String) -> Bool {
        identity.utf8.contains { $0 < 0x20 || $0 == 0x7F }
    }

    /// At most as many characters as an identity may have, in ASCII, and none that ends the quotes
    /// around it.
    private static func printable(_ identity: String) -> String {
        String(
            decoding: identity.utf8.prefix(identityByteCountMaximum).map { byte in
                let isPlain = (0x20...0x7E).contains(byte) && byte != 0x22 && byte != 0x5C
                return isPlain ? byte : UInt8(ascii: "?")
            }, as: UTF8.self)
    }

    private static func ticketMark(of session: OpaquePointer) -> UInt64? {
        var data: UnsafeMutableRawPointer?
        var count = 0
        guard SSL_SESSION_get0_ticket_appdata(SSL_get_session(session), &data, &count) == 1,
            let data, count == MemoryLayout<UInt64>.size
        else { return nil }
        return data.loadUnaligned(as: UInt64.self)
    }
}
