// Which limit was reached, for the log: 0x97 is one number for all of them.

import Primitives

/// A limit that caused a refusal.
public enum LimitName: UInt8, CaseIterable, BitwiseCopyable, Sendable {
    /// No limit.
    case none
    case store
    case queueMessages
    case queueBytes
    case memoryQueue
    case memoryQueueBytes
    case appBytes
    case uncommittedBytes
    case listLength
    case retainedCount
    case retainedBytes
    case sessions
    case sessionsOfApp
    case sessionsOfUser
    case users
    case subscriptions
    case filters
    case groupsOfApp
    case groupsOfUser
    case groupBytesOfApp
    case groupBytesOfUser
    case groupMembers
    case groupAllowed
    case filterShapes
    case sharesOfApp
    case sharesOfSession
    case sendKeys
    case conversationsOfApp
    case historyBytesOfApp
    case usersOfApp
    case sendKeysOfUser
    case sendKeysOfUsers
    case messageBytes
    case payloadBytes
    case willBytes
    case trackedSendsOfApp
    case trackedSendsOfUser

    /// The configuration key of the limit, or its description if it is fixed; empty for none.
    public var key: StaticString {
        switch self {
        case .none: ""
        case .store: "store.softLimitBytes"
        case .queueMessages: "queues.messages"
        case .queueBytes: "queues.bytes"
        case .memoryQueue: "1000 messages of a session in memory"
        case .memoryQueueBytes: "queues.memoryBytes"
        case .appBytes: "queues.bytesPerApp"
        case .uncommittedBytes: "queues.uncommittedBytes"
        case .listLength: "256 receivers of a list"
        case .retainedCount: "limits.retainedPerApp"
        case .retainedBytes: "limits.retainedBytesPerApp"
        case .sessions: "limits.sessions"
        case .sessionsOfApp: "limits.sessionsPerApp"
        case .sessionsOfUser: "limits.sessionsPerUser"
        case .users: "limits.users"
        case .usersOfApp: "limits.usersPerApp"
        case .subscriptions: "limits.subscriptionsPerSession"
        case .filters: "1024 filters of a packet"
        case .groupsOfApp: "limits.groupsPerApp"
        case .groupsOfUser: "limits.groupsPerUser"
        case .groupBytesOfApp: "limits.groupBytesPerApp"
        case .groupBytesOfUser: "limits.groupBytesPerUser"
        case .groupMembers: "limits.membersPerGroup"
        case .groupAllowed: "1000 users of an allow list"
        case .filterShapes: "4096 shapes of an app's filters"
        case .sharesOfApp: "4096 shared subscriptions of an app"
        case .sendKeys: "1000000 keys of an app"
        case .sendKeysOfUser: "10000 keys of a user"
        case .sendKeysOfUsers: "900000 keys of an app's users"
        case .conversationsOfApp: "history.conversationsPerApp"
        case .historyBytesOfApp: "history.bytesPerApp"
        case .messageBytes: "limits.messageMaximum"
        case .payloadBytes: "limits.payloadMaximum"
        case .willBytes: "4096 bytes of a will"
        case .trackedSendsOfApp: "limits.trackedSendsPerApp"
        case .trackedSendsOfUser: "limits.trackedSendsPerUser"
        case .sharesOfSession: "50 shared subscriptions of a session"
        }
    }
}

/// Limits the log lines about refused receivers per second, because one send can meet ten thousand
/// full queues.
struct LogAllowance {
    private var second: UInt64 = 0
    private var count = 0

    mutating func takes(at moment: Moment) -> Bool {
        if moment.unixMilliseconds / 1000 != second {
            second = moment.unixMilliseconds / 1000
            count = 0
        }
        count += 1
        return count <= CoreLimits.receiverNotesPerSecondMaximum
    }
}
