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

    /// What it rests on, or why it is refused.
    public var verdict: Verdict
    public var origin: Origin
    /// Whether the device is connected; otherwise the answer is for its next login.
    public var isConnected: Bool
    /// All rights that were tried.
    public var rights: Rights
}

extension Broker {
    /// Whether a user's device may do something, and by what: the verdict that the same request
    /// gets, by the same function. A topic or filter that is an address is judged as what it
    /// means. For a device that is not connected the token it would log in with is taken: one
    /// bound to the device before one for any; of several, the one used last. Who has never
    /// connected is taken to speak MQTT.
    ///
    /// - Returns: nil when there is no such app.
    public func explain(
        app name: [UInt8], user: [UInt8], device: [UInt8], _ action: RightsAction
    ) -> RightsExplanation? {
        guard let app = app(named: name) else { return nil }
        let (rights, origin, session) = rights(app: app, user: user, device: device)
        let asker = Asker(
            app: app, user: self.user(named: user, app: app),
            bearer: RightsBearer(user: Name(user), device: Name(device)), rights: rights,
            isMQTT: session.map { sessions[$0].dialect.isMQTT } ?? true)
        return RightsExplanation(
            verdict: explain(action, asker), origin: origin,
            isConnected: session.map { sessions[$0].isConnected } ?? false, rights: rights)
    }

    /// The verdict on what a client spells.
    private func explain(_ action: RightsAction, _ asker: Asker) -> Verdict {
        switch action {
        case .publish(let topic):
            switch AddressedTopic(topic) {
            case .user(let user)?: return explain(.send(user: user), asker)
            case .group(let group)?: return verdict(.sendGroup(group), asker)
            case .everybody?: return verdict(.broadcast, asker)
            // Nobody is named yet.
            case .list?: return .refused(.topicNameInvalid)
            case nil: break
            }
            let verdict = verdict(action, asker)
            guard verdict.isAllowed else { return verdict }
            return topicRefusal(topic).map { .refused($0) } ?? verdict
        case .send(let user), .presence(let user):
            guard RightsBearer.isSpellable(user), user.count <= CoreLimits.userNameBytesMaximum
            else { return .refused(.topicNameInvalid) }
            return verdict(action, asker)
        case .sendGroup, .broadcast, .subscribe, .attach, .createGroup:
            return verdict(action, asker)
        }
    }

    /// The rights that a device has, or would have at its login; its session, if there is one.
    func rights(
        app: Index<App>, user name: [UInt8], device: [UInt8]
    ) -> (rights: Rights, origin: RightsExplanation.Origin, session: Index<Session>?) {
        let user = self.user(named: name, app: app)
        let session = user.flatMap { self.session(of: $0, device: Name(device)) }
        if let session, sessions[session].isConnected {
            let access = access(of: session)
            return (live.accesses[access].rights, origin(of: live.accesses[access].source), session)
        }
        let token = registry.tokens.candidates(
            app: registry.apps[app].name, user: name, device: device
        ).first
        guard let token, let rights = token.rights else {
            return (registry.apps[app].rights, .app, session)
        }
        return (rights, .token(token.identifier), session)
    }

    private func origin(of source: Access.Source) -> RightsExplanation.Origin {
        switch source {
        case .token(let handle):
            guard let token = registry.tokens[handle], token.rights != nil else { return .app }
            return .token(token.identifier)
        case .verified(let identity):
            guard identity.rights != nil else { return .app }
            return .verified(identity.proof, voucher: identity.voucher)
        case .gateway(let gateway):
            // A sensor bears its gateway's rights.
            guard let gatewaySession = session(of: gateway) else { return .app }
            return origin(of: live.accesses[access(of: gatewaySession)].source)
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
