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
        switch head.request {
        case CreateApp.name: self = .createApp(try Self.body(line))
        case ListApps.name: self = .listApps(try Self.body(line))
        case ShowApp.name: self = .showApp(try Self.body(line))
        case SetAppRights.name: self = .setAppRights(try Self.body(line))
        case ExplainRights.name: self = .explainRights(try Self.body(line))
        case AddUser.name: self = .addUser(try Self.body(line))
        case MintTokens.name: self = .mintTokens(try Self.body(line))
        case ListTokens.name: self = .listTokens(try Self.body(line))
        case RevokeTokens.name: self = .revokeTokens(try Self.body(line))
        case ListSessions.name: self = .listSessions(try Self.body(line))
        case KickSessions.name: self = .kickSessions(try Self.body(line))
        case DeleteSessions.name: self = .deleteSessions(try Self.body(line))
        case ShowOfflineQueue.name: self = .showOfflineQueue(try Self.body(line))
        case PurgeQueues.name: self = .purgeQueues(try Self.body(line))
        case CreateGroup.name: self = .createGroup(try Self.body(line))
        case ListGroups.name: self = .listGroups(try Self.body(line))
        case ShowGroup.name: self = .showGroup(try Self.body(line))
        case ChangeMember.name: self = .changeMember(try Self.body(line))
        case ChangeGroup.name: self = .changeGroup(try Self.body(line))
        case BackUpStore.name: self = .backUpStore(try Self.body(line))
        case ShowBackup.name: self = .showBackup(try Self.body(line))
        case ReadStatistics.name: self = .readStatistics(try Self.body(line))
        default:
            // 0x83: implementation specific error.
            throw AdministrationRefusal(
                reason: 0x83, message: "this broker does not know the request \(head.request)")
        }
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
