// `martlet group`: groups from the command line. Each command logs in, asks once and leaves; it is
// the user who is a member, whatever the device.

import CommandLineOptions
import Glibc
import MartletClient

enum GroupOption: String, ConnectionRules {
    case server, ca, token, device, timeout
    case name, allow, meta, everybody, json

    var shape: OptionShape {
        switch self {
        case .everybody, .json: .flag
        case .server, .ca, .token, .device, .timeout, .name, .allow, .meta: .value
        }
    }

    var letter: Character? { self == .timeout ? "W" : nil }
}

enum GroupCommand {
    private static let timeoutSecondsDefault: UInt64 = 60

    static func run(_ command: Command, _ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<GroupOption>.options(arguments, positionalMaximum: 2)
        let request = try Request(command, options)
        var settings = try options.clientSettings(deviceDefault: "group-\(getpid())")
        // It leaves nothing behind, and takes no mail that waits for the user.
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let client = try Client(settings)
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        let timer = Timeout(seconds: seconds, closing: client)
        let lines: [String]
        do {
            try await client.connect()
            lines = try await request.carryOut(client, isJSON: options.has(.json))
        } catch {
            await client.close()
            throw timer.isOver ? CommandFailure(timer.message, .timeout) : error
        }
        timer.cancel()
        await client.close()
        for line in lines { StandardStream.output.print(line) }
    }

    /// One command with its words checked.
    private enum Request {
        case create(name: String, allowed: [String]?, meta: String)
        case join(String)
        case leave(String)
        case kick(String, user: String)
        case ban(String, user: String)
        case list
        case show(String)
        case setMeta(String, meta: String)
        case setAllowed(String, [String]?)

        init(
            _ command: Command, _ options: ParsedOptions<GroupOption>
        ) throws(UsageError) {
            func word(_ index: Int, _ meaning: String) throws(UsageError) -> String {
                guard index < options.positionals.count else {
                    throw UsageError("\(command.rawValue) needs \(meaning)")
                }
                return options.positionals[index]
            }
            switch command {
            case .groupCreate:
                self = .create(
                    name: try options.required(.name), allowed: options[.allow].map(names),
                    meta: options[.meta] ?? "")
            case .groupJoin: self = .join(try word(0, "a GROUP"))
            case .groupLeave: self = .leave(try word(0, "a GROUP"))
            case .groupKick:
                self = .kick(try word(0, "a GROUP"), user: try word(1, "a USER"))
            case .groupBan: self = .ban(try word(0, "a GROUP"), user: try word(1, "a USER"))
            case .groupList: self = .list
            case .groupShow: self = .show(try word(0, "a GROUP"))
            case .groupMeta:
                self = .setMeta(try word(0, "a GROUP"), meta: try word(1, "the meta"))
            case .groupAllow:
                let group = try word(0, "a GROUP")
                if options.has(.everybody) {
                    self = .setAllowed(group, nil)
                } else {
                    self = .setAllowed(group, names(try word(1, "users, or --everybody")))
                }
            default:
                preconditionFailure("not about groups")
            }
        }

        /// Does it; the lines to print.
        func carryOut(
            _ client: Client, isJSON: Bool
        ) async throws(MartletError) -> [String] {
            switch self {
            case .create(let name, let allowed, let meta):
                return [try await client.createGroup(title: name, allowing: allowed, meta: meta)]
            case .join(let group): try await client.joinGroup(group)
            case .leave(let group):
                if try await !client.leaveGroup(group) {
                    StandardStream.error.print("martlet: you were not in it")
                }
            case .kick(let group, let user):
                if try await !client.kick(user, from: group) { tellNoMember(user) }
            case .ban(let group, let user):
                if try await !client.ban(user, from: group) { tellNoMember(user) }
            case .list: return try await client.groups().map { isJSON ? json($0) : text($0) }
            case .show(let group):
                var details = try await client.describe(group)
                while details.hasMoreMembers {
                    let page = try await client.describe(
                        group, membersAfter: details.members.last)
                    details.members += page.members
                    details.hasMoreMembers = page.hasMoreMembers
                }
                return [isJSON ? json(group, details) : text(group, details)]
            case .setMeta(let group, let meta): try await client.setMeta(meta, of: group)
            case .setAllowed(let group, let users):
                try await client.setAllowList(users, of: group)
            }
            return []
        }
    }

    private static func names(_ list: String) -> [String] {
        list.split(separator: ",").map(String.init)
    }

    private static func tellNoMember(_ user: String) {
        StandardStream.error.print("martlet: \(printable(user)) was not in it")
    }

    // MARK: - Lines

    private static func text(_ group: GroupSummary) -> String {
        "\(group.id)  \(printable(group.title))" + (group.isOwn ? "  (yours)" : "")
    }

    private static func json(_ group: GroupSummary) -> String {
        #"{"groupid":\#(quoted(group.id)),"title":\#(quoted(group.title)),"own":\#(group.isOwn)}"#
    }

    private static func text(_ group: String, _ details: GroupDetails) -> String {
        let meta = details.meta.isEmpty ? "" : "\nmeta: \(printable(details.meta))"
        return "\(group)  \(printable(details.title))\n"
            + "owner: \(printable(details.owner))\n"
            + "may join: \(details.hasAllowList ? "who is on its list" : "everybody")\n"
            + "members (\(details.memberCount)): "
            + details.members.map(printable).joined(separator: ", ") + meta
    }

    private static func json(_ group: String, _ details: GroupDetails) -> String {
        let members = details.members.map(quoted).joined(separator: ",")
        return #"{"groupid":\#(quoted(group)),"title":\#(quoted(details.title)),"#
            + #""owner":\#(quoted(details.owner)),"own":\#(details.isOwn),"#
            + #""limited":\#(details.hasAllowList),"meta":\#(quoted(details.meta)),"#
            + #""count":\#(details.memberCount),"members":[\#(members)]}"#
    }
}
