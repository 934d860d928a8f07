// Who is in a chat, and who may send to it. It is asked for each event, and before the file of an
// event is kept.

/// Answers questions about the chats of one user, without an operation.
public protocol ChatAccess {
    func isMember(_ user: String, of group: String, app: String) -> Bool
    func hasGroup(_ group: String, app: String) -> Bool
    /// Whether the user of the request may send to another one.
    func maySend(to user: String) -> Bool
    /// Whether a user is in so few groups of others, and of the user of the request, that the
    /// latter may add the former to one more.
    func takesMembership(of user: String) -> Bool
}

extension ChatAccess {
    /// Refuses a chat that the user is not in.
    func checkIsIn(
        _ chat: DialogName, user: String, app: String
    ) throws(SourceRefusal) {
        switch chat {
        case .users:
            if chat.other(than: user) != nil { return }
        case .group(let name):
            if isMember(user, of: name, app: app) { return }
            guard hasGroup(name, app: app) else { throw DiuitInterface.noChat }
        }
        throw SourceRefusal(403, field: "chatId", "is a chat that you are not in")
    }

    /// Refuses a chat that the user may not send to.
    func checkMaySend(
        to chat: DialogName, user: String, app: String
    ) throws(SourceRefusal) {
        try checkIsIn(chat, user: user, app: app)
        // The members of a group may send to it.
        guard let other = chat.other(than: user) else { return }
        try checkReach([other], isMember: false)
    }

    /// Whoever is added to a group receives its messages, so the user of the request must have the
    /// right to send to each.
    ///
    /// - Parameter isMember: whether they become members, of whose groups each user has a limit.
    func checkReach(_ added: [String], isMember: Bool) throws(SourceRefusal) {
        for user in added {
            guard maySend(to: user) else {
                throw SourceRefusal(403, "no right to send to \(user)")
            }
            guard !isMember || takesMembership(of: user) else {
                throw SourceRefusal(
                    409,
                    "\(user) can only join by itself: it is in too many groups of others, or the "
                        + "app has addsMembers: false")
            }
        }
    }
}
