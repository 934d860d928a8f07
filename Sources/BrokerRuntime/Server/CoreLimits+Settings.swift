// Converts settings to the core's limits.

import BrokerCore
import Configuration

extension CoreLimits {
    /// The settings are within their ranges, so every number fits its type.
    init(_ settings: BrokerSettings) {
        self.init()
        sessionExpirySecondsDefault = UInt32(settings.limits.sessionExpirySeconds)
        sessionExpirySecondsMaximum = UInt32(settings.limits.sessionExpiryMaximumSeconds)
        sessionsMaximum = settings.limits.sessions
        sessionsPerAppMaximum = settings.limits.sessionsPerApp
        usersMaximum = settings.limits.users
        usersPerAppMaximum = settings.limits.usersPerApp
        memoryQueueBytesMaximum = settings.queues.memoryBytes
        uncommittedBytesMaximum = settings.queues.uncommittedBytes
        queueBytesPerAppMaximum =
            settings.queues.bytesPerApp == 0 ? .max : UInt64(settings.queues.bytesPerApp)
        groupsPerAppMaximum = settings.limits.groupsPerApp
        groupsPerUserMaximum = settings.limits.groupsPerUser
        trackedSendsPerAppMaximum = settings.limits.trackedSendsPerApp
        trackedSendsPerUserMaximum = settings.limits.trackedSendsPerUser
        trackedMembersPerAppMaximum = settings.limits.trackedMembersPerApp
        trackedMembersPerUserMaximum = settings.limits.trackedMembersPerUser
        groupBytesPerAppMaximum = settings.limits.groupBytesPerApp
        groupBytesPerUserMaximum = settings.limits.groupBytesPerUser
        groupMembersMaximum = settings.limits.membersPerGroup
        sessionsPerUserMaximum = settings.limits.sessionsPerUser
        subscriptionsMaximum = UInt32(settings.limits.subscriptionsPerSession)
        topicLevelsMaximum = settings.limits.topicLevels
        filterBytesMaximum = settings.limits.filterBytes
        retainedPerAppMaximum = settings.limits.retainedPerApp
        retainedBytesPerAppMaximum = settings.limits.retainedBytesPerApp
        appPolicy = AppPolicy(settings, AppSettings())
        appPolicies = Dictionary(
            settings.apps.map { (Array($0.app.utf8), AppPolicy(settings, $0)) },
            uniquingKeysWith: { _, last in last })
        keepAliveSecondsMaximum = UInt32(settings.limits.keepAliveMaximumSeconds)
        inboxWindowMaximum = UInt16(settings.limits.inboxWindow)
        inboxWindowBytesMaximum = settings.limits.inboxWindowBytes
        sendWindowMaximum = UInt16(settings.limits.sendWindow)
        publishWindowMaximum = UInt16(settings.mqtt.receiveMaximum)
        enforcesPublishWindow = settings.mqtt.enforcesReceiveMaximum
        messageMaximum = UInt32(settings.limits.messageMaximum)
        payloadMaximum = UInt32(settings.limits.payloadMaximum)
        queueCountMaximum = UInt32(settings.queues.messages)
        queueBytesMaximum = UInt64(settings.queues.bytes)
        queueAgeSecondsMaximum = UInt64(settings.queues.ageSeconds)
        queuePolicy = QueuePolicy(settings.queues.policy)
        historyCountMaximum = UInt32(settings.history.messages)
        historyBytesMaximum = UInt64(settings.history.bytes)
        historyAgeSecondsMaximum = UInt64(settings.history.ageSeconds)
        conversationsPerAppMaximum = settings.history.conversationsPerApp
        historyTopicsPerAppMaximum = settings.history.topicsPerApp
        historyBytesPerAppMaximum = UInt64(settings.history.bytesPerApp)
        if settings.cluster.isUsed {
            batchBytesMaximum = min(batchBytesMaximum, ClusterLimits.batchByteCountMaximum)
        }
    }
}

extension QueuePolicy {
    fileprivate init(_ policy: QueueFullPolicy) {
        switch policy {
        case .refuse: self = .refuse
        case .oldest: self = .oldest
        case .newest: self = .newest
        }
    }
}

extension AppPolicy {
    /// The policy of an app: its own settings, and the broker's for all others.
    fileprivate init(_ settings: BrokerSettings, _ app: AppSettings) {
        self.init()
        joinsGroupsBySubscribing = app.joinsGroups ?? settings.mqtt.joinsGroups
        acknowledgesRefused = (app.refusedPublish ?? settings.mqtt.refusedPublish) == .count
        takeoversPerMinute = app.takeoversPerMinute ?? settings.limits.takeoversPerMinute
        keepsHistory = app.keepsHistory ?? settings.history.byDefault
        historyTopics = app.historyTopics.map { Array($0.utf8) }
        allowsRecall = app.recall ?? true
        addsMembers = app.addsMembers ?? true
        opensLeanMessage = app.interfaces.contains(.leanmessage)
        if let settings = app.wake {
            var policy = WakePolicy(relay: Array(settings.relay.utf8))
            policy.intervalSeconds = UInt64(settings.intervalSeconds)
            policy.hasContents = settings.contents
            policy.wakesForTransient = settings.transient
            policy.wakesForWills = settings.wills
            wake = policy
        }
        if let settings = app.events {
            events = BrokerEventPolicy(
                relay: Array(settings.relay.utf8),
                kinds: settings.kinds.reduce(into: []) { $0.insert(BrokerEventKinds($1)) })
        }
        if let settings = app.moderation {
            var policy = ModerationPolicy(moderator: Array(settings.moderator.utf8))
            policy.milliseconds = UInt64(settings.milliseconds)
            policy.acceptsWhenSilent = settings.silent == .accept
            policy.coversUsers = settings.users
            policy.coversGroups = settings.groups
            policy.coversEverybody = settings.everybody
            policy.topics = settings.topics.map { Array($0.utf8) }
            moderation = policy
        }
    }
}

extension BrokerEventKinds {
    fileprivate init(_ name: BrokerEventName) {
        switch name {
        case .sessionLost: self = .sessionLost
        case .sessionExpired: self = .sessionExpired
        case .queueFull: self = .queueFull
        case .loginRefused: self = .loginRefused
        case .certificateExpiring: self = .certificateExpiring
        }
    }
}
