// The settings of a relay for wake-ups: the broker, the record, the providers, the templates, and
// the hook.

import BrokerTerms
import MartletClient
import Relay
import WakeTemplates

/// How the relay proves to Apple whose notifications they are.
package enum APNsProof: Sendable {
    /// A signed token: the key, its id, and the team.
    case token(key: SigningKey, keyID: String, teamID: String, minutes: Int)
    case certificate(ClientIdentity)
}

/// One way to Apple's service.
package struct APNsSettings: Sendable {
    /// What `_profile` names; empty for none.
    package var name = ""
    package var teamID = ""
    package var proof: APNsProof
    /// The bundle id of the app.
    package var topic: String
    package var pushType = "alert"
    package var priority = 10
    package var productionURL = "https://api.push.apple.com"
    package var sandboxURL = "https://api.sandbox.push.apple.com"
    package var authorityFile: String?
    package var timeoutSeconds = PushLimits.timeoutSecondsDefault
}

/// The project of Firebase.
package struct FCMSettings: Sendable {
    package var key: SigningKey
    package var project: String
    package var account: String
    package var tokenURL: String
    package var url = "https://fcm.googleapis.com"
    package var authorityFile: String?
    package var timeoutSeconds = PushLimits.timeoutSecondsDefault
}

/// Signed requests of Standard Webhooks: to the URL of each target, to a service for text messages,
/// or to the hook.
package struct RequestSettings: Sendable {
    /// Empty for the URL of the target.
    package var url = ""
    package var secrets: [WebhookSecret] = []
    /// Whether targets may have URLs without TLS.
    package var isPlainAllowed = false
    package var authorityFile: String?
    package var timeoutMilliseconds = PushLimits.timeoutSecondsDefault * 1_000
    /// How numbers begin that text messages may go to; `+` stands for all.
    package var numberPrefixes: [String] = []

    func permits(number: String) -> Bool {
        numberPrefixes.contains { number.utf8.starts(with: $0.utf8) }
    }
}

/// The hook that is asked for contents.
package struct HookSettings: Sendable {
    package var request = RequestSettings()
    /// What its silence means: the template, or nothing.
    package var isTemplateOnSilence = true

    var verdict: String { isTemplateOnSilence ? "template" : "drop" }
}

/// A broker whose topics wake.
package struct MQTTSettings: Sendable {
    package var server: ServerAddress
    package var user: String?
    package var password: String?
    package var clientIdentifier = "martlet-push"
    package var authorityFile: String?
    /// The topics of targets; an address that none of them matches is refused.
    package var topics: [WakeTopicRule] = []
    package var isVersion5 = false
    package var keepAliveSeconds: UInt16 = 60
    /// The time for the broker's answer to a login and to a publication.
    package var answerMilliseconds = PushLimits.publicationMilliseconds
}

/// Datagrams on networks of the operator.
package struct DatagramSettings: Sendable {
    package var networks: [IPNetwork] = []
    package var key: DatagramKey
    package var datagramCount = PushLimits.datagramsDefault
    package var waitMilliseconds = UInt64(PushLimits.datagramMillisecondsDefault)
}

/// The configuration of a relay for wake-ups.
public struct PushSettings: Sendable {
    /// The broker, the record and the retries.
    package var relay: RelaySettings
    package var concurrency = PushLimits.concurrencyDefault
    package var ratePerSecond = PushLimits.ratePerSecondDefault
    package var waitingMaximum = PushLimits.waitingDefault
    package var deadLettersMaximum = PushLimits.deadLettersDefault
    package var logPerTargetMaximum = PushLimits.logPerTargetDefault
    package var logMaximum = PushLimits.logDefault
    /// The first one is used where no control key names another.
    package var apns: [APNsSettings] = []
    package var fcm: FCMSettings?
    package var webhook: RequestSettings?
    package var sms: RequestSettings?
    package var mqtt: MQTTSettings?
    package var udp: DatagramSettings?
    package var templates: [WakeKind: ContentTemplate] = [:]
    package var hook: HookSettings?
    /// Whether templates may have the text of the message.
    package var hasContents = false

    package init(_ relay: RelaySettings) {
        self.relay = relay
        for kind in WakeKind.allCases { templates[kind] = WakeContents.builtIn(kind) }
    }

    /// Whether the relay can speak to targets of a kind.
    package func speaks(_ kind: WakeKind) -> Bool {
        switch kind {
        case .apns: !apns.isEmpty
        case .fcm: fcm != nil
        case .webhook: webhook != nil
        case .sms: sms != nil
        case .mqtt: mqtt != nil
        case .udp: udp != nil
        }
    }

    /// The template of a kind; nil if the relay cannot speak to such targets.
    package func template(for kind: WakeKind) -> ContentTemplate? {
        speaks(kind) ? templates[kind] : nil
    }

    /// What shares a circuit with others: a host that a user chose, whatever its port, or the
    /// service. No host has the name of a service.
    func destination(of target: PushTarget) -> String {
        switch target.kind {
        case .webhook: "webhook \(WebDestination(target.address)?.host ?? "")"
        case .apns: target.isSandbox ? "apns-sandbox" : "apns"
        case .fcm, .sms, .mqtt: target.kind.rawValue
        case .udp: "udp \(HostName.normal(DatagramSender.server(of: target)?.host ?? ""))"
        }
    }
}
