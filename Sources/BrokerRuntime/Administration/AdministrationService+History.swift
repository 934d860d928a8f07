// Operations on conversations and their kept messages.

import Administration
import BrokerCore
import Primitives

extension AdministrationService {
    func list(
        _ request: ListConversations
    ) throws(AdministrationRefusal) -> ListConversations.Reply {
        let page = shared.enter {
            $0.broker.conversations(
                ofUser: Array(request.user.utf8), app: Array(request.app.utf8),
                after: request.after ?? 0, isUnreadOnly: request.isUnreadOnly ?? false,
                countMaximum: request.limit ?? ListConversations.countMaximum)
        }
        guard let page else { throw noConversation(request.app, .users(request.user, "")) }
        return ListConversations.Reply(
            conversations: page.conversations.map { conversation in
                let name = String(decoding: conversation.name, as: UTF8.self)
                return ListConversations.Conversation(
                    user: conversation.isGroup ? nil : name,
                    groupid: conversation.isGroup ? name : nil,
                    lastNumber: conversation.lastNumber, readThrough: conversation.readThrough,
                    unreadCount: conversation.unreadCount)
            }, next: page.next)
    }

    func list(_ request: ListHistory) throws(AdministrationRefusal) -> ListHistory.Reply {
        let name = try ConversationName(
            user: request.user, with: request.with, groupid: request.groupid)
        let selection = ConversationSelection(app: request.app, name)
        var search = HistorySearch()
        search.text = Array((request.search ?? "").utf8)
        search.sender = request.from.map { Array($0.utf8) }
        search.since = request.sinceUnixMilliseconds ?? 0
        search.until = request.untilUnixMilliseconds ?? .max
        let moment = clock.moment()
        let number = changeAndCommit { state in
            state.broker.readHistory(
                of: selection, before: request.before ?? .max, search: search,
                countMaximum: request.limit ?? ListHistory.countMaximum,
                contentMaximum: ListQueueMessages.contentByteCountMaximum)
        }
        guard let number else { throw noConversation(request.app, name) }
        guard number > 0 else { return ListHistory.Reply(messages: [], next: nil) }
        guard let page = shared.enter({ $0.broker.takeHistory(number) }) else {
            preconditionFailure("the reading \(number) has no result after its batch")
        }
        return ListHistory.Reply(
            messages: page.messages.map { ListHistory.Message($0, at: moment) }, next: page.next)
    }

    func remove(
        _ request: RemoveFromHistory
    ) throws(AdministrationRefusal) -> RemoveFromHistory.Reply {
        let name = try ConversationName(
            user: request.user, with: request.with, groupid: request.groupid)
        let selection = ConversationSelection(app: request.app, name)
        var drop = changeAndCommit { state in
            state.broker.removeFromHistory(request.number, of: selection)
        }
        if case .pending(let number)? = drop {
            drop = shared.enter { $0.broker.takeDrop(number) }
        }
        switch drop {
        case .dropped(let batch)?: shared.waitForCommit(of: batch)
        case .absent?:
            throw AdministrationRefusal(
                .topicNameInvalid, "the conversation has no message \(request.number)",
                cause: .unknown)
        case .underWay?, .pending?:
            preconditionFailure("the removal of message \(request.number) has no result")
        case nil: throw noConversation(request.app, name)
        }
        log.write(
            .warning, .administration,
            fields: [
                "request": "history.remove", "app": .text(request.app),
                "conversation": .text(name.text), "number": .number(request.number),
            ])
        return RemoveFromHistory.Reply()
    }

    /// What is missing where there is no conversation.
    private func noConversation(_ app: String, _ name: ConversationName) -> AdministrationRefusal {
        guard shared.enter({ $0.broker.hasApp(Array(app.utf8)) }) else {
            return Self.unknownApp(app)
        }
        switch name {
        case .group(let group):
            return AdministrationRefusal(
                .topicNameInvalid, "unknown group \(group) in \(app)", cause: .unknown)
        case .users(let first, let second):
            let isFirstKnown = shared.enter {
                $0.broker.hasUser(Array(first.utf8), app: Array(app.utf8))
            }
            return Self.unknownUser(isFirstKnown ? second : first, app)
        }
    }
}

extension ConversationName {
    /// For the log.
    fileprivate var text: String {
        switch self {
        case .users(let first, let second): "\(first) and \(second)"
        case .group(let group): "group \(group)"
        }
    }
}

extension ConversationSelection {
    fileprivate init(app: String, _ name: ConversationName) {
        let parties: Parties =
            switch name {
            case .users(let first, let second): .users(Array(first.utf8), Array(second.utf8))
            case .group(let group): .group(Array(group.utf8))
            }
        self.init(app: Array(app.utf8), parties: parties)
    }
}

extension ListHistory.Message {
    fileprivate init(_ message: QueuedMessage, at now: Moment) {
        self.init(
            number: message.number, from: String(decoding: message.sender, as: UTF8.self),
            t: message.type, grade: SendMessage.Grade(message.grade),
            byteCount: message.byteCount, unixMilliseconds: message.unixMilliseconds,
            expiresUnixSeconds: now.unixSeconds(of: message.deadline),
            content: StoredContent(message.content, of: message.contentByteCount))
    }
}
