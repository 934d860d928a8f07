// A question of the broker about a message, and the request that asks an endpoint.

import CommandLineOptions
import JSON5
import Relay

/// What the broker asks a moderator about one message (docs/operating/moderation.md).
struct MessageQuestion {
    enum Target {
        case users
        case everybody
        case group(String)
        case topic(String)
    }

    /// Names the message in the verdict.
    let number: UInt64
    /// Who sent the message.
    let sender: ExactText
    /// The time that the broker gives, from when it asked.
    let milliseconds: UInt64
    let target: Target
    /// Whether the content is text with a type, and not the payload of a topic.
    let isTyped: Bool
    private let members: [JSON5Node.Member]

    private static let prefix = #"{"event":"MESSAGE_QUESTION""#

    /// Whether an event of the broker is a question.
    static func isQuestion(_ json: String) -> Bool { json.hasPrefix(prefix) }

    /// Nil for a text that is none.
    init?(_ json: String) {
        guard Self.isQuestion(json),
            let node = try? JSON5Parser.parse(Array(json.utf8), isOfOthers: true),
            let number = node["number"]?.number, let milliseconds = node["left"]?.number
        else { return nil }
        self.number = number
        sender = ExactText(node["user"]?.text ?? "")
        self.milliseconds = milliseconds
        if let group = node["group"]?.text {
            target = .group(group)
        } else if let topic = node["topic"]?.text {
            target = .topic(topic)
        } else {
            target = node["everybody"] == nil ? .users : .everybody
        }
        isTyped = node["t"] != nil
        members = node.members
    }

    /// The body of a request: the broker's members, with the names that other requests have.
    ///
    /// - Parameters:
    ///   - user: the relay's own user.
    ///   - left: the milliseconds for an answer.
    func body(identifier: String, user: String, left: UInt64, unixMilliseconds: UInt64) -> [UInt8] {
        var data: [(String, JSON5Node)] = [("user", .text(user))]
        for member in members {
            switch member.key {
            case "event", "left": break
            case "user": data.append(("from", member.node))
            default: data.append((member.key, member.node))
            }
        }
        data.append(("left", .number(left)))
        return JSON5Node.object([
            ("id", .text(identifier)), ("type", .text("message.question")),
            ("timestamp", .text(LogTime.text(unixMilliseconds: unixMilliseconds))),
            ("data", .object(data)),
        ]).json
    }
}
