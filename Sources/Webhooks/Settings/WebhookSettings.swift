// The settings of a webhook relay: the broker, the record, and the hooks.

import BrokerTerms
import ClientProgram
import MartletClient

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
    case wake = "wake"
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
    package var groups: Set<String> = []
    /// Users whose presence it is told; `*` stands for all.
    package var presence: Set<String> = []
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
    package var server: ServerAddress
    package var authorityFile: String?
    package var token: String
    package var device = "webhooks"
    package var keepAliveSeconds: UInt16 = 60
    package var inFlightMaximum = WebhookLimits.inFlightDefault
    /// The path of the record.
    package var stateFile: String
    /// Networks that hooks may reach although they are private.
    package var privateNetworks: [IPNetwork] = []
    package var retryMilliseconds = UInt64(WebhookLimits.retryMillisecondsDefault)
    package var retrySecondsMaximum = UInt64(WebhookLimits.retrySecondsDefault)
    package var deadLettersMaximum = WebhookLimits.deadLettersDefault
    /// Seconds between two lines of totals; 0 for only the last.
    package var totalsSeconds = 300
    package var hooks: [HookSettings]

    package init(server: ServerAddress, token: String, stateFile: String, hooks: [HookSettings]) {
        self.server = server
        self.token = token
        self.stateFile = stateFile
        self.hooks = hooks
    }

    /// The subscriptions that the hooks need.
    var filters: [String] {
        var filters: Set<String> = []
        for hook in hooks {
            filters.formUnion(hook.topics.map(\.text))
            filters.formUnion(hook.presence.map { "$presence/" + ($0 == "*" ? "+" : $0) })
        }
        return filters.sorted()
    }

    /// The groups that the hooks name.
    var groups: [String] { hooks.reduce(into: Set()) { $0.formUnion($1.groups) }.sorted() }

    /// The settings of the client that receives the events.
    func clientSettings(position: InboxRecord?) -> ClientSettings {
        var settings = ClientSettings(server: server, credential: .token(token))
        if let authorityFile { settings.trust = .authorityFile(authorityFile) }
        settings.device = device
        settings.keepAliveSeconds = keepAliveSeconds
        settings.inboxWindow = UInt16(inFlightMaximum)
        settings.inbox = position
        settings.acknowledgement = .byApplication
        settings.packetMaximum = WebhookLimits.packetByteCountMaximum
        settings.outboxByteCount = 64 << 10
        return settings
    }
}
