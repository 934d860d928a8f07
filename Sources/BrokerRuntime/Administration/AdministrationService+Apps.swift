// Operations on apps: create, show, users, and the users' rights.

import Administration
import BrokerCore
import BrokerTerms
import Credentials
import Dialects
import WireFormat

extension AdministrationService {
    func createApp(
        _ request: CreateApp
    ) throws(AdministrationRefusal) -> CreateApp.Reply {
        try Self.checkIdentifier(request.app, "app")
        let rights = try request.rights.map(Self.rights) ?? .ordinary
        let minted = AppKey.mint()
        let name = Array(request.app.utf8)
        try checkShards(of: name)
        let now = clock.moment().unixSeconds
        let isNew = try growAndCommit { (state) throws(NoRoom) in
            try state.broker.addApp(
                name, keyDigest: Digest(minted.key.digest), rights: rights, unixSeconds: now)
        }
        guard isNew else {
            throw AdministrationRefusal(
                .quotaExceeded,
                unfinishedDeletion(request.app)
                    ?? "there is an app \"\(request.app)\" already", cause: .exists)
        }
        log.write(
            .info, .administration,
            fields: [
                "request": "app.create", "app": .text(request.app),
                "shard": .optional(shards.map.label(of: shards.map.place(ofApp: name))),
            ])
        return CreateApp.Reply(key: minted.text)
    }

    func listApps() throws(AdministrationRefusal) -> ListApps.Reply {
        let leading = shards.cores.filter { $0.takesEvents }
        guard
            shards.cores.count == 1 || leading.isEmpty
                || leading.contains(where: { $0.gate?.mayEmit ?? true })
        else {
            throw AdministrationRefusal(
                .serverUnavailable, "this node has no lease for any shard now")
        }
        var apps: [ListApps.App] = []
        var missing: [String] = []
        for (place, core) in shards.cores.enumerated() {
            let shard = shards.map.label(of: place)
            // The core of a standby is empty, also while a takeover restores it. Without a lease,
            // what another node has changed since is not here.
            if let shard, !core.takesEvents || core.gate?.mayEmit == false {
                missing.append(shard)
                continue
            }
            apps += core.enter { $0.broker.appSummaries() }.map {
                ListApps.App(
                    app: String(decoding: $0.name, as: UTF8.self), userCount: $0.userCount,
                    tokenCount: $0.tokenCount, isBeingDeleted: $0.isBeingDeleted ? true : nil,
                    shard: shard)
            }
        }
        return ListApps.Reply(
            apps: apps.sorted { $0.app < $1.app },
            missingShards: missing.isEmpty ? nil : missing)
    }

    func addUser(_ request: AddUser) throws(AdministrationRefusal) -> AddUser.Reply {
        try Self.checkIdentifier(request.app, "app")
        try Self.checkIdentifier(request.user, "user")
        let isNew = try growAndCommit { (state) throws(NoRoom) in
            try state.broker.addUser(Array(request.user.utf8), app: Array(request.app.utf8))
        }
        guard let isNew else { throw unknownApp(request.app) }
        if isNew {
            log.write(
                .info, .administration,
                fields: [
                    "request": "user.add", "app": .text(request.app), "user": .text(request.user),
                ])
        }
        return AddUser.Reply(isNew: isNew)
    }

    func showApp(_ request: ShowApp) throws(AdministrationRefusal) -> ShowApp.Reply {
        let name = Array(request.app.utf8)
        guard let app = shared.enter({ $0.broker.appDescription(name) }) else {
            throw unknownApp(request.app)
        }
        return ShowApp.Reply(
            app: request.app, hasKey: app.hasKey, rights: Self.texts(app.rights),
            userCount: app.userCount, groupCount: app.groupCount,
            sessionCount: app.sessionCount, connectionCount: app.connectionCount,
            tokenCount: app.tokenCount)
    }

    // MARK: - Rights

    func setRights(
        _ request: SetAppRights
    ) throws(AdministrationRefusal) -> SetAppRights.Reply {
        let rights = try Self.rights(request.rights)
        let moment = clock.moment()
        let isKnown = try growAndCommit { (state) throws(NoRoom) in
            try state.broker.setAppRights(
                Array(request.app.utf8), rights: rights, at: moment, effects: &state.effects)
        }
        guard isKnown else { throw unknownApp(request.app) }
        log.write(
            .info, .administration,
            fields: [
                "request": "app.rights", "app": .text(request.app),
                "rights": .text(request.rights.joined(separator: " ")),
            ])
        return SetAppRights.Reply()
    }

    func explain(
        _ request: ExplainRights
    ) throws(AdministrationRefusal) -> ExplainRights.Reply {
        if let key = request.key { return try explain(request, of: key) }
        guard let name = request.user else {
            throw AdministrationRefusal(.malformedPacket, "one of user and key is needed")
        }
        let (user, device) = (Array(name.utf8), Array(request.device.utf8))
        // The only operation with a right that does not depend on its members.
        let action: ExplainRights.Action =
            Self.operation(of: request) == "createGroup" ? .createGroup : request.action
        // Before the core is asked, because a search reads all tokens of the user, in slices.
        var search = TokenSearch(
            matching: TokenFilter(app: Array(request.app.utf8), user: user), after: nil,
            countMaximum: ListTokens.countMaximum)
        shared.enterInSlices { $0.broker.advance(&search) }
        let tokens = search.page.tokens
        var passwords = PasswordSearch(
            app: Array(request.app.utf8), user: user, after: nil,
            countMaximum: ListPasswords.countMaximum)
        if tokens.isEmpty { shared.enterInSlices { $0.broker.advance(&passwords) } }
        let explanation = Array(request.target.utf8).withUnsafeBytes { target in
            shared.enter {
                $0.broker.explain(
                    app: Array(request.app.utf8), user: user, device: device, tokens: tokens,
                    passwords: passwords.page.passwords,
                    Self.action(action, target))
            }
        }
        guard let explanation else { throw unknownApp(request.app) }
        let refusal = Self.spellingRefusal(request).map { Decision.refused($0) }
        return Self.reply(explanation, refusal ?? explanation.decision, app: request.app)
    }

    /// Whether a key logs in as a user.
    private func explain(
        _ request: ExplainRights, of key: String
    ) throws(AdministrationRefusal) -> ExplainRights.Reply {
        guard request.user == nil, request.action == .attach else {
            throw AdministrationRefusal(
                .malformedPacket,
                "of a key, the action is attach, the target the user, and there is no other user")
        }
        let (app, name) = (Array(request.app.utf8), Array(key.utf8))
        let user = Array(request.target.utf8)
        let explanation = shared.enter {
            $0.broker.explain(app: app, key: name, attaching: user)
        }
        guard let explanation else {
            guard shared.enter({ $0.broker.hasApp(app) }) else {
                throw unknownApp(request.app)
            }
            throw Self.unknownKey(key, request.app)
        }
        return Self.reply(explanation, explanation.decision, app: request.app)
    }

    private static func reply(
        _ explanation: RightsExplanation, _ decision: Decision, app: String
    ) -> ExplainRights.Reply {
        let (grounds, right, reason) = grounds(decision)
        return ExplainRights.Reply(
            grounds: grounds, right: right, reason: reason,
            origin: text(explanation.origin, app: app), isConnected: explanation.isConnected,
            rights: texts(explanation.rights))
    }

    /// Rights as the core compiles them.
    static func rights(_ texts: [String]) throws(AdministrationRefusal) -> Rights {
        do throws(RightsError) {
            return try Rights(texts.map { Array($0.utf8) })
        } catch {
            throw AdministrationRefusal(.payloadFormatInvalid, "\(error)")
        }
    }

    static func texts(_ rights: Rights) -> [String] {
        rights.texts.map { String(decoding: $0, as: UTF8.self) }
    }

    /// The reason why a request with such a topic or filter is not evaluated: its packet is refused
    /// before.
    private static func spellingRefusal(_ request: ExplainRights) -> ReasonCode? {
        let target = Array(request.target.utf8)
        switch request.action {
        case .publish:
            guard TextRules.isTopicName(target.span.bytes) else { return .topicNameInvalid }
            guard let operation = operation(of: request) else { return nil }
            return RequestOperations.contain(operation) ? nil : .implementationSpecificError
        case .subscribe:
            return TextRules.isTopicFilter(target.span.bytes) ? nil : .topicFilterInvalid
        case .send, .presence, .receipts, .wake, .attach, .broadcast, .createGroup: return nil
        }
    }

    /// The operation that a topic of requests names; nil for another topic.
    private static func operation(of request: ExplainRights) -> String? {
        let target = Array(request.target.utf8)
        guard request.action == .publish,
            let start = RequestTopic.operationOffset(in: target.span.bytes)
        else { return nil }
        return String(decoding: target[start...], as: UTF8.self)
    }

    private static func action(
        _ action: ExplainRights.Action, _ target: UnsafeRawBufferPointer
    ) -> RightsAction {
        switch action {
        case .send: .send(user: target)
        case .publish: .publish(topic: target)
        case .subscribe: .subscribe(filter: target)
        case .presence: .presence(user: target)
        case .receipts: .receipts(of: target)
        case .wake: .wake(user: target)
        case .attach: .attach(user: target)
        case .broadcast: .broadcast
        case .createGroup: .createGroup
        }
    }

    private static func grounds(
        _ decision: Decision
    ) -> (ExplainRights.Reply.Grounds, right: String?, reason: UInt8?) {
        switch decision {
        case .right(let text): (.right, String(decoding: text, as: UTF8.self), nil)
        case .own: (.own, nil, nil)
        case .everybody: (.everybody, nil, nil)
        case .member: (.member, nil, nil)
        case .joins: (.joins, nil, nil)
        case .key: (.key, nil, nil)
        case .operation: (.operation, nil, nil)
        case .denied(let text):
            (
                .denied, String(decoding: text, as: UTF8.self),
                ReasonCode.notAuthorized.rawValue
            )
        case .refused(let reason): (.refused, nil, reason.rawValue)
        }
    }

    private static func text(_ origin: RightsExplanation.Origin, app: String) -> String {
        switch origin {
        case .app: "app \(app)"
        case .token(let identifier): "token \(String(decoding: identifier, as: UTF8.self))"
        case .appKey(let name): "app key \(String(decoding: name, as: UTF8.self))"
        case .viewKey(let name):
            "app key \(String(decoding: name, as: UTF8.self)), whose role is view"
        case .verified(let proof, let voucher):
            "\(proof.name) \(String(decoding: voucher, as: UTF8.self))"
        }
    }
}

extension VerifiedIdentity.Proof {
    /// The decision as text.
    var name: String {
        switch self {
        case .webToken: "web token signed with"
        case .certificate: "certificate"
        case .preSharedKey: "pre-shared key"
        case .password: "password"
        }
    }
}
