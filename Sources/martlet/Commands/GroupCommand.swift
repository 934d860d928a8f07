// `martlet group` as a user: each command logs in, sends one request and disconnects. The user is
// the member, regardless of the device. For the operator, GroupOperatorCommand.swift has the same
// commands.

import Administration
import CommandLineOptions
import Glibc
import JSON5
import MartletClient

enum GroupOption: String, ConnectionRules, AppRules {
    case server, ca, token, device, timeout
    case data, app, owner
    case name, allow, meta, everybody, shown, backlog, json

    var shape: OptionShape {
        switch self {
        case .everybody, .json: .flag
        case .server, .ca, .token, .device, .timeout, .data, .app, .owner, .name, .allow, .meta,
            .shown, .backlog:
            .value
        }
    }

    var letter: Character? { self == .timeout ? "W" : nil }
}

extension ParsedOptions<GroupOption> {
    /// A required word.
    func word(
        _ index: Int, of command: Command, meaning: String
    ) throws(UsageError) -> String {
        guard index < positionals.count else {
            throw UsageError("missing \(meaning) of martlet \(command.rawValue)")
        }
        return positionals[index]
    }

    /// What `group history` sets: its second word, and an option.
    func groupHistory() throws(UsageError) -> (isKept: Bool, shownCount: UInt32) {
        let word = try word(1, of: .groupHistory, meaning: "on or off")
        guard word == "on" || word == "off" else {
            throw UsageError("the history of a group is on or off, not \"\(word)\"")
        }
        let shown = try integer(.shown, in: 0...Int(UInt32.max)) ?? 0
        return (word == "on", UInt32(shown))
    }

    /// How many kept messages from before a new member sees; nil for as many as the group shows.
    func backlog() throws(UsageError) -> UInt32? {
        try integer(.backlog, in: 0...Int(ChangeMember.backlogMaximum)).map { UInt32($0) }
    }

    /// The users of a comma-separated list.
    func allowedUsers(_ list: String) -> [String] {
        list.split(separator: ",").map(String.init)
    }

    static func runGroup(_ command: Command, _ arguments: ArraySlice<String>) async throws {
        let own: Set<GroupOption> =
            switch command {
            case .groupCreate: [.owner, .name, .allow, .meta]
            case .groupAllow: [.everybody]
            case .groupHistory: [.shown]
            case .groupJoin: [.backlog]
            default: []
            }
        let options = try OptionParser<GroupOption>.options(
            arguments, positionalMaximum: 2, accepting: own.union([.device, .timeout, .app, .json]))
        if options.isOperator {
            if options.has(.data), options.has(.token) || options.has(.server) {
                throw UsageError(
                    "--data excludes --token and --server: it selects a broker on this machine")
            }
            try GroupOperatorCommand.run(command, options)
        } else {
            if options.has(.owner) {
                throw UsageError(
                    "--owner and --token exclude each other: with a token, you are the owner")
            }
            try await GroupCommand.run(command, options)
        }
    }
}

/// One group as it is printed, for operators and users.
struct GroupLine: Encodable {
    var groupid: String
    var title: String
    var owner: String?
    /// Whether the user owns it; nil for the operator.
    var own: Bool?
    var memberCount: Int?
    var isLimited: Bool?
    /// The users who may join; nil for everybody, and if the user may not see them.
    var allowed: [String]?
    var meta: String?
    /// Whether messages are kept by default, and how many of them new members see.
    var isKept: Bool?
    var shownCount: UInt32?
    /// The number of the newest kept message.
    var lastNumber: UInt64?
    var members: [String]?

    /// All known properties, one on each line.
    var text: String {
        let everybody = isLimited == true ? "who is on its list" : "everybody"
        return textSheet([
            "group": groupid, "title": title,
            "owner": (owner ?? "") + (own == true ? " (you)" : ""),
            "may join": allowed.map { $0.joined(separator: ", ") } ?? everybody,
            "meta": meta ?? "",
            "history": "\(isKept == true ? "on" : "off"), \(shownCount ?? 0) shown to new members, "
                + "newest number \(lastNumber ?? 0)",
            "members": "\(memberCount ?? 0)",
        ]) + (members ?? []).map { "\n  \(printable($0))" }.joined()
    }
}

enum GroupCommand {
    private static let timeoutSecondsDefault: UInt64 = 60

    static func run(_ command: Command, _ options: ParsedOptions<GroupOption>) async throws {
        let request = try Request(command, options)
        var settings = try options.clientSettings(deviceDefault: "group-\(getpid())")
        // A transient session, which receives none of the user's waiting messages.
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        let lines = try await CommandStop.run(settings, seconds: seconds) { client, _ in
            try await client.connect()
            return try await request.carryOut(client, isJSON: options.has(.json))
        }
        for line in lines { StandardStream.output.print(line) }
    }

    /// One command with checked words.
    private enum Request {
        case create(name: String, allowed: [String]?, meta: String)
        case join(String, backlog: UInt32?)
        case leave(String)
        case kick(String, user: String)
        case ban(String, user: String)
        case list
        case show(String)
        case setMeta(String, meta: String)
        case setAllowed(String, [String]?)
        case setHistory(String, isKept: Bool, shownCount: UInt32)

        init(
            _ command: Command, _ options: ParsedOptions<GroupOption>
        ) throws(UsageError) {
            func word(_ index: Int, _ meaning: String) throws(UsageError) -> String {
                try options.word(index, of: command, meaning: meaning)
            }
            func alone(_ group: String) throws(UsageError) -> String {
                guard options.positionals.count == 1 else {
                    throw UsageError(
                        "unexpected USER: with a token, \(command.rawValue) changes your own "
                            + "membership; operators use --data DIR")
                }
                return group
            }
            switch command {
            case .groupCreate:
                self = .create(
                    name: try options.required(.name),
                    allowed: options[.allow].map(options.allowedUsers),
                    meta: options[.meta] ?? "")
            case .groupJoin:
                self = .join(try alone(word(0, "GROUP")), backlog: try options.backlog())
            case .groupLeave: self = .leave(try alone(word(0, "GROUP")))
            case .groupKick:
                self = .kick(try word(0, "GROUP"), user: try word(1, "USER"))
            case .groupBan: self = .ban(try word(0, "GROUP"), user: try word(1, "USER"))
            case .groupList: self = .list
            case .groupShow: self = .show(try word(0, "GROUP"))
            case .groupMeta:
                self = .setMeta(try word(0, "GROUP"), meta: try word(1, "META"))
            case .groupHistory:
                let history = try options.groupHistory()
                self = .setHistory(
                    try word(0, "GROUP"), isKept: history.isKept, shownCount: history.shownCount)
            case .groupAllow:
                let group = try word(0, "GROUP")
                if options.has(.everybody) {
                    self = .setAllowed(group, nil)
                } else {
                    self = .setAllowed(
                        group, options.allowedUsers(try word(1, "USER,... or --everybody")))
                }
            case .groupDelete:
                throw UsageError(
                    "operators delete groups, with --data DIR or --server https://HOST:PORT; a "
                        + "group of users ends when its last member leaves")
            default:
                preconditionFailure("\(command.rawValue) is no group command")
            }
        }

        /// Executes it; returns the lines to print.
        func carryOut(
            _ client: Client, isJSON: Bool
        ) async throws(MartletError) -> [String] {
            switch self {
            case .create(let name, let allowed, let meta):
                let group = try await client.createGroup(
                    title: name, allowing: allowed, meta: meta)
                return [isJSON ? #"{"groupid":\#(JSONText.quoted(group))}"# : group]
            case .join(let group, let backlog):
                try await client.joinGroup(group, backlog: backlog)
            case .leave(let group):
                if try await !client.leaveGroup(group) {
                    StandardStream.error.print("martlet: you were not in it")
                }
            case .kick(let group, let user):
                if try await !client.kick(user, from: group) { tellNoMember(user) }
            case .ban(let group, let user):
                if try await !client.ban(user, from: group) { tellNoMember(user) }
            case .list: return lines(try await client.groups(), isJSON: isJSON)
            case .show(let group):
                var details = try await client.describe(group)
                while details.hasMoreMembers {
                    let page = try await client.describe(
                        group, membersAfter: details.members.last)
                    details.members += page.members
                    details.hasMoreMembers = page.hasMoreMembers
                }
                let history = try await client.historySettings(of: group)
                let line = GroupLine(
                    groupid: group, title: details.title, owner: details.owner,
                    own: details.isOwn, memberCount: details.memberCount,
                    isLimited: details.hasAllowList, meta: details.meta, isKept: history.isKept,
                    shownCount: history.shownCount, lastNumber: history.lastNumber,
                    members: details.members)
                return [isJSON ? jsonLine(line) : line.text]
            case .setMeta(let group, let meta): try await client.setMeta(meta, of: group)
            case .setAllowed(let group, let users):
                try await client.setAllowList(users, of: group)
            case .setHistory(let group, let isKept, let shownCount):
                try await client.setHistory(of: group, isKept: isKept, shownCount: shownCount)
            }
            return []
        }
    }

    private static func tellNoMember(_ user: String) {
        StandardStream.error.print("martlet: \(printable(user)) was not in it")
    }

    private static func lines(_ groups: [GroupSummary], isJSON: Bool) -> [String] {
        if isJSON {
            return groups.map {
                jsonLine(GroupLine(groupid: $0.id, title: $0.title, own: $0.isOwn))
            }
        }
        var table = TextTable("GROUP", "TITLE", "YOURS")
        for group in groups { table.add([group.id, group.title, group.isOwn ? "yes" : ""]) }
        return table.takePage()
    }
}
