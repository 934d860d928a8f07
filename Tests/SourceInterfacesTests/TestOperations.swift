// Operations of a broker that a test describes: what each answers, and how often it was asked.

import Administration

@testable import SourceInterfaces

/// Answers as a test says, and refuses what no test expects.
final class TestOperations: SourceOperations {
    var conversations: [ListConversations.Conversation] = []
    var kept: [ListHistory.Message] = []
    /// What a send adds to the kept messages, the newest first.
    var addedBySend: [ListHistory.Message] = []
    var sendReply = SendMessage.Reply(receiverCount: 0, refusedCount: 0, refused: [])
    private(set) var conversationListCount = 0
    private(set) var historyListCount = 0

    static let refusal = SourceRefusal(500, "no test expects it")

    var mayCreateGroups: Bool { true }
    func isOpen(_ interface: SourceInterface, app: String) -> Bool { true }
    func makeNonce() -> String { "nonce" }
    /// What a JWT says; nil for one that is refused.
    var login: SourceLogin?
    func verify(_ token: [UInt8]) throws(SourceRefusal) -> SourceLogin {
        guard let login else { throw Self.refusal }
        return login
    }
    func use(nonce: String) throws(SourceRefusal) {
        guard login?.nonce == nonce else { throw Self.refusal }
    }
    func addUser(_ request: AddUser) throws(SourceRefusal) -> AddUser.Reply {
        AddUser.Reply(isNew: true)
    }
    func isValid(_ target: SetWakeTarget) -> Bool { true }
    func setIfPossible(_ target: SetWakeTarget) {}
    func isKnown(_ user: String, app: String) -> Bool { true }
    func register(_ request: SetPassword) throws(SourceRefusal) -> Bool { throw Self.refusal }
    func secondsOfPassword(of user: SourceUser, hash: String) -> UInt64? {
        passwordHash == hash ? 60 : nil
    }
    /// Of each group.
    var owner = "alice"
    var allowed: [String]? = ["alice"]
    var members = ["alice"]
    var meta = ""
    /// Users to whom nobody may send.
    var unreachable: Set<String> = []
    /// The hash of everybody's password.
    var passwordHash = ""
    func maySend(to user: String) -> Bool { !unreachable.contains(user) }
    /// Users whom nobody may add to groups.
    var crowded: Set<String> = []
    func takesMembership(of user: String) -> Bool { !crowded.contains(user) }
    private(set) var minted: MintTokens?
    func mint(_ request: MintTokens) throws(SourceRefusal) -> MintTokens.Reply {
        minted = request
        throw Self.refusal
    }
    func list(_ request: ListTokens) throws(SourceRefusal) -> ListTokens.Reply {
        ListTokens.Reply(tokens: [], next: nil)
    }
    func revoke(_ request: RevokeTokens) throws(SourceRefusal) -> RevokeTokens.Reply {
        throw Self.refusal
    }
    /// Changes of groups in their order; nil if no test expects one.
    var changes: [String]?
    /// Users who cannot join a group, because of a limit.
    var withoutRoom: Set<String> = []
    static let limitRefusal = SourceRefusal(409, "a limit is reached")
    private func note(_ change: String) throws(SourceRefusal) {
        guard changes != nil else { throw Self.refusal }
        changes?.append(change)
    }
    func create(_ request: CreateGroup) throws(SourceRefusal) -> CreateGroup.Reply {
        try note("create")
        return CreateGroup.Reply(groupid: "g1")
    }
    /// The groups that everybody is in.
    var groupNames: [String] = []
    func groups(of user: String, app: String) -> [ListGroups.Group] {
        groupNames.map {
            ListGroups.Group(
                groupid: $0, title: "", owner: owner, memberCount: 1, isLimited: true)
        }
    }
    func openGroups(app: String) -> [ListGroups.Group] { [] }
    func isMember(_ user: String, of group: String, app: String) -> Bool {
        changes == nil || members.contains(user)
    }
    func hasGroup(_ group: String, app: String) -> Bool { true }
    func show(_ request: ShowGroup) throws(SourceRefusal) -> ShowGroup.Reply {
        ShowGroup.Reply(
            groupid: request.groupid, title: "", owner: owner, memberCount: 1,
            allowed: allowed, meta: meta,
            members: Array(members.prefix(request.limit ?? members.count)))
    }
    func change(_ request: ChangeMember) throws(SourceRefusal) -> ChangeMember.Reply {
        guard request.action != .join || !withoutRoom.contains(request.user) else {
            throw Self.limitRefusal
        }
        try note("\(request.action) \(request.user)")
        return ChangeMember.Reply(isChanged: true)
    }
    func change(_ request: ChangeGroup) throws(SourceRefusal) -> ChangeGroup.Reply {
        switch request.change {
        case .allowed(let users): try note("allowed \(users.joined(separator: " "))")
        case .meta(let text): try note("meta \(text)")
        default: throw Self.refusal
        }
        return ChangeGroup.Reply()
    }
    func list(
        _ request: ListConversations
    ) throws(SourceRefusal) -> ListConversations.Reply {
        conversationListCount += 1
        let rest = conversations.dropFirst(Int(request.after ?? 0))
        var page = Array(rest.prefix(request.limit ?? ListConversations.countMaximum))
        if request.hasMessages != true {
            for index in page.indices { page[index].lastMessage = nil }
        }
        return ListConversations.Reply(
            conversations: page,
            next: page.count < rest.count ? (request.after ?? 0) + UInt64(page.count) : nil)
    }
    func list(
        _ request: ListHistory, seenBy user: String
    ) throws(SourceRefusal) -> ListHistory.Reply {
        historyListCount += 1
        let older = kept.filter { message in
            message.number < request.before ?? .max
                && (request.from.map { $0 == message.from } ?? true)
        }
        let page = Array(older.prefix(request.limit ?? ListHistory.countMaximum))
        return ListHistory.Reply(
            messages: page, next: page.count < older.count ? page.last?.number : nil)
    }
    /// By the user.
    var readMarks: [String: UInt64] = [:]
    func readMarks(
        of conversation: ConversationName, by users: [String], app: String
    ) -> [UInt64] {
        users.map { readMarks[$0] ?? 0 }
    }
    func mark(_ request: MarkConversation) throws(SourceRefusal) -> MarkConversation.Reply {
        throw Self.refusal
    }
    func send(_ request: SendMessage) throws(SourceRefusal) -> SendMessage.Reply {
        kept = addedBySend + kept
        return sendReply
    }
}

extension ListHistory.Message {
    /// A kept text.
    init(_ number: UInt64, from user: String, _ text: String) {
        self.init(
            number: number, from: user, t: 0, grade: .durable, byteCount: 1,
            unixMilliseconds: 1_700_000_000_000, expiresUnixSeconds: nil,
            content: StoredContent(Array(text.utf8), of: text.utf8.count))
    }
}
