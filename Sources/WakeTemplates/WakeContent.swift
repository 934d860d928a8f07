// What a wake-up says: the hook's answer, else what the sender gave, else the template of its kind;
// without control keys, with the badge counted, in the form of its kind.

import JSON5

/// The content of one attempt.
package struct WakeContent: Sendable {
    /// The JSON object that is sent.
    package var content: JSON5Node
    /// The value of `_profile`: which provider of the configuration sends.
    package var profile: String?
    /// The value of `_apns_team_id`.
    package var team: String?
    /// The badge that the target has afterwards; nil if the content says nothing of it.
    package var badge: UInt64?
    /// Whether the sender of the message gave it.
    package var isOfSender = false
}

package enum WakeContents {
    /// The largest badge: what fits in 32 bits with a sign. A larger number of a sender or of a
    /// hook is sent as it is, and is not kept.
    package static let badgeMaximum = UInt64(Int32.max)

    /// Makes the content.
    ///
    /// - Parameters:
    ///   - push: the JSON that the sender gave; empty for none.
    ///   - answer: what the hook gave; nil for nothing.
    ///   - isSenderHeard: false if what the sender gave is not to be used.
    ///   - badge: the target's badge before.
    package static func make(
        _ variables: WakeVariables, for kind: WakeKind, push: [UInt8] = [],
        answer: JSON5Node? = nil, isSenderHeard: Bool = true, template: ContentTemplate,
        badge: UInt64 = 0
    ) -> WakeContent {
        let answered = answer.flatMap { part(of: $0, for: kind) }
        let sent = answered == nil && isSenderHeard ? sent(push, for: kind) : nil
        let chosen = answered ?? sent ?? template.content(for: variables)
        var result = WakeContent(content: JSON5Node(.object([])), isOfSender: sent != nil)
        var members: [JSON5Node.Member] = []
        for member in chosen.members {
            switch member.key {
            case "_profile": result.profile = member.node.text
            case "_apns_team_id": result.team = member.node.text
            case _ where member.key.hasPrefix("_"): break
            default: members.append(member)
            }
        }
        let object = JSON5Node(.object(members))
        switch kind {
        case .apns: result.content = apns(object)
        case .fcm: result.content = fcm(object)
        case .webhook, .sms, .mqtt, .udp: result.content = object
        }
        count(&result, kind: kind, from: badge)
        return result
    }

    /// What the sender gave, if it gave something.
    private static func sent(_ push: [UInt8], for kind: WakeKind) -> JSON5Node? {
        guard !push.isEmpty, let node = try? JSON5Parser.parse(push, isOfOthers: true),
            case .object = node.value
        else { return nil }
        return part(of: node, for: kind)
    }

    /// The member for a kind, if the object has one; else the object without such members. Nil if
    /// it is about other kinds only.
    private static func part(of node: JSON5Node, for kind: WakeKind) -> JSON5Node? {
        if let own = node[kind.rawValue], case .object = own.value { return own }
        let common = node.members.filter { member in
            guard WakeKind(rawValue: member.key) != nil, case .object = member.node.value
            else { return true }
            return false
        }
        let isOfOthers =
            common.count < node.members.count && common.allSatisfy { $0.key.hasPrefix("_") }
        return isOfOthers ? nil : JSON5Node(.object(common))
    }

    /// Keys of Apple's that stand in `aps` ("Generating a remote notification").
    private static let apsKeys: Set<String> = [
        "alert", "badge", "sound", "category", "thread-id", "mutable-content", "content-available",
        "interruption-level", "relevance-score", "target-content-id",
    ]

    /// An object without `aps` gets one, from the members that belong there.
    private static func apns(_ object: JSON5Node) -> JSON5Node {
        guard object["aps"] == nil else { return object }
        let inner = object.members.filter { apsKeys.contains($0.key) }
        let outer = object.members.filter { !apsKeys.contains($0.key) }
        return JSON5Node(.object(outer)).setting("aps", JSON5Node(.object(inner)))
    }

    /// Members of a message of FCM ("REST resource: projects.messages").
    private static let fcmKeys: Set<String> = [
        "data", "notification", "android", "webpush", "apns", "fcm_options",
    ]

    /// Members of a message of FCM that say who gets it, and its name: those are the relay's.
    private static let fcmReceiverKeys: Set<String> = ["token", "topic", "condition", "name"]

    /// An object without such members gets `notification` from `alert`, and `data` from the rest.
    private static func fcm(_ object: JSON5Node) -> JSON5Node {
        var message = JSON5Node(
            .object(object.members.filter { !fcmReceiverKeys.contains($0.key) }))
        if !object.members.contains(where: { fcmKeys.contains($0.key) }) {
            message = JSON5Node(.object([]))
            var data: [JSON5Node.Member] = []
            for member in object.members {
                if member.key == "alert" {
                    let alert = member.node
                    let notification: JSON5Node =
                        alert.text.map { .object([("body", .text($0))]) } ?? alert
                    message = message.setting("notification", notification)
                } else {
                    data.append(member)
                }
            }
            if !data.isEmpty { message = message.setting("data", JSON5Node(.object(data))) }
        }
        // Values of data are texts.
        guard let data = message["data"] else { return message }
        let texts = data.members.map { member in
            (
                member.key,
                JSON5Node.text(
                    member.node.text ?? String(decoding: member.node.json, as: UTF8.self))
            )
        }
        return message.setting("data", .object(texts))
    }

    /// Replaces a badge `"increment"` by its number.
    private static func count(_ result: inout WakeContent, kind: WakeKind, from badge: UInt64) {
        let holder = kind == .apns ? result.content["aps"] : result.content
        guard let holder, let node = holder["badge"] else { return }
        if let text = node.text, text.lowercased() == "increment" {
            result.badge = min(badge + 1, badgeMaximum)
        } else {
            result.badge = node.number.flatMap { $0 <= badgeMaximum ? $0 : nil }
        }
        guard let number = result.badge else { return }
        let counted = holder.setting("badge", .number(number))
        result.content = kind == .apns ? result.content.setting("aps", counted) : counted
    }

    /// The template of a kind that the configuration gives none.
    package static func builtIn(_ kind: WakeKind) -> ContentTemplate {
        let sender = JSON5Node.text("${fromClientId}")
        let conversation = JSON5Node.text("${convId}")
        let count = JSON5Node.text("${count}")
        let alert = JSON5Node.object([("title", sender), ("body", .text("${count} new"))])
        let fields = [("conversation", conversation), ("time", JSON5Node.text("${timestamp}"))]
        switch kind {
        case .apns:
            return ContentTemplate(
                builtIn: .object(
                    [("alert", alert), ("badge", .text("increment")), ("sound", .text("default"))]
                        + fields))
        case .fcm:
            return ContentTemplate(
                builtIn: .object([("notification", alert), ("data", .object(fields))]))
        case .sms:
            return ContentTemplate(
                builtIn: .object([("text", .text("${fromClientId}: ${count} new"))]))
        case .webhook, .mqtt, .udp:
            return ContentTemplate(
                builtIn: .object([("from", sender), ("count", count)] + fields))
        }
    }
}
