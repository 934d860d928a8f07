// The operations of an interface, carried out by the administration service with the rights of the
// user's token.

import Administration
import BrokerCore
import SourceInterfaces

/// What a request to an interface of another system can do.
struct SourceBackend: SourceOperations {
    /// That of any shard: each operation finds the one of its app.
    let service: AdministrationService
    /// Nil for a request that needs no token.
    let credential: APICredential?

    var mayCreateGroups: Bool {
        guard case .presented(_, let holder)? = credential else { return false }
        return holder.rights.mayCreateGroups
    }

    func isOpen(_ interface: SourceInterface, app: String) -> Bool {
        service.interfaces.apps.has(interface, app: app)
    }

    func makeNonce() -> String {
        service.interfaces.nonces.make(at: service.loopClock.moment().instant)
    }

    func verify(_ token: [UInt8]) throws(SourceRefusal) -> SourceLogin {
        let now = service.clock.moment().unixSeconds
        do throws(TrustRefusal) {
            let found = try service.trust.token(
                verifying: token.span.bytes, unixSeconds: Int64(now))
            return SourceLogin(
                user: SourceUser(app: found.app, user: found.user), device: found.device,
                seconds: UInt64(found.expiryUnixSeconds) - now, contentType: found.contentType,
                nonce: found.nonce, rights: found.rights)
        } catch {
            throw SourceRefusal(403, field: "authToken", "is refused: \(error.detail)")
        }
    }

    func use(nonce: String) throws(SourceRefusal) {
        do throws(LoginNonces.Refusal) {
            try service.interfaces.nonces.use(nonce, at: service.loopClock.moment().instant)
        } catch {
            switch error {
            case .invalid: throw SourceRefusal(403, "the nonce is used, too old or not from here")
            case .full: throw SourceRefusal(503, "too many logins; try again")
            }
        }
    }

    func isKnown(_ user: String, app: String) -> Bool {
        service.shards[app].look { $0.hasUser(Array(user.utf8), app: Array(app.utf8)) }
    }

    func addUser(_ request: AddUser) throws(SourceRefusal) -> AddUser.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.addUser(request)
        }
    }

    func isValid(_ target: SetWakeTarget) -> Bool { WakeTarget(target).fault == nil }

    func setIfPossible(_ target: SetWakeTarget) {
        // A device has one push token of a service, and a new one replaces it.
        let service = service.serving(target.app)
        let known = try? service.list(ListWakeTargets(app: target.app, user: target.user))
        for former in known?.targets ?? []
        where former.kind == target.kind && former.device == target.device
            && former.address != target.address
        {
            _ = try? service.remove(
                RemoveWakeTarget(app: target.app, user: target.user, id: former.id))
        }
        _ = try? service.set(target)
    }

    func register(_ request: SetPassword) throws(SourceRefusal) -> Bool {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.register(request)
        }
    }

    func secondsOfPassword(of user: SourceUser, hash: String) -> UInt64? {
        let passwords = UserPasswords(shards: service.shards, clock: service.clock)
        guard let password = passwords.password(of: user), password.hash == Array(hash.utf8) else {
            return nil
        }
        let expiry = password.expiresUnixSeconds
        return expiry - min(expiry, service.clock.moment().unixSeconds)
    }

    func mint(_ request: MintTokens) throws(SourceRefusal) -> MintTokens.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.mint(request)
        }
    }

    func list(_ request: ListTokens) throws(SourceRefusal) -> ListTokens.Reply {
        try refusing(request.selection.app) { (service) throws(AdministrationRefusal) in
            try service.listTokens(request)
        }
    }

    func revoke(_ request: RevokeTokens) throws(SourceRefusal) -> RevokeTokens.Reply {
        try refusing(request.selection.app) { (service) throws(AdministrationRefusal) in
            try service.revoke(request)
        }
    }

    func create(_ request: CreateGroup) throws(SourceRefusal) -> CreateGroup.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.createGroup(request)
        }
    }

    func groups(of user: String, app: String) -> [ListGroups.Group] {
        service.shards[app].look {
            $0.groups(
                ofMember: Array(user.utf8), app: Array(app.utf8),
                countMaximum: SourceLimits.dialogsMaximum)
        }.map(ListGroups.Group.init)
    }

    func openGroups(app: String) -> [ListGroups.Group] {
        service.shards[app].look {
            $0.openGroups(
                app: Array(app.utf8), countMaximum: SourceLimits.dialogsMaximum,
                ownerCountMaximum: SourceLimits.openDialogsPerOwnerMaximum)
        }.filter { isPublicDialog(meta: $0.meta) }.map(ListGroups.Group.init)
    }

    private var access: CoreChatAccess {
        CoreChatAccess(shards: service.shards, credential: credential)
    }

    func isMember(_ user: String, of group: String, app: String) -> Bool {
        access.isMember(user, of: group, app: app)
    }

    func hasGroup(_ group: String, app: String) -> Bool { access.hasGroup(group, app: app) }

    func maySend(to user: String) -> Bool { access.maySend(to: user) }

    func takesMembership(of user: String) -> Bool { access.takesMembership(of: user) }

    func show(_ request: ShowGroup) throws(SourceRefusal) -> ShowGroup.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.showGroup(request)
        }
    }

    func change(_ request: ChangeMember) throws(SourceRefusal) -> ChangeMember.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.change(request)
        }
    }

    func change(_ request: ChangeGroup) throws(SourceRefusal) -> ChangeGroup.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.change(request)
        }
    }

    func list(_ request: ListConversations) throws(SourceRefusal) -> ListConversations.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.list(request)
        }
    }

    func list(
        _ request: ListHistory, seenBy user: String
    ) throws(SourceRefusal) -> ListHistory.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.list(request, seenBy: user)
        }
    }

    func readMarks(
        of conversation: ConversationName, by users: [String], app: String
    ) -> [UInt64] {
        let selection = ConversationSelection(app: app, conversation)
        return service.shards[app].look {
            $0.readMarks(of: selection, by: users.map { Array($0.utf8) })
        }
    }

    func mark(_ request: MarkConversation) throws(SourceRefusal) -> MarkConversation.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            try service.mark(request)
        }
    }

    func send(_ request: SendMessage) throws(SourceRefusal) -> SendMessage.Reply {
        try refusing(request.app) { (service) throws(AdministrationRefusal) in
            switch try service.begin(request, by: credential) {
            case .complete(let reply): return reply
            case .pending(let send):
                service.shared.waitForCommit(of: send.sequence)
                return try service.finish(send)
            case .held(let number):
                preconditionFailure("message \(number) is held, whose sender cannot wait")
            }
        }
    }

    /// - Parameter app: whose shard carries the operation out.
    private func refusing<Reply>(
        _ app: String, _ body: (AdministrationService) throws(AdministrationRefusal) -> Reply
    ) throws(SourceRefusal) -> Reply {
        do throws(AdministrationRefusal) {
            return try body(service.serving(app))
        } catch {
            throw SourceRefusal(error)
        }
    }
}
