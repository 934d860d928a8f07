// The settings that all relays have: the broker, the record, and when something is tried again.

import BrokerTerms
import MartletClient

/// The settings of one relay, whatever it tells to whom.
package struct RelaySettings: Sendable {
    package var servers: [ServerAddress]
    package var authorityFile: String?
    package var token: String
    package var device: String
    package var keepAliveSeconds: UInt16 = 60
    package var inFlightMaximum = RelayLimits.inFlightDefault
    /// The largest packet that the broker may send. It removes larger messages from the inbox.
    package var packetByteCountMaximum = RelayLimits.packetByteCountDefault
    /// The path of the record.
    package var stateFile: String
    /// Networks that the relay may connect to although they are private.
    package var privateNetworks: [IPNetwork] = []
    package var retryMilliseconds = UInt64(RelayLimits.retryMillisecondsDefault)
    package var retrySecondsMaximum = UInt64(RelayLimits.retrySecondsDefault)
    /// Seconds between two lines of totals; 0 for only the last.
    package var totalsSeconds = 300

    package init(servers: [ServerAddress], token: String, device: String, stateFile: String) {
        self.servers = servers
        self.token = token
        self.device = device
        self.stateFile = stateFile
    }

    /// The waits between two attempts.
    package var schedule: RetrySchedule {
        RetrySchedule(
            firstMilliseconds: retryMilliseconds, longestMilliseconds: retrySecondsMaximum * 1_000)
    }

    /// The settings of the client that receives the events.
    func clientSettings(position: InboxRecord?) -> ClientSettings {
        var settings = ClientSettings(servers: servers, credential: .token(token))
        if let authorityFile { settings.trust = .authorityFile(authorityFile) }
        settings.device = device
        settings.keepAliveSeconds = keepAliveSeconds
        settings.inboxWindow = UInt16(inFlightMaximum)
        settings.inbox = position
        settings.acknowledgement = .byApplication
        settings.packetMaximum = packetByteCountMaximum
        settings.outboxByteCount = 64 << 10
        return settings
    }
}
