// Requests about groups and wills, as events. A request with an invalid text is refused in its
// place among the answers; the core decides whether a request is permitted.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// One REQUEST while it is decoded into an event.
struct ReceivedRequest {
    let connection: ConnectionID
    let identifier: UInt64
    let operation: MRT.Operation?
    /// The position of the parameters in `bytes`.
    let parameters: ByteRange
    let bytes: UnsafeRawBufferPointer
    /// The size that a result may have so that its RESPONSE is a packet that the client accepts.
    let resultByteCountMaximum: Int

    var content: UnsafeRawBufferPointer { parameters.bytes(in: bytes) }

    /// The range in `bytes` of a range of the parameters.
    func place(_ range: ByteRange) -> ByteRange { range.shifted(by: Int(parameters.offset)) }

    func fault(_ reason: ReasonCode, _ cause: LimitName = .none) -> Event {
        .requestFaulted(connection, requestIdentifier: identifier, reason, cause: cause)
    }

    func event(_ request: GroupRequest) -> Event {
        .groupRequested(connection, requestIdentifier: identifier, request)
    }
}

extension MRTDecoder {
    // MARK: - Groups

    static func createGroup(
        _ request: ReceivedRequest, seed: UInt64
    ) throws(WireError) -> Event {
        let content = request.content
        let create = try MRT.GroupCreate(content.bytes)
        if create.title.count > WireLimits.groupTitleByteCountMaximum {
            return request.fault(.packetTooLarge)
        }
        guard TextRules.isGroupTitle(create.title.bytes(in: content.bytes)),
            TextRules.isUTF8(create.meta.bytes(in: content.bytes))
        else { return request.fault(.payloadFormatInvalid) }
        guard areIdentifiers(create.allowList, request) else {
            return request.fault(.topicNameInvalid)
        }
        return request.event(
            .create(
                GroupCreation(
                    key: create.key, title: request.place(create.title),
                    meta: request.place(create.meta), allowed: place(create.allowList, request),
                    seed: seed)))
    }

    /// An operation on an existing group.
    static func changeGroup(_ request: ReceivedRequest) throws(WireError) -> Event {
        let content = request.content
        switch request.operation {
        case .groupJoin:
            let join = try MRT.GroupJoin(content.bytes)
            return request.event(.join(request.place(join.group), backlog: join.backlog))
        case .groupLeave:
            let name = try MRT.GroupName(content.bytes)
            return request.event(.leave(request.place(name.group)))
        case .groupKick, .groupBan:
            let member = try MRT.GroupMember(content.bytes)
            let (group, user) = (request.place(member.group), request.place(member.user))
            return request.event(
                request.operation == .groupBan ? .ban(group, user: user) : .kick(group, user: user))
        case .groupSetMeta:
            let change = try MRT.GroupSetMeta(content.bytes)
            guard TextRules.isUTF8(change.meta.bytes(in: content.bytes)) else {
                return request.fault(.payloadFormatInvalid)
            }
            return request.event(
                .setMeta(request.place(change.group), meta: request.place(change.meta)))
        case .groupSetWake, .groupMute:
            let flag = try MRT.GroupFlag(content.bytes)
            let group = request.place(flag.group)
            return request.event(
                request.operation == .groupMute
                    ? .mute(group, flag.isSet) : .setWaking(group, flag.isSet))
        case .groupSetHistory:
            let change = try MRT.GroupSetHistory(content.bytes)
            return request.event(
                .setHistory(
                    request.place(change.group),
                    GroupHistory(isKept: change.isKept, shownCount: change.shownCount)))
        default:
            let change = try MRT.GroupSetAllowList(content.bytes)
            guard areIdentifiers(change.allowList, request) else {
                return request.fault(.topicNameInvalid)
            }
            return request.event(
                .setAllowed(
                    request.place(change.group), allowed: place(change.allowList, request)))
        }
    }

    static func queryGroups(_ request: ReceivedRequest) throws(WireError) -> Event {
        if request.operation == .groupList {
            let query = try MRT.GroupListQuery(request.content.bytes)
            return request.event(
                .list(
                    after: request.place(query.after),
                    byteCountMaximum: request.resultByteCountMaximum))
        }
        if request.operation == .groupHistory {
            let query = try MRT.GroupHistoryQuery(request.content.bytes)
            return request.event(
                .describeHistory(
                    request.place(query.group), wantsMessage: query.wantsMessage,
                    byteCountMaximum: request.resultByteCountMaximum))
        }
        let query = try MRT.GroupQuery(request.content.bytes)
        return request.event(
            .describe(
                request.place(query.group), after: request.place(query.after),
                byteCountMaximum: request.resultByteCountMaximum))
    }

    // MARK: - Conversations

    static func queryHistory(_ request: ReceivedRequest) throws(WireError) -> Event {
        let query = try MRT.HistoryQuery(request.content.bytes)
        if let fault = topicFault(query, request) { return fault }
        return .historyRequested(
            request.connection, requestIdentifier: request.identifier,
            historyRequest(query, request))
    }

    /// The refusal of a topic that is no topic name; nil for a topic, a user and a group.
    private static func topicFault(_ query: MRT.HistoryQuery, _ request: ReceivedRequest) -> Event?
    {
        guard case .topic(let topic) = query.party,
            !TextRules.isTopicName(topic.bytes(in: request.content.bytes))
        else { return nil }
        return request.fault(.topicNameInvalid, .topicNotKept)
    }

    static func searchHistory(_ request: ReceivedRequest) throws(WireError) -> Event {
        let query = try MRT.HistorySearchQuery(request.content.bytes)
        if let fault = topicFault(query.query, request) { return fault }
        guard Int(query.text.count) <= WireLimits.searchByteCountMaximum else {
            return request.fault(.packetTooLarge, .searchText)
        }
        var wanted = historyRequest(query.query, request)
        wanted.search.text = request.place(query.text)
        wanted.search.sender = request.place(query.from)
        wanted.search.since = query.since
        if query.until > 0 { wanted.search.until = query.until }
        return .historyRequested(
            request.connection, requestIdentifier: request.identifier, wanted)
    }

    private static func historyRequest(
        _ query: MRT.HistoryQuery, _ request: ReceivedRequest
    ) -> HistoryRequest {
        var wanted = HistoryRequest(
            party: party(query.party, request),
            before: query.before == 0 ? .max : query.before, countMaximum: Int(query.count),
            byteCountMaximum: request.resultByteCountMaximum)
        wanted.wantsFields = query.wantsFields
        return wanted
    }

    static func queryConversations(_ request: ReceivedRequest) throws(WireError) -> Event {
        let query = try MRT.ConversationQuery(request.content.bytes)
        return .conversationsRequested(
            request.connection, requestIdentifier: request.identifier,
            ConversationListRequest(
                after: query.after, isUnreadOnly: query.isUnreadOnly,
                wantsMessages: query.wantsMessages, countMaximum: Int(query.count),
                byteCountMaximum: request.resultByteCountMaximum))
    }

    static func markRead(_ request: ReceivedRequest) throws(WireError) -> Event {
        let mark = try MRT.ReadMark(request.content.bytes)
        return .markReadRequested(
            request.connection, requestIdentifier: request.identifier,
            ReadMarkRequest(
                party: party(mark.party, request), number: mark.number,
                hides: request.operation == .hideHistory))
    }

    private static func party(
        _ party: MRT.ConversationParty, _ request: ReceivedRequest
    ) -> HistoryRequest.Party {
        switch party {
        case .user(let name): .user(request.place(name))
        case .group(let name): .group(request.place(name))
        case .topic(let name): .topic(request.place(name))
        }
    }

    /// Whether all users on an allow list have valid names. Users who are not known yet may be on
    /// it.
    private static func areIdentifiers(_ list: MRT.AllowList, _ request: ReceivedRequest) -> Bool {
        guard case .only(_, let ids) = list else { return true }
        var walk = MRT.IdentifierList(ids, in: request.content.bytes)
        while let id = walk.next() {
            guard TextRules.isIdentifier(id.bytes(in: request.content.bytes)) else { return false }
        }
        return true
    }

    private static func place(
        _ list: MRT.AllowList, _ request: ReceivedRequest
    ) -> IdentifierRange? {
        switch list {
        case .everybody: nil
        case .only(let count, let ids): IdentifierRange(bytes: request.place(ids), count: count)
        }
    }

    // MARK: - Wills

    static func setWill(_ request: ReceivedRequest) throws(WireError) -> Event {
        let will = try MRT.Will(request.content.bytes)
        let base = Int(request.parameters.offset)
        let payload = request.place(will.payload)
        let validated = validate(
            will.target, from: base, payload: payload, isRaw: will.isRaw, in: request.bytes)
        return .willSet(
            request.connection, requestIdentifier: request.identifier,
            WillRequest(
                delaySeconds: will.delaySeconds,
                message: SendRequest(
                    number: 0, grade: .once, target: target(will.target, from: base),
                    isRaw: will.isRaw, payload: payload,
                    messageByteCount: validated.messageByteCount, fault: validated.fault)))
    }
}
