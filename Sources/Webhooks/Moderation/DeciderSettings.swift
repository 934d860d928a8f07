// The settings of an endpoint that decides on messages.

import ClientProgram
import Primitives
import Relay

/// What holds for a message on which an endpoint does not decide.
package enum SilentVerdict: String, CaseIterable, Sendable {
    case accept
    /// Its sender may send it again.
    case refuse
}

/// An endpoint that decides on messages of the app of which the relay's user is the moderator.
package struct DeciderSettings: Sendable {
    /// Names it in the log.
    package var name: String
    package var url: String
    /// One, or two while the endpoint changes to another. Each signs.
    package var secrets: [WebhookSecret]
    /// Which messages it is asked about; empty for all.
    package var kinds: Set<EventKind> = []
    package var topics: [TopicFilter] = []
    package var groups: Set<ExactText> = []
    /// What holds while it does not answer.
    package var silent: SilentVerdict
    /// The time for an answer, the wait for its turn included.
    package var timeoutMilliseconds = WebhookLimits.decisionMillisecondsDefault
    package var concurrency = WebhookLimits.deciderConcurrencyDefault
    /// Authorities of the endpoint's certificate, as PEM; nil for the system's.
    package var authorityFile: String?

    package init(name: String, url: String, secrets: [WebhookSecret], silent: SilentVerdict) {
        self.name = name
        self.url = url
        self.secrets = secrets
        self.silent = silent
    }

    /// Whether it is asked about a message.
    func selects(_ question: MessageQuestion) -> Bool {
        if kinds.isEmpty, topics.isEmpty, groups.isEmpty { return true }
        switch question.target {
        case .users: return kinds.contains(.messageUser)
        case .everybody: return kinds.contains(.messageEverybody)
        case .group(let group):
            return groups.isEmpty
                ? kinds.contains(.messageGroup) : groups.contains(ExactText(group))
        case .topic(let topic):
            let levels = TopicLevels(Array(topic.utf8))
            return topics.contains { $0.matches(levels) }
        }
    }
}
