// Why somebody may do something, or may not: the question that every operator asks of access
// rights.

import Primitives

/// Which right decides, and where it was written.
public struct RightsExplanation: Hashable, Sendable {
    /// Whose rights they are.
    public enum Origin: Hashable, Sendable {
        /// Those of all of the app's users: the credential names none.
        case app
        /// An opaque token's, by its public part.
        case token([UInt8])
        /// Those that the edge verified, by what vouched for them.
        case verified(VerifiedIdentity.Proof, voucher: [UInt8])
    }

    /// The right that allows it; nil where none does and it is refused.
    public var right: [UInt8]?
    public var origin: Origin
    /// Whether the device is connected; otherwise the answer is for its next login.
    public var isConnected: Bool
    /// All rights that were tried.
    public var rights: Rights
}

extension Broker {
    /// Which right allows a user's device to do something. For a device that is not connected the
    /// token it would log in with is taken: one bound to the device before one for any; of
    /// several, the one used last.
    ///
    /// - Returns: nil when there is no such app.
    public func explain(
        app name: [UInt8], user: [UInt8], device: [UInt8], _ action: RightsAction
    ) -> RightsExplanation? {
        guard let app = app(named: name) else { return nil }
        let (rights, origin, isConnected) = rights(app: app, user: user, device: device)
        return RightsExplanation(
            right: rights.deciding(action, RightsBearer(user: user, device: device)),
            origin: origin, isConnected: isConnected, rights: rights)
    }

    private func rights(
        app: UInt32, user name: [UInt8], device: [UInt8]
    ) -> (Rights, RightsExplanation.Origin, isConnected: Bool) {
        let user = name.withUnsafeBytes { apps[app].users.value(for: $0) }
        let session = user.flatMap { self.session(of: $0, device: device) }
        if let session, sessions[session].isConnected {
            let access = access(of: session)
            return (accesses[access].rights, origin(of: accesses[access].source), true)
        }
        let token = tokens.candidates(app: apps[app].name, user: name, device: device).first
        guard let token, let rights = token.rights else { return (apps[app].rights, .app, false) }
        return (rights, .token(token.identifier), false)
    }

    private func origin(of source: Access.Source) -> RightsExplanation.Origin {
        switch source {
        case .token(let handle):
            guard let token = tokens[handle], token.rights != nil else { return .app }
            return .token(token.identifier)
        case .verified(let identity):
            guard identity.rights != nil else { return .app }
            return .verified(identity.proof, voucher: identity.voucher)
        case .gateway(let gateway):
            // A sensor bears its gateway's rights.
            guard let carrier = session(of: gateway) else { return .app }
            return origin(of: accesses[access(of: carrier)].source)
        case .appKey, .anonymous: return .app
        }
    }
}

extension TokenTable {
    /// Tokens that a user's device may log in with: those bound to it first, then by last use, the
    /// latest first. Walks over all tokens.
    fileprivate func candidates(app: [UInt8], user: [UInt8], device: [UInt8]) -> [Token] {
        var found: [Token] = []
        forEach { _, token in
            guard token.app == app, token.user == user else { return }
            if let bound = token.device, bound != device { return }
            found.append(token)
        }
        return found.sorted {
            ($0.device == nil ? 0 : 1, $0.lastUsedUnixSeconds)
                > ($1.device == nil ? 0 : 1, $1.lastUsedUnixSeconds)
        }
    }
}
