// Reads one message of a client of LeanMessage as the MRT packet that has the same meaning.
// docs/operating/source-systems.md lists the commands.

import BrokerTerms
import Primitives
import WireFormat

extension JSONPacketReader {
    /// The packet of a message.
    ///
    /// - Parameter random: a new number, for a conversation that is created.
    static func packet(
        ofLeanMessage json: RawSpan, random: UInt64
    ) throws(JSONFault) -> [UInt8] {
        let object: JSONObject
        do throws(WireError) {
            object = try JSONObject(json)
        } catch {
            throw JSONFault(
                reason: .malformedPacket, detail: "the message is not a JSON object of its form")
        }
        var reader = JSONPacketReader(object, hasActingUser: false)
        try reader.readLeanMessage(random: random)
        try reader.refuseOtherMembers()
        return reader.packet
    }

    /// The commands of a client.
    private enum Command: String {
        case open, close, ping, ack, send, setWill, clearWill
        case read, query, conversations, watchUnread
        case createConversation, join, quit, kick, update, recall
    }

    private mutating func readLeanMessage(random: UInt64) throws(JSONFault) {
        let word = try required("command", text("command"))
        guard let command = Command(rawValue: String(decoding: source[word.offsets], as: UTF8.self))
        else { throw fault("names no command", "command") }
        switch command {
        case .open: try readOpen()
        case .close:
            write(MRT.ClientDisconnect(reason: .normalDisconnection, sessionExpirySeconds: nil))
        case .ping: write(MRT.Ping(isResponse: false))
        case .ack:
            let ack = MRT.Ack(
                inboxNumber: try number("n", in: 1...WireLimits.varIntMaximum) ?? 0,
                resultsSeen: try number("i", in: 1...WireLimits.varIntMaximum) ?? 0)
            guard ack.inboxNumber > 0 || ack.resultsSeen > 0 else { throw fault("is missing", "n") }
            write(ack)
        case .send: try readMessage()
        case .setWill, .clearWill, .read, .query, .conversations, .watchUnread,
            .createConversation, .join, .quit, .kick, .update, .recall:
            try readLeanRequest(command, random: random)
        }
    }

    // MARK: - Login

    private mutating func readOpen() throws(JSONFault) {
        var connect = MRT.Connect()
        if let token = try text("token") {
            guard (1...WireLimits.tokenByteCountMaximum).contains(Int(token.count)) else {
                throw fault("is empty or too long", "token")
            }
            connect.credential = .token(token)
        } else {
            connect.credential = .appKey(
                app: try required("appId", shortText("appId")),
                key: try required("appKey", shortText("appKey")),
                user: try required("clientId", shortText("clientId")))
        }
        let (tag, device) = (try shortText("tag"), try shortText("deviceId"))
        connect.device = tag ?? device ?? .empty
        // A client without a name has a session of its own, which ends with its connection.
        if connect.device.isEmpty { connect.sessionExpirySeconds = 0 }
        connect.isReconnect = try flag("reconnect")
        connect.inboxWindow = JSONLimits.windowDefault
        if try pulls() { connect.accepts = .pull }
        write(connect)
    }

    // MARK: - Messages

    /// The bits of `options`.
    private struct SendOptions: OptionSet {
        let rawValue: UInt64
        static let receipt = SendOptions(rawValue: 1 << 0)
        static let transient = SendOptions(rawValue: 1 << 1)
        static let will = SendOptions(rawValue: 1 << 2)
    }

    private mutating func readMessage() throws(JSONFault) {
        var options = SendOptions(rawValue: try number("options", in: 0...7) ?? 0)
        if try flag("receipt") { options.insert(.receipt) }
        if try flag("transient") { options.insert(.transient) }
        if try flag("will") { options.insert(.will) }
        let isTransient = options.contains(.transient)
        let number = try required("i", number("i", in: 1...WireLimits.varIntMaximum))
        let target = try conversation()
        var fields = MRT.SendFields()
        fields.attributes = try attributes()
        fields.mentions = try leanMentions()
        let priority = try priority()
        try checkPushData()
        let payload = try leanPayload()
        if options.contains(.will) {
            guard fields.attributes.isEmpty, fields.mentions.isEmpty, !isTransient,
                !options.contains(.receipt)
            else { throw fault("has only content and a conversation", "will") }
            return ask(
                .setWill, number: number,
                MRT.Will(delaySeconds: 0, target: target, isRaw: false, payload: payload))
        }
        if isTransient {
            guard !options.contains(.receipt) else {
                throw fault("has no meaning for a transient message", "receipt")
            }
            fields.priority = priority
        } else {
            fields.asks =
                options.contains(.receipt) ? [.reference, .delivered, .applied] : .reference
        }
        var send = MRT.Send(
            grade: isTransient ? .transient : .durable, number: isTransient ? 0 : number,
            target: target, payload: payload)
        send.isKept = !isTransient
        let block = fields.block(from: source.span.bytes)
        if !block.isEmpty { send.fields = append(block) }
        write(send)
    }

    /// The receivers of a conversation: `user/NAME`, or a group.
    private mutating func conversation() throws(JSONFault) -> MRT.Target {
        switch try conversationParty(named: "convId") {
        case .user(let user): .user(user)
        case .group(let group), .topic(let group): .group(group)
        }
    }

    private mutating func conversationParty(
        named name: StaticString
    ) throws(JSONFault) -> MRT.ConversationParty {
        let text = try required(name, shortText(name))
        let prefix = LeanMessageText.userPrefix
        guard LeanMessageText.begins(text.bytes(in: source.span.bytes), with: prefix) else {
            return .group(text)
        }
        let count = prefix.utf8CodeUnitCount
        return .user(ByteRange(offset: Int(text.offset) + count, count: Int(text.count) - count))
    }

    /// The type as one byte, then the text.
    private mutating func leanPayload() throws(JSONFault) -> ByteRange {
        let type: UInt8
        switch value("type") {
        case nil, .null: type = LeanMessageText.textType
        case .negative(let number):
            guard let known = LeanMessageText.type(ofNegative: number) else {
                throw fault("is no type of LeanMessage", "type")
            }
            type = known
        case .number(let number) where LeanMessageText.ownTypes.contains(number):
            type = UInt8(number)
        default: throw fault("is not -1 to -6, or 16 to 255", "type")
        }
        let body: ByteRange
        switch (try text("text"), try text("url")) {
        case (let text?, nil), (nil, let text?): body = text
        case (nil, nil), (_?, _?):
            throw fault("is missing, or there are both text and url", "text")
        }
        return append([type] + Array(source[body.offsets]))
    }

    private mutating func leanMentions() throws(JSONFault) -> ByteRange {
        let users = try strings("mentionList")
        let isAll = try flag("mentionAll")
        guard users != nil || isAll else { return .empty }
        let names = users.map { Array(source[$0.range.offsets]) } ?? []
        guard names.count <= WireLimits.mentionsByteCountMaximum else {
            throw fault("has more than 15,360 bytes of names", "mentionList")
        }
        return append([isAll ? 1 : 0] + names)
    }

    /// What a notification of a phone would say. Nothing uses it yet.
    private mutating func checkPushData() throws(JSONFault) {
        switch value("pushData") {
        case nil, .null, .object: break
        default: throw fault("is not an object", "pushData")
        }
    }

    // MARK: - Requests

    private mutating func readLeanRequest(
        _ command: Command, random: UInt64
    ) throws(JSONFault) {
        let number = try required("i", number("i", in: 1...WireLimits.varIntMaximum))
        switch command {
        case .setWill, .open, .close, .ping, .ack, .send:
            throw fault("names no command", "command")
        case .clearWill: ask(.clearWill, number: number, BareText(text: .empty))
        case .read:
            if let reference = try hexadecimal("messageId") {
                return ask(
                    .applied, number: number,
                    MRT.Applied(reference: reference, code: 0, text: .empty))
            }
            ask(
                .markRead, number: number,
                MRT.ReadMark(
                    party: try conversationParty(named: "convId"),
                    number: try required(
                        "index", self.number("index", in: 1...WireLimits.varIntMaximum))))
        case .query:
            ask(
                .history, number: number,
                MRT.HistoryQuery(
                    party: try conversationParty(named: "convId"),
                    before: try self.number("before", in: 1...WireLimits.varIntMaximum) ?? 0,
                    count: try count(LeanMessageText.pageDefault), wantsFields: true))
        case .conversations:
            ask(
                .conversations, number: number,
                MRT.ConversationQuery(
                    after: try self.number("after", in: 1...WireLimits.varIntMaximum) ?? 0,
                    isUnreadOnly: try flag("unread"), wantsMessages: true,
                    count: try count(LeanMessageText.conversationsDefault)))
        case .watchUnread:
            let user = try required("clientId", shortText("clientId"))
            let filter = append(
                Array("\(LeanMessageText.unreadPrefix)".utf8) + Array(source[user.offsets]))
            ask(
                .subscribe, number: number,
                MRT.Subscribe(highestGrade: .transient, filter: filter))
        case .createConversation:
            let members = try strings("members")
            guard (members?.count ?? 0) <= WireLimits.groupAllowedCountMaximum else {
                throw fault("has more than 1,000 users", "members")
            }
            ask(
                .groupCreate, number: number,
                MRT.GroupCreate(
                    key: random, title: try shortText("name") ?? .empty, meta: .empty,
                    allowList: members.map { .only(count: $0.count, ids: $0.range) } ?? .everybody))
        case .join: ask(.groupJoin, number: number, MRT.GroupJoin(group: try leanGroup()))
        case .quit: ask(.groupLeave, number: number, MRT.GroupName(group: try leanGroup()))
        case .kick:
            ask(
                .groupKick, number: number,
                MRT.GroupMember(
                    group: try leanGroup(),
                    user: try required("clientId", shortText("clientId"))))
        case .update:
            ask(
                .replace, number: number,
                MRT.Replace(
                    message: .reference(try required("messageId", hexadecimal("messageId"))),
                    detail: .empty, payload: try leanPayload()))
        case .recall:
            ask(
                .recall, number: number,
                MRT.Recall(
                    message: .reference(try required("messageId", hexadecimal("messageId"))),
                    detail: try shortText("reason") ?? .empty))
        }
    }

    private mutating func leanGroup() throws(JSONFault) -> ByteRange {
        guard case .group(let group) = try conversationParty(named: "convId") else {
            throw fault("is no group", "convId")
        }
        return group
    }

    private mutating func count(_ standard: UInt64) throws(JSONFault) -> UInt8 {
        UInt8(try number("limit", in: 1...UInt64(WireLimits.historyCountMaximum)) ?? standard)
    }

    private mutating func ask(
        _ operation: MRT.Operation, number: UInt64, _ part: some RequestPart
    ) {
        write(MRT.OutgoingRequest(identifier: number, operation: operation, part: part))
    }
}
