// What the broker tells a JSON client, as events of Diuit.

import Administration

/// What a message of the broker becomes.
public enum SocketOutput: Hashable, Sendable {
    /// The login is accepted.
    case connected
    case refused(code: Int, String)
    /// The connection ends.
    case closed(code: Int, String)
    case event(String, SourceValue)
    /// An event with the newest state of a group, which is not in the message.
    case state(String, ofGroup: String)
    /// It has no event.
    case nothing
}

/// Translates messages of the broker (docs/JSON.md).
public enum DiuitEvents {
    /// - Parameters:
    ///   - message: as the broker writes it.
    ///   - user: who gets it.
    public static func output(of message: [UInt8], to user: String) -> SocketOutput {
        guard case .object(let members)? = try? SourceValue(message),
            case .text(let type)? = members["type"]
        else {
            assertionFailure("a message of \(message.count) bytes is no JSON object")
            return .nothing
        }
        switch type {
        case "connected": return .connected
        case "refused": return .refused(code: code(of: members), detail(of: members))
        case "closed": return .closed(code: code(of: members), detail(of: members))
        case "message": return event(members, to: user)
        default: return .nothing
        }
    }

    /// What `authenticate` is answered with: the device, without tokens.
    public static func device(_ name: String, of user: String) -> SourceValue {
        .object([
            "userId": .text(user), "deviceId": .text(name),
            "device": .object([
                "id": .text(name), "serial": .text(name), "status": .text("online"),
                "platform": .null, "meta": .object([:]),
            ]),
        ])
    }

    /// Those who may join a chat, at most ``SourceLimits/occupantsMaximum``; null for everybody.
    static func whiteList(_ allowed: [String]?) -> SourceValue {
        allowed.map {
            .array($0.prefix(SourceLimits.occupantsMaximum).map { .text($0) })
        } ?? .null
    }

    /// The data of an event with the state of a group. What is too long for each member to be told
    /// is left out, and the event says how much there is.
    public static func state(
        _ event: String, ofGroup group: String, meta text: String, allowed: [String]?
    ) -> SourceValue {
        var members: [String: SourceValue] = ["chatId": .text(group)]
        let isOfMeta = event == "meta.updated"
        let count = isOfMeta ? text.utf8.count : allowed?.count ?? 0
        let value = isOfMeta ? meta(text) : whiteList(allowed)
        if value.byteCountMaximum <= SourceLimits.stateByteCountMaximum,
            isOfMeta || count <= SourceLimits.occupantsMaximum
        {
            members[isOfMeta ? "meta" : "whiteList"] = value
        } else {
            members[isOfMeta ? "metaBytes" : "whiteListCount"] = .count(count)
        }
        return .object(members)
    }

    /// The data of a chat; that of other applications may be no JSON.
    static func meta(_ text: String) -> SourceValue {
        if text.isEmpty { return .object([:]) }
        return (try? SourceValue(Array(text.utf8))) ?? .text(text)
    }

    private static func event(
        _ members: [String: SourceValue], to user: String
    ) -> SocketOutput {
        let group = members["group"]?.plainText
        switch members["kind"]?.plainText {
        case "user", "group", "everybody": return .event("message", content(members, to: user))
        case "kickedOut":
            guard let group else { return .nothing }
            return notice("user.kicked", user, in: group)
        case "groupEvent":
            guard let group else { return .nothing }
            switch members["event"]?.plainText {
            case "joined": return notice("user.joined", members["user"]?.plainText, in: group)
            case "left": return notice("user.left", members["user"]?.plainText, in: group)
            case "kicked": return notice("user.kicked", members["user"]?.plainText, in: group)
            case "allow-list-updated": return .state("whiteList.updated", ofGroup: group)
            case "meta-updated": return .state("meta.updated", ofGroup: group)
            // Members hear of themselves by the events above.
            default: return .nothing
            }
        default: return .nothing
        }
    }

    private static func notice(
        _ name: String, _ user: String?, in group: String
    ) -> SocketOutput {
        .event(name, .object(["chatId": .text(group), "userId": .optional(user)]))
    }

    private static func content(
        _ members: [String: SourceValue], to user: String
    ) -> SourceValue {
        let sender = members["from"]?.plainText ?? ""
        var attributes: [String: String] = [:]
        if case .object(let values)? = members["attributes"] {
            for (key, value) in values { attributes[key] = value.plainText }
        }
        var type: UInt8 = 0
        if case .number(let number)? = members["t"] { type = UInt8(clamping: number) }
        let message = DiuitMessage(
            type: type, text: members["b"]?.plainText ?? "", attributes: attributes)
        var chat: DialogName?
        if let group = members["group"]?.plainText {
            chat = .group(group)
        } else if members["kind"] == .text("user") {
            chat = .between(user, sender)
        }
        var object = message.members(in: chat, from: sender)
        object["createdAt"] = members["time"] ?? .null
        object["id"] = .null
        if let chat, case .number(let number)? = members["kept"] {
            let name = DialogMessageName(dialog: chat, number: UInt64(clamping: number))
            object["id"] = .text(name.identifier)
        }
        return .object(object)
    }

    // MARK: - Ends

    private static func detail(of members: [String: SourceValue]) -> String {
        members["detail"]?.plainText ?? members["name"]?.plainText ?? ""
    }

    /// The code of HTTP for a reason, and 4111 where another device of the same name logs in.
    private static func code(of members: [String: SourceValue]) -> Int {
        guard case .number(let reason)? = members["reason"] else { return 400 }
        return switch reason {
        case 0x86, 0x87, 0x8A, 0x8C, 0xA0: 403
        case 0x8D: 408
        case 0x8E: 4111
        case 0x95: 413
        case 0x93, 0x96, 0x97, 0x9F: 429
        case 0x88, 0x89, 0x8B: 503
        default: 400
        }
    }
}
