// `martlet group` as the operator: on any group, without regard to the
// policy that decides who may join, and in the name of the group's owner.

import Administration
import CommandLineOptions

enum GroupOperatorCommand {
    private struct DeletedLine: Encodable { let memberCount: UInt64 }

    static func run(_ command: Command, _ options: ParsedOptions<GroupOption>) throws {
        let app = try options.app()
        let isJSON = options.has(.json)
        func word(_ index: Int, _ meaning: String) throws(UsageError) -> String {
            try options.word(index, of: command, meaning: meaning)
        }
        func member(_ action: ChangeMember.Action, backlog: UInt32? = nil) throws {
            let request = ChangeMember(
                app: app, groupid: try word(0, "GROUP"), user: try word(1, "USER"),
                action: action, backlog: backlog)
            let reply = try broker().send(request)
            StandardStream.output.print(isJSON ? jsonLine(reply) : text(request, reply))
        }
        func change(_ change: ChangeGroup.Change) throws {
            _ = try broker().send(
                ChangeGroup(app: app, groupid: try word(0, "GROUP"), change: change))
            StandardStream.output.print(isJSON ? "{}" : "changed, and its members are notified")
        }
        func broker() throws -> AdministrationConnection {
            try options.administration()
        }
        switch command {
        case .groupCreate:
            let request = CreateGroup(
                app: app, owner: try options.required(.owner), title: try options.required(.name),
                allowed: options[.allow].map(options.allowedUsers), meta: options[.meta] ?? "")
            let reply = try broker().send(request)
            StandardStream.output.print(isJSON ? jsonLine(reply) : reply.groupid)
        case .groupJoin: try member(.join, backlog: try options.backlog())
        case .groupLeave: try member(.leave)
        case .groupKick: try member(.kick)
        case .groupBan: try member(.ban)
        case .groupList:
            try list(
                from: broker(), app: app, user: options.positionals.first, isJSON: isJSON)
        case .groupShow:
            try show(word(0, "GROUP"), from: broker(), app: app, isJSON: isJSON)
        case .groupHistory:
            let history = try options.groupHistory()
            try change(.history(isKept: history.isKept, shownCount: history.shownCount))
        case .groupMeta: try change(.meta(try word(1, "META")))
        case .groupAllow:
            try change(
                options.has(.everybody)
                    ? .everybodyAllowed
                    : .allowed(options.allowedUsers(try word(1, "USER,... or --everybody"))))
        case .groupDelete:
            guard options.positionals.count == 1 else {
                throw UsageError("martlet group delete takes one GROUP")
            }
            let request = DeleteGroup(app: app, groupid: try word(0, "GROUP"))
            let broker = try broker()
            let count = try ProgressBar.count("member") { (_: Void?) in
                let reply = try broker.send(request)
                return (UInt64(reply.memberCount), reply.hasMore ? () : nil)
            }
            StandardStream.output.print(
                isJSON
                    ? jsonLine(DeletedLine(memberCount: count))
                    : "deleted, \(counted(count, "member")) notified")
        default: preconditionFailure("\(command.rawValue) is no group command")
        }
    }

    private static func text(_ request: ChangeMember, _ reply: ChangeMember.Reply) -> String {
        let user = printable(request.user)
        guard reply.isChanged else {
            let isBan = request.action == .ban
            return "\(user) was not a member" + (isBan ? ", and is banned" : "")
        }
        return switch request.action {
        case .join: "\(user) is a member"
        case .leave: "\(user) has left"
        case .kick: "\(user) was removed, and may join again"
        case .ban: "\(user) was banned"
        case .mute: "\(user) is not woken by the group any more"
        case .unmute: "\(user) is woken by the group"
        }
    }

    private static func list(
        from broker: consuming AdministrationConnection, app: String, user: String?, isJSON: Bool
    ) throws {
        var table = TextTable("GROUP", "TITLE", "OWNER", "MEMBERS", "MAY JOIN")
        var after: UInt32?
        repeat {
            let reply = try broker.send(ListGroups(app: app, user: user, after: after))
            for group in reply.groups {
                if isJSON {
                    guard StandardStream.output.print(jsonLine(group)) else { return }
                } else {
                    table.add([
                        group.groupid, group.title, group.owner, "\(group.memberCount)",
                        group.isLimited ? "who is on its list" : "everybody",
                    ])
                }
            }
            guard table.printPage() else { return }
            after = reply.next
        } while after != nil
    }

    private static func show(
        _ group: String, from broker: consuming AdministrationConnection, app: String, isJSON: Bool
    ) throws {
        var reply = try broker.send(ShowGroup(app: app, groupid: group))
        var pageCount = reply.members.count
        while pageCount == ShowGroup.memberCountMaximum {
            let page = try broker.send(
                ShowGroup(app: app, groupid: group, after: reply.members.last))
            pageCount = page.members.count
            reply.members += page.members
        }
        let line = GroupLine(
            groupid: reply.groupid, title: reply.title, owner: reply.owner,
            memberCount: reply.memberCount, isLimited: reply.allowed != nil,
            allowed: reply.allowed, meta: reply.meta, isKept: reply.isKept,
            shownCount: reply.shownCount, lastNumber: reply.lastNumber, members: reply.members)
        StandardStream.output.print(isJSON ? jsonLine(line) : line.text)
    }
}
