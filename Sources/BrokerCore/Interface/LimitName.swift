// Why something was refused where the reason code does not tell: 0x97 is one number for all limits,
// and 0x87, 0x90, 0x99 and 0x9B are those of several rules. The log and the client are told.

import Primitives

/// What caused a refusal: a limit, or a rule (``isRule``).
public enum LimitName: UInt8, CaseIterable, BitwiseCopyable, Sendable {
    /// Nothing that the reason code does not tell.
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
    case trackedMembersOfApp
    case trackedMembersOfUser
    case revisions
    case revisionsOfApp
    case revisionsOfUser
    case replacedBytes
    case historyTopicsOfApp
    case wakeTargetsOfUser
    case heldOfSender
    case heldOfApp
    case questionBytes
    /// The store has no room either, because its disk has none.
    case diskSpace

    // The rules.
    case receiptsRight
    case receiptsTarget
    case receiptsOfKept
    case receiptsWord
    case asksOfTransient
    case historyOfTransient
    case historyTarget
    case priorityGrade
    case mentionsTarget
    case mentionsOfNobody
    case mentionedName
    case lateTime
    case attributeRule
    case identifierRule
    case propertyValue
    case unknownReference
    case appliedText
    case searchText
    case unknownParty
    case memberOnly
    case numberAhead
    case joinNotAllowed
    case ownerOnly
    case ownerStays
    case sendRight
    case recallsOff
    case unknownSend
    case recalledBefore
    case revisionUnderWay
    case replacementUnderWay
    case collapseTarget
    case topicRight
    case topicNotKept
    case topicMark
    case wakesOff
    case wakeKind
    case wakeAddress
    case wakeLanguage
    case wakeRight
    case wakeStep
    case pushText
    case willOfLogin
    case moderatorRefused
    case moderatorRewrote
    case moderatorSilent
    case verdictForm
    case moderatedReplacement
    case moderatedInterface
    case moderatedWill
    case moderatorCredential

    /// Whether the store has no room.
    public var isOfStore: Bool { self == .store || self == .diskSpace }

    /// Whether it is a rule, and ``key`` a clause that tells it.
    public var isRule: Bool { rawValue >= Self.receiptsRight.rawValue }

    /// The configuration key of the limit, or its description if it is fixed; a clause of a rule;
    /// empty for none.
    public var key: StaticString {
        switch self {
        case .none: ""
        case .store: "store.softLimitBytes"
        case .diskSpace: "free space on the disk of the data directory"
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
        case .historyTopicsOfApp: "history.topicsPerApp"
        case .wakeTargetsOfUser: "8 wake targets of a user"
        case .heldOfSender: "4096 messages, or 4 MiB, of a sender that wait for a moderator"
        case .questionBytes: "786432 bytes of a moderator's question about the message"
        case .heldOfApp: "10000 messages, or 16 MiB, of an app that wait for a moderator"
        case .messageBytes: "limits.messageMaximum"
        case .payloadBytes: "limits.payloadMaximum"
        case .willBytes: "4096 bytes of a will"
        case .trackedSendsOfApp: "limits.trackedSendsPerApp"
        case .trackedSendsOfUser: "limits.trackedSendsPerUser"
        case .trackedMembersOfApp: "limits.trackedMembersPerApp"
        case .trackedMembersOfUser: "limits.trackedMembersPerUser"
        case .revisions: "65536 recalls, replacements and collapses, or 16 MiB of new contents"
        case .revisionsOfApp: "32768 recalls, replacements and collapses of an app"
        case .revisionsOfUser: "4096 recalls, replacements and collapses of a user"
        case .replacedBytes: "queues.bytes / queues.messages more than the message had"
        case .sharesOfSession: "50 shared subscriptions of a session"
        case .receiptsRight: "no right receipts: covers a receiver or the group"
        case .receiptsTarget: "only messages to users or a group have receipts"
        case .receiptsOfKept: "a message that nobody gets has no receipts"
        case .receiptsWord: "a receipt is neither delivered nor applied"
        case .asksOfTransient: "a transient message has no reference and no receipts"
        case .historyOfTransient: "a transient message is not kept"
        case .historyTarget:
            "only messages to users, to all members of a group, or on topics with history are kept"
        case .priorityGrade: "only a transient message has a priority"
        case .mentionsTarget: "only messages to a group mention users"
        case .mentionsOfNobody: "the message is for mentioned members only and mentions nobody"
        case .mentionedName: "a mention is not the name of a user"
        case .lateTime: "the time of a late reading is missing, too old or too far ahead"
        case .attributeRule: "an attribute has a name or a value that is not allowed"
        case .identifierRule: "a message id does not have 1 to 64 bytes without control characters"
        case .propertyValue: "a user property of the broker has a value without a meaning"
        case .unknownReference: "no message with this reference waits for this user's answer"
        case .appliedText: "the text has more than 128 bytes or a control character"
        case .searchText: "the text of the search has more than 128 bytes"
        case .unknownParty: "there is no such user or group"
        case .memberOnly: "the user is not a member of the group"
        case .joinNotAllowed: "the group's allow list does not have the user"
        case .ownerOnly: "only the owner of the group may do it"
        case .ownerStays: "the owner of a group can be neither kicked nor banned"
        case .numberAhead: "the conversation has no message of this number yet"
        case .sendRight: "the user may not send to the receivers of the message"
        case .recallsOff: "recalls are switched off for the app"
        case .unknownSend: "no message of this user with this reference or id can be recalled"
        case .recalledBefore: "the message is recalled, or a newer one has taken its place"
        case .revisionUnderWay: "a recall or a replacement of the message is under way"
        case .replacementUnderWay: "the earlier message with the collapse key is being replaced"
        case .collapseTarget: "only a message that users or a group get has a collapse key"
        case .topicRight: "no right subscribe: covers the topic"
        case .topicNotKept: "the topic has no history"
        case .topicMark: "a topic has no members, and so no read marks"
        case .wakesOff: "the app has no wake-ups"
        case .wakeKind: "the broker does not know this kind or this environment of wake targets"
        case .wakeAddress: "the address is none of its kind"
        case .wakeLanguage: "a language has letters, digits and dashes"
        case .wakeRight: "no right allows to see the wake targets of this user"
        case .wakeStep: "the broker does not know this kind or this step of a wake-up"
        case .willOfLogin: "the will of the login is refused"
        case .pushText: "push is no JSON object of at most 4,096 bytes"
        case .moderatorRefused: "the moderator of the app refused the message"
        case .moderatorRewrote: "the moderator of the app changed the message"
        case .moderatorSilent: "the moderator of the app did not decide in time"
        case .verdictForm: "a verdict has another topic, or a text that is not allowed"
        case .moderatedReplacement: "a message that is moderated can only be recalled"
        case .moderatedInterface: "messages of this app are moderated: send them in another way"
        case .moderatedWill: "a will cannot wait for the moderator of the app"
        case .moderatorCredential: "a moderator needs a token or a certificate of its own"
        }
    }
}

extension LimitName {
    /// What a client is told; empty for none.
    public var text: [UInt8] {
        guard self != .none else { return [] }
        return Array((isRule ? key.description : "a limit is reached: \(key)").utf8)
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
