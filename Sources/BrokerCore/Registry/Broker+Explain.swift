// Explains to an operator why a device may do something, or may not.

import Primitives

/// The right that decides, and its origin.
public struct RightsExplanation: Hashable, Sendable {
    /// The source of the rights.
    public enum Origin: Hashable, Sendable {
        /// The app: the credential contains none.
        case app
        /// An opaque token, by its public part.
        case token([UInt8])
        /// A key of the app, by its name.
        case appKey([UInt8])
        /// A key with the role `view`, which neither logs in nor sends.
        case viewKey([UInt8])
        /// A verified identity, by the object that proved it.
        case verified(VerifiedIdentity.Proof, voucher: [UInt8])
    }

    /// The right that allows the action, or the reason of the refusal.
    public var decision: Decision
    public var origin: Origin
    /// Whether the device is connected; otherwise the answer is for its next login.
    public var isConnected: Bool
    /// All rights that were compared.
    public var rights: Rights
}

extension Broker {
    /// Whether a device may do something, and by which right. The same function decides the request
    /// itself. A topic or filter that is an address is checked as the address. If the device is not
    /// connected, the token of its next login is assumed: a token bound to the device before one
    /// for any device, and among several the one used last. A device that has never connected is
    /// assumed to use MQTT. A user without a token is assumed to use a password, chosen likewise.
    ///
    /// - Parameters:
    ///   - tokens: those of the user, which ``TokenSearch`` finds.
    ///   - passwords: those of the user, which ``PasswordSearch`` finds.
    /// - Returns: nil if there is no such app.
    public func explain(
        app name: [UInt8], user: [UInt8], device: [UInt8], tokens: [Token],
        passwords: [RegisteredPassword] = [], _ action: RightsAction
    ) -> RightsExplanation? {
        guard let app = app(named: name) else { return nil }
        let (rights, origin, session) = rights(
            app: app, user: user, device: device, tokens: tokens, passwords: passwords)
        let principal = Principal(
            app: app, user: self.user(named: user, app: app),
            names: PrincipalNames(user: Name(user), device: Name(device)), rights: rights,
            isMQTT: session.map { sessions[$0].dialect.isMQTT } ?? true)
        return RightsExplanation(
            decision: explain(action, principal), origin: origin,
            isConnected: session.map { sessions[$0].isConnected } ?? false, rights: rights)
    }

    /// Whether a key of an app logs in as a user, and by which right; nil if there is no such app
    /// or key. The same function decides the login itself.
    public func explain(
        app name: [UInt8], key keyName: [UInt8], attaching user: [UInt8]
    ) -> RightsExplanation? {
        guard let app = app(named: name),
            let entry = key(named: keyName, app: app).flatMap({ registry.keys[$0] })
        else { return nil }
        var ignored = 0
        let decision = decision(attaching: user, by: entry, comparisons: &ignored)
        let origin: RightsExplanation.Origin =
            if entry.key.role == .view {
                .viewKey(keyName)
            } else {
                entry.key.rights == nil ? .app : .appKey(keyName)
            }
        return RightsExplanation(
            decision: decision, origin: origin, isConnected: false,
            rights: entry.key.rights ?? registry.apps[app].rights)
    }

    /// The decision on an action as a client writes it.
    private func explain(_ action: RightsAction, _ principal: Principal) -> Decision {
        switch action {
        case .publish(let topic):
            switch AddressedTopic(topic) {
            case .user(let user)?: return explain(.send(user: user), principal)
            case .group(let group)?: return decision(.sendGroup(group), principal)
            case .everybody?: return decision(.broadcast, principal)
            // The topic alone names no user yet.
            case .list?: return .refused(.topicNameInvalid)
            case nil: break
            }
            // Its request needs a right, and not the publication. Only MQTT clients publish it,
            // so the device is taken for one.
            if RequestTopic.operationOffset(in: topic.bytes) != nil { return .operation }
            let decision = decision(action, principal)
            guard decision.isAllowed else { return decision }
            return topicRefusal(topic).map { .refused($0) } ?? decision
        case .send(let user), .presence(let user), .receipts(let user), .wake(let user):
            guard PrincipalNames.isSpellable(user), user.count <= CoreLimits.userNameBytesMaximum
            else { return .refused(.topicNameInvalid) }
            return decision(action, principal)
        case .subscribe(let filter) where RequestTopic.isReply(filter.bytes):
            return .own
        case .sendGroup, .broadcast, .subscribe, .attach, .createGroup:
            return decision(action, principal)
        }
    }

    /// The rights that a device has, or would have at its next login, and its session if there is
    /// one.
    func rights(
        app: Index<App>, user name: [UInt8], device: [UInt8], tokens: [Token],
        passwords: [RegisteredPassword] = []
    ) -> (rights: Rights, origin: RightsExplanation.Origin, session: Index<Session>?) {
        let user = self.user(named: name, app: app)
        let session = user.flatMap { self.session(of: $0, device: Name(device)) }
        if let session, sessions[session].isConnected {
            let access = access(of: session)
            return (live.accesses[access].rights, origin(of: live.accesses[access].source), session)
        }
        let token = Self.candidates(for: device, among: tokens).first
        if let token, let rights = token.rights {
            return (rights, .token(token.identifier), session)
        }
        if token == nil, let password = Self.candidate(for: device, among: passwords),
            let rights = password.rights
        {
            return (rights, .verified(.password, voucher: password.name), session)
        }
        return (registry.apps[app].rights, .app, session)
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
            // A sensor has its gateway's rights.
            guard let gatewaySession = session(of: gateway) else { return .app }
            return origin(of: live.accesses[access(of: gatewaySession)].source)
        case .appKey(let handle):
            guard let key = registry.keys[handle]?.key, key.rights != nil else { return .app }
            return .appKey(key.name)
        case .anonymous: return .app
        }
    }

    /// The password that a device logs in with, chosen as among tokens; nil if there is none.
    private static func candidate(
        for device: [UInt8], among passwords: [RegisteredPassword]
    ) -> RegisteredPassword? {
        passwords.filter { $0.device == nil || $0.device == device }.max {
            ($0.device == nil ? 0 : 1, $0.lastUsedUnixSeconds)
                < ($1.device == nil ? 0 : 1, $1.lastUsedUnixSeconds)
        }
    }

    /// Tokens that a device may log in with: those bound to it first, then by last use, the latest
    /// first.
    private static func candidates(for device: [UInt8], among tokens: [Token]) -> [Token] {
        tokens.filter { $0.device == nil || $0.device == device }.sorted {
            ($0.device == nil ? 0 : 1, $0.lastUsedUnixSeconds)
                > ($1.device == nil ? 0 : 1, $1.lastUsedUnixSeconds)
        }
    }
}
