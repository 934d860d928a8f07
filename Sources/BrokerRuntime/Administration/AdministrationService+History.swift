// Operations on conversations and their kept messages.

import Administration
import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension AdministrationService {
    func list(
        _ request: ListConversations
    ) throws(AdministrationRefusal) -> ListConversations.Reply {
        let hasMessages = request.hasMessages == true
        let countMaximum =
            hasMessages ? ListConversations.messagesMaximum : ListConversations.countMaximum
        let page = shared.enter {
            $0.broker.conversations(
                ofUser: Array(request.user.utf8), app: Array(request.app.utf8),
                after: request.after ?? 0, isUnreadOnly: request.isUnreadOnly ?? false,
                countMaximum: min(request.limit ?? countMaximum, countMaximum))
        }
        guard let page else { throw noConversation(request.app, .users(request.user, "")) }
        let names = page.conversations.map { conversation in
            let name = String(decoding: conversation.name, as: UTF8.self)
            return conversation.isGroup
                ? ConversationName.group(name) : .users(request.user, name)
        }
        let messages = hasMessages ? newest(names, app: request.app, seenBy: request.user) : []
        return ListConversations.Reply(
            conversations: page.conversations.indices.map { index in
                let conversation = page.conversations[index]
                let name = String(decoding: conversation.name, as: UTF8.self)
                return ListConversations.Conversation(
                    user: conversation.isGroup ? nil : name,
                    groupid: conversation.isGroup ? name : nil,
                    lastNumber: conversation.lastNumber, readThrough: conversation.readThrough,
                    unreadCount: conversation.unreadCount,
                    lastMessage: hasMessages ? messages[index] : nil)
            }, next: page.next)
    }

    /// The newest kept messages of conversations, which the store reads with one batch; nil for one
    /// that has none.
    ///
    /// - Parameter reader: a user who sees a part of them; nil for all of them.
    func newest(
        _ names: [ConversationName], app: String, seenBy reader: String? = nil
    ) -> [ListHistory.Message?] {
        guard !names.isEmpty else { return [] }
        let moment = clock.moment()
        let numbers = changeAndCommit { state in
            names.map { name in
                state.broker.readHistory(
                    of: ConversationSelection(app: app, name), before: .max,
                    search: HistorySearch(), countMaximum: 1,
                    contentMaximum: ListQueueMessages.contentByteCountMaximum,
                    seenBy: reader.map { Array($0.utf8) }) ?? 0
            }
        }
        return shared.enter { state in
            numbers.map { number in
                guard number > 0, let page = state.broker.takeHistory(number) else { return nil }
                return page.messages.first.map { ListHistory.Message($0, at: moment) }
            }
        }
    }

    /// - Parameter reader: a user who sees a part of it; nil for all of it.
    func list(
        _ request: ListHistory, seenBy reader: String? = nil
    ) throws(AdministrationRefusal) -> ListHistory.Reply {
        let name = try ConversationName(
            user: request.user, with: request.with, groupid: request.groupid,
            topic: request.topic)
        let selection = ConversationSelection(app: request.app, name)
        var search = HistorySearch()
        let text = Array((request.search ?? "").utf8)
        guard text.count <= CoreLimits.searchByteCountMaximum else {
            throw AdministrationRefusal(
                .malformedPacket,
                "search has more than \(CoreLimits.searchByteCountMaximum) bytes")
        }
        search.text = text
        search.sender = request.from.map { Array($0.utf8) }
        search.since = request.sinceUnixMilliseconds ?? 0
        search.until = request.untilUnixMilliseconds ?? .max
        let moment = clock.moment()
        let number = changeAndCommit { state in
            state.broker.readHistory(
                of: selection, before: request.before ?? .max, search: search,
                countMaximum: request.limit ?? ListHistory.countMaximum,
                contentMaximum: ListQueueMessages.contentByteCountMaximum,
                seenBy: reader.map { Array($0.utf8) })
        }
        guard let number else { throw noConversation(request.app, name) }
        guard number > 0 else { return ListHistory.Reply(messages: [], next: nil) }
        guard let page = shared.enter({ $0.broker.takeHistory(number) }) else {
            preconditionFailure("the reading \(number) has no result after its batch")
        }
        return ListHistory.Reply(
            messages: page.messages.map { ListHistory.Message($0, at: moment) }, next: page.next)
    }

    func list(_ request: ListKeptTopics) throws(AdministrationRefusal) -> ListKeptTopics.Reply {
        let page = shared.enter {
            $0.broker.keptTopics(
                ofApp: Array(request.app.utf8), after: request.after ?? 0,
                countMaximum: request.limit ?? ListKeptTopics.countMaximum)
        }
        guard let page else { throw unknownApp(request.app) }
        return ListKeptTopics.Reply(
            topics: page.topics.map {
                ListKeptTopics.Topic(
                    topic: String(decoding: $0.topic, as: UTF8.self), lastNumber: $0.lastNumber,
                    messageCount: $0.messageCount, byteCount: $0.byteCount)
            }, next: page.next)
    }

    func remove(
        _ request: RemoveFromHistory
    ) throws(AdministrationRefusal) -> RemoveFromHistory.Reply {
        let name = try ConversationName(
            user: request.user, with: request.with, groupid: request.groupid,
            topic: request.topic)
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

    func mark(
        _ request: MarkConversation
    ) throws(AdministrationRefusal) -> MarkConversation.Reply {
        let name = try ConversationName(
            user: request.groupid == nil ? request.user : nil, with: request.with,
            groupid: request.groupid)
        let selection = ConversationSelection(app: request.app, name)
        let moment = clock.moment()
        let number = shared.enter { state in
            state.broker.mark(
                selection, through: request.number, hides: request.isHidden ?? false,
                by: Array(request.user.utf8), at: moment, effects: &state.effects)
        }
        guard let number else {
            let isUserKnown = shared.enter {
                $0.broker.hasUser(Array(request.user.utf8), app: Array(request.app.utf8))
            }
            throw isUserKnown
                ? noConversation(request.app, name)
                : noConversation(request.app, .users(request.user, request.user))
        }
        // Each batch reads a piece of the conversation, if the user's own messages are counted.
        while true {
            let (outcome, sequence) = shared.enter { state in
                (state.broker.takeMark(number), state.broker.pendingSequence)
            }
            shared.waitForCommit(of: sequence)
            guard let outcome else { continue }
            guard outcome.reason == .success else {
                throw Self.refusal(outcome.reason, outcome.cause)
            }
            return MarkConversation.Reply()
        }
    }

    /// The refusal of a request for a user, with its cause.
    static func refusal(_ reason: ReasonCode, _ cause: LimitName) -> AdministrationRefusal {
        switch (reason, cause) {
        case (.quotaExceeded, _):
            AdministrationRefusal(reason, "a limit is reached: \(cause.key)", cause: .full)
        case (.serverBusy, _):
            AdministrationRefusal(reason, "the broker reads as much as one commit may; ask again")
        case (.notAuthorized, _): AdministrationRefusal(reason, "\(cause.key)", cause: .forbidden)
        default: AdministrationRefusal(reason, "\(cause.key)", cause: .unknown)
        }
    }

    /// What is missing where there is no conversation.
    private func noConversation(_ app: String, _ name: ConversationName) -> AdministrationRefusal {
        guard shared.enter({ $0.broker.hasApp(Array(app.utf8)) }) else {
            return unknownApp(app)
        }
        switch name {
        case .group(let group):
            return AdministrationRefusal(
                .topicNameInvalid, "unknown group \(group) in \(app)", cause: .unknown)
        case .topic:
            preconditionFailure("every topic of the app \(app) may have a conversation")
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
        case .topic(let topic): "topic \(topic)"
        }
    }
}

extension ConversationSelection {
    init(app: String, _ name: ConversationName) {
        let parties: Parties =
            switch name {
            case .users(let first, let second): .users(Array(first.utf8), Array(second.utf8))
            case .group(let group): .group(Array(group.utf8))
            case .topic(let topic): .topic(Array(topic.utf8))
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
        attributes = Self.attributes(of: message)
        isLate = message.fields.isLate ? true : nil
        isDelivered = message.fields.isUndelivered ? false : nil
        if message.fields.reference != 0 {
            reference = AdministrationService.text(reference: message.fields.reference)
        }
    }

    private static func attributes(of message: QueuedMessage) -> [String: String]? {
        var attributes: [String: String] = [:]
        func add(_ key: RawSpan, _ value: RawSpan) {
            attributes[String(decoding: key.withUnsafeBytes { Array($0) }, as: UTF8.self)] =
                String(decoding: value.withUnsafeBytes { Array($0) }, as: UTF8.self)
        }
        if !message.fields.attributes.isEmpty {
            MessageAttributes.forEach(inRun: message.fields.attributes.span.bytes, add)
        } else if !message.properties.isEmpty {
            MessageAttributes.forEach(inProperties: message.properties.span.bytes, add)
        }
        return attributes.isEmpty ? nil : attributes
    }
}
