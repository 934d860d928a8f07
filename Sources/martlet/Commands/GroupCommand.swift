// `martlet group` as a user: each command logs in, sends one request and disconnects. The user is
// the member, regardless of the device. For the operator, GroupOperatorCommand.swift has the same
// commands.

import CommandLineOptions
import Glibc
import JSON5
import MartletClient

enum GroupOption: String, ConnectionRules, AppRules {
    case server, ca, token, device, timeout
    case data, app, owner
    case name, allow, meta, everybody, json

    var shape: OptionShape {
        switch self {
        case .everybody, .json: .flag
        case .server, .ca, .token, .device, .timeout, .data, .app, .owner, .name, .allow, .meta:
            .value
        }
    }

    var letter: Character? { self == .timeout ? "W" : nil }
}

extension ParsedOptions<GroupOption> {
    /// Whether the command acts as the operator: with `--data`, with the address of an HTTP API, or
    /// if there is no token but a data directory.
    private var isOperator: Bool {
        if has(.data) { return true }
        if let server = self[.server] { return HTTPAdministrationClient.takes(server) }
        let hasToken = has(.token) || environment("MARTLET_TOKEN") != nil
        return httpServerOfEnvironment != nil || !hasToken && environment("MARTLET_DATA") != nil
    }

    /// A required word.
    func word(
        _ index: Int, of command: Command, meaning: String
    ) throws(UsageError) -> String {
        guard index < positionals.count else {
            throw UsageError("missing \(meaning) of martlet \(command.rawValue)")
        }
        return positionals[index]
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
    var members: [String]?

    /// All known properties, one on each line.
    var text: String {
        let everybody = isLimited == true ? "who is on its list" : "everybody"
        return textSheet([
            "group": groupid, "title": title,
            "owner": (owner ?? "") + (own == true ? " (you)" : ""),
            "may join": allowed.map { $0.joined(separator: ", ") } ?? everybody,
            "meta": meta ?? "", "members": "\(memberCount ?? 0)",
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
            case .groupJoin: self = .join(try alone(word(0, "GROUP")))
            case .groupLeave: self = .leave(try alone(word(0, "GROUP")))
            case .groupKick:
                self = .kick(try word(0, "GROUP"), user: try word(1, "USER"))
            case .groupBan: self = .ban(try word(0, "GROUP"), user: try word(1, "USER"))
            case .groupList: self = .list
            case .groupShow: self = .show(try word(0, "GROUP"))
            case .groupMeta:
                self = .setMeta(try word(0, "GROUP"), meta: try word(1, "META"))
            case .groupAllow:
                let group = try word(0, "GROUP")
                if options.has(.everybody) {
                    self = .setAllowed(group, nil)
                } else {
                    self = .setAllowed(
                        group, options.allowedUsers(try word(1, "USER,... or --everybody")))
                }
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
            case .join(let group): try await client.joinGroup(group)
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
                let line = GroupLine(
                    groupid: group, title: details.title, owner: details.owner,
                    own: details.isOwn, memberCount: details.memberCount,
                    isLimited: details.hasAllowList, meta: details.meta, members: details.members)
                return [isJSON ? jsonLine(line) : line.text]
            case .setMeta(let group, let meta): try await client.setMeta(meta, of: group)
            case .setAllowed(let group, let users):
                try await client.setAllowList(users, of: group)
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
