// The interface of Diuit: events of clients on a socket. A chat is a group, or the conversation of
// two users; history is what the broker keeps of it.

import Administration

struct DiuitInterface {
    let operations: any SourceOperations
    let app: String
    let user: String

    /// The answer to an event.
    func answer(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        switch event.name {
        case "chats/list": try listChats(event)
        case "chats/create": try createChat(event)
        case "chats/join": try joinChat(event)
        case "chats/leave": try leaveChat(event)
        case "chats/meta/update": try updateMeta(event)
        // Diuit's documentation writes both.
        case "chats/whiteList/update", "chat/whiteList/update": try updateWhiteList(event)
        case "chat/kick", "chats/kick": try kick(event)
        case "messages/create": try createMessage(event)
        case "messages/list": try listMessages(event)
        case "messages/markAsRead": try markAsRead(event)
        case "authenticate": throw SourceRefusal(409, "the connection is authenticated")
        default: throw SourceRefusal(404, "there is no such event")
        }
    }

    // MARK: - Chats that events name

    static let noChat = SourceRefusal(404, field: "chatId", "names no chat")

    /// A chat that the user is in.
    func chat(_ event: SocketEvent) throws(SourceRefusal) -> DialogName {
        guard let chat = DialogName(identifier: try event.text("chatId")) else {
            throw Self.noChat
        }
        try operations.checkIsIn(chat, user: user, app: app)
        return chat
    }

    /// The group of an event, which the user need not be in.
    func group(_ event: SocketEvent) throws(SourceRefusal) -> ShowGroup.Reply {
        guard case .group(let name)? = DialogName(identifier: try event.text("chatId")) else {
            throw Self.noChat
        }
        return try group(name)
    }

    func group(_ name: String) throws(SourceRefusal) -> ShowGroup.Reply {
        do throws(SourceRefusal) {
            return try operations.show(
                ShowGroup(app: app, groupid: name, limit: SourceLimits.occupantsMaximum))
        } catch {
            throw error.status == 404 ? Self.noChat : error
        }
    }

    /// The group of an event that its owner alone may make.
    func ownGroup(_ event: SocketEvent) throws(SourceRefusal) -> ShowGroup.Reply {
        let group = try group(event)
        guard group.owner.isSameName(as: user) else {
            throw SourceRefusal(403, "only the owner of the chat does this")
        }
        return group
    }

    /// Ids of users: a list of texts.
    func users(
        _ value: SourceValue, field: String
    ) throws(SourceRefusal) -> [String] {
        guard case .array(let elements) = value else {
            throw SourceRefusal(400, field: field, "must be a list of ids")
        }
        guard elements.count <= SourceLimits.membersMaximum else {
            throw SourceRefusal(
                400, field: field, "has more than \(SourceLimits.membersMaximum) users")
        }
        var users: [String] = []
        for element in elements {
            guard let name = element.plainText else {
                throw SourceRefusal(400, field: field, "must be a list of ids")
            }
            if !users.containsName(name) { users.append(name) }
        }
        for name in users where !operations.isKnown(name, app: app) {
            throw SourceRefusal(400, field: field, "names a user who is not known: \(name)")
        }
        return users
    }

    // MARK: - History

    /// The request for kept messages of a chat.
    func history(of chat: DialogName, before: UInt64? = nil, limit: Int? = nil) -> ListHistory {
        switch chat {
        case .users(let first, let second):
            ListHistory(app: app, user: first, with: second, before: before, limit: limit)
        case .group(let group):
            ListHistory(app: app, groupid: group, before: before, limit: limit)
        }
    }

    /// Where a page of a list begins, and how many items it has at most.
    ///
    /// - Parameter itemsMaximum: of all pages together. The last page may have fewer.
    func page(
        _ event: SocketEvent, countMaximum: Int, countDefault: Int, itemsMaximum: Int
    ) throws(SourceRefusal) -> (start: Int, count: Int) {
        let count = Int(
            try event.number("count", in: 1...Int64(countMaximum)) ?? Int64(countDefault))
        let page = Int(
            try event.number("page", in: 0...Int64((itemsMaximum - 1) / count)) ?? 0)
        return (page * count, min(count, itemsMaximum - page * count))
    }
}
