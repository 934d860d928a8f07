// Credentials that are presented without a connection of MRT or MQTT: over the HTTP API. Each
// request presents one, which is looked up again for each.

import Primitives

/// A credential, as the edge has read or verified it.
public enum PresentedCredential: Hashable, Sendable {
    /// SHA-256 of the secret of an app's key.
    case appKey(Digest)
    /// The public part of a token, and SHA-256 of its secret.
    case token(identifier: [UInt8], Digest)
    case verified(VerifiedIdentity)
}

/// Whom a valid credential belongs to.
public struct CredentialHolder: Hashable, Sendable {
    public enum Kind: Hashable, Sendable {
        case appKey(name: [UInt8], role: RegisteredKey.Role)
        /// - Parameter device: the only device that may use the credential; nil for any.
        case user([UInt8], device: [UInt8]?)
    }

    public var app: [UInt8]
    public var kind: Kind
    /// The rights that the credential contains; nil if it has those of the app's users.
    public var ownRights: Rights?
    /// The rights that a connection with it has.
    public var rights: Rights
}

extension Broker {
    /// The holder of a credential at a time in Unix seconds; nil if it is unknown, revoked or
    /// expired. Takes no time that depends on how many there are.
    public func holder(
        of credential: PresentedCredential, unixSeconds now: UInt64
    ) -> CredentialHolder? {
        switch credential {
        case .appKey(let digest):
            guard let entry = registry.keys.find(digest).flatMap({ registry.keys[$0] }),
                entry.key.expiresUnixSeconds > now
            else { return nil }
            return holder(
                .appKey(name: entry.key.name, role: entry.key.role), app: entry.app,
                rights: entry.key.rights)
        case .token(let identifier, let digest):
            guard let token = token(identifier, digest), token.expiresUnixSeconds > now,
                let app = app(named: token.app)
            else { return nil }
            return holder(
                .user(token.user, device: token.device), app: app, rights: token.rights)
        case .verified(let identity):
            guard let app = app(named: identity.app), identity.expiresUnixSeconds > now,
                registry.believes(identity)
            else { return nil }
            return holder(
                .user(identity.user, device: identity.device), app: app, rights: identity.rights)
        }
    }

    private func holder(
        _ kind: CredentialHolder.Kind, app: Index<App>, rights: Rights?
    ) -> CredentialHolder {
        CredentialHolder(
            app: registry.apps[app].name, kind: kind, ownRights: rights,
            rights: rights ?? registry.apps[app].rights)
    }

    private func token(_ identifier: [UInt8], _ digest: Digest) -> Token? {
        identifier.withUnsafeBytes { registry.tokens.find($0, digest: digest) }
            .flatMap { registry.tokens[$0] }
    }

    /// Records the use of a valid credential, rounded to the hour, as a login does.
    public mutating func noteUse(of credential: PresentedCredential, unixSeconds now: UInt64) {
        switch credential {
        case .appKey(let digest):
            if let handle = registry.keys.find(digest) { noteUse(of: handle, now) }
        case .token(let identifier, let digest):
            let handle = identifier.withUnsafeBytes {
                registry.tokens.find($0, digest: digest)
            }
            if let handle { noteUse(of: handle, now) }
        case .verified: break
        }
    }
}
