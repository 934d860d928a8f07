// Operations on the messages of one queue: list and drop.

import Administration
import BrokerCore
import Dialects
import Primitives

extension AdministrationService {
    func list(
        _ request: ListQueueMessages
    ) throws(AdministrationRefusal) -> ListQueueMessages.Reply {
        let selection = QueueSelection(
            app: request.app, user: request.user, device: request.device)
        let moment = clock.moment()
        let inspection = changeAndCommit { state in
            state.broker.inspectQueue(
                selection, after: request.after ?? 0,
                countMaximum: request.limit ?? ListQueueMessages.countMaximum,
                contentMaximum: request.hasContents
                    ? ListQueueMessages.contentByteCountMaximum : 0)
        }
        let page: QueuePage
        switch inspection {
        case nil: throw noQueue(selection)
        case .complete(let complete)?: page = complete
        case .pending(let number)?:
            guard let read = shared.enter({ $0.broker.takeInspection(number) }) else {
                preconditionFailure("inspection \(number) has no result after its batch")
            }
            page = read
        }
        return ListQueueMessages.Reply(
            messages: page.messages.map {
                ListQueueMessages.Message($0, at: moment, hasContent: request.hasContents)
            }, next: page.next)
    }

    func drop(_ request: DropQueueMessage) throws(AdministrationRefusal) -> DropQueueMessage.Reply {
        let selection = QueueSelection(
            app: request.app, user: request.user, device: request.device)
        let moment = clock.moment()
        var drop = changeAndCommit { state in
            state.broker.dropMessage(
                request.number, of: selection, at: moment, effects: &state.effects)
        }
        if case .pending(let number)? = drop {
            drop = shared.enter { $0.broker.takeDrop(number) }
        }
        switch drop {
        case .dropped(let batch)?: shared.waitForCommit(of: batch)
        case .underWay?:
            throw AdministrationRefusal(
                .unspecifiedError,
                "message \(request.number) is being delivered; end the connection first, if its "
                    + "receiver does not acknowledge it")
        case .absent?:
            throw AdministrationRefusal(
                .topicNameInvalid, "the queue has no message \(request.number)", cause: .unknown)
        case .pending(let number)?:
            preconditionFailure("the drop \(number) has no result after its batch")
        case nil: throw noQueue(selection)
        }
        log.write(
            .warning, .administration,
            fields: [
                "request": "queue.drop", "app": .text(request.app), "user": .text(request.user),
                "device": .text(request.device ?? ""), "number": .number(request.number),
            ])
        return DropQueueMessage.Reply()
    }

    /// What is missing where there is no queue.
    func noQueue(_ selection: QueueSelection) -> AdministrationRefusal {
        let (app, user) = (Self.text(selection.app), Self.text(selection.user))
        guard shared.enter({ $0.broker.hasApp(selection.app) }) else { return unknownApp(app) }
        guard let device = selection.device else { return Self.unknownUser(user, app) }
        return AdministrationRefusal(
            .topicNameInvalid,
            "\(user) has no session on the device \"\(Self.text(device))\" in \(app); see: "
                + "martlet session list --app \(app) \(user)", cause: .unknown)
    }
}

extension QueueSelection {
    init(app: String, user: String, device: String?) {
        self.init(
            app: Array(app.utf8), user: Array(user.utf8), device: device.map { Array($0.utf8) })
    }
}

extension ListQueueMessages.Message {
    fileprivate init(_ message: QueuedMessage, at now: Moment, hasContent: Bool) {
        let address = String(decoding: message.address, as: UTF8.self)
        let (kind, hasTopic, hasGroup): (ListQueueMessages.Kind, Bool, Bool) =
            switch message.kind {
            case .topic: (.topic, true, false)
            case .unicast: (.user, false, false)
            case .group: (.group, false, true)
            case .broadcast: (.everybody, false, false)
            case .kicked: (.kicked, false, true)
            case .groupEvent: (.groupEvent, false, true)
            case .presence: (.presence, false, false)
            case .receipt: (.receipt, false, false)
            case .brokerEvent: (.brokerEvent, false, false)
            case .recall: (.recall, false, !message.address.isEmpty)
            case .update: (.update, false, !message.address.isEmpty)
            }
        self.init(
            number: message.number, from: String(decoding: message.sender, as: UTF8.self),
            kind: kind, topic: hasTopic ? address : nil, groupid: hasGroup ? address : nil,
            t: message.type, grade: SendMessage.Grade(message.grade),
            byteCount: message.byteCount, unixMilliseconds: message.unixMilliseconds,
            expiresUnixSeconds: now.unixSeconds(of: message.deadline),
            isUnderWay: message.isUnderWay,
            content: hasContent ? Self.content(of: message) : nil)
    }

    /// That of a receipt is its JSON: its bytes have the form of MRT.
    private static func content(of message: QueuedMessage) -> StoredContent {
        if message.kind == .receipt, message.content.count == message.contentByteCount {
            let text = ReceiptText.json(message.content.span.bytes)
            if !text.isEmpty { return StoredContent(text, of: text.count) }
        }
        return StoredContent(message.content, of: message.contentByteCount)
    }
}

extension SendMessage.Grade {
    init(_ grade: BrokerCore.Grade) {
        switch grade {
        case .transient: self = .transient
        case .durable: self = .durable
        case .once: self = .once
        }
    }
}

extension Moment {
    /// The time of a deadline in Unix seconds; nil for one that never comes.
    func unixSeconds(of deadline: Instant) -> UInt64? {
        guard deadline != .never else { return nil }
        let milliseconds =
            deadline >= instant
            ? unixMilliseconds &+ deadline.milliseconds(since: instant)
            : unixMilliseconds - min(instant.milliseconds(since: deadline), unixMilliseconds)
        return milliseconds / 1_000
    }
}
