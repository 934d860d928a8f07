// How users of an app are woken, as written in the configuration:
//
//     {relay: "push", intervalSeconds: 60, contents: false, transient: false, wills: false}

import JSON5

/// The wake-ups of an app.
public struct WakeSettings: Hashable, Sendable {
    /// The user as whom the relay of wake-ups logs in.
    public var relay: String
    /// After a request for a user, the next one follows after so many seconds at the earliest.
    public var intervalSeconds: Int
    /// Whether requests contain the text of the message.
    public var contents: Bool
    /// Whether transient messages to a user wake.
    public var transient: Bool
    /// Whether wills wake.
    public var wills: Bool

    public init(
        relay: String = "", intervalSeconds: Int = 60, contents: Bool = false,
        transient: Bool = false, wills: Bool = false
    ) {
        self.relay = relay
        self.intervalSeconds = intervalSeconds
        self.contents = contents
        self.transient = transient
        self.wills = wills
    }

    /// Reads the written form: an object with `relay` and any of the other members.
    init(_ node: JSON5Node) throws(SettingFault) {
        self.init()
        try Setting.readMembers(of: node) { key, node throws(SettingFault) in
            try assign(key, node)
        }
        guard !relay.isEmpty else {
            throw SettingFault("must have relay, the user of the program that wakes users")
        }
    }

    private mutating func assign(_ key: String, _ node: JSON5Node) throws(SettingFault) {
        switch key {
        case "relay": relay = try Setting.nonEmptyText(node)
        case "intervalSeconds": intervalSeconds = try Setting.integer(node, in: 1...86_400)
        case "contents": contents = try Setting.boolean(node)
        case "transient": transient = try Setting.boolean(node)
        case "wills": wills = try Setting.boolean(node)
        default:
            throw SettingFault(
                "is unknown; known are relay, intervalSeconds, contents, transient, wills")
        }
    }

    /// The written form.
    var written: String {
        "{relay: \(JSONText.quoted(relay)), intervalSeconds: \(intervalSeconds), "
            + "contents: \(contents), transient: \(transient), wills: \(wills)}"
    }
}
