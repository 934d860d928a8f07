// Messages of a chat: add, list, mark as read.

import Administration

extension DiuitInterface {
    // MARK: - Create

    func createMessage(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let chat = try chat(event)
        let content = try DiuitMessage(event)
        switch content.encoding {
        case "utf8", "url": break
        case "base64": throw SourceRefusal(422, field: "encoding", "is base64: no files are kept")
        default: throw SourceRefusal(400, field: "encoding", "must be utf8, url or base64")
        }
        var message = SendMessage(app: app, from: user, b: content.data, isKept: true)
        switch chat {
        case .group(let group): message.group = group
        case .users: message.users = [chat.other(than: user) ?? user]
        }
        if content.type != 0 { message.t = content.type }
        message.attributes = try content.attributes()
        _ = try operations.send(message)
        return .object(content.members(in: chat, from: user))
    }

    // MARK: - List

    func listMessages(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let chat = try chat(event)
        let (start, count) = try page(
            event, countMaximum: SourceLimits.pageCountDefault,
            countDefault: SourceLimits.chatPageCountDefault,
            itemsMaximum: SourceLimits.messagesMaximum)
        let before = try event.number("before", in: 0...SourceLimits.unixSecondsMaximum)
        let messages = try messages(
            of: chat, skipping: start, count: count,
            untilUnixMilliseconds: before.map { UInt64($0) * 1_000 })
        let reads = try reads(of: chat)
        var page = DiuitPage()
        for message in messages {
            let readers = reads.filter {
                $0.through >= message.number && !$0.user.isSameName(as: message.from)
            }
            page.add(
                .object(
                    DiuitMessage.object(of: message, in: chat, reads: readers.map(\.user))))
        }
        return page.answer("messages")
    }

    /// Messages that the user sees, the newest first.
    private func messages(
        of chat: DialogName, skipping skipCount: Int, count: Int,
        untilUnixMilliseconds until: UInt64?
    ) throws(SourceRefusal) -> [ListHistory.Message] {
        var messages: [ListHistory.Message] = []
        var skipCount = skipCount
        var before: UInt64?
        var pageCount = 0
        repeat {
            var request = history(of: chat, before: before)
            request.untilUnixMilliseconds = until
            let page = try operations.list(request, seenBy: user)
            messages += page.messages.dropFirst(skipCount)
            skipCount -= min(skipCount, page.messages.count)
            before = page.next
            pageCount += 1
        } while before != nil && messages.count < count && pageCount < SourceLimits.pagesMaximum
        return Array(messages.prefix(count))
    }

    /// How far members have read, of those who are looked at.
    private func reads(
        of chat: DialogName
    ) throws(SourceRefusal) -> [(user: String, through: UInt64)] {
        let members: [String]
        let name: ConversationName
        switch chat {
        case .users(let first, let second):
            members = [first, second]
            name = .users(first, second)
        case .group(let group):
            members = Array(
                try self.group(group).members.prefix(SourceLimits.readersMaximum))
            name = .group(group)
        }
        let marks = operations.readMarks(of: name, by: members, app: app)
        return zip(members, marks).map { (user: $0, through: $1) }
    }

    // MARK: - Read marks

    /// The messages before it become read too, because a read mark is a number.
    func markAsRead(_ event: SocketEvent) throws(SourceRefusal) -> SourceValue {
        let identifier = try event.text("messageId")
        guard let name = DialogMessageName(identifier: identifier) else {
            throw SourceRefusal(404, field: "messageId", "names no message")
        }
        try operations.checkIsIn(name.dialog, user: user, app: app)
        var mark = MarkConversation(app: app, user: user, number: name.number)
        switch name.dialog {
        case .group(let group): mark.groupid = group
        case .users: mark.with = name.dialog.other(than: user)
        }
        _ = try operations.mark(mark)
        return .object(["messageId": .text(identifier)])
    }
}
