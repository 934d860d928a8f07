// Takes sessions of another broker.

import Administration
import BrokerCore
import BrokerTerms
import Credentials
import Primitives
import WireFormat

extension AdministrationService {
    func take(_ request: ImportSession) throws(AdministrationRefusal) -> ImportSession.Reply {
        guard request.messages.count <= ImportSession.countMaximum,
            request.filters?.count ?? 0 <= ImportSession.filterCountMaximum
        else {
            throw AdministrationRefusal(
                .quotaExceeded,
                "a piece has at most \(ImportSession.countMaximum) messages, and a session "
                    + "\(ImportSession.filterCountMaximum) filters")
        }
        try Self.checkIdentifier(request.from, "sender")
        guard TextRules.isDevice(Array(request.device.utf8).span.bytes) else {
            throw AdministrationRefusal(
                .clientIdentifierNotValid, "the device \"\(request.device)\" is no client id")
        }
        let (messages, strangeCount) = try Self.messages(of: request)
        let filters = try Self.filters(of: request)
        let piece = ImportedSession(
            app: Array(request.app.utf8), user: Array(request.user.utf8),
            device: Array(request.device.utf8), expirySeconds: request.expirySeconds,
            epoch: SystemRandom.number(), sender: Array(request.from.utf8),
            position: request.position, messages: messages, filters: filters?.taken)
        let moment = clock.moment()
        let outcome = changeAndCommit { state in
            state.broker.importSession(piece, at: moment, effects: &state.effects)
        }
        switch outcome {
        case .taken(let count, let crowdedCount, let limitedFilters):
            let refusedCount = crowdedCount + strangeCount
            let refusedFilters = (filters?.refused ?? []) + limitedFilters.map(Self.text)
            let position = piece.position + UInt64(piece.messages.count)
            let reached = shared.enter {
                $0.broker.importPosition(app: piece.app, user: piece.user, device: piece.device)
            }
            if let reached, reached < position { throw refusal(of: NoRoom()) }
            if refusedCount > 0 || !refusedFilters.isEmpty {
                note(request, refusedCount: refusedCount, filterCount: refusedFilters.count)
            }
            return ImportSession.Reply(
                state: "taken", position: position, messageCount: count,
                refusedCount: refusedCount, refusedFilters: refusedFilters)
        case .elsewhere(let position, let count):
            return ImportSession.Reply(
                state: "elsewhere", position: position, messageCount: count)
        case .exists:
            return ImportSession.Reply(state: "exists", position: 0, messageCount: 0)
        case .unknownUser:
            guard shared.look({ $0.hasApp(Array(request.app.utf8)) }) else {
                throw unknownApp(request.app)
            }
            throw Self.unknownUser(request.user, request.app)
        case .refused(let limit):
            throw AdministrationRefusal(
                .quotaExceeded, "a limit is reached: \(limit.key) allows no more sessions")
        }
    }

    /// Logs what is refused: an import that is interrupted and goes on does not report it again.
    private func note(_ request: ImportSession, refusedCount: Int, filterCount: Int) {
        log.write(
            .warning, .administration,
            fields: [
                "request": "session.import", "app": .text(request.app),
                "user": .text(request.user), "device": .text(request.device),
                "position": .number(request.position),
                "refused_messages": .number(UInt64(refusedCount)),
                "refused_filters": .number(UInt64(filterCount)),
            ])
    }

    /// The messages of a piece. One that no client may publish becomes an expired one, which keeps
    /// its place among those of the source, and is counted.
    private static func messages(
        of request: ImportSession
    ) throws(AdministrationRefusal) -> (messages: [ImportedSession.Message], strangeCount: Int) {
        var messages: [ImportedSession.Message] = []
        var strangeCount = 0
        for item in request.messages {
            let lines = item.split(
                separator: "\n", maxSplits: 4, omittingEmptySubsequences: false)
            guard lines.count == 5, let grade = UInt8(lines[0]).flatMap(Grade.init(rawValue:)),
                grade != .transient, lines[1].isEmpty || UInt64(lines[1]) != nil,
                let payload = ImportSession.payload(base64: lines[3])
            else {
                throw AdministrationRefusal(
                    .malformedPacket, "a message is QoS, expiry, content type, base64 and topic")
            }
            let topic = Array(lines[4].utf8)
            let type = Array(lines[2].utf8)
            guard TextRules.isTopicName(topic.span.bytes), topic.first != UInt8(ascii: "$"),
                type.count <= SendMessage.contentTypeByteCountMaximum,
                TextRules.isUTF8(type.span.bytes)
            else {
                strangeCount += 1
                messages.append(
                    ImportedSession.Message(
                        topic: [], payload: [], properties: [], grade: grade, expirySeconds: 0))
                continue
            }
            messages.append(
                ImportedSession.Message(
                    topic: topic, payload: payload,
                    // As in a publication of MQTT 5 (section 3.3.2.3.9).
                    properties: type.isEmpty
                        ? []
                        : [MQTT.PropertyIdentifier.contentType.rawValue, 0, UInt8(type.count)]
                            + type,
                    grade: grade, expirySeconds: UInt64(lines[1])))
        }
        return (messages, strangeCount)
    }

    /// The filters of a piece, and those that no client may subscribe to.
    private static func filters(
        of request: ImportSession
    ) throws(AdministrationRefusal) -> (taken: [ImportedSession.Filter], refused: [String])? {
        guard let items = request.filters else { return nil }
        var filters: [ImportedSession.Filter] = []
        var refused: [String] = []
        for item in items {
            let lines = item.split(
                separator: "\n", maxSplits: 2, omittingEmptySubsequences: false)
            guard lines.count == 3, let settings = UInt8(lines[0]),
                let identifier = UInt32(lines[1])
            else {
                throw AdministrationRefusal(
                    .malformedPacket, "a subscription is options, identifier and filter")
            }
            let filter = Array(lines[2].utf8)
            guard settings < 0x30, let grade = Grade(rawValue: settings & 0x03),
                identifier < 1 << 28,
                MQTT.TopicFilter(
                    ByteRange(offset: 0, count: filter.count), in: filter.span.bytes) != nil
            else {
                refused.append(String(lines[2]))
                continue
            }
            filters.append(
                ImportedSession.Filter(
                    filter: filter, grade: grade,
                    options: SubscriptionOptions(rawValue: settings >> 2 & 0x03 | settings & 0x30),
                    identifier: identifier))
        }
        return (filters, refused)
    }
}
