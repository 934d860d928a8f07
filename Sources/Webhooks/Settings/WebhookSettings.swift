// The settings of a webhook relay: the broker, the record, and the hooks.

import ClientProgram
import Relay

/// A kind of event. The raw value is the `type` in the body of a request.
package enum EventKind: String, CaseIterable, Sendable {
    case messageUser = "message.user"
    case messageGroup = "message.group"
    case messageEverybody = "message.everybody"
    case messageTopic = "message.topic"
    case messageRecalled = "message.recalled"
    case messageUpdated = "message.updated"
    case groupChanged = "group.changed"
    case groupRemoved = "group.removed"
    case presenceChanged = "presence.changed"
    case receipt = "receipt"
    case wake
    case sessionLost = "session.lost"
    case sessionExpired = "session.expired"
    case queueFull = "queue.full"
    case loginRefused = "login.refused"
    case certificateExpiring = "certificate.expiring"

    /// The kind of an event of the broker, which its JSON text names.
    init(ofBrokerEvent json: String) {
        self =
            switch json {
            case _ where json.hasPrefix(#"{"event":"SESSION_LOST""#): .sessionLost
            case _ where json.hasPrefix(#"{"event":"SESSION_EXPIRED""#): .sessionExpired
            case _ where json.hasPrefix(#"{"event":"QUEUE_FULL""#): .queueFull
            case _ where json.hasPrefix(#"{"event":"LOGIN_REFUSED""#): .loginRefused
            case _ where json.hasPrefix(#"{"event":"CERTIFICATE_EXPIRING""#): .certificateExpiring
            default: .wake
            }
    }
}

/// Which events of a hook keep their order.
package enum EventOrder: String, CaseIterable, Sendable {
    /// Those of the same sender, group or topic.
    case source
    /// All of them: one request at a time.
    case hook
}

/// One destination, and what it is told.
package struct HookSettings: Sendable {
    /// Names it in the log and in the record.
    package var name: String
    package var url: String
    /// One, or two while receivers change to another. Each signs.
    package var secrets: [WebhookSecret]
    package var kinds: Set<EventKind> = []
    package var topics: [TopicFilter] = []
    /// The groups whose events it gets, and of which the relay becomes a member; empty for all.
    package var groups: Set<ExactText> = []
    /// Users whose presence it is told; `*` stands for all.
    package var presence: Set<ExactText> = []
    package var order = EventOrder.source
    package var batchMaximum = 1
    package var timeoutSeconds = WebhookLimits.timeoutSecondsDefault
    package var concurrency = WebhookLimits.concurrencyDefault
    package var validitySeconds = WebhookLimits.validitySecondsDefault
    package var queueMaximum = WebhookLimits.queueDefault
    package var queueByteCountMaximum = WebhookLimits.queueByteCountDefault
    package var refusalsMaximum = WebhookLimits.refusalsDefault
    /// Authorities of the destination's certificate, as PEM; nil for the system's.
    package var authorityFile: String?

    package init(name: String, url: String, secrets: [WebhookSecret]) {
        self.name = name
        self.url = url
        self.secrets = secrets
    }
}

/// The configuration of a relay.
public struct WebhookSettings: Sendable {
    /// The broker, the record and the retries.
    package var relay: RelaySettings
    package var deadLettersMaximum = WebhookLimits.deadLettersDefault
    package var hooks: [HookSettings]
    /// The endpoints that decide on messages; the first that selects one is asked.
    package var deciders: [DeciderSettings] = []

    package init(_ relay: RelaySettings, hooks: [HookSettings]) {
        self.relay = relay
        self.hooks = hooks
    }

    /// Requests at a time.
    var concurrency: Int {
        hooks.reduce(0) { $0 + $1.concurrency } + deciders.reduce(0) { $0 + $1.concurrency }
    }

    /// The subscriptions that the hooks need.
    var filters: [String] {
        var filters: Set<ExactText> = []
        for hook in hooks {
            filters.formUnion(hook.topics.map { ExactText($0.text) })
            filters.formUnion(
                hook.presence.map { ExactText("$presence/" + ($0 == "*" ? "+" : $0.text)) })
        }
        return filters.map(\.text).sorted()
    }

    /// The groups that the hooks name.
    var groups: [String] {
        hooks.reduce(into: Set()) { $0.formUnion($1.groups) }.map(\.text).sorted()
    }
}
