// Settings of one app that differ from the broker's, as written in the configuration:
//
//     {app: "plant", refusedPublish: "count", joinsGroups: false, takeoversPerMinute: 20,
//      keepsHistory: true, historyTopics: ["plant/+/alarm"], recall: false, addsMembers: false,
//      interfaces: ["rest"],
//      wake: {relay: "push", intervalSeconds: 60}, events: {relay: "hooks"},
//      moderation: {moderator: "censor"}}

import JSON5

/// An app and its own settings.
public struct AppSettings: ObjectSetting, Hashable, Sendable {
    public var app: String
    /// nil: the value of `mqtt.refusedPublish`.
    public var refusedPublish: RefusedPublish?
    /// nil: the value of `mqtt.joinsGroups`.
    public var joinsGroups: Bool?
    /// nil: the value of `limits.takeoversPerMinute`.
    public var takeoversPerMinute: Int?
    /// nil: the value of `history.byDefault`.
    public var keepsHistory: Bool?
    /// Filters of the topics whose publications are kept; none by default.
    public var historyTopics: [String] = []
    /// Whether its users may recall and replace their messages; nil: they may.
    public var recall: Bool?
    /// Whether its users may add others to groups; nil: they may.
    public var addsMembers: Bool?

    /// How users are woken of whom no device is connected; nil: they are not.
    public var wake: WakeSettings?

    /// Which events of the broker it is told; nil for none.
    public var events: EventSettings?

    /// Which of its messages a moderator decides on; nil for none.
    public var moderation: ModerationSettings?

    /// The interfaces of other messaging systems that its users may use.
    public var interfaces: [AppInterface] = []

    public init(
        app: String = "", refusedPublish: RefusedPublish? = nil, joinsGroups: Bool? = nil,
        takeoversPerMinute: Int? = nil, keepsHistory: Bool? = nil,
        historyTopics: [String] = [], recall: Bool? = nil, addsMembers: Bool? = nil
    ) {
        self.recall = recall
        self.addsMembers = addsMembers
        self.app = app
        self.refusedPublish = refusedPublish
        self.joinsGroups = joinsGroups
        self.takeoversPerMinute = takeoversPerMinute
        self.keepsHistory = keepsHistory
        self.historyTopics = historyTopics
    }

    /// Reads the written form: an object with `app` and any of the other members.
    init(_ node: JSON5Node) throws(SettingFault) {
        self.init()
        try Setting.readMembers(of: node) { key, node throws(SettingFault) in
            try assign(key, node)
        }
        guard !app.isEmpty else { throw SettingFault("must have app, the name of the app") }
    }

    private mutating func assign(
        _ key: String, _ node: JSON5Node
    ) throws(SettingFault) {
        switch key {
        case "app": app = try Setting.nonEmptyText(node)
        case "refusedPublish": refusedPublish = try Setting.choice(node)
        case "joinsGroups": joinsGroups = try Setting.boolean(node)
        case "takeoversPerMinute":
            takeoversPerMinute = try Setting.integer(node, in: Setting.takeoversPerMinute)
        case "keepsHistory": keepsHistory = try Setting.boolean(node)
        case "historyTopics": historyTopics = try HistoryFilters.read(node)
        case "recall": recall = try Setting.boolean(node)
        case "addsMembers": addsMembers = try Setting.boolean(node)
        case "wake": wake = try WakeSettings(node)
        case "events": events = try EventSettings(node)
        case "moderation": moderation = try ModerationSettings(node)
        case "interfaces": interfaces = try Self.interfaces(node)
        default:
            throw SettingFault(
                "is unknown; known are app, refusedPublish, joinsGroups, takeoversPerMinute, "
                    + "keepsHistory, historyTopics, recall, addsMembers, interfaces, wake, "
                    + "events, moderation")
        }
    }

    private static func interfaces(_ node: JSON5Node) throws(SettingFault) -> [AppInterface] {
        guard case .array(let elements) = node.value else {
            throw SettingFault("must be a list, not \(node.kindName)")
        }
        var interfaces: [AppInterface] = []
        for (index, element) in elements.enumerated() {
            do throws(SettingFault) {
                interfaces.append(try Setting.choice(element))
            } catch {
                throw SettingFault("has entry \(index + 1), which \(error.message)")
            }
        }
        return interfaces
    }

    func fault(beside others: [Self]) -> String? {
        others.contains { $0.app == app } ? "names the app \(JSONText.quoted(app)) once more" : nil
    }

    /// The written form.
    var written: String {
        var members = ["app: \(JSONText.quoted(app))"]
        if let refusedPublish {
            members.append("refusedPublish: \(JSONText.quoted(refusedPublish.rawValue))")
        }
        if let joinsGroups { members.append("joinsGroups: \(joinsGroups)") }
        if let takeoversPerMinute { members.append("takeoversPerMinute: \(takeoversPerMinute)") }
        if let keepsHistory { members.append("keepsHistory: \(keepsHistory)") }
        if !historyTopics.isEmpty {
            let filters = historyTopics.map { JSONText.quoted($0) }
            members.append("historyTopics: [\(filters.joined(separator: ", "))]")
        }
        if let recall { members.append("recall: \(recall)") }
        if let addsMembers { members.append("addsMembers: \(addsMembers)") }
        if let wake { members.append("wake: \(wake.written)") }
        if let events { members.append("events: \(events.written)") }
        if let moderation { members.append("moderation: \(moderation.written)") }
        if !interfaces.isEmpty {
            let names = interfaces.map { JSONText.quoted($0.rawValue) }
            members.append("interfaces: [\(names.joined(separator: ", "))]")
        }
        return "{\(members.joined(separator: ", "))}"
    }
}

/// An interface of another messaging system (docs/operating/source-systems.md).
public enum AppInterface: String, Hashable, Sendable, CaseIterable {
    case rest, registration, quickblox, leanmessage, diuit
}

extension Setting {
    /// For the whole broker, or for an app.
    static let takeoversPerMinute = 1...1_000
}
