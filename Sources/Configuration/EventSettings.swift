// Which events of the broker an app is told, as written in the configuration:
//
//     {relay: "hooks", kinds: ["session.lost", "session.expired", "queue.full"]}

import JSON5

/// An event of the broker.
public enum BrokerEventName: String, CaseIterable, Hashable, Sendable {
    case sessionLost = "session.lost"
    case sessionExpired = "session.expired"
    case queueFull = "queue.full"
    case loginRefused = "login.refused"
    case certificateExpiring = "certificate.expiring"
}

/// The events of an app.
public struct EventSettings: Hashable, Sendable {
    /// The user as whom the relay logs in.
    public var relay = ""
    /// By default those about users of the app. The other ones are about the whole broker.
    public var kinds: [BrokerEventName] = [.sessionLost, .sessionExpired, .queueFull]

    public init() {}

    /// Reads the written form: an object with `relay` and perhaps `kinds`.
    init(_ node: JSON5Node) throws(SettingFault) {
        try Setting.readMembers(of: node) { key, node throws(SettingFault) in
            switch key {
            case "relay": relay = try Setting.nonEmptyText(node)
            case "kinds": kinds = try Self.kinds(node)
            default: throw SettingFault("is unknown; known are relay, kinds")
            }
        }
        guard !relay.isEmpty else {
            throw SettingFault("must have relay, the user who is told")
        }
    }

    private static func kinds(_ node: JSON5Node) throws(SettingFault) -> [BrokerEventName] {
        guard case .array(let elements) = node.value, !elements.isEmpty else {
            throw SettingFault("must be a list of events in brackets, not \(node.kindName)")
        }
        var kinds: [BrokerEventName] = []
        for element in elements {
            let kind: BrokerEventName = try Setting.choice(element)
            guard !kinds.contains(kind) else {
                throw SettingFault("has \(kind.rawValue) twice")
            }
            kinds.append(kind)
        }
        return kinds
    }

    /// The written form.
    var written: String {
        let names = kinds.map { JSONText.quoted($0.rawValue) }.joined(separator: ", ")
        return "{relay: \(JSONText.quoted(relay)), kinds: [\(names)]}"
    }
}
