// What the broker tells the relay: JSON text of a wake event. A text that does not fit is counted
// and changes nothing.

import JSON5
import WakeTemplates

/// An event of the broker.
package enum WakeEvent: Sendable {
    case request(WakeRequest)
    /// The user need not be woken any more; with a target, that one is removed.
    case withdrawn(user: String, target: UInt64?)

    package init?(_ json: [UInt8]) {
        guard let node = try? JSON5Parser.parse(json, isOfOthers: true),
            let user = node["user"]?.text, !user.isEmpty,
            ["time", "count", "expires", "target"].allSatisfy({ name in
                node[name].map { $0.exactNumber != nil } ?? true
            })
        else { return nil }
        switch node["event"]?.text {
        case "WAKE_REQUEST":
            guard let request = WakeRequest(node, user: user) else { return nil }
            self = .request(request)
        case "WAKE_WITHDRAWN": self = .withdrawn(user: user, target: node["target"]?.number)
        default: return nil
        }
    }
}

/// A message waits for a user without a connected device.
package struct WakeRequest: Sendable {
    package var user: String
    package var targets: [PushTarget] = []
    package var from = ""
    package var group = ""
    package var time: UInt64 = 0
    package var count: UInt64 = 1
    /// Unix milliseconds; 0 for none.
    package var expires: UInt64 = 0
    package var reference = ""
    package var push: [UInt8] = []
    package var text = ""
    package var isTest = false
    /// The broker's templates for the kinds of the targets, as JSON.
    package var templates: [WakeKind: [UInt8]] = [:]
    /// Targets of a kind that this version does not know.
    package var unknownCount = 0

    package init(user: String) { self.user = user }

    fileprivate init?(_ node: JSON5Node, user: String) {
        self.init(user: user)
        guard case .array(let list)? = node["targets"]?.value,
            list.count <= PushLimits.targetsMaximum
        else { return nil }
        for element in list {
            guard let id = element["id"]?.exactNumber, let address = element["address"]?.text,
                let name = element["kind"]?.text
            else { return nil }
            guard let kind = WakeKind(rawValue: name) else {
                unknownCount += 1
                continue
            }
            targets.append(
                PushTarget(
                    id: id, device: element["device"]?.text ?? "", kind: kind, address: address,
                    isSandbox: element["environment"]?.text == "sandbox",
                    language: element["language"]?.text ?? ""))
        }
        guard let time = node["time"]?.number else { return nil }
        self.time = time
        from = node["from"]?.text ?? ""
        group = node["group"]?.text ?? ""
        count = node["count"]?.number ?? 1
        expires = node["expires"]?.number ?? 0
        reference = node["reference"]?.text ?? ""
        text = node["b"]?.text ?? ""
        if let push = node["push"], case .object = push.value { self.push = push.json }
        if case .boolean(true)? = node["test"]?.value { isTest = true }
        for member in node["templates"]?.members ?? [] {
            guard let kind = WakeKind(rawValue: member.key) else { continue }
            templates[kind] = member.node.json
        }
    }
}

extension JSON5Node {
    /// A whole number that every reader of JSON has exactly (RFC 8259, 6), which is far below what
    /// the broker's own protocol takes.
    fileprivate var exactNumber: UInt64? { number.flatMap { $0 <= 1 << 53 ? $0 : nil } }
}
