// Operations on retained messages: list, show, delete.

import Administration
import BrokerCore
import Primitives
import WireFormat

extension AdministrationService {
    func list(_ request: ListRetained) throws(AdministrationRefusal) -> ListRetained.Reply {
        let moment = clock.moment()
        var search = try search(
            request.app, request.filter ?? "#", after: request.after,
            countMaximum: request.limit ?? ListRetained.countMaximum)
        shared.enterInSlices { $0.broker.advance(&search, at: moment) }
        return ListRetained.Reply(
            messages: search.found.map { ListRetained.Message($0, at: moment) }, next: search.next)
    }

    func show(_ request: ShowRetained) throws(AdministrationRefusal) -> ShowRetained.Reply {
        let moment = clock.moment()
        let app = Array(request.app.utf8)
        let message = shared.enter {
            $0.broker.retainedMessage(
                of: Array(request.topic.utf8), app: app,
                contentMaximum: ShowRetained.contentByteCountMaximum, at: moment)
        }
        guard let message else {
            try checkApp(request.app)
            throw AdministrationRefusal(
                .topicNameInvalid, "\"\(request.topic)\" has no retained message", cause: .unknown)
        }
        return ShowRetained.Reply(
            message: ListRetained.Message(message, at: moment),
            content: StoredContent(message.content, of: message.contentByteCount))
    }

    func delete(_ request: DeleteRetained) throws(AdministrationRefusal) -> DeleteRetained.Reply {
        var search = try search(
            request.app, request.filter, after: nil, countMaximum: DeleteRetained.countMaximum)
        // A commit for each slice, so that other changes wait for one slice at most.
        while changeAndCommit({ [moment = clock.moment()] state in
            state.broker.deleteRetained(&search, at: moment)
        }) {}
        log.write(
            .warning, .administration,
            fields: [
                "request": "retained.delete", "app": .text(request.app),
                "filter": .text(request.filter), "count": .number(search.count),
            ])
        return DeleteRetained.Reply(messageCount: search.count, hasMore: search.next != nil)
    }

    private func search(
        _ app: String, _ filter: String, after cursor: UInt32?, countMaximum: Int
    ) throws(AdministrationRefusal) -> RetainedSearch {
        try checkApp(app)
        let bytes = Array(filter.utf8)
        guard TextRules.isTopicFilter(bytes.span.bytes) else {
            throw AdministrationRefusal(
                .malformedPacket,
                "\"\(filter)\" is not a topic filter: + and # stand alone between slashes, # at "
                    + "the end")
        }
        return RetainedSearch(
            app: Array(app.utf8), matching: bytes, after: cursor, countMaximum: countMaximum)
    }
}

extension ListRetained.Message {
    fileprivate init(_ message: RetainedDescription, at now: Moment) {
        self.init(
            topic: String(decoding: message.topic, as: UTF8.self),
            from: String(decoding: message.sender, as: UTF8.self), t: message.type,
            grade: SendMessage.Grade(message.grade), byteCount: message.byteCount,
            unixMilliseconds: message.unixMilliseconds,
            expiresUnixSeconds: now.unixSeconds(of: message.deadline))
    }
}
