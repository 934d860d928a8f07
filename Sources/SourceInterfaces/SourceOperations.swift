// What an interface can do: some operations of the administrators, for one user.

import Administration

/// Carries out operations. Each returns when its change is on disk.
public protocol SourceOperations: ChatAccess {
    /// Whether the user of the request may create groups.
    var mayCreateGroups: Bool { get }
    /// Whether an app has an interface now.
    func isOpen(_ interface: SourceInterface, app: String) -> Bool
    /// A new nonce, which is good for one login.
    func makeNonce() -> String
    /// Verifies signature and times of a JWT of an account server.
    ///
    /// - Throws: the status 403.
    func verify(_ token: [UInt8]) throws(SourceRefusal) -> SourceLogin
    /// Uses a nonce up.
    ///
    /// - Throws: the status 403 for one that is used, too old or not from here; 503 if too many
    ///   were used lately.
    func use(nonce: String) throws(SourceRefusal)
    func isKnown(_ user: String, app: String) -> Bool
    /// Whether the core takes its address and its device.
    func isValid(_ target: SetWakeTarget) -> Bool
    /// Sets it, unless the app has no wake-ups or the user has as many targets as there may be.
    func setIfPossible(_ target: SetWakeTarget)
    func addUser(_ request: AddUser) throws(SourceRefusal) -> AddUser.Reply
    /// Makes a user with a password; false if the name is taken, also by an allow list or a right.
    func register(_ request: SetPassword) throws(SourceRefusal) -> Bool
    /// Seconds until the password of a user expires; nil if it opens no logins, or has another
    /// hash.
    func secondsOfPassword(of user: SourceUser, hash: String) -> UInt64?
    func mint(_ request: MintTokens) throws(SourceRefusal) -> MintTokens.Reply
    func list(_ request: ListTokens) throws(SourceRefusal) -> ListTokens.Reply
    func revoke(_ request: RevokeTokens) throws(SourceRefusal) -> RevokeTokens.Reply
    func create(_ request: CreateGroup) throws(SourceRefusal) -> CreateGroup.Reply
    /// The groups that a user is in, at most ``SourceLimits/dialogsMaximum``.
    func groups(of user: String, app: String) -> [ListGroups.Group]
    /// Groups that everybody may join, at most ``SourceLimits/dialogsMaximum``.
    func openGroups(app: String) -> [ListGroups.Group]
    func show(_ request: ShowGroup) throws(SourceRefusal) -> ShowGroup.Reply
    func change(_ request: ChangeMember) throws(SourceRefusal) -> ChangeMember.Reply
    func change(_ request: ChangeGroup) throws(SourceRefusal) -> ChangeGroup.Reply
    func list(_ request: ListConversations) throws(SourceRefusal) -> ListConversations.Reply
    /// Lists what the user sees of a conversation.
    func list(_ request: ListHistory, seenBy user: String) throws(SourceRefusal)
        -> ListHistory.Reply
    /// How far users have read a conversation, in their order; 0 for nothing.
    func readMarks(of conversation: ConversationName, by users: [String], app: String) -> [UInt64]
    func mark(_ request: MarkConversation) throws(SourceRefusal) -> MarkConversation.Reply
    /// Sends a message with the rights of the token.
    func send(_ request: SendMessage) throws(SourceRefusal) -> SendMessage.Reply
}
