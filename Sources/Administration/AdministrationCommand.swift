// The broker's side of the administration protocol: decodes lines into commands and encodes
// replies. The runtime executes the commands.

/// A request as the broker receives it: one case for each kind, so that a `switch` answers them
/// all.
public enum AdministrationCommand: Hashable, Sendable {
    case createApp(CreateApp)
    case listApps(ListApps)
    case showApp(ShowApp)
    case setAppRights(SetAppRights)
    case explainRights(ExplainRights)
    case addUser(AddUser)
    case sendMessage(SendMessage)
    case mintTokens(MintTokens)
    case listTokens(ListTokens)
    case revokeTokens(RevokeTokens)
    case listSessions(ListSessions)
    case kickSessions(KickSessions)
    case deleteSessions(DeleteSessions)
    case showOfflineQueue(ShowOfflineQueue)
    case purgeQueues(PurgeQueues)
    case createGroup(CreateGroup)
    case listGroups(ListGroups)
    case showGroup(ShowGroup)
    case changeMember(ChangeMember)
    case changeGroup(ChangeGroup)
    case backUpStore(BackUpStore)
    case showBackup(ShowBackup)
    case readStatistics(ReadStatistics)
    case startTrace(StartTrace)
    case listTraces(ListTraces)
    case readTrace(ReadTrace)
    case stopTrace(StopTrace)
    case addOperator(AddOperator)
    case listOperators(ListOperators)
    case revokeOperator(RevokeOperator)

    /// The kinds of requests, by their names on the wire.
    public enum Kind: String, CaseIterable, Sendable {
        case createApp = "app.create"
        case listApps = "app.list"
        case showApp = "app.show"
        case setAppRights = "app.rights"
        case explainRights = "rights.explain"
        case addUser = "user.add"
        case sendMessage = "message.send"
        case mintTokens = "token.mint"
        case listTokens = "token.list"
        case revokeTokens = "token.revoke"
        case listSessions = "session.list"
        case kickSessions = "session.kick"
        case deleteSessions = "session.delete"
        case showOfflineQueue = "queue.show"
        case purgeQueues = "queue.purge"
        case createGroup = "group.create"
        case listGroups = "group.list"
        case showGroup = "group.show"
        case changeMember = "group.member"
        case changeGroup = "group.change"
        case backUpStore = "store.backup"
        case showBackup = "store.backup.show"
        case readStatistics = "statistics.read"
        case startTrace = "trace.start"
        case listTraces = "trace.list"
        case readTrace = "trace.read"
        case stopTrace = "trace.stop"
        case addOperator = "operator.add"
        case listOperators = "operator.list"
        case revokeOperator = "operator.revoke"
    }

    public var kind: Kind {
        switch self {
        case .createApp: .createApp
        case .listApps: .listApps
        case .showApp: .showApp
        case .setAppRights: .setAppRights
        case .explainRights: .explainRights
        case .addUser: .addUser
        case .sendMessage: .sendMessage
        case .mintTokens: .mintTokens
        case .listTokens: .listTokens
        case .revokeTokens: .revokeTokens
        case .listSessions: .listSessions
        case .kickSessions: .kickSessions
        case .deleteSessions: .deleteSessions
        case .showOfflineQueue: .showOfflineQueue
        case .purgeQueues: .purgeQueues
        case .createGroup: .createGroup
        case .listGroups: .listGroups
        case .showGroup: .showGroup
        case .changeMember: .changeMember
        case .changeGroup: .changeGroup
        case .backUpStore: .backUpStore
        case .showBackup: .showBackup
        case .readStatistics: .readStatistics
        case .startTrace: .startTrace
        case .listTraces: .listTraces
        case .readTrace: .readTrace
        case .stopTrace: .stopTrace
        case .addOperator: .addOperator
        case .listOperators: .listOperators
        case .revokeOperator: .revokeOperator
        }
    }

    /// Reads one line, with or without its line feed.
    ///
    /// - Throws: the refusal to reply with; the connection stays open.
    public init(line: [UInt8]) throws(AdministrationRefusal) {
        if line.count > AdministrationLine.requestByteCountMaximum {
            // 0x95: packet too large.
            throw AdministrationRefusal(
                reason: 0x95,
                message: "longer than \(AdministrationLine.requestByteCountMaximum) bytes")
        }
        let head = try AdministrationLine.decode(AdministrationLine.RequestHead.self, from: line)
        guard head.version == AdministrationLine.version else {
            // 0x84: unsupported protocol version.
            throw AdministrationRefusal(
                reason: 0x84,
                message: "this broker speaks version \(AdministrationLine.version) of the "
                    + "administration protocol, not \(head.version)")
        }
        guard let kind = Kind(rawValue: head.request) else {
            // 0x83: implementation specific error.
            throw AdministrationRefusal(
                reason: 0x83, message: "this broker does not know the request \(head.request)")
        }
        switch kind {
        case .createApp: self = .createApp(try Self.body(line))
        case .listApps: self = .listApps(try Self.body(line))
        case .showApp: self = .showApp(try Self.body(line))
        case .setAppRights: self = .setAppRights(try Self.body(line))
        case .explainRights: self = .explainRights(try Self.body(line))
        case .addUser: self = .addUser(try Self.body(line))
        case .sendMessage: self = .sendMessage(try Self.body(line))
        case .mintTokens: self = .mintTokens(try Self.body(line))
        case .listTokens: self = .listTokens(try Self.body(line))
        case .revokeTokens: self = .revokeTokens(try Self.body(line))
        case .listSessions: self = .listSessions(try Self.body(line))
        case .kickSessions: self = .kickSessions(try Self.body(line))
        case .deleteSessions: self = .deleteSessions(try Self.body(line))
        case .showOfflineQueue: self = .showOfflineQueue(try Self.body(line))
        case .purgeQueues: self = .purgeQueues(try Self.body(line))
        case .createGroup: self = .createGroup(try Self.body(line))
        case .listGroups: self = .listGroups(try Self.body(line))
        case .showGroup: self = .showGroup(try Self.body(line))
        case .changeMember: self = .changeMember(try Self.body(line))
        case .changeGroup: self = .changeGroup(try Self.body(line))
        case .backUpStore: self = .backUpStore(try Self.body(line))
        case .showBackup: self = .showBackup(try Self.body(line))
        case .readStatistics: self = .readStatistics(try Self.body(line))
        case .startTrace: self = .startTrace(try Self.body(line))
        case .listTraces: self = .listTraces(try Self.body(line))
        case .readTrace: self = .readTrace(try Self.body(line))
        case .stopTrace: self = .stopTrace(try Self.body(line))
        case .addOperator: self = .addOperator(try Self.body(line))
        case .listOperators: self = .listOperators(try Self.body(line))
        case .revokeOperator: self = .revokeOperator(try Self.body(line))
        }
        try check()
    }

    /// Refuses what no line or document may contain, however it came.
    func check() throws(AdministrationRefusal) {
        if case .mintTokens(let mint) = self, mint.users.count > MintTokens.userCountMaximum {
            throw AdministrationRefusal(
                reason: 0x97,
                message: "\(mint.users.count) tokens at a time; "
                    + "\(MintTokens.userCountMaximum) are allowed")
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
