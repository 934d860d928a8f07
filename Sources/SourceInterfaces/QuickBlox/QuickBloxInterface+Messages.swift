// Messages of a dialog: list, add, mark as read, delete for oneself.

import Administration

extension QuickBloxInterface {
    /// A dialog in which the user may read and write.
    private func dialog(_ identifier: String?) throws(SourceRefusal) -> DialogName {
        guard let identifier else { throw .missing("chat_dialog_id") }
        guard let dialog = DialogName(identifier: identifier) else { throw Self.noDialog }
        switch dialog {
        case .users:
            guard dialog.other(than: user) != nil else {
                throw SourceRefusal(403, "only for occupants")
            }
        case .group(let name):
            guard isOccupant(of: name) else {
                _ = try group(name)
                throw SourceRefusal(403, "only for occupants")
            }
        }
        return dialog
    }

    /// The request for kept messages of a dialog.
    private func history(
        of dialog: DialogName, before: UInt64? = nil, limit: Int? = nil
    ) -> ListHistory {
        switch dialog {
        case .users(let first, let second):
            ListHistory(app: app, user: first, with: second, before: before, limit: limit)
        case .group(let group):
            ListHistory(app: app, groupid: group, before: before, limit: limit)
        }
    }

    /// The newest message that the user may see.
    func newestMessage(of dialog: DialogName) throws(SourceRefusal) -> ListHistory.Message? {
        try operations.list(history(of: dialog, limit: 1), seenBy: user).messages.first
    }

    // MARK: - List

    func listMessages(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let query = try SourceField.read(request.query)
        let filter = try QuickBloxFilter(query, of: Self.messageFields)
        let dialog = try dialog(query.first { $0.name == "chat_dialog_id" }?.value)
        let messages = try messages(of: dialog, for: filter)
        let readThrough = try self.readThrough(of: dialog)
        let selected = filter.select(
            messages.map { object(of: $0, in: dialog, readThrough: readThrough) })
        guard !filter.countsOnly else {
            return SourceAnswer(
                200, .object(["items": .object(["count": .count(selected.count)])]))
        }
        var page = filter.page(selected)
        let marks = !query.contains { $0.name == "mark_as_read" && $0.value == "0" }
        // All messages that are listed become read, as QuickBlox documents.
        if marks, let newest = page.compactMap({ Self.number(of: $0) }).max() {
            if newest > readThrough { try mark(dialog, through: newest) }
            for index in page.indices { page[index]["read"] = .number(1) }
        }
        return SourceAnswer(
            200,
            .object([
                "skip": .count(filter.skip), "limit": .count(filter.limit),
                "items": .array(page.map { .object($0) }),
            ]))
    }

    /// The messages among which a filter selects. A list without conditions has those of its page,
    /// and one more, if their times have the order in which they were kept.
    private func messages(
        of dialog: DialogName, for filter: QuickBloxFilter
    ) throws(SourceRefusal) -> [ListHistory.Message] {
        if filter.asksForNewest {
            let messages = try newestMessages(
                of: dialog, countMaximum: filter.skip + filter.limit + 1)
            let times = messages.map { $0.unixMilliseconds / 1_000 }
            if zip(times, times.dropFirst()).allSatisfy({ $0 >= $1 }) { return messages }
        }
        return try newestMessages(of: dialog, countMaximum: SourceLimits.messagesMaximum)
    }

    /// The newest messages that the user sees, the newest first.
    private func newestMessages(
        of dialog: DialogName, countMaximum: Int
    ) throws(SourceRefusal) -> [ListHistory.Message] {
        var messages: [ListHistory.Message] = []
        var before: UInt64?
        var pageCount = 0
        repeat {
            let missing = min(countMaximum - messages.count, ListHistory.countMaximum)
            let page = try operations.list(
                history(of: dialog, before: before, limit: missing), seenBy: user)
            messages += page.messages
            before = page.next
            pageCount += 1
        } while before != nil && messages.count < countMaximum
            && pageCount < SourceLimits.pagesMaximum
        return messages
    }

    /// The number up to which the user has read.
    private func readThrough(of dialog: DialogName) throws(SourceRefusal) -> UInt64 {
        let found = try conversations(hasMessages: false).first { conversation in
            switch dialog {
            case .group(let group): conversation.groupid == group
            case .users:
                dialog.other(than: user).flatMap { conversation.user?.isSameName(as: $0) } ?? false
            }
        }
        return found?.readThrough ?? 0
    }

    private static func number(of object: [String: SourceValue]) -> UInt64? {
        guard case .text(let identifier)? = object["_id"] else { return nil }
        return DialogMessageName(identifier: identifier)?.number
    }

    private func object(
        of message: ListHistory.Message, in dialog: DialogName, readThrough: UInt64
    ) -> [String: SourceValue] {
        var object: [String: SourceValue] = [:]
        var attributes = message.attributes ?? [:]
        let files = attributes.removeValue(forKey: Self.filesAttribute)
        for (key, value) in attributes { object[key] = .text(value) }
        let name = DialogMessageName(dialog: dialog, number: message.number)
        object["_id"] = .text(name.identifier)
        object["chat_dialog_id"] = .text(dialog.identifier)
        object["date_sent"] = .count(message.unixMilliseconds / 1_000)
        object["sender_id"] = .user(message.from)
        object["recipient_id"] =
            dialog.other(than: message.from).map(SourceValue.user) ?? .null
        object["read"] = .number(message.number <= readThrough ? 1 : 0)
        object["attachments"] = .array([])
        let text = message.content.text.flatMap { $0.isEmpty ? nil : $0 }
        object["message"] = .optional(text)
        if let type = message.t, let word = Self.mediaTypes[type], let text {
            object["message"] = .null
            object["attachments"] = .array([.object(["type": .text(word), "url": .text(text)])])
        } else if let files, let value = try? SourceValue(Array(files.utf8)) {
            object["attachments"] = value
        }
        return object
    }

    /// The types of messages whose text is the address of a picture or a recording.
    private static let mediaTypes: [UInt8: String] = [1: "image", 2: "audio", 3: "video"]
    /// Has the list of the files of other messages, as JSON.
    private static let filesAttribute = "attachments"

    // MARK: - Create

    func createMessage(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let body = try SourceBody(request)
        var dialog: DialogName
        if let recipient = try body.plain("recipient_id"), body.members["chat_dialog_id"] == nil {
            // The first message makes the dialog.
            try checkKnown([recipient], field: "recipient_id")
            dialog = .between(user, recipient)
        } else {
            dialog = try self.dialog(body.plain("chat_dialog_id"))
        }
        let text = try body.plain("message") ?? ""
        let files = try Self.files(body)
        guard !text.isEmpty || !files.isEmpty else { throw .missing("message") }
        var message = SendMessage(app: app, from: user, b: text, isKept: true)
        switch dialog {
        case .group(let group): message.group = group
        case .users: message.users = [dialog.other(than: user) ?? user]
        }
        // History only, unless the client wants it delivered.
        message.isDelivered = try body.plain("send_to_chat") == "1" ? nil : false
        if let date = try body.plain("date_sent") {
            guard let seconds = UInt64(date), seconds < SourceLimits.unixSecondsMaximum else {
                throw SourceRefusal(400, field: "date_sent", "must be Unix seconds")
            }
            message.unixMilliseconds = seconds * 1_000
        }
        var attributes = try Self.ownMembers(of: body)
        if let (type, address) = Self.media(text, files) {
            (message.t, message.b) = (type, address)
        } else if !files.isEmpty {
            attributes[Self.filesAttribute] =
                String(decoding: SourceValue.array(files).bytes, as: UTF8.self)
        }
        if !attributes.isEmpty { message.attributes = attributes }
        let number = try operations.send(message).keptNumber
        return SourceAnswer(201, .object(try created(number, in: dialog)))
    }

    /// Members with an own meaning; others are the app's.
    private static let messageMembers: Set<String> = [
        "_id", "attachments", "chat_dialog_id", "date_sent", "message", "read", "recipient_id",
        "send_to_chat", "sender_id",
    ]

    private static func ownMembers(of body: SourceBody) throws(SourceRefusal) -> [String: String] {
        var members: [String: String] = [:]
        for name in body.members.keys.sorted() where !messageMembers.contains(name) {
            if let text = try body.plain(name) { members[name] = text }
        }
        return members
    }

    /// The files: a list of objects, or an object of them by numbers as forms write it.
    private static func files(_ body: SourceBody) throws(SourceRefusal) -> [SourceValue] {
        let listed: [SourceValue]
        switch body.members["attachments"] {
        case nil, .null?: return []
        case .array(let array)?: listed = array
        case .object(let object)?: listed = object.sorted { $0.key < $1.key }.map(\.value)
        default: throw SourceRefusal(400, field: "attachments", "must be a list")
        }
        for file in listed {
            guard case .object(let members) = file,
                members.values.allSatisfy({ $0.plainText != nil })
            else { throw SourceRefusal(400, field: "attachments", "must be objects of texts") }
        }
        return listed
    }

    /// The type and the text of a message that is one picture or recording with an address.
    private static func media(
        _ text: String, _ files: [SourceValue]
    ) -> (type: UInt8, address: String)? {
        guard text.isEmpty, files.count == 1, case .object(let members) = files[0],
            members.count == 2, case .text(let word)? = members["type"],
            case .text(let address)? = members["url"],
            let type = mediaTypes.first(where: { $0.value == word })?.key
        else { return nil }
        return (type, address)
    }

    /// The message as it is kept.
    ///
    /// - Parameter number: in its conversation; nil if it was not kept.
    private func created(
        _ number: UInt64?, in dialog: DialogName
    ) throws(SourceRefusal) -> [String: SourceValue] {
        var kept: ListHistory.Message?
        if let number {
            let request = history(of: dialog, before: number + 1, limit: 1)
            kept = try operations.list(request, seenBy: user).messages.first
        }
        guard let kept, kept.number == number else {
            throw SourceRefusal(507, "the message was not kept: a limit of history is reached")
        }
        var object = object(of: kept, in: dialog, readThrough: 0)
        object["read"] = nil
        return object
    }

    // MARK: - Change

    func updateMessages(
        _ identifiers: String, _ request: SourceRequest
    ) throws(SourceRefusal) -> SourceAnswer {
        let body = try SourceBody(request)
        let query = try SourceField.read(request.query)
        // In the query, as QuickBlox documents, or in the content, as its example shows.
        let inContent = try body.plain("chat_dialog_id")
        let inQuery = query.first { $0.name == "chat_dialog_id" }?.value
        let dialog = try dialog(inQuery ?? inContent)
        guard let read = try body.plain("read") else { throw .missing("read") }
        guard read == "1" else { throw SourceRefusal(400, field: "read", "can only become 1") }
        let names = try Self.messages(identifiers)
        guard names.allSatisfy({ $0.dialog == dialog }), let last = names.map(\.number).max()
        else { throw SourceRefusal(404, "the dialog has no such message") }
        try mark(dialog, through: last)
        return SourceAnswer(200, .object([:]))
    }

    func deleteMessages(_ identifiers: String) throws(SourceRefusal) -> SourceAnswer {
        for name in try Self.messages(identifiers).sorted(by: { $0.number < $1.number }) {
            _ = try dialog(name.dialog.identifier)
            var older = history(of: name.dialog, before: name.number)
            older.limit = 1
            // The broker hides the beginning of a conversation from a user, and no gaps.
            guard try operations.list(older, seenBy: user).messages.isEmpty else {
                throw SourceRefusal(
                    422, "only the oldest message of a dialog is deleted for oneself")
            }
            try mark(name.dialog, through: name.number, hides: true)
        }
        return SourceAnswer(200, .object([:]))
    }

    private static func messages(_ identifiers: String) throws(SourceRefusal) -> [DialogMessageName]
    {
        let texts = identifiers.split(separator: ",").map(String.init)
        guard texts.count <= SourceLimits.messageIdentifiersMaximum else {
            throw SourceRefusal(
                400, "more than \(SourceLimits.messageIdentifiersMaximum) messages")
        }
        let names = texts.compactMap(DialogMessageName.init)
        guard names.count == texts.count, !names.isEmpty else {
            throw SourceRefusal(404, "there is no such message")
        }
        return names
    }

    private func mark(
        _ dialog: DialogName, through number: UInt64, hides: Bool = false
    ) throws(SourceRefusal) {
        var request = MarkConversation(
            app: app, user: user, number: number, isHidden: hides ? true : nil)
        switch dialog {
        case .group(let group): request.groupid = group
        case .users: request.with = dialog.other(than: user)
        }
        _ = try operations.mark(request)
    }
}
