// The broker's side of the administration protocol: decodes lines into commands and encodes
// replies. The runtime executes the commands.

import BrokerTerms

/// A request as the broker receives it: one case for each kind, so that a `switch` answers them
/// all.
public enum AdministrationCommand: Hashable, Sendable {
    case createApp(CreateApp)
    case listApps(ListApps)
    case showApp(ShowApp)
    case setAppRights(SetAppRights)
    case deleteApp(DeleteApp)
    case explainRights(ExplainRights)
    case addAppKey(AddAppKey)
    case listAppKeys(ListAppKeys)
    case revokeAppKey(RevokeAppKey)
    case addUser(AddUser)
    case listUsers(ListUsers)
    case showUser(ShowUser)
    case deleteUser(DeleteUser)
    case sendMessage(SendMessage)
    case recallMessage(RecallMessage)
    case replaceMessage(ReplaceMessage)
    case mintTokens(MintTokens)
    case listTokens(ListTokens)
    case revokeTokens(RevokeTokens)
    case setPassword(SetPassword)
    case importPasswords(ImportPasswords)
    case listPasswords(ListPasswords)
    case expirePassword(ExpirePassword)
    case revokePassword(RevokePassword)
    case listSessions(ListSessions)
    case importSession(ImportSession)
    case kickSessions(KickSessions)
    case deleteSessions(DeleteSessions)
    case showOfflineQueue(ShowOfflineQueue)
    case listQueueMessages(ListQueueMessages)
    case dropQueueMessage(DropQueueMessage)
    case listConversations(ListConversations)
    case listHistory(ListHistory)
    case listKeptTopics(ListKeptTopics)
    case removeFromHistory(RemoveFromHistory)
    case markConversation(MarkConversation)
    case reportApplied(ReportApplied)
    case showReceipts(ShowReceipts)
    case purgeQueues(PurgeQueues)
    case setWakeTarget(SetWakeTarget)
    case listWakeTargets(ListWakeTargets)
    case removeWakeTarget(RemoveWakeTarget)
    case testWake(TestWake)
    case listWakeLog(ListWakeLog)
    case setWakeTemplate(SetWakeTemplate)
    case listWakeTemplates(ListWakeTemplates)
    case removeWakeTemplate(RemoveWakeTemplate)
    case tryWakeTemplate(TryWakeTemplate)
    case listRetained(ListRetained)
    case showRetained(ShowRetained)
    case deleteRetained(DeleteRetained)
    case createGroup(CreateGroup)
    case listGroups(ListGroups)
    case showGroup(ShowGroup)
    case changeMember(ChangeMember)
    case changeGroup(ChangeGroup)
    case deleteGroup(DeleteGroup)
    case backUpStore(BackUpStore)
    case showBackup(ShowBackup)
    case readStatistics(ReadStatistics)
    case readActivity(ReadActivity)
    case listListeners(ListListeners)
    case listRefusals(ListRefusals)
    case listLogLines(ListLogLines)
    case reloadConfiguration(ReloadConfiguration)
    case setLogLevel(SetLogLevel)
    case startTrace(StartTrace)
    case listTraces(ListTraces)
    case readTrace(ReadTrace)
    case stopTrace(StopTrace)
    case addOperator(AddOperator)
    case listOperators(ListOperators)
    case revokeOperator(RevokeOperator)
    case makeLoginLink(MakeLoginLink)
    case showCluster(ShowCluster)
    case stepDown(StepDown)
    case showSelf(ShowSelf)

    /// The kinds of requests, by their names on the wire.
    public enum Kind: String, CaseIterable, Sendable {
        case createApp = "app.create"
        case listApps = "app.list"
        case showApp = "app.show"
        case setAppRights = "app.rights"
        case deleteApp = "app.delete"
        case explainRights = "rights.explain"
        case addAppKey = "app.key.add"
        case listAppKeys = "app.key.list"
        case revokeAppKey = "app.key.revoke"
        case addUser = "user.add"
        case listUsers = "user.list"
        case showUser = "user.show"
        case deleteUser = "user.delete"
        case sendMessage = "message.send"
        case recallMessage = "message.recall"
        case replaceMessage = "message.replace"
        case mintTokens = "token.mint"
        case listTokens = "token.list"
        case revokeTokens = "token.revoke"
        case setPassword = "password.set"
        case importPasswords = "password.import"
        case listPasswords = "password.list"
        case expirePassword = "password.expire"
        case revokePassword = "password.revoke"
        case listSessions = "session.list"
        case importSession = "session.import"
        case kickSessions = "session.kick"
        case deleteSessions = "session.delete"
        case showOfflineQueue = "queue.show"
        case listQueueMessages = "queue.messages"
        case dropQueueMessage = "queue.drop"
        case listConversations = "conversation.list"
        case listHistory = "history.list"
        case listKeptTopics = "history.topics"
        case removeFromHistory = "history.remove"
        case markConversation = "conversation.mark"
        case reportApplied = "message.applied"
        case showReceipts = "message.receipts"
        case purgeQueues = "queue.purge"
        case setWakeTarget = "wake.set"
        case listWakeTargets = "wake.list"
        case removeWakeTarget = "wake.remove"
        case testWake = "wake.test"
        case listWakeLog = "wake.log"
        case setWakeTemplate = "wake.template.set"
        case listWakeTemplates = "wake.template.list"
        case removeWakeTemplate = "wake.template.remove"
        case tryWakeTemplate = "wake.template.try"
        case listRetained = "retained.list"
        case showRetained = "retained.show"
        case deleteRetained = "retained.delete"
        case createGroup = "group.create"
        case listGroups = "group.list"
        case showGroup = "group.show"
        case changeMember = "group.member"
        case changeGroup = "group.change"
        case deleteGroup = "group.delete"
        case backUpStore = "store.backup"
        case showBackup = "store.backup.show"
        case readStatistics = "statistics.read"
        case readActivity = "activity.read"
        case listListeners = "listener.list"
        case listRefusals = "refusal.list"
        case listLogLines = "log.list"
        case reloadConfiguration = "configuration.reload"
        case setLogLevel = "log.level"
        case startTrace = "trace.start"
        case listTraces = "trace.list"
        case readTrace = "trace.read"
        case stopTrace = "trace.stop"
        case addOperator = "operator.add"
        case listOperators = "operator.list"
        case revokeOperator = "operator.revoke"
        case makeLoginLink = "operator.link"
        case showCluster = "cluster.show"
        case stepDown = "cluster.step-down"
        case showSelf = "self.show"
    }

    public var kind: Kind {
        switch self {
        case .createApp: .createApp
        case .listApps: .listApps
        case .showApp: .showApp
        case .setAppRights: .setAppRights
        case .deleteApp: .deleteApp
        case .explainRights: .explainRights
        case .addAppKey: .addAppKey
        case .listAppKeys: .listAppKeys
        case .revokeAppKey: .revokeAppKey
        case .addUser: .addUser
        case .listUsers: .listUsers
        case .showUser: .showUser
        case .deleteUser: .deleteUser
        case .sendMessage: .sendMessage
        case .recallMessage: .recallMessage
        case .replaceMessage: .replaceMessage
        case .mintTokens: .mintTokens
        case .listTokens: .listTokens
        case .revokeTokens: .revokeTokens
        case .setPassword: .setPassword
        case .importPasswords: .importPasswords
        case .listPasswords: .listPasswords
        case .expirePassword: .expirePassword
        case .revokePassword: .revokePassword
        case .listSessions: .listSessions
        case .importSession: .importSession
        case .kickSessions: .kickSessions
        case .deleteSessions: .deleteSessions
        case .showOfflineQueue: .showOfflineQueue
        case .listQueueMessages: .listQueueMessages
        case .dropQueueMessage: .dropQueueMessage
        case .listConversations: .listConversations
        case .listHistory: .listHistory
        case .listKeptTopics: .listKeptTopics
        case .removeFromHistory: .removeFromHistory
        case .markConversation: .markConversation
        case .reportApplied: .reportApplied
        case .showReceipts: .showReceipts
        case .purgeQueues: .purgeQueues
        case .setWakeTarget: .setWakeTarget
        case .listWakeTargets: .listWakeTargets
        case .removeWakeTarget: .removeWakeTarget
        case .testWake: .testWake
        case .listWakeLog: .listWakeLog
        case .setWakeTemplate: .setWakeTemplate
        case .listWakeTemplates: .listWakeTemplates
        case .removeWakeTemplate: .removeWakeTemplate
        case .tryWakeTemplate: .tryWakeTemplate
        case .listRetained: .listRetained
        case .showRetained: .showRetained
        case .deleteRetained: .deleteRetained
        case .createGroup: .createGroup
        case .listGroups: .listGroups
        case .showGroup: .showGroup
        case .changeMember: .changeMember
        case .changeGroup: .changeGroup
        case .deleteGroup: .deleteGroup
        case .backUpStore: .backUpStore
        case .showBackup: .showBackup
        case .readStatistics: .readStatistics
        case .readActivity: .readActivity
        case .listListeners: .listListeners
        case .listRefusals: .listRefusals
        case .listLogLines: .listLogLines
        case .reloadConfiguration: .reloadConfiguration
        case .setLogLevel: .setLogLevel
        case .startTrace: .startTrace
        case .listTraces: .listTraces
        case .readTrace: .readTrace
        case .stopTrace: .stopTrace
        case .addOperator: .addOperator
        case .listOperators: .listOperators
        case .revokeOperator: .revokeOperator
        case .makeLoginLink: .makeLoginLink
        case .showCluster: .showCluster
        case .stepDown: .stepDown
        case .showSelf: .showSelf
        }
    }

    /// Reads one line, with or without its line feed.
    ///
    /// - Throws: the refusal to reply with; the connection stays open.
    public init(line: [UInt8]) throws(AdministrationRefusal) {
        if line.count > AdministrationLine.requestByteCountMaximum {
            throw AdministrationRefusal(
                .packetTooLarge,
                "longer than \(AdministrationLine.requestByteCountMaximum) bytes")
        }
        let head = try AdministrationLine.decode(AdministrationLine.RequestHead.self, from: line)
        guard head.version == AdministrationLine.version else {
            throw AdministrationRefusal(
                .unsupportedProtocolVersion,
                "this broker speaks version \(AdministrationLine.version) of the "
                    + "administration protocol, not \(head.version)")
        }
        guard let kind = Kind(rawValue: head.request) else {
            throw AdministrationRefusal(
                .implementationSpecificError,
                "this broker does not know the request \(head.request)")
        }
        switch kind {
        case .createApp: self = .createApp(try Self.body(line))
        case .listApps: self = .listApps(try Self.body(line))
        case .showApp: self = .showApp(try Self.body(line))
        case .setAppRights: self = .setAppRights(try Self.body(line))
        case .deleteApp: self = .deleteApp(try Self.body(line))
        case .explainRights: self = .explainRights(try Self.body(line))
        case .addAppKey: self = .addAppKey(try Self.body(line))
        case .listAppKeys: self = .listAppKeys(try Self.body(line))
        case .revokeAppKey: self = .revokeAppKey(try Self.body(line))
        case .addUser: self = .addUser(try Self.body(line))
        case .deleteUser: self = .deleteUser(try Self.body(line))
        case .listUsers: self = .listUsers(try Self.body(line))
        case .showUser: self = .showUser(try Self.body(line))
        case .sendMessage: self = .sendMessage(try Self.body(line))
        case .recallMessage: self = .recallMessage(try Self.body(line))
        case .replaceMessage: self = .replaceMessage(try Self.body(line))
        case .mintTokens: self = .mintTokens(try Self.body(line))
        case .listTokens: self = .listTokens(try Self.body(line))
        case .revokeTokens: self = .revokeTokens(try Self.body(line))
        case .setPassword: self = .setPassword(try Self.body(line))
        case .importPasswords: self = .importPasswords(try Self.body(line))
        case .listPasswords: self = .listPasswords(try Self.body(line))
        case .expirePassword: self = .expirePassword(try Self.body(line))
        case .revokePassword: self = .revokePassword(try Self.body(line))
        case .listSessions: self = .listSessions(try Self.body(line))
        case .importSession: self = .importSession(try Self.body(line))
        case .kickSessions: self = .kickSessions(try Self.body(line))
        case .deleteSessions: self = .deleteSessions(try Self.body(line))
        case .showOfflineQueue: self = .showOfflineQueue(try Self.body(line))
        case .listQueueMessages: self = .listQueueMessages(try Self.body(line))
        case .dropQueueMessage: self = .dropQueueMessage(try Self.body(line))
        case .listConversations: self = .listConversations(try Self.body(line))
        case .listHistory: self = .listHistory(try Self.body(line))
        case .listKeptTopics: self = .listKeptTopics(try Self.body(line))
        case .removeFromHistory: self = .removeFromHistory(try Self.body(line))
        case .markConversation: self = .markConversation(try Self.body(line))
        case .reportApplied: self = .reportApplied(try Self.body(line))
        case .showReceipts: self = .showReceipts(try Self.body(line))
        case .purgeQueues: self = .purgeQueues(try Self.body(line))
        case .setWakeTarget: self = .setWakeTarget(try Self.body(line))
        case .listWakeTargets: self = .listWakeTargets(try Self.body(line))
        case .removeWakeTarget: self = .removeWakeTarget(try Self.body(line))
        case .testWake: self = .testWake(try Self.body(line))
        case .listWakeLog: self = .listWakeLog(try Self.body(line))
        case .setWakeTemplate: self = .setWakeTemplate(try Self.body(line))
        case .listWakeTemplates: self = .listWakeTemplates(try Self.body(line))
        case .removeWakeTemplate: self = .removeWakeTemplate(try Self.body(line))
        case .tryWakeTemplate: self = .tryWakeTemplate(try Self.body(line))
        case .listRetained: self = .listRetained(try Self.body(line))
        case .showRetained: self = .showRetained(try Self.body(line))
        case .deleteRetained: self = .deleteRetained(try Self.body(line))
        case .createGroup: self = .createGroup(try Self.body(line))
        case .listGroups: self = .listGroups(try Self.body(line))
        case .showGroup: self = .showGroup(try Self.body(line))
        case .changeMember: self = .changeMember(try Self.body(line))
        case .changeGroup: self = .changeGroup(try Self.body(line))
        case .deleteGroup: self = .deleteGroup(try Self.body(line))
        case .backUpStore: self = .backUpStore(try Self.body(line))
        case .showBackup: self = .showBackup(try Self.body(line))
        case .readStatistics: self = .readStatistics(try Self.body(line))
        case .readActivity: self = .readActivity(try Self.body(line))
        case .listListeners: self = .listListeners(try Self.body(line))
        case .listRefusals: self = .listRefusals(try Self.body(line))
        case .listLogLines: self = .listLogLines(try Self.body(line))
        case .reloadConfiguration: self = .reloadConfiguration(try Self.body(line))
        case .setLogLevel: self = .setLogLevel(try Self.body(line))
        case .startTrace: self = .startTrace(try Self.body(line))
        case .listTraces: self = .listTraces(try Self.body(line))
        case .readTrace: self = .readTrace(try Self.body(line))
        case .stopTrace: self = .stopTrace(try Self.body(line))
        case .addOperator: self = .addOperator(try Self.body(line))
        case .listOperators: self = .listOperators(try Self.body(line))
        case .revokeOperator: self = .revokeOperator(try Self.body(line))
        case .makeLoginLink: self = .makeLoginLink(try Self.body(line))
        case .showCluster: self = .showCluster(ShowCluster())
        case .stepDown: self = .stepDown(try Self.body(line))
        case .showSelf: self = .showSelf(try Self.body(line))
        }
        try check()
    }

    /// Refuses what no line or document may contain, however it came.
    func check() throws(AdministrationRefusal) {
        if case .mintTokens(let mint) = self, mint.users.count > MintTokens.userCountMaximum {
            throw AdministrationRefusal(
                .quotaExceeded,
                "\(mint.users.count) tokens at a time; "
                    + "\(MintTokens.userCountMaximum) are allowed")
        }
        if let (limit, maximum) = pageLimit, !(1...maximum).contains(limit) {
            throw .malformed("limit must be a whole number from 1 to \(maximum)")
        }
    }

    /// How many things a list is asked for at most, and how many it may have; nil if it is not
    /// asked for fewer.
    private var pageLimit: (limit: Int, maximum: Int)? {
        switch self {
        case .listQueueMessages(let request):
            request.limit.map { ($0, ListQueueMessages.countMaximum) }
        case .listConversations(let request):
            request.limit.map {
                (
                    $0,
                    request.hasMessages == true
                        ? ListConversations.messagesMaximum : ListConversations.countMaximum
                )
            }
        case .listHistory(let request): request.limit.map { ($0, ListHistory.countMaximum) }
        case .showReceipts(let request): request.limit.map { ($0, ShowReceipts.countMaximum) }
        case .listKeptTopics(let request): request.limit.map { ($0, ListKeptTopics.countMaximum) }
        case .listRetained(let request): request.limit.map { ($0, ListRetained.countMaximum) }
        case .listWakeLog(let request): request.limit.map { ($0, ListWakeLog.countMaximum) }
        case .listUsers(let request): request.limit.map { ($0, ListUsers.countMaximum) }
        case .listRefusals(let request): request.limit.map { ($0, ListRefusals.countMaximum) }
        case .readActivity(let request): request.limit.map { ($0, ReadActivity.countMaximum) }
        case .listLogLines(let request): request.limit.map { ($0, ListLogLines.countMaximum) }
        case .listTokens(let request): request.limit.map { ($0, ListTokens.countMaximum) }
        case .listPasswords(let request): request.limit.map { ($0, ListPasswords.countMaximum) }
        case .listSessions(let request): request.limit.map { ($0, ListSessions.countMaximum) }
        case .listGroups(let request): request.limit.map { ($0, ListGroups.countMaximum) }
        case .showGroup(let request): request.limit.map { ($0, ShowGroup.memberCountMaximum) }
        default: nil
        }
    }

    private static func body<Request: AdministrationRequest>(
        _ line: [UInt8]
    ) throws(AdministrationRefusal) -> Request {
        try AdministrationLine.decode(AdministrationLine.RequestLine<Request>.self, from: line).body
    }
}

extension AdministrationRequest {
    /// The line that answers this request, with its line feed.
    public func line(replying reply: Reply) -> [UInt8] {
        AdministrationLine.encode(AdministrationLine.ReplyLine(reply: reply))
    }

    /// The reply alone as a JSON object, with a line feed.
    public func object(replying reply: Reply) -> [UInt8] { AdministrationLine.encode(reply) }

    /// The line of this request, with its line feed.
    public var line: [UInt8] {
        AdministrationLine.encode(AdministrationLine.RequestLine(request: Self.name, body: self))
    }
}

extension AdministrationRefusal {
    /// The line of a refusal, for any request, with its line feed.
    public var line: [UInt8] {
        AdministrationLine.encode(AdministrationLine.ReplyLine<String>(refusal: self))
    }
}
