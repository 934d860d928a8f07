// Chats: list, create, join, leave, change, kick.

import Administration

extension DiuitInterface {
    // MARK: - List

    func listChats(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let (start, count) = try page(
            event, countMaximum: SourceLimits.dialogsMaximum,
            countDefault: SourceLimits.dialogsMaximum,
            itemsMaximum: 2 * SourceLimits.dialogsMaximum)
        let (others, messages) = try conversations()
        let chats = operations.groups(of: user, app: app).map { DialogName.group($0.groupid) }
        var page = DiuitPage()
        for chat in (chats + others).dropFirst(start).prefix(count) {
            guard !page.isFull else {
                page.omit()
                continue
            }
            let last = messages[chat.identifier] ?? .null
            switch chat {
            case .group(let name):
                // It may have ended since the list was made.
                guard let group = try? group(name) else { continue }
                page.add(object(of: group, last: last))
            case .users: page.add(object(ofUsers: chat, last: last))
            }
        }
        return page.answer("chats")
    }

    /// The chats of two users that the user is in, and the newest messages of the first
    /// conversations by their chats.
    private func conversations() throws(SourceRefusal) -> (
        chats: [DialogName], messages: [String: SourceValue]
    ) {
        let first = try operations.list(
            ListConversations(
                app: app, user: user, limit: SourceLimits.newestMessagesMaximum,
                hasMessages: true))
        var found = first.conversations
        if let next = first.next {
            found += try operations.list(
                ListConversations(app: app, user: user, after: next)
            ).conversations
        }
        var chats: [DialogName] = []
        var messages: [String: SourceValue] = [:]
        for conversation in found.prefix(SourceLimits.dialogsMaximum) {
            let other = conversation.user.map { DialogName.between(user, $0) }
            if let other { chats.append(other) }
            guard let chat = other ?? conversation.groupid.map({ .group($0) }),
                let last = conversation.lastMessage
            else { continue }
            messages[chat.identifier] = .object(DiuitMessage.object(of: last, in: chat))
        }
        return (chats, messages)
    }

    /// A chat of a group.
    func object(of group: ShowGroup.Reply, last: SourceValue = .null) -> SourceValue {
        var members: [String: SourceValue] = [
            "id": .text(group.groupid), "pushEnabled": .boolean(true), "lastMessage": last,
            "members": .array(group.members.map { .text($0) }),
            "whiteList": DiuitEvents.whiteList(group.allowed),
            "meta": DiuitEvents.meta(group.meta),
        ]
        if let allowed = group.allowed, allowed.count > SourceLimits.occupantsMaximum {
            members["whiteListCount"] = .count(allowed.count)
        }
        return .object(members)
    }

    private func object(ofUsers chat: DialogName, last: SourceValue) -> SourceValue {
        var members: [String] = []
        if case .users(let first, let second) = chat { members = [first, second] }
        return .object([
            "id": .text(chat.identifier), "pushEnabled": .boolean(true), "lastMessage": last,
            "members": .array(members.map { .text($0) }),
            "whiteList": .array(members.map { .text($0) }), "meta": .object([:]),
        ])
    }

    // MARK: - Create

    func createChat(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let data = try event.members()
        guard let value = data["members"] else { throw .missing("members") }
        let members = try users(value, field: "members").filter { !$0.isSameName(as: user) }
        let whiteList = try whiteList(data["whiteList"])
        let meta = try Self.meta(data["meta"] ?? .null)
        guard operations.mayCreateGroups else { throw SourceRefusal(403, "no right group:create") }
        try operations.checkReach(members, isMember: true)
        // Members need not be on the list of those who may join, and are members from the start.
        let allowed = whiteList.map { list in list + members.filter { !list.containsName($0) } }
        let name = try operations.create(
            CreateGroup(app: app, owner: user, title: "", allowed: allowed, meta: meta)
        ).groupid
        do throws(SourceRefusal) {
            _ = try operations.change(
                ChangeGroup(
                    app: app, groupid: name, change: .history(isKept: true, shownCount: 0)))
            _ = try operations.join(members, to: name, app: app)
        } catch {
            operations.end(name, of: user, app: app)
            throw error
        }
        if let whiteList, let allowed, allowed != whiteList {
            _ = try operations.change(
                ChangeGroup(app: app, groupid: name, change: .allowed(whiteList)))
        }
        return object(of: try group(name))
    }

    /// Those who may join; nil for everybody.
    private func whiteList(_ value: SourceValue?) throws(SourceRefusal) -> [String]? {
        guard let value, value != .null else { return nil }
        return try users(value, field: "whiteList")
    }

    /// The data of a chat, as the group keeps it.
    private static func meta(_ value: SourceValue) throws(SourceRefusal) -> String {
        switch value {
        case .null: return ""
        case .object:
            let text = String(decoding: value.bytes, as: UTF8.self)
            guard text.utf8.count <= SourceLimits.chatMetaByteCountMaximum else {
                throw SourceRefusal(
                    413, field: "meta",
                    "has more than \(SourceLimits.chatMetaByteCountMaximum) bytes")
            }
            return text
        default: throw SourceRefusal(400, field: "meta", "must be an object")
        }
    }

    // MARK: - Members

    func joinChat(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let group = try group(event)
        guard group.allowed?.containsName(user) ?? true || group.owner.isSameName(as: user) else {
            throw SourceRefusal(403, "the whiteList of the chat has not your id")
        }
        _ = try operations.change(
            ChangeMember(app: app, groupid: group.groupid, user: user, action: .join))
        return object(of: try self.group(group.groupid))
    }

    func leaveChat(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        guard case .group(let name) = try chat(event) else {
            throw SourceRefusal(403, field: "chatId", "is of two users, and nobody leaves it")
        }
        _ = try operations.change(
            ChangeMember(app: app, groupid: name, user: user, action: .leave))
        return .object(["chatId": .text(name)])
    }

    /// Removes a member, who may come back if the list has it.
    func kick(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let group = try ownGroup(event)
        let member = try event.text("userId")
        guard operations.isMember(member, of: group.groupid, app: app) else {
            throw SourceRefusal(404, field: "userId", "is no member of the chat")
        }
        guard !member.isSameName(as: group.owner) else {
            throw SourceRefusal(403, field: "userId", "is the owner of the chat")
        }
        _ = try operations.change(
            ChangeMember(app: app, groupid: group.groupid, user: member, action: .kick))
        return .object(["chatId": .text(group.groupid), "userId": .text(member)])
    }

    // MARK: - Change

    func updateMeta(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let group = try ownGroup(event)
        guard let value = try event.members()["meta"] else { throw .missing("meta") }
        return try change(group, .meta(try Self.meta(value)))
    }

    func updateWhiteList(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let group = try ownGroup(event)
        guard let value = try event.members()["whiteList"] else { throw .missing("whiteList") }
        let list = try whiteList(value)
        return try change(group, list.map { .allowed($0) } ?? .everybodyAllowed)
    }

    private func change(
        _ group: ShowGroup.Reply, _ change: ChangeGroup.Change
    ) throws(SourceRefusal) -> SourceValue {
        _ = try operations.change(ChangeGroup(app: app, groupid: group.groupid, change: change))
        return object(of: try self.group(group.groupid))
    }
}
