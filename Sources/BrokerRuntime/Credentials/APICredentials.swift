// Who makes a request to the HTTP API: the operator, the key of an app or the user's token in
// `Authorization: Bearer`. It is looked up when the head of a request has arrived, and again before
// the request is executed, because the content may have taken seconds.

import Administration
import BrokerCore
import Credentials
import Primitives

/// A credential of a request that was valid when it was presented.
enum APICredential: Sendable {
    case `operator`(Operators.Operator)
    case presented(PresentedCredential, CredentialHolder)

    /// Tells apart operators by their tokens, keys by their names, and users, whatever token they
    /// present.
    var identity: [UInt8] {
        switch self {
        case .operator(let known): return [0] + known.digest.bytes
        case .presented(_, let holder):
            switch holder.kind {
            case .appKey(let name, _): return [1, UInt8(clamping: name.count)] + name
            case .user(let user, _): return [2, UInt8(clamping: user.count)] + user
            }
        }
    }

    var principal: APIPrincipal {
        switch self {
        case .operator(let known): return .operator(name: known.name, role: known.role)
        case .presented(_, let holder):
            func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
            switch holder.kind {
            case .appKey(let name, let role):
                return .appKey(
                    APIPrincipal.AppKey(
                        app: text(holder.app), name: text(name), role: OperatorRole(role),
                        isLimited: holder.ownRights != nil))
            case .user(let user, let device):
                return .user(
                    APIPrincipal.User(
                        app: text(holder.app), user: text(user), device: device.map(text)))
            }
        }
    }
}

/// Finds the holders of credentials.
struct APICredentials: Sendable {
    let shards: Shards
    let operators: Operators

    /// Why there is no credential.
    struct Refusal: Error {
        let detail: String
        /// The core of the shard whose standby knows the credential; nil if none does.
        var elsewhere: SharedBroker?
    }

    /// The shard that has the holder of a credential, if another node of the cluster serves it.
    func standbyPlace(of credential: APICredential) -> Int? {
        guard case .presented(let presented, _) = credential else { return nil }
        return shards.standbyPlace(of: presented)
    }

    /// Whether a credential has the form of an operator's token: it is no key of an app, no token
    /// of a user, and no web token, whose parts are joined by dots (RFC 7515, 7.1).
    static func isOperatorToken(_ text: RawSpan) -> Bool {
        !text.begins(with: AppKey.prefix) && !OpaqueToken.isToken(text)
            && !text.contains(UInt8(ascii: "."))
    }

    /// Whether a credential has the form of a web token, or of none.
    static func isWebToken(_ text: RawSpan) -> Bool {
        !isOperatorToken(text) && !text.begins(with: AppKey.prefix) && !OpaqueToken.isToken(text)
    }

    /// The credential in the field of a request.
    ///
    /// - Parameters:
    ///   - webToken: whose web token it is, if it is one.
    ///   - now: in Unix seconds.
    func find(
        _ text: RawSpan, webToken: Result<VerifiedIdentity, TrustRefusal>?,
        unixSeconds now: UInt64
    ) throws(Refusal) -> APICredential {
        let presented: PresentedCredential
        let refusal: Refusal
        if Self.isOperatorToken(text) {
            guard let known = operators.find(text, unixSeconds: now) else {
                throw Refusal(detail: "no operator has this token")
            }
            return .operator(known)
        }
        if text.begins(with: AppKey.prefix) {
            refusal = Refusal(detail: "no app has this key")
            guard let key = AppKey(presented: text) else { throw refusal }
            presented = .appKey(Digest(key.digest))
        } else if OpaqueToken.isToken(text) {
            refusal = Refusal(detail: "no user has this token")
            guard let token = OpaqueToken(presented: text) else { throw refusal }
            presented = .token(
                identifier: Array(token.id.description.utf8), Digest(token.digest))
        } else {
            switch webToken {
            case .success(let identity):
                presented = .verified(identity)
                refusal = Refusal(detail: "web token: its app is not known, or its key not trusted")
            case .failure(let error): throw Refusal(detail: error.detail)
            case nil: throw Refusal(detail: "web tokens are not verified here")
            }
        }
        // The look-ups of keys and tokens are those of logins: hash tables.
        guard let holder = shards.holder(of: presented, unixSeconds: now) else {
            guard let place = shards.standbyPlace(of: presented) else { throw refusal }
            throw Refusal(
                detail: "another node of the cluster serves this app",
                elsewhere: shards.cores[place])
        }
        return .presented(presented, holder)
    }

    /// The credential as it is now; nil if it was revoked or has expired, or belongs to somebody
    /// else by now. Records the use of it.
    func renewed(_ credential: APICredential, unixSeconds now: UInt64) -> APICredential? {
        switch credential {
        case .operator(let known):
            return operators.admits(known, unixSeconds: now) ? credential : nil
        case .presented(let presented, let earlier):
            let holder = shards[earlier.app].enter { state in
                let holder = state.broker.holder(of: presented, unixSeconds: now)
                if holder != nil { state.broker.noteUse(of: presented, unixSeconds: now) }
                return holder
            }
            // Its rights may have changed with those of the app.
            guard let holder, holder.app == earlier.app, holder.kind == earlier.kind else {
                return nil
            }
            return .presented(presented, holder)
        }
    }
}

extension OperatorRole {
    init(_ role: RegisteredKey.Role) {
        switch role {
        case .view: self = .view
        case .operate: self = .operate
        }
    }
}

extension RegisteredKey.Role {
    /// Nil for a role that a key cannot have.
    init?(_ role: OperatorRole) {
        switch role {
        case .view: self = .view
        case .operate: self = .operate
        case .own: return nil
        }
    }
}

extension RawSpan {
    fileprivate func begins(with prefix: String) -> Bool {
        withUnsafeBytes { $0.starts(with: prefix.utf8) }
    }

    fileprivate func contains(_ byte: UInt8) -> Bool {
        for offset in byteOffsets where self[offset] == byte { return true }
        return false
    }
}
