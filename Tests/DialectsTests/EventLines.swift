// Events as text, for readable tests.

import BrokerCore
import Primitives

/// One event in words; its ranges are in `bytes`.
func line(_ event: Event, _ bytes: UnsafeRawBufferPointer) -> String {
    func text(_ range: ByteRange) -> String {
        String(decoding: range.bytes(in: bytes), as: UTF8.self)
    }
    func party(_ party: HistoryRequest.Party) -> String {
        switch party {
        case .user(let name): text(name)
        case .group(let name): "group \(text(name))"
        case .topic(let name): "topic \(text(name))"
        }
    }
    switch event {
    case .connectReceived(_, let request):
        return line(request, text, names)
    case .connectionClosed(_, let cause): return "closed \(cause)"
    case .sendReceived(_, let request):
        return "send \(line(request, text, names))"
    case .inboxAcknowledged(_, let number): return "acknowledged \(number)"
    case .resultsSeen(_, let number): return "results seen \(number)"
    case .packetAnswered(_, let identifier, let step, let reason):
        return "\(step) \(identifier)" + (reason == .success ? "" : " \(reason)")
    case .subscribeReceived(_, let request):
        var walk = FilterRequestWalk(request.filters, in: bytes)
        var filters: [String] = []
        while let wanted = walk.next() {
            filters.append(
                "\(wanted.grade) \(text(wanted.filter))" + (wanted.isValid ? "" : " invalid")
                    + (wanted.options == [] ? "" : " options \(wanted.options.rawValue)"))
        }
        return "subscribe \(request.requestIdentifier) " + filters.joined(separator: ", ")
            + (request.subscriptionIdentifier == 0 ? "" : " by \(request.subscriptionIdentifier)")
            + (request.omittedCount == 0 ? "" : ", \(request.omittedCount) omitted")
    case .unsubscribeReceived(_, let request):
        var walk = FilterWalk(request.filters, in: bytes)
        var filters: [String] = []
        while let filter = walk.next() { filters.append(text(filter)) }
        return "unsubscribe \(request.requestIdentifier) " + filters.joined(separator: ", ")
            + (request.omittedCount == 0 ? "" : ", \(request.omittedCount) omitted")
    case .presenceQueried(_, let identifier, let user):
        return "presence \(identifier) \(text(user))"
    case .historyRequested(_, let identifier, let request):
        let party = party(request.party)
        var end = request.before == .max ? "" : " before \(request.before)"
        let search = request.search
        if search.text.count + search.sender.count > 0 || search.since > 0 || search.until < .max {
            end += " with \"\(text(search.text))\" from \"\(text(search.sender))\""
            end += " since \(search.since) until \(search.until)"
        }
        return "history \(identifier): \(request.countMaximum) of \(party)\(end)"
    case .conversationsRequested(_, let identifier, let request):
        return "conversations \(identifier): \(request.countMaximum) after \(request.after)"
            + (request.isUnreadOnly ? " with unread messages" : "")
            + (request.wantsMessages ? " with newest messages" : "")
    case .markReadRequested(_, let identifier, let request):
        return "\(request.hides ? "hide" : "read") \(identifier): "
            + "\(party(request.party)) up to \(request.number)"
    case .appliedReported(_, let identifier, let request):
        return "applied \(identifier): \(request.reference), \(request.code) \(text(request.text))"
    case .wakeRequested(_, let identifier, let request):
        switch request {
        case .set(let device, let kind, let environment, let language, let address):
            return "wake \(identifier): '\(text(device))' \(kind) \(environment) "
                + "'\(text(language))' \(text(address))"
        case .list(let user, let maximum):
            return "wake list \(identifier): '\(text(user))' \(size(maximum))"
        case .remove(let user, let target):
            return "wake remove \(identifier): '\(text(user))' \(target)"
        case .report(let entries): return "wake report \(identifier): \(entries.count) bytes"
        }
    case .recallRequested(_, let identifier, let request):
        let message =
            switch request.message {
            case .reference(let reference): "\(reference)"
            case .messageIdentifier(let range): text(range)
            }
        let content = request.content.map { " with \(text($0.payload))" } ?? ""
        return "recall \(identifier): \(message) \"\(text(request.detail))\"\(content)"
    case .groupRequested(_, let identifier, let request):
        return "group \(identifier) \(line(request, text, names))"
    case .willSet(_, let identifier, let will):
        return "will \(identifier) \(line(will, text, names))"
    case .willCleared(_, let identifier): return "no will \(identifier)"
    case .requestFaulted(_, let identifier, let reason, _): return "faulted \(identifier) \(reason)"
    case .credentialPresented: return "new credential"
    case .credentialRefused(_, let reason): return "credential refused \(reason)"
    case .disconnectReceived(_, let request):
        let expiry = request.sessionExpirySeconds.map { ", expiry \($0)" } ?? ""
        return "disconnect" + (request.sendsWill ? " with will" : "") + expiry
    case .outgoingDrained: return "has read"
    case .deliveryTooLarge(_, let number): return "too large \(number)"
    case .peerFaulted(_, let reason): return "fault \(reason)"
    }

    func names(_ range: ByteRange) -> String {
        let run = Array(range.bytes(in: bytes))
        var (names, offset) = ([String](), 0)
        while offset < run.count {
            let end = offset + 1 + Int(run[offset])
            names.append(String(decoding: run[offset + 1..<end], as: UTF8.self))
            offset = end
        }
        return "[\(names.joined(separator: ","))]"
    }
}

private func line(
    _ will: WillRequest, _ text: (ByteRange) -> String, _ names: (ByteRange) -> String
) -> String {
    "after \(will.delaySeconds): \(line(will.message, text, names))"
}

private func line(
    _ request: ConnectRequest, _ text: (ByteRange) -> String, _ names: (ByteRange) -> String
) -> String {
    var words = ["connect"]
    switch request.claim {
    case .token(let identifier, _): words.append("token \(text(identifier))")
    case .appKey(let app, _, let user): words.append("app \(text(app)) user \(text(user))")
    case .anonymous(let user): words.append("anonymous \(text(user))")
    case .verified: words.append("verified")
    case .attached(let gateway, let user): words.append("\(text(user)) attached by \(gateway)")
    }
    words.append("device \(text(request.device))")
    words.append("keepalive \(request.keepAliveSeconds) window \(request.inboxWindow)")
    if request.startsClean { words.append("clean") }
    if request.dialect.isMQTT { words.append("\(request.dialect)") }
    if request.assignsDevice { words.append("nameless") }
    if request.pulls { words.append("pull") }
    if request.isReconnect { words.append("again") }
    if let expiry = request.sessionExpirySeconds { words.append("expiry \(expiry)") }
    if let resume = request.resume {
        words.append("resume \(String(resume.epoch, radix: 16)):\(resume.number)")
    }
    if let cookie = request.cookie { words.append("cookie \(String(cookie, radix: 16))") }
    if let outbox = request.outbox {
        words.append("outbox \(outbox.epoch):\(outbox.resultsSeen):\(outbox.highestUsed)")
    }
    words.append("\(request.newEpoch),\(request.newCookie)")
    if let will = request.will { words.append("will \(line(will, text, names))") }
    return words.joined(separator: " ")
}

private func line(
    _ request: SendRequest, _ text: (ByteRange) -> String, _ names: (ByteRange) -> String
) -> String {
    var words = ["#\(request.number) \(request.grade)"]
    if request.packetIdentifier > 0 { words.append("packet \(request.packetIdentifier)") }
    if request.isRetained { words.append("retained") }
    if request.isKept { words.append("kept") }
    if request.isNeverKept { words.append("never kept") }
    if request.isUndelivered { words.append("only") }
    if request.isLate { words.append("late") }
    if request.priority != .normal { words.append("\(request.priority) priority") }
    switch request.target {
    case .user(let user): words.append("to \(text(user))")
    case .users(let ids, let count): words.append("to \(count) \(names(ids))")
    case .group(let group): words.append("to group \(text(group))")
    case .everybody: words.append("to everybody")
    case .topic(let topic): words.append("on \(text(topic))")
    }
    if !request.messageIdentifier.isEmpty { words.append("id \(text(request.messageIdentifier))") }
    if let expiry = request.expirySeconds { words.append("expiry \(expiry)") }
    if request.senderUnixMilliseconds > 0 { words.append("time \(request.senderUnixMilliseconds)") }
    if !request.mentions.isEmpty {
        let options = request.mentions.options
        words.append(
            "mentions " + (options.contains(.all) ? "all " : "")
                + (options.contains(.only) ? "only " : "") + names(request.mentions.names))
    }
    if !request.attributes.isEmpty { words.append("attributes \(names(request.attributes))") }
    if !request.collapseKey.isEmpty { words.append("key \(text(request.collapseKey))") }
    words.append(
        request.isRaw ? "raw \(request.payload.count)" : "\(request.messageByteCount) bytes")
    if !request.properties.isEmpty { words.append("properties \(request.properties.count)") }
    if let fault = request.fault { words.append("fault \(fault)") }
    return words.joined(separator: " ")
}

private func line(
    _ request: GroupRequest, _ text: (ByteRange) -> String, _ names: (ByteRange) -> String
) -> String {
    switch request {
    case .create(let new):
        "create \(String(new.key, radix: 16)) '\(text(new.title))' '\(text(new.meta))' "
            + "\(new.allowed.map { "\($0.count) \(names($0.bytes))" } ?? "open") seed \(new.seed)"
    case .join(let group, let backlog):
        "join \(text(group))" + (backlog.map { " backlog \($0)" } ?? "")
    case .leave(let group): "leave \(text(group))"
    case .kick(let group, let user): "kick \(text(group)) \(text(user))"
    case .ban(let group, let user): "ban \(text(group)) \(text(user))"
    case .list(let after, let maximum): "list '\(text(after))' \(size(maximum))"
    case .describe(let group, let after, let maximum):
        "describe \(text(group)) '\(text(after))' \(size(maximum))"
    case .setMeta(let group, let meta): "meta \(text(group)) '\(text(meta))'"
    case .setAllowed(let group, let allowed):
        "allow \(text(group)) \(allowed.map { "\($0.count) \(names($0.bytes))" } ?? "open")"
    case .setHistory(let group, let history):
        "history \(text(group)) \(history.isKept ? "on" : "off") shown \(history.shownCount)"
    case .setWaking(let group, let wakes): "wake \(text(group)) \(wakes ? "on" : "off")"
    case .mute(let group, let isMuted): "mute \(text(group)) \(isMuted ? "on" : "off")"
    case .describeHistory(let group, let wantsMessage, let maximum):
        "history of \(text(group))" + (wantsMessage ? " with message, \(size(maximum))" : "")
    }
}

private func size(_ byteCount: Int) -> String {
    byteCount == .max ? "any" : "\(byteCount)"
}
