// What a trace shows of the packets of MRT.

import BrokerTerms
import Primitives
import WireFormat

extension PacketSummary {
    mutating func readMRT(_ type: MRT.PacketType, from peer: MRT.Peer) throws(WireError) {
        switch type {
        case .connect: read(try MRT.Connect(body: body))
        case .connack: read(try MRT.Connack(body: body))
        case .send: read(try MRT.Send(flags: flags, body: body))
        case .result: read(try MRT.SendResult(flags: flags, body: body))
        case .deliver: read(try MRT.Deliver(flags: flags, body: body))
        case .ack:
            let ack = try MRT.Ack(flags: flags, body: body)
            if ack.inboxNumber > 0 { packet.id = ack.inboxNumber }
            if ack.resultsSeen > 0 { words.append("results seen to \(ack.resultsSeen)") }
        case .request: try read(try MRT.Request(body: body))
        case .response:
            let response = try MRT.Response(body: body)
            packet.id = response.identifier
            set(response.reason)
            if response.reason.isFailure, !response.content.isEmpty {
                words.append(text(response.content))
            }
        case .channel:
            let channel = try MRT.Channel(body: body)
            words.append("channel \(channel.channel)")
        case .pingRequest, .pingResponse: break
        case .disconnect where peer == .client:
            let disconnect = try MRT.ClientDisconnect(body: body)
            set(disconnect.reason)
            if let seconds = disconnect.sessionExpirySeconds {
                words.append("session expiry \(Self.expiry(seconds))")
            }
        case .disconnect:
            let disconnect = try MRT.BrokerDisconnect(body: body)
            set(disconnect.reason)
            if !disconnect.text.isEmpty { words.append(text(disconnect.text)) }
        case .auth where peer == .client:
            words.append(Self.kind(of: try MRT.ClientAuth(body: body).credential))
        case .auth: set(try MRT.BrokerAuth(body: body).reason)
        }
    }

    /// The kind of a credential, without its secret.
    private static func kind(of credential: MRT.Credential) -> String {
        switch credential {
        case .none: "no credential"
        case .token: "a token"
        case .appKey: "an app key"
        case .attached: "attached by its gateway"
        }
    }

    private mutating func read(_ connect: MRT.Connect) {
        packet.dialect = TracedDialect.mrt.text
        packet.device = text(connect.device)
        switch connect.credential {
        case .none, .token: break
        case .appKey(let app, _, let user):
            packet.user = text(user)
            words.append("app \(text(app))")
        case .attached(let user): packet.user = text(user)
        }
        words.append(Self.kind(of: connect.credential))
        words.append(connect.isCleanStart ? "clean start" : "no clean start")
        if connect.isReconnect { words.append("reconnect") }
        words.append("keep-alive \(connect.keepAliveSeconds) s")
        words.append("inbox window \(connect.inboxWindow)")
        if let seconds = connect.sessionExpirySeconds {
            words.append("session expiry \(Self.expiry(seconds))")
        }
        if let resume = connect.resume { words.append("received to \(resume.lastNumber)") }
        if let outbox = connect.outbox {
            words.append("sent to \(outbox.highestUsed), results seen to \(outbox.resultsSeen)")
        }
    }

    private mutating func read(_ connack: MRT.Connack) {
        switch connack {
        case .accepted(let accepted):
            set(.connected)
            packet.user = text(accepted.user)
            if accepted.isSessionPresent { words.append("session present") }
            words.append("keep-alive \(accepted.keepAliveSeconds) s")
            words.append("session expiry \(Self.expiry(accepted.sessionExpirySeconds))")
            words.append("inbox window \(accepted.inboxWindow)")
            words.append("send window \(accepted.sendWindow)")
        case .refused(let refused):
            set(refused.reason)
            if refused.retryAfterSeconds > 0 {
                words.append("retry after \(refused.retryAfterSeconds) s")
            }
            if !refused.text.isEmpty { words.append(text(refused.text)) }
        }
    }

    private mutating func read(_ send: MRT.Send) {
        packet.grade = UInt64(send.grade.rawValue)
        if send.number > 0 { packet.id = send.number }
        set(send.target)
        setPayload(send.payload, isRaw: send.isRaw)
        if !send.messageIdentifier.isEmpty {
            words.append("message id \(text(send.messageIdentifier))")
        }
        if send.expirySeconds > 0 { words.append("expires in \(send.expirySeconds) s") }
        if send.isRetained { words.append("retained") }
        guard !send.fields.isEmpty, let fields = try? MRT.SendFields(send.fields, in: body) else {
            return
        }
        let asks: [(MRT.SendAsks, String)] = [
            (.reference, "reference"), (.delivered, "delivered"), (.applied, "applied"),
        ]
        let asked = asks.filter { fields.asks.contains($0.0) }.map(\.1)
        if !asked.isEmpty { words.append("asks \(asked.joined(separator: " and "))") }
    }

    /// 16 digits.
    private static func hexadecimal(_ number: UInt64) -> String {
        var digits: [UInt8] = []
        digits.append(hexadecimal: number)
        return String(decoding: digits, as: UTF8.self)
    }

    private mutating func set(_ target: MRT.Target) {
        switch target {
        case .user(let user): packet.receiver = text(user)
        case .list(let count, let ids):
            var names: [String] = []
            var list = MRT.IdentifierList(ids, in: body)
            while names.count < TraceLimits.listCountMaximum, let name = list.next() {
                names.append(text(name))
            }
            packet.receiver = names.joined(separator: ",")
            noteRest(of: count)
        case .group(let group): packet.receiver = "group \(text(group))"
        case .broadcast: packet.receiver = "everybody"
        case .topic(let topic): packet.topic = text(topic)
        }
    }

    private mutating func read(_ result: MRT.SendResult) {
        packet.id = result.number
        set(result.reason)
        if !result.messageIdentifier.isEmpty {
            words.append("message id \(text(result.messageIdentifier))")
        }
        if result.reference != 0 {
            words.append("reference \(Self.hexadecimal(result.reference))")
        }
        if result.refusedCount > 0 { words.append("\(result.refusedCount) receivers refused") }
        var list = MRT.RefusalList(result.refusals, in: body)
        var codes: [String] = []
        while codes.count < TraceLimits.listCountMaximum, let refusal = list.next() {
            codes.append("receiver \(refusal.index): \(Self.codeText(refusal.reason.rawValue))")
        }
        if !codes.isEmpty { packet.codes = codes }
    }

    private mutating func read(_ deliver: MRT.Deliver) {
        packet.grade = UInt64(deliver.grade.rawValue)
        if deliver.number > 0 { packet.id = deliver.number }
        switch deliver.kind {
        case .topic: packet.topic = text(deliver.address)
        case .group, .kickedOut, .groupEvent: packet.receiver = "group \(text(deliver.address))"
        case .broadcast: packet.receiver = "everybody"
        case .unicast, .presence, .receipt, .brokerEvent: break
        case .recall, .update:
            if !deliver.address.isEmpty { packet.receiver = "group \(text(deliver.address))" }
        }
        words.append("from \(text(deliver.from))")
        if deliver.kind == .presence || deliver.kind == .groupEvent || deliver.kind == .kickedOut {
            words.append("\(deliver.kind)")
        }
        if deliver.isPossibleDuplicate { words.append("possible duplicate") }
        if !deliver.fields.isEmpty, let fields = try? MRT.DeliverFields(deliver.fields, in: body),
            fields.reference != 0
        {
            words.append("reference \(Self.hexadecimal(fields.reference))")
        }
        setPayload(deliver.payload, isRaw: deliver.isRaw)
    }

    /// Without the mark of raw bytes, the first byte is the type of the message or event.
    private mutating func setPayload(_ range: ByteRange, isRaw: Bool) {
        guard !isRaw, !range.isEmpty else {
            setPayload(range)
            return
        }
        words.append("t \(body[Int(range.offset)])")
        setPayload(ByteRange(offset: Int(range.offset) + 1, count: Int(range.count) - 1))
    }

    private mutating func read(_ request: MRT.Request) throws(WireError) {
        packet.id = request.identifier
        guard let operation = request.operation else {
            words.append("operation \(request.operationCode)")
            return
        }
        words.append("\(operation)")
        let parameters = request.parameters.bytes(in: body)
        switch operation {
        case .subscribe:
            let subscribe = try MRT.Subscribe(parameters)
            packet.filters = [
                "\(Self.text(subscribe.filter.bytes(in: parameters))) (grade "
                    + "\(subscribe.highestGrade.rawValue))"
            ]
        case .unsubscribe: packet.filters = [Self.text(parameters)]
        case .setWill:
            let will = try MRT.Will(parameters)
            // The target's ranges are in the parameters, not in the body.
            if case .topic(let topic) = will.target {
                packet.topic = Self.text(topic.bytes(in: parameters))
            }
            words.append("after \(will.delaySeconds) s")
            packet.payloadByteCount = UInt64(will.payload.count)
        case .presence:
            packet.receiver = Self.text(
                try MRT.PresenceQuery(parameters).user.bytes(in: parameters))
        case .groupSetHistory:
            let change = try MRT.GroupSetHistory(parameters)
            packet.receiver = "group \(Self.text(change.group.bytes(in: parameters)))"
            words.append("history \(change.isKept ? "on" : "off"), shown \(change.shownCount)")
        case .groupJoin:
            let join = try MRT.GroupJoin(parameters)
            packet.receiver = "group \(Self.text(join.group.bytes(in: parameters)))"
            if let backlog = join.backlog { words.append("backlog \(backlog)") }
        case .groupLeave:
            packet.receiver =
                "group \(Self.text(try MRT.GroupName(parameters).group.bytes(in: parameters)))"
        case .groupSetWake, .groupMute:
            let flag = try MRT.GroupFlag(parameters)
            packet.receiver = "group \(Self.text(flag.group.bytes(in: parameters)))"
            words.append(flag.isSet ? "on" : "off")
        case .groupHistory:
            let query = try MRT.GroupHistoryQuery(parameters)
            packet.receiver = "group \(Self.text(query.group.bytes(in: parameters)))"
        case .groupKick, .groupBan:
            let member = try MRT.GroupMember(parameters)
            packet.receiver = "group \(Self.text(member.group.bytes(in: parameters)))"
            words.append("user \(Self.text(member.user.bytes(in: parameters)))")
        case .history:
            let query = try MRT.HistoryQuery(parameters)
            packet.receiver = Self.text(query.party, in: parameters)
        case .searchHistory:
            let search = try MRT.HistorySearchQuery(parameters)
            packet.receiver = Self.text(search.query.party, in: parameters)
        case .markRead, .hideHistory:
            let mark = try MRT.ReadMark(parameters)
            packet.receiver = Self.text(mark.party, in: parameters)
            words.append("through \(mark.number)")
        case .applied:
            let applied = try MRT.Applied(parameters)
            words.append("code \(applied.code)")
            words.append("reference \(Self.hexadecimal(applied.reference))")
        case .recall: name(try MRT.Recall(parameters).message, in: parameters)
        case .replace:
            let replace = try MRT.Replace(parameters)
            name(replace.message, in: parameters)
            packet.payloadByteCount = UInt64(replace.payload.count)
        // An address may be a secret.
        case .setWakeTarget: words.append("kind \(try MRT.WakeTarget(parameters).kind)")
        case .listWakeTargets:
            packet.receiver = Self.text(
                try MRT.WakeTargetQuery(parameters).user.bytes(in: parameters))
        case .removeWakeTarget:
            let name = try MRT.WakeTargetName(parameters)
            packet.receiver = Self.text(name.user.bytes(in: parameters))
            words.append("id \(name.identifier)")
        case .reportWakes:
            var count = 0
            try MRT.WakeReportList(parameters).forEach(in: parameters) { _ in count += 1 }
            words.append("entries \(count)")
        case .clearWill, .groupCreate, .groupList, .groupDescribe, .groupSetMeta,
            .groupSetAllowList, .conversations:
            break
        }
    }

    private mutating func name(_ message: MRT.SentMessage, in bytes: RawSpan) {
        switch message {
        case .reference(let reference):
            var digits: [UInt8] = []
            digits.append(hexadecimal: reference)
            words.append("reference \(String(decoding: digits, as: UTF8.self))")
        case .messageIdentifier(let identifier):
            words.append("id \(Self.text(identifier.bytes(in: bytes)))")
        }
    }

    private static func text(_ party: MRT.ConversationParty, in bytes: RawSpan) -> String {
        let name = text(party.name.bytes(in: bytes))
        return switch party {
        case .user: name
        case .group: "group \(name)"
        case .topic: "topic \(name)"
        }
    }
}
