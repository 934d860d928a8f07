// Limits of a relay for wake-ups, each with its reason.

import WakeTemplates

/// Limits that no configuration exceeds, and the defaults of those that it sets.
public enum PushLimits {
    /// Requests at a time: each has a descriptor. The relay raises its own limit of descriptors.
    static let concurrencyDefault = 512
    static let concurrencyMaximum = 2_000
    /// Requests to one destination at a time. Providers bear more, and one customer's server fewer.
    static let destinationConcurrencyMaximum = 100
    /// Requests of one user at a time to hosts that users choose: with slow hosts of its own, a
    /// user takes no more of them.
    static let userRequestsMaximum = 2
    /// A destination that takes longer to answer, in milliseconds and on average, has the share of
    /// those that fail: providers answer within a tenth of it.
    static let answerMillisecondsMaximum: UInt64 = 1_000
    /// Connections that are kept for further requests: to look through them takes time.
    static let connectionsMaximum = 256
    /// Wake-ups that begin in one second; 0 for no limit. A wake-up may bring a client to
    /// the broker, and all of them at once are a storm of logins.
    static let ratePerSecondDefault = 1_000
    static let ratePerSecondMaximum = 100_000
    /// Targets with a wake-up that is not sent yet: each is about a kilobyte.
    static let waitingDefault = 100_000
    static let waitingMaximum = 1_000_000
    /// The longest validity, in milliseconds: a week, as the broker's.
    static let validityMilliseconds: UInt64 = 604_800_000
    /// The time for one request, in seconds.
    static let timeoutSecondsDefault = 10
    static let timeoutSecondsMaximum = 120
    /// The time for the answer of the hook, in milliseconds: a person waits behind it.
    static let hookMillisecondsDefault = 2_000
    static let hookMillisecondsMaximum = 30_000
    /// The longest time for which a silent hook is not asked, in milliseconds: its silence decides
    /// about the wake-ups of all users meanwhile.
    static let hookPauseMilliseconds: UInt64 = 10_000
    /// Refusals of one wake-up by a webhook's server until it is a dead letter.
    static let refusalsMaximum = 8
    /// Dead letters: people look at them.
    static let deadLettersDefault = 1_000
    static let deadLettersMaximum = 100_000
    /// Of one user, whose own URLs can make as many as the user likes: a tenth of the default.
    static let deadLettersOfUserMaximum = 100
    /// Entries of the log of one target, and of all targets: each is about 150 bytes, in memory and
    /// in the record.
    static let logPerTargetDefault = 20
    static let logPerTargetMaximum = 1_000
    static let logDefault = 20_000
    static let logMaximum = 1_000_000
    /// Places of removed entries in the order of the log, beyond one for each entry, before it is
    /// made anew.
    static let logSlackCount = 1_000
    /// Entries of the log that wait until the broker takes them: about 150 bytes each. The oldest
    /// make room.
    static let reportsMaximum = 10_000
    /// Time after a report that the broker did not answer, in milliseconds.
    static let reportMilliseconds: UInt64 = 2_000
    /// Changes that wait for a full disk. Later entries of the log are lost.
    static let changesMaximum = 100_000
    /// Targets of one event: the broker permits eight for a user.
    static let targetsMaximum = 8
    /// Destinations whose health is remembered while nothing waits for them: some megabytes; as
    /// many as those for which something waits, where these are more.
    static let destinationsMaximum = 50_000
    /// Descriptors beside those of the attempts: files, sockets, and those of libcurl.
    static let otherDescriptorsMaximum = 256
    /// Changes are synced together after this time, so that a burst has one sync.
    static let syncMilliseconds: UInt64 = 20
    /// The same where nobody waits for it: results, and the log.
    static let resultMilliseconds: UInt64 = 500
    /// Between two attempts to remove a target at the broker, in milliseconds: a right is missing,
    /// and people grant it.
    static let removalMilliseconds: UInt64 = 300_000
    /// Removals that the broker has not answered: few, because nobody waits for them.
    static let removalsMaximum = 16
    /// The largest payload of APNs, in bytes ("Creating the remote notification payload").
    static let apnsPayloadByteCountMaximum = 4_096
    /// The largest message of FCM, in bytes ("FCM HTTP v1", size of a message).
    static let fcmPayloadByteCountMaximum = 4_096
    /// The largest badge.
    static let badgeMaximum = WakeContents.badgeMaximum
    /// Age of a provider token, in minutes: APNs refuses new ones more often than every 20, and old
    /// ones after 60.
    static let tokenMinutes = 20...55
    static let tokenMinutesDefault = 40
    /// An access token of FCM is renewed this long before its end, in seconds.
    static let accessTokenMarginSeconds: UInt64 = 300
    /// An access token is used at least this long, in seconds, whatever Google says of its end:
    /// otherwise an answer with 0 asks for the next token at once.
    static let accessTokenSecondsMinimum: UInt64 = 60
    /// An access token is used at most this long, in seconds; Google's are valid for an hour.
    static let accessTokenSecondsMaximum: UInt64 = 86_400
    /// Datagrams of one wake-up, and the time between two, in milliseconds.
    static let datagramsDefault = 5
    static let datagramsMaximum = 100
    static let datagramMillisecondsDefault = 2_000
    static let datagramMillisecondsMaximum = 3_600_000
    /// Entries of `mqtt.topics` and of `sms.numbers`: each target is compared with all.
    static let listMaximum = 64
    /// Bytes of a text of the configuration that stands in a field of HTTP/2: Apple's are shorter.
    static let fieldByteCountMaximum = 200
    /// Publications without an acknowledgement of the MQTT broker: what common brokers take in
    /// flight from one client (`max_inflight_messages` of Mosquitto).
    static let publicationsMaximum = 20
    /// The time for the MQTT broker's answer to a login and to each publication, in milliseconds,
    /// whatever else it sends meanwhile.
    static let publicationMilliseconds: UInt64 = 10_000
    /// A key for datagrams has at least the length of the digest.
    static let datagramKeyByteCounts = 32...64
    /// Characters of a destination's own reason that are kept.
    static let reasonByteCountMaximum = 60
}
