// Operations on groups: create for an owner, list, show, change.

import Administration
import BrokerCore
import BrokerTerms

extension AdministrationService {
    func createGroup(
        _ request: CreateGroup
    ) throws(AdministrationRefusal) -> CreateGroup.Reply {
        try Self.checkIdentifier(request.owner, "owner")
        for user in request.allowed ?? [] { try Self.checkIdentifier(user, "user") }
        try checkApp(request.app)
        let (key, seed) = (UInt64.random(in: 0...(.max)), UInt64.random(in: 0...(.max)))
        let moment = clock.moment()
        let result = changeAndCommit { state in
            state.broker.createGroup(
                app: Array(request.app.utf8), owner: Array(request.owner.utf8),
                title: Array(request.title.utf8), meta: Array(request.meta.utf8),
                allowed: request.allowed.map { $0.map { Array($0.utf8) } }, key: key, seed: seed,
                at: moment, effects: &state.effects)
        }
        if result.reason == .topicNameInvalid {
            throw Self.unknownUser(request.owner, request.app)
        }
        try check(result.reason)
        let group = Self.text(result.group)
        report("group.create", app: request.app, group: group, user: request.owner)
        return CreateGroup.Reply(groupid: group)
    }

    func listGroups(_ request: ListGroups) throws(AdministrationRefusal) -> ListGroups.Reply {
        try checkApp(request.app)
        let countMaximum = request.limit ?? ListGroups.countMaximum
        let groups = shared.enter {
            $0.broker.groupDescriptions(
                app: Array(request.app.utf8), of: request.user.map { Array($0.utf8) },
                after: request.after, countMaximum: countMaximum)
        }
        return ListGroups.Reply(
            groups: groups.map(ListGroups.Group.init),
            next: groups.count == countMaximum ? groups.last?.cursor : nil)
    }

    func showGroup(_ request: ShowGroup) throws(AdministrationRefusal) -> ShowGroup.Reply {
        let (app, name) = (Array(request.app.utf8), Array(request.groupid.utf8))
        let (group, members) = shared.enter {
            (
                $0.broker.groupDescription(app: app, name),
                $0.broker.groupMembers(
                    app: app, name, after: Array((request.after ?? "").utf8),
                    countMaximum: request.limit ?? ShowGroup.memberCountMaximum)
            )
        }
        guard let group else { throw Self.unknownGroup(request.groupid, request.app) }
        return ShowGroup.Reply(
            groupid: request.groupid, title: Self.text(group.title), owner: Self.text(group.owner),
            memberCount: group.memberCount, allowed: group.allowed.map { $0.map(Self.text) },
            meta: Self.text(group.meta), isKept: group.history.isKept,
            shownCount: group.history.shownCount, lastNumber: group.lastNumber,
            lastMessage: request.hasMessage == true
                ? newest([.group(request.groupid)], app: request.app)[0] : nil,
            members: members.map(Self.text))
    }

    func change(_ request: ChangeMember) throws(AdministrationRefusal) -> ChangeMember.Reply {
        let user = Array(request.user.utf8)
        guard (request.backlog ?? 0) <= ChangeMember.backlogMaximum else {
            throw AdministrationRefusal(
                .malformedPacket, "backlog is above \(ChangeMember.backlogMaximum)")
        }
        let action: GroupAction =
            switch request.action {
            case .join: .join(user: user, backlog: request.backlog)
            case .leave: .leave(user: user)
            case .kick: .kick(user: user)
            case .ban: .ban(user: user)
            case .mute: .mute(user: user, true)
            case .unmute: .mute(user: user, false)
            }
        // A user who is not known yet can be banned too: the only name here that need not exist.
        if request.action == .ban { try Self.checkIdentifier(request.user, "user") }
        let reason = try change(
            app: request.app, group: request.groupid, action, user: request.user)
        report(
            "group.\(request.action.rawValue)", app: request.app, group: request.groupid,
            user: request.user)
        return ChangeMember.Reply(isChanged: reason != .noSubscriptionExisted)
    }

    func change(_ request: ChangeGroup) throws(AdministrationRefusal) -> ChangeGroup.Reply {
        switch request.change {
        case .meta(let meta):
            _ = try change(app: request.app, group: request.groupid, .setMeta(Array(meta.utf8)))
            report("group.meta", app: request.app, group: request.groupid)
        case .allowed(let users):
            for user in users { try Self.checkIdentifier(user, "user") }
            let names = users.map { Array($0.utf8) }
            _ = try change(app: request.app, group: request.groupid, .setAllowed(names))
            report("group.allow", app: request.app, group: request.groupid)
        case .everybodyAllowed:
            _ = try change(app: request.app, group: request.groupid, .setAllowed(nil))
            report("group.allow", app: request.app, group: request.groupid)
        case .history(let isKept, let shownCount):
            let history = GroupHistory(isKept: isKept, shownCount: shownCount)
            _ = try change(app: request.app, group: request.groupid, .setHistory(history))
            report("group.history", app: request.app, group: request.groupid)
        case .wake(let isOn):
            _ = try change(app: request.app, group: request.groupid, .setWaking(isOn))
            report("group.wake", app: request.app, group: request.groupid)
        }
        return ChangeGroup.Reply()
    }

    func delete(_ request: DeleteGroup) throws(AdministrationRefusal) -> DeleteGroup.Reply {
        let (app, group) = (Array(request.app.utf8), Array(request.groupid.utf8))
        var reply: DeleteGroup.Reply?
        // A commit for each slice, so that other changes wait for one slice at most.
        repeat {
            let deletion = changeAndCommit { [moment = clock.moment()] state in
                state.broker.deleteGroup(app: app, group, at: moment, effects: &state.effects)
            }
            // The last members may have left meanwhile.
            guard let deletion else { break }
            reply = DeleteGroup.Reply(
                memberCount: (reply?.memberCount ?? 0) + deletion.memberCount,
                hasMore: deletion.hasMore)
        } while reply?.hasMore == true
            && reply.map { $0.memberCount < DeleteGroup.memberCountMaximum } == true
        guard let reply else { throw Self.unknownGroup(request.groupid, request.app) }
        report("group.delete", app: request.app, group: request.groupid)
        return reply
    }

    private func change(
        app: String, group: String, _ action: GroupAction, user: String? = nil
    ) throws(AdministrationRefusal) -> ReasonCode {
        let names = (app: Array(app.utf8), group: Array(group.utf8))
        guard shared.enter({ $0.broker.groupDescription(app: names.app, names.group) }) != nil
        else { throw Self.unknownGroup(group, app) }
        let moment = clock.moment()
        let result = changeAndCommit { state in
            state.broker.changeGroup(
                app: names.app, names.group, action, at: moment, effects: &state.effects)
        }
        if result.reason == .topicNameInvalid, let user {
            throw Self.unknownUser(user, app)
        }
        try check(result.reason)
        return result.reason
    }

    private func check(_ reason: ReasonCode) throws(AdministrationRefusal) {
        guard reason.isFailure else { return }
        let message =
            switch reason {
            case .packetTooLarge:
                "too long: a title has at most \(CoreLimits.groupTitleMaximum) bytes, meta "
                    + "\(CoreLimits.groupMetaMaximum)"
            case .quotaExceeded:
                "a limit on groups or their members is reached, or the store is full; martlet "
                    + "stats shows which"
            case .notAuthorized: "the owner cannot be kicked; use: martlet group leave"
            default: "refused: \(reason)"
            }
        // The reason is the same for a limit and for a full store.
        let isFull = reason == .quotaExceeded && shared.enter { $0.broker.gauges().isStoreFull }
        throw AdministrationRefusal(reason, message, cause: isFull ? .full : nil)
    }

    func checkApp(_ app: String) throws(AdministrationRefusal) {
        guard shared.enter({ $0.broker.hasApp(Array(app.utf8)) }) else {
            throw unknownApp(app)
        }
    }

    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    static func unknownUser(_ user: String, _ app: String) -> AdministrationRefusal {
        AdministrationRefusal(
            .topicNameInvalid,
            "nobody knows \(user) in \(app); make the user known with: "
                + "martlet user add --app \(app) \(user)")
    }

    private static func unknownGroup(_ group: String, _ app: String) -> AdministrationRefusal {
        AdministrationRefusal(
            .topicNameInvalid,
            "there is no group \"\(group)\" in \(app); see: martlet group list --app \(app)")
    }

    private func report(_ name: String, app: String, group: String, user: String = "") {
        log.write(
            .info, .administration,
            fields: [
                "request": .text(name), "app": .text(app), "group": .text(group),
                "user": .text(user),
            ])
    }
}

extension ListGroups.Group {
    init(_ group: GroupDescription) {
        self.init(
            groupid: AdministrationService.text(group.name),
            title: AdministrationService.text(group.title),
            owner: AdministrationService.text(group.owner), memberCount: group.memberCount,
            isLimited: group.allowed != nil)
    }
}
