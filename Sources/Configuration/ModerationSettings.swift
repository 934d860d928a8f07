// Which messages of an app a moderator decides on, as written in the configuration:
//
//     {moderator: "censor", milliseconds: 2000, silent: "refuse", users: true, groups: true,
//      everybody: true, topics: ["chat/#"]}

import JSON5

/// What holds for a message on which nobody decides.
public enum SilentVerdict: String, CaseIterable, Hashable, Sendable {
    case accept, refuse
}

/// The moderation of an app.
public struct ModerationSettings: Hashable, Sendable {
    /// The user whose devices are asked.
    public var moderator = ""
    /// How long a message waits for a verdict.
    public var milliseconds = 2_000
    public var silent = SilentVerdict.refuse
    /// Whether messages to users, to groups and to everybody are moderated.
    public var users = true
    public var groups = true
    public var everybody = true
    /// Filters of the topics whose publications are moderated; none by default.
    public var topics: [String] = []

    /// A person does not notice 100 milliseconds, and clients of MQTT wait for 10 seconds or more.
    static let millisecondsRange = 100...10_000

    public init() {}

    /// Reads the written form: an object with `moderator` and any of the other members.
    init(_ node: JSON5Node) throws(SettingFault) {
        try Setting.readMembers(of: node) { key, node throws(SettingFault) in
            try assign(key, node)
        }
        guard !moderator.isEmpty else {
            throw SettingFault("must have moderator, the user who decides on messages")
        }
    }

    private mutating func assign(_ key: String, _ node: JSON5Node) throws(SettingFault) {
        switch key {
        case "moderator": moderator = try Setting.nonEmptyText(node)
        case "milliseconds":
            milliseconds = try Setting.integer(node, in: Self.millisecondsRange)
        case "silent": silent = try Setting.choice(node)
        case "users": users = try Setting.boolean(node)
        case "groups": groups = try Setting.boolean(node)
        case "everybody": everybody = try Setting.boolean(node)
        case "topics": topics = try HistoryFilters.read(node)
        default:
            throw SettingFault(
                "is unknown; known are moderator, milliseconds, silent, users, groups, everybody, "
                    + "topics")
        }
    }

    /// The written form.
    var written: String {
        let filters = topics.map { JSONText.quoted($0) }.joined(separator: ", ")
        return "{moderator: \(JSONText.quoted(moderator)), milliseconds: \(milliseconds), "
            + "silent: \(JSONText.quoted(silent.rawValue)), users: \(users), groups: \(groups), "
            + "everybody: \(everybody), topics: [\(filters)]}"
    }
}
