// Reads one JSON message of a client as the MRT packet that has the same meaning. JSON is another
// form of MRT: what a packet may contain, and what its answer is, PROTOCOL.md says for both.

import BrokerTerms
import Primitives
import WireFormat

/// A fault of a JSON message: it ends the connection, after a message that names it.
struct JSONFault: Error {
    let reason: ReasonCode
    /// What is wrong, for people.
    let detail: StaticString
    /// The member that is wrong; empty for none.
    var member: [UInt8] = []
}

/// One message while its packet is written.
struct JSONPacketReader {
    private let object: JSONObject
    /// The text of the object, and parts that were made of it.
    private(set) var source: [UInt8]
    /// The members that were asked for; any other one is a fault.
    private var knownMembers: [StaticString] = ["type"]
    private(set) var packet: [UInt8] = []

    /// Whether `connect` with an app key needs no user.
    private let hasActingUser: Bool

    init(_ object: JSONObject, hasActingUser: Bool) {
        self.object = object
        self.hasActingUser = hasActingUser
        source = object.text
    }

    /// The packet of a message.
    ///
    /// - Parameter hasActingUser: whether the handshake named the user of an app key. Then
    ///   `connect` need not, and its packet has an empty one.
    static func packet(
        of json: RawSpan, hasActingUser: Bool = false
    ) throws(JSONFault) -> [UInt8] {
        let object: JSONObject
        do throws(WireError) {
            object = try JSONObject(json)
        } catch {
            throw JSONFault(
                reason: .malformedPacket, detail: "the message is not a JSON object of its form")
        }
        var reader = JSONPacketReader(object, hasActingUser: hasActingUser)
        try reader.read()
        try reader.refuseOtherMembers()
        return reader.packet
    }

    /// The REQUEST of a message whose type is not in its text but beside it. Its number in the
    /// packet means nothing.
    ///
    /// - Parameters:
    ///   - operation: the type.
    ///   - json: the message; empty for one without members.
    ///   - request: set to the number that the client gave the request, also if it is wrong.
    static func packet(
        ofOperation operation: RawSpan, _ json: RawSpan, request: inout UInt64?
    ) throws(JSONFault) -> [UInt8] {
        var reader: JSONPacketReader
        do throws(WireError) {
            reader = JSONPacketReader(
                json.byteCount > 0 ? try JSONObject(json) : JSONObject(), hasActingUser: false)
        } catch {
            throw JSONFault(
                reason: .malformedPacket, detail: "the payload is not a JSON object of its form")
        }
        request = try reader.requestNumber()
        let name = operation.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        guard let type = MessageType(rawValue: name) else {
            throw JSONFault(
                reason: .implementationSpecificError, detail: "the topic names no operation")
        }
        if let instead = type.alternativeOfMQTT {
            throw JSONFault(reason: .implementationSpecificError, detail: instead)
        }
        if let own = try reader.text("type"), reader.source[own.offsets] != Array(name.utf8)[...] {
            throw reader.fault("is not the operation of the topic", "type")
        }
        try reader.readRequest(type, number: request ?? 1)
        try reader.refuseOtherMembers()
        return reader.packet
    }

    private mutating func read() throws(JSONFault) {
        guard let type = try text("type") else {
            throw fault("is missing", "type")
        }
        let name = String(decoding: source[type.offsets], as: UTF8.self)
        guard let known = MessageType(rawValue: name) else {
            throw fault("names no message of a client", "type")
        }
        switch known {
        case .connect: try readConnect()
        case .authenticate: write(MRT.ClientAuth(credential: try requiredCredential()))
        case .send: try readSend()
        case .ack: try readAck()
        case .ping: write(MRT.Ping(isResponse: false))
        case .disconnect: try readDisconnect()
        case .subscribe, .unsubscribe, .presence, .setWill, .clearWill, .createGroup, .joinGroup,
            .leaveGroup, .kickMember, .banMember, .listGroups, .describeGroup, .history,
            .conversations, .read, .hide, .applied, .recall, .replace, .setGroupMeta,
            .setGroupAllowed, .setGroupHistory, .groupHistory:
            try readRequest(known, number: try required("request", requestNumber()))
        }
    }

    /// The messages of a client.
    fileprivate enum MessageType: String {
        case connect, authenticate, send, ack, ping, disconnect
        case subscribe, unsubscribe, presence, setWill, clearWill
        case createGroup, joinGroup, leaveGroup, kickMember, banMember, listGroups, describeGroup
        case setGroupMeta, setGroupAllowed, setGroupHistory, groupHistory
        case history, conversations, read, hide, applied, recall, replace

        /// What an MQTT client does instead of publishing this as a request; nil for what it
        /// publishes.
        var alternativeOfMQTT: StaticString? {
            switch self {
            case .send: "publish to the address or the topic itself"
            case .subscribe, .unsubscribe: "use the packets of MQTT to subscribe"
            case .connect, .authenticate, .ack, .ping, .disconnect: "MQTT has a packet for it"
            default: nil
            }
        }
    }

    // MARK: - Connections

    private mutating func readConnect() throws(JSONFault) {
        var connect = MRT.Connect()
        connect.credential = try credential() ?? .none
        connect.device = try shortText("device") ?? .empty
        connect.isCleanStart = try flag("cleanStart")
        connect.isReconnect = try flag("isReconnect")
        connect.keepAliveSeconds = UInt16(
            try number("keepAliveSeconds", in: 0...UInt64(WireLimits.keepAliveSecondsMaximum)) ?? 0)
        connect.inboxWindow = UInt16(
            try number("window", in: 1...UInt64(WireLimits.windowMaximum))
                ?? UInt64(JSONLimits.windowDefault))
        connect.sessionExpirySeconds = try number(
            "sessionExpirySeconds", in: 0...UInt64(UInt32.max)
        )
        .map { UInt32($0) }
        if let resume = try members(of: "resume") {
            let epoch = try resume.epoch()
            connect.resume = MRT.Resume(
                epoch: epoch, lastNumber: try resume.number("number", in: Self.numbers) ?? 0)
            try resume.refuseOtherMembers()
        }
        connect.cookie = try hexadecimal("cookie")
        if try pulls() { connect.accepts = .pull }
        if let outbox = try members(of: "outbox") {
            let epoch = try outbox.epoch()
            let seen = try outbox.number("resultsSeen", in: Self.numbers) ?? 0
            connect.outbox = MRT.Outbox(
                epoch: epoch, resultsSeen: seen,
                highestUsed: try outbox.number("highestUsed", in: seen...Self.numbers.upperBound)
                    ?? seen)
            try outbox.refuseOtherMembers()
        }
        write(connect)
    }

    /// How the client gets messages that are kept.
    mutating func pulls() throws(JSONFault) -> Bool {
        guard let word = try text("sync") else { return false }
        switch String(decoding: source[word.offsets], as: UTF8.self) {
        case "push": return false
        case "pull": return true
        default: throw fault("is not push or pull", "sync")
        }
    }

    private mutating func credential() throws(JSONFault) -> MRT.Credential? {
        if let token = try text("token") {
            guard (1...WireLimits.tokenByteCountMaximum).contains(Int(token.count)) else {
                throw fault("is empty or too long", "token")
            }
            return .token(token)
        }
        guard let key = try shortText("key") else { return nil }
        guard !key.isEmpty else { throw fault("is empty", "key") }
        let app = try required("app", shortText("app"))
        let user = try shortText("user")
        if user == nil, hasActingUser {
            return .appKey(app: app, key: key, user: .empty)
        }
        return .appKey(app: app, key: key, user: try required("user", user))
    }

    private mutating func requiredCredential() throws(JSONFault) -> MRT.Credential {
        try required("token", credential())
    }

    private mutating func readDisconnect() throws(JSONFault) {
        let expiry = try number("sessionExpirySeconds", in: 0...UInt64(UInt32.max))
        write(
            MRT.ClientDisconnect(
                reason: try flag("sendsWill") ? .disconnectWithWill : .normalDisconnection,
                sessionExpirySeconds: expiry.map { UInt32($0) }))
    }

    // MARK: - Messages

    private static let numbers: ClosedRange<UInt64> = 0...WireLimits.varIntMaximum

    private mutating func readSend() throws(JSONFault) {
        let grade = try grade() ?? .durable
        let outboxNumber = try number("number", in: 1...WireLimits.varIntMaximum)
        if grade == .transient, outboxNumber != nil {
            throw fault("has no meaning with the grade transient", "number")
        }
        let target = try target()
        let (payload, isRaw) = try payload(isTopic: target.isTopicOfSend)
        var send = MRT.Send(
            grade: grade,
            number: grade == .transient ? 0 : try required("number", outboxNumber),
            target: target, payload: payload)
        send.isRaw = isRaw
        if let identifier = try shortText("mid") {
            guard
                (1...WireLimits.messageIdentifierByteCountMaximum).contains(Int(identifier.count))
            else { throw fault("does not have 1 to 64 bytes", "mid") }
            send.messageIdentifier = identifier
        }
        send.expirySeconds = UInt32(
            try number("expirySeconds", in: 1...UInt64(UInt32.max)) ?? 0)
        send.time = try number("time", in: 1...WireLimits.varIntMaximum) ?? 0
        let isKept = try optionalFlag("history")
        send.isKept = isKept == true
        send.isNeverKept = isKept == false
        send.isUndelivered = try optionalFlag("deliver") == false
        guard send.isKept || !send.isUndelivered else {
            throw fault("needs history", "deliver")
        }
        send.isRetained = try flag("isRetained")
        if send.isRetained, !target.isTopicOfSend {
            throw fault("needs a topic, which has a retained message", "isRetained")
        }
        var fields = MRT.SendFields()
        fields.asks = try asks()
        fields.collapseKey = try collapseKey()
        fields.attributes = try attributes()
        fields.mentions = try mentions()
        fields.priority = try priority()
        fields.isLate = try flag("isLate")
        let block = fields.block(from: source.span.bytes)
        if !block.isEmpty { send.fields = append(block) }
        write(send)
    }

    /// What the sender asks for: a reference, and receipts by their names.
    private mutating func asks() throws(JSONFault) -> MRT.SendAsks {
        var asks: MRT.SendAsks = try flag("reference") ? .reference : []
        guard let receipts = try strings("receipts") else { return asks }
        var walk = MRT.IdentifierList(receipts.range, in: source.span.bytes)
        while let name = walk.next() {
            switch String(decoding: source[name.offsets], as: UTF8.self) {
            case "delivered": asks.insert(.delivered)
            case "applied": asks.insert(.applied)
            default: throw fault("has other words than delivered and applied", "receipts")
            }
        }
        return asks
    }

    /// An object of strings as a run. Whether they obey the rules is the matter of this one send.
    mutating func attributes() throws(JSONFault) -> ByteRange {
        let members: [JSONObject.Member]
        switch value("attributes") {
        case nil, .null: return .empty
        case .object(let object): members = object
        default: throw fault("is not an object", "attributes")
        }
        let start = source.count
        for member in members {
            guard case .string(let text) = member.value, text.count <= UInt8.max,
                member.name.count <= UInt8.max
            else { throw fault("has a value that is no string of at most 255 bytes", "attributes") }
            for text in [member.name, text] {
                source.append(UInt8(truncatingIfNeeded: text.count))
                source += Array(source[text.offsets])
            }
        }
        guard source.count - start <= JSONLimits.attributesByteCountMaximum else {
            throw fault("has more than 900 bytes", "attributes")
        }
        return ByteRange(offset: start, count: source.count - start)
    }

    private mutating func mentions() throws(JSONFault) -> ByteRange {
        let users = try strings("mentions")
        let options: UInt8 =
            (try flag("mentionsAll") ? 1 : 0) | (try flag("onlyMentioned") ? 2 : 0)
        guard users != nil || options != 0 else { return .empty }
        let names = users.map { Array(source[$0.range.offsets]) } ?? []
        guard names.count <= WireLimits.mentionsByteCountMaximum else {
            throw fault("has more than 15,360 bytes of names", "mentions")
        }
        let start = source.count
        source.append(options)
        source += names
        return ByteRange(offset: start, count: source.count - start)
    }

    mutating func priority() throws(JSONFault) -> UInt8? {
        guard let word = try text("priority") else { return nil }
        switch String(decoding: source[word.offsets], as: UTF8.self) {
        case "low": return 0
        case "normal": return 1
        case "high": return 2
        default: throw fault("is not low, normal or high", "priority")
        }
    }

    private mutating func readAck() throws(JSONFault) {
        let ack = MRT.Ack(
            inboxNumber: try number("number", in: 1...WireLimits.varIntMaximum) ?? 0,
            resultsSeen: try number("resultsSeen", in: 1...WireLimits.varIntMaximum) ?? 0)
        guard ack.inboxNumber > 0 || ack.resultsSeen > 0 else {
            throw fault("is missing", "number")
        }
        write(ack)
    }

    /// The receivers: exactly one of four members.
    private mutating func target() throws(JSONFault) -> MRT.Target {
        var targets: [MRT.Target] = []
        if let users = try strings("users") {
            guard (1...WireLimits.receiverCountMaximum).contains(users.count) else {
                throw fault("does not have 1 to 256 users", "users")
            }
            if users.count == 1 {
                targets.append(
                    .user(
                        ByteRange(
                            offset: Int(users.range.offset) + 1, count: Int(users.range.count) - 1))
                )
            } else {
                targets.append(.list(count: users.count, ids: users.range))
            }
        }
        if let group = try shortText("group") { targets.append(.group(group)) }
        if let topic = try text("topic") {
            guard (1...WireLimits.topicByteCountMaximum).contains(Int(topic.count)) else {
                throw fault("does not have 1 to 65,535 bytes", "topic")
            }
            targets.append(.topic(topic))
        }
        if try flag("everybody") { targets.append(.broadcast) }
        guard targets.count == 1 else {
            throw JSONFault(
                reason: .malformedPacket,
                detail: "a message needs exactly one of users, group, topic and everybody")
        }
        return targets[0]
    }

    /// The content: `t` and `b`, or for a topic any bytes.
    mutating func payload(
        isTopic: Bool
    ) throws(JSONFault) -> (payload: ByteRange, isRaw: Bool) {
        let type = try number("t", in: 0...255)
        let body = try text("b")
        let bytes = try text("payload")
        let base64 = try text("base64")
        let formCount =
            (type != nil || body != nil ? 1 : 0) + (bytes == nil ? 0 : 1) + (base64 == nil ? 0 : 1)
        guard formCount == 1 else {
            throw JSONFault(
                reason: .malformedPacket,
                detail: "a message needs exactly one of b, payload and base64")
        }
        guard isTopic || bytes == nil && base64 == nil else {
            throw JSONFault(
                reason: .malformedPacket,
                detail: "payload and base64 are for topics; other receivers get t and b")
        }
        if let bytes { return (bytes, true) }
        let start = source.count
        if let base64 {
            let encoded = Array(source[base64.offsets])
            guard Base64.append(decoding: encoded.span.bytes, to: &source) else {
                throw fault("is not base64 with padding", "base64")
            }
        } else {
            source.append(UInt8(type ?? 0))
            if let body { source += Array(source[body.offsets]) }
        }
        return (ByteRange(offset: start, count: source.count - start), base64 != nil)
    }

    private mutating func grade() throws(JSONFault) -> MRT.Grade? {
        guard let word = try text("grade") else { return nil }
        switch String(decoding: source[word.offsets], as: UTF8.self) {
        case "transient": return .transient
        case "durable": return .durable
        case "once": return .once
        default: throw fault("is not transient, durable or once", "grade")
        }
    }

    // MARK: - Requests

    private mutating func requestNumber() throws(JSONFault) -> UInt64? {
        try number("request", in: 1...WireLimits.varIntMaximum)
    }

    private mutating func readRequest(
        _ type: MessageType, number identifier: UInt64
    ) throws(JSONFault) {
        func ask(_ operation: MRT.Operation, _ part: some RequestPart) {
            write(MRT.OutgoingRequest(identifier: identifier, operation: operation, part: part))
        }
        switch type {
        case .subscribe:
            let filter = try required("filter", text("filter"))
            ask(.subscribe, MRT.Subscribe(highestGrade: try grade() ?? .once, filter: filter))
        case .unsubscribe:
            ask(.unsubscribe, BareText(text: try required("filter", text("filter"))))
        case .presence:
            ask(.presence, MRT.PresenceQuery(user: try required("user", shortText("user"))))
        case .setWill:
            let delay = try number("delaySeconds", in: 0...UInt64(UInt32.max)) ?? 0
            let target = try target()
            let (payload, isRaw) = try payload(isTopic: target.isTopicOfSend)
            ask(
                .setWill,
                MRT.Will(
                    delaySeconds: UInt32(delay), target: target, isRaw: isRaw, payload: payload))
        case .clearWill: ask(.clearWill, BareText(text: .empty))
        case .createGroup:
            ask(
                .groupCreate,
                MRT.GroupCreate(
                    key: try required("key", hexadecimal("key")),
                    title: try required("title", shortText("title")),
                    meta: try text("meta") ?? .empty, allowList: try allowList()))
        case .joinGroup:
            let maximum = UInt64(WireLimits.backlogMaximum)
            ask(
                .groupJoin,
                MRT.GroupJoin(
                    group: try group(),
                    backlog: try number("backlog", in: 0...maximum).map { UInt32($0) }))
        case .leaveGroup: ask(.groupLeave, MRT.GroupName(group: try group()))
        case .kickMember, .banMember:
            let member = MRT.GroupMember(
                group: try group(), user: try required("user", shortText("user")))
            ask(type == .banMember ? .groupBan : .groupKick, member)
        case .listGroups:
            ask(.groupList, MRT.GroupListQuery(after: try shortText("after") ?? .empty))
        case .describeGroup:
            ask(
                .groupDescribe,
                MRT.GroupQuery(group: try group(), after: try shortText("after") ?? .empty))
        case .history:
            let query = MRT.HistoryQuery(
                party: try historyParty(),
                before: try number("before", in: 1...WireLimits.varIntMaximum) ?? 0,
                count: try pageCount(), wantsFields: true)
            if let search = try search(query) {
                ask(.searchHistory, search)
            } else {
                ask(.history, query)
            }
        case .conversations:
            ask(
                .conversations,
                MRT.ConversationQuery(
                    after: try number("after", in: 1...WireLimits.varIntMaximum) ?? 0,
                    isUnreadOnly: try flag("unread"), wantsMessages: try flag("messages"),
                    count: try pageCount()))
        case .read, .hide:
            let party = try conversationParty()
            ask(
                type == .hide ? .hideHistory : .markRead,
                MRT.ReadMark(
                    party: party,
                    number: try required(
                        "number", number("number", in: 1...WireLimits.varIntMaximum))))
        case .applied:
            ask(
                .applied,
                MRT.Applied(
                    reference: try required("reference", hexadecimal("reference")),
                    code: UInt8(try number("code", in: 0...255) ?? 0),
                    text: try text("text") ?? .empty))
        case .recall: ask(.recall, try recall())
        case .replace: ask(.replace, try replace())
        case .setGroupMeta:
            ask(
                .groupSetMeta,
                MRT.GroupSetMeta(group: try group(), meta: try required("meta", text("meta"))))
        case .groupHistory:
            ask(
                .groupHistory,
                MRT.GroupHistoryQuery(group: try group(), wantsMessage: try flag("message")))
        case .setGroupHistory:
            ask(
                .groupSetHistory,
                MRT.GroupSetHistory(
                    group: try group(),
                    isKept: try required("history", optionalFlag("history")),
                    shownCount: UInt32(try number("shown", in: 0...UInt64(UInt32.max)) ?? 0)))
        case .setGroupAllowed:
            ask(
                .groupSetAllowList,
                MRT.GroupSetAllowList(group: try group(), allowList: try allowList()))
        case .connect, .authenticate, .send, .ack, .ping, .disconnect:
            throw JSONFault(
                reason: .implementationSpecificError, detail: "the topic names no operation")
        }
    }

    private mutating func group() throws(JSONFault) -> ByteRange {
        try required("group", shortText("group"))
    }

    /// The other party of a conversation.
    private mutating func conversationParty() throws(JSONFault) -> MRT.ConversationParty {
        switch (try shortText("user"), try shortText("group")) {
        case (let user?, nil): return .user(user)
        case (nil, let group?): return .group(group)
        case (nil, nil), (_?, _?):
            throw JSONFault(
                reason: .malformedPacket,
                detail: "a conversation is named by exactly one of user and group")
        }
    }

    /// The other party of a conversation, or a topic.
    private mutating func historyParty() throws(JSONFault) -> MRT.ConversationParty {
        guard let topic = try text("topic") else { return try conversationParty() }
        guard (1...WireLimits.topicByteCountMaximum).contains(Int(topic.count)) else {
            throw fault("does not have 1 to 65,535 bytes", "topic")
        }
        guard value("user") == nil, value("group") == nil else {
            throw JSONFault(
                reason: .malformedPacket, detail: "history is of one of user, group and topic")
        }
        return .topic(topic)
    }

    /// A search in a page; nil if the message has none of its members.
    private mutating func search(
        _ query: MRT.HistoryQuery
    ) throws(JSONFault) -> MRT.HistorySearchQuery? {
        let (words, sender) = (try text("search"), try shortText("from"))
        let since = try number("since", in: 0...WireLimits.varIntMaximum)
        let until = try number("until", in: 1...WireLimits.varIntMaximum)
        guard words != nil || sender != nil || since != nil || until != nil else { return nil }
        return MRT.HistorySearchQuery(
            query: query, from: sender ?? .empty, since: since ?? 0, until: until ?? 0,
            text: words ?? .empty)
    }

    /// Entries of a page.
    private mutating func pageCount() throws(JSONFault) -> UInt8 {
        let maximum = WireLimits.historyCountMaximum
        return UInt8(try number("count", in: 1...UInt64(maximum)) ?? UInt64(maximum))
    }

    /// Users who may join; everybody if there is no list.
    private mutating func allowList() throws(JSONFault) -> MRT.AllowList {
        guard let users = try strings("allowed") else { return .everybody }
        guard users.count <= WireLimits.groupAllowedCountMaximum else {
            throw fault("has more than 1,000 users", "allowed")
        }
        return .only(count: users.count, ids: users.range)
    }

    mutating func write(_ packet: some WirePacket) {
        self.packet = [UInt8](repeating: 0, count: packet.encodedByteCount)
        let source = source
        self.packet.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes.mutableBytes)
            packet.write(to: &writer, from: source.span.bytes)
        }
    }

    // MARK: - Members

    /// Adds bytes to those that ranges refer to.
    mutating func append(_ bytes: [UInt8]) -> ByteRange {
        source += bytes
        return ByteRange(offset: source.count - bytes.count, count: bytes.count)
    }

    mutating func value(_ name: StaticString) -> JSONObject.Value? {
        knownMembers.append(name)
        return JSONMembers(object.members, of: self).value(name)
    }

    mutating func text(_ name: StaticString) throws(JSONFault) -> ByteRange? {
        switch value(name) {
        case nil, .null: return nil
        case .string(let text): return text
        default: throw fault("is not a string", name)
        }
    }

    /// A text whose length has one byte in the packet.
    mutating func shortText(_ name: StaticString) throws(JSONFault) -> ByteRange? {
        guard let text = try text(name) else { return nil }
        guard text.count <= UInt8.max else { throw fault("has more than 255 bytes", name) }
        return text
    }

    mutating func strings(
        _ name: StaticString
    ) throws(JSONFault) -> (count: Int, range: ByteRange)? {
        switch value(name) {
        case nil, .null: return nil
        case .strings(let count, let range?): return (count, range)
        case .strings(_, nil): throw fault("has a string of more than 255 bytes", name)
        default: throw fault("is not a list of strings", name)
        }
    }

    mutating func flag(_ name: StaticString) throws(JSONFault) -> Bool {
        try optionalFlag(name) ?? false
    }

    private mutating func optionalFlag(_ name: StaticString) throws(JSONFault) -> Bool? {
        switch value(name) {
        case nil, .null: return nil
        case .bool(let flag): return flag
        default: throw fault("is not true or false", name)
        }
    }

    mutating func number(
        _ name: StaticString, in range: ClosedRange<UInt64>
    ) throws(JSONFault) -> UInt64? {
        knownMembers.append(name)
        return try JSONMembers(object.members, of: self).number(name, in: range)
    }

    mutating func hexadecimal(_ name: StaticString) throws(JSONFault) -> UInt64? {
        guard let text = try text(name) else { return nil }
        guard let number = UInt64(hexadecimal: text.bytes(in: source.span.bytes)) else {
            throw fault("does not have 16 hexadecimal digits", name)
        }
        return number
    }

    private mutating func members(of name: StaticString) throws(JSONFault) -> JSONMembers? {
        switch value(name) {
        case nil, .null: return nil
        case .object(let members): return JSONMembers(members, of: self)
        default: throw fault("is not an object", name)
        }
    }

    func required<Value>(
        _ name: StaticString, _ value: Value?
    ) throws(JSONFault) -> Value {
        guard let value else { throw fault("is missing", name) }
        return value
    }

    func fault(_ detail: StaticString, _ member: StaticString) -> JSONFault {
        JSONFault(reason: .malformedPacket, detail: detail, member: Array("\(member)".utf8))
    }

    func refuseOtherMembers() throws(JSONFault) {
        try JSONMembers(object.members, of: self).refuseMembers(otherThan: knownMembers)
    }
}

/// The operations that MQTT clients publish as requests.
public enum RequestOperations {
    /// Whether there is an operation of this name.
    public static func contain(_ name: String) -> Bool {
        JSONPacketReader.MessageType(rawValue: name).map { $0.alternativeOfMQTT == nil } ?? false
    }
}

extension MRT.Target {
    fileprivate var isTopicOfSend: Bool {
        if case .topic = self { return true }
        return false
    }
}
