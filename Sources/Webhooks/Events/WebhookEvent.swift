// An event: what a message to the relay's user means for hooks, the key that orders it, and which
// hooks want it.

import ClientProgram
import MartletClient
import Relay

/// A message, as hooks see it.
struct WebhookEvent {
    let kind: EventKind
    /// Events with the same key are delivered in order.
    let key: String
    let message: IncomingMessage
    /// The topic, group or user that hooks select by; empty if there is none.
    let subject: String

    private static let presencePrefix = "$presence/"

    init(_ message: IncomingMessage) {
        self.message = message
        switch message.kind {
        case .unicast: (kind, subject) = (.messageUser, "")
        case .broadcast: (kind, subject) = (.messageEverybody, "")
        case .group(let group): (kind, subject) = (.messageGroup, group)
        case .topic(let topic) where topic.hasPrefix(Self.presencePrefix):
            (kind, subject) = (
                .presenceChanged, String(topic.dropFirst(Self.presencePrefix.count))
            )
        case .topic(let topic): (kind, subject) = (.messageTopic, topic)
        case .kickedOut(let group): (kind, subject) = (.groupRemoved, group)
        case .groupEvent(let group, .removed): (kind, subject) = (.groupRemoved, group)
        case .groupEvent(let group, _): (kind, subject) = (.groupChanged, group)
        case .presence: (kind, subject) = (.presenceChanged, message.from)
        case .receipt(let receipt):
            kind = .receipt
            if case .counts(let group, _, _, _, _) = receipt?.event {
                subject = group
            } else {
                subject = ""
            }
        case .recall(let revision): (kind, subject) = (.messageRecalled, revision?.group ?? "")
        case .update(let revision): (kind, subject) = (.messageUpdated, revision?.group ?? "")
        case .brokerEvent(let json): (kind, subject) = (EventKind(ofBrokerEvent: json), "")
        }
        // A topic, a group and a user may have the same name.
        key =
            switch kind {
            case .messageTopic: "topic \(subject)"
            case _ where !subject.isEmpty && kind != .presenceChanged: "group \(subject)"
            default: "user \(message.from)"
            }
    }
}

extension HookSettings {
    /// Whether this hook is told an event.
    func selects(_ event: WebhookEvent) -> Bool { selects(event.kind, event.subject) }

    /// - Parameter subject: ``WebhookEvent/subject``.
    func selects(_ kind: EventKind, _ subject: String) -> Bool {
        guard kinds.contains(kind) else { return false }
        let isGroup = groups.isEmpty || groups.contains(ExactText(subject))
        switch kind {
        case .messageTopic:
            let levels = TopicLevels(Array(subject.utf8))
            return topics.contains { $0.matches(levels) }
        case .presenceChanged:
            return presence.contains("*") || presence.contains(ExactText(subject))
        case .messageGroup, .groupChanged, .groupRemoved: return isGroup
        case .receipt: return subject.isEmpty || isGroup
        case .messageRecalled, .messageUpdated:
            // One without a group is about a message to the user: a hook of some groups is told
            // its content only if it is told such messages.
            return isGroup || (subject.isEmpty && kinds.contains(.messageUser))
        case .messageUser, .messageEverybody, .wake, .sessionLost, .sessionExpired, .queueFull,
            .loginRefused, .certificateExpiring:
            return true
        }
    }
}
