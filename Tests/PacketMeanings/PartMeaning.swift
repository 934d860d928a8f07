// Describes parameters, results and group events in the words of Tests/Vectors/mrt-parts.txt, and
// encodes the decoded values again.

import Primitives

import WireFormat

/// Decodes a part: the parameters (from the client) or the result of the operation `part`, or the
/// payload of an `event`.
package func understandPart(_ bytes: [UInt8], of part: Substring, isFromClient: Bool) -> Meaning {
    bytes.withUnsafeBytes { bytes in
        do throws(WireError) {
            if part == "event" { return try understandEvent(bytes) }
            let operation = MRT.Operation(rawValue: UInt8(part)!)!
            return isFromClient
                ? try understandParameters(of: operation, bytes)
                : try understandResult(of: operation, bytes)
        } catch {
            return Meaning(text: "error=\(word(error))")
        }
    }
}

private func meaning(
    _ part: some RequestPart, in bytes: UnsafeRawBufferPointer, _ words: String?...
) -> Meaning {
    Meaning(
        text: words.compactMap(\.self).joined(separator: " "),
        encoded: PacketMeanings.bytes(count: part.byteCount) {
            part.write(to: &$0, from: bytes.bytes)
        })
}

private func understandParameters(
    of operation: MRT.Operation, _ bytes: UnsafeRawBufferPointer
) throws(WireError) -> Meaning {
    func text(_ name: String, _ range: ByteRange) -> String { "\(name)=" + escape(range, bytes) }
    func party(_ party: MRT.ConversationParty) -> String {
        switch party {
        case .user(let name): text("user", name)
        case .group(let name): text("group", name)
        case .topic(let name): text("topic", name)
        }
    }
    func sentMessage(_ message: MRT.SentMessage) -> String {
        switch message {
        case .reference(let reference): "reference=\(fixed8(reference))"
        case .messageIdentifier(let identifier): text("messageid", identifier)
        }
    }
    switch operation {
    case .setWill:
        let will = try MRT.Will(bytes.bytes)
        return meaning(
            will, in: bytes, "delay=\(will.delaySeconds)", mark("raw", will.isRaw),
            words(will.target, bytes), text("payload", will.payload))
    case .groupCreate:
        let create = try MRT.GroupCreate(bytes.bytes)
        return meaning(
            create, in: bytes, "key=" + fixed8(create.key), text("title", create.title),
            text("meta", create.meta), words(create.allowList, bytes))
    case .groupJoin:
        let join = try MRT.GroupJoin(bytes.bytes)
        return meaning(
            join, in: bytes, text("group", join.group), join.backlog.map { "backlog=\($0)" })
    case .groupLeave:
        let name = try MRT.GroupName(bytes.bytes)
        return meaning(name, in: bytes, text("group", name.group))
    case .groupKick, .groupBan:
        let member = try MRT.GroupMember(bytes.bytes)
        return meaning(member, in: bytes, text("group", member.group), text("user", member.user))
    case .groupList:
        let query = try MRT.GroupListQuery(bytes.bytes)
        return meaning(query, in: bytes, text("after", query.after))
    case .groupDescribe:
        let query = try MRT.GroupQuery(bytes.bytes)
        return meaning(query, in: bytes, text("group", query.group), text("after", query.after))
    case .groupSetMeta:
        let change = try MRT.GroupSetMeta(bytes.bytes)
        return meaning(change, in: bytes, text("group", change.group), text("meta", change.meta))
    case .groupSetAllowList:
        let change = try MRT.GroupSetAllowList(bytes.bytes)
        return meaning(
            change, in: bytes, text("group", change.group), words(change.allowList, bytes))
    case .history:
        let query = try MRT.HistoryQuery(bytes.bytes)
        return meaning(
            query, in: bytes, party(query.party),
            query.before == 0 ? nil : "before=\(query.before)",
            "count=\(query.count)", mark("fields", query.wantsFields))
    case .searchHistory:
        let search = try MRT.HistorySearchQuery(bytes.bytes)
        return meaning(
            search, in: bytes, party(search.query.party),
            search.query.before == 0 ? nil : "before=\(search.query.before)",
            "count=\(search.query.count)", mark("fields", search.query.wantsFields),
            text("from", search.from), "since=\(search.since)",
            "until=\(search.until)", text("text", search.text))
    case .conversations:
        let query = try MRT.ConversationQuery(bytes.bytes)
        return meaning(
            query, in: bytes, query.after == 0 ? nil : "after=\(query.after)",
            mark("unread", query.isUnreadOnly), mark("messages", query.wantsMessages),
            "count=\(query.count)")
    case .markRead, .hideHistory:
        let mark = try MRT.ReadMark(bytes.bytes)
        return meaning(mark, in: bytes, party(mark.party), "number=\(mark.number)")
    case .groupSetHistory:
        let change = try MRT.GroupSetHistory(bytes.bytes)
        return meaning(
            change, in: bytes, text("group", change.group), mark("kept", change.isKept),
            "shown=\(change.shownCount)")
    case .groupHistory:
        let query = try MRT.GroupHistoryQuery(bytes.bytes)
        return meaning(
            query, in: bytes, text("group", query.group), mark("message", query.wantsMessage))
    case .applied:
        let applied = try MRT.Applied(bytes.bytes)
        return meaning(
            applied, in: bytes, "reference=\(fixed8(applied.reference))", "code=\(applied.code)",
            text("text", applied.text))
    case .recall:
        let recall = try MRT.Recall(bytes.bytes)
        return meaning(
            recall, in: bytes, sentMessage(recall.message), text("detail", recall.detail))
    case .replace:
        let replace = try MRT.Replace(bytes.bytes)
        return meaning(
            replace, in: bytes, sentMessage(replace.message), text("detail", replace.detail),
            text("payload", replace.payload))
    case .setWakeTarget:
        let target = try MRT.WakeTarget(bytes.bytes)
        return meaning(target, in: bytes, words(target, bytes))
    case .listWakeTargets:
        let query = try MRT.WakeTargetQuery(bytes.bytes)
        return meaning(query, in: bytes, text("user", query.user))
    case .groupSetWake, .groupMute:
        let flag = try MRT.GroupFlag(bytes.bytes)
        return meaning(flag, in: bytes, text("group", flag.group), mark("set", flag.isSet))
    case .removeWakeTarget:
        let name = try MRT.WakeTargetName(bytes.bytes)
        return meaning(name, in: bytes, text("user", name.user), "id=\(name.identifier)")
    case .reportWakes:
        let list = try MRT.WakeReportList(bytes.bytes)
        var entries: [String] = []
        list.forEach(in: bytes.bytes) { entries.append(words($0, bytes)) }
        return meaning(list, in: bytes, entries.joined(separator: "; "))
    case .subscribe, .unsubscribe, .clearWill, .presence:
        preconditionFailure("whole packets show these")
    }
}

private func understandResult(
    of operation: MRT.Operation, _ bytes: UnsafeRawBufferPointer
) throws(WireError) -> Meaning {
    switch operation {
    case .groupCreate:
        return Meaning(
            text: "group=" + escape(ByteRange(offset: 0, count: bytes.count), bytes),
            encoded: Array(bytes))
    case .groupList:
        let list = try MRT.GroupList(bytes.bytes)
        var groups = MRT.GroupEntryList(list.entries, in: bytes.bytes)
        var entries: [String] = []
        while let group = groups.next() {
            let names = "group=\(escape(group.group, bytes)),\(escape(group.title, bytes))"
            entries.append(names + (group.isOwn ? ",own" : ""))
        }
        return meaning(
            list, in: bytes, mark("more", list.hasMore),
            entries.isEmpty ? nil : entries.joined(separator: " "))
    case .groupDescribe:
        let group = try MRT.GroupDescription(bytes.bytes)
        return meaning(
            group, in: bytes, mark("more", group.hasMoreMembers),
            mark("limited", group.hasAllowList),
            mark("own", group.isOwn), "owner=" + escape(group.owner, bytes),
            "title=" + escape(group.title, bytes), "count=\(group.memberCount)",
            "meta=" + escape(group.meta, bytes), "members=" + names(group.members, bytes))
    case .history, .searchHistory:
        let page = try MRT.HistoryPage(bytes.bytes)
        var walk = MRT.HistoryEntryList(page, in: bytes.bytes)
        var entries: [String] = []
        while let entry = walk.next() { entries.append(words(entry, bytes)) }
        return meaning(
            page, in: bytes, page.next == 0 ? nil : "next=\(page.next)",
            entries.isEmpty ? nil : entries.joined(separator: " "))
    case .conversations:
        // The request says whether there are messages; a list without them is none with them.
        let hasMessages = (try? MRT.ConversationList(bytes.bytes)) == nil
        let list = try MRT.ConversationList(bytes.bytes, hasMessages: hasMessages)
        var walk = MRT.ConversationEntryList(
            list.entries, in: bytes.bytes, hasMessages: hasMessages)
        var entries: [String] = []
        while let entry = walk.next() {
            let name = escape(entry.party.name, bytes)
            let kind = if case .group = entry.party { "group" } else { "user" }
            entries.append(
                "\(kind)=\(name),\(entry.lastNumber),\(entry.readThrough),\(entry.unreadCount)"
                    + words(entry.newest, bytes))
        }
        return meaning(
            list, in: bytes, list.next == 0 ? nil : "next=\(list.next)",
            entries.isEmpty ? nil : entries.joined(separator: " "))
    case .groupHistory:
        let history = try MRT.GroupHistory(bytes.bytes)
        return meaning(
            history, in: bytes, mark("kept", history.isKept), "shown=\(history.shownCount)",
            "last=\(history.lastNumber)" + words(history.newest, bytes))
    case .recall, .replace:
        let result = try MRT.RevisionResult(bytes.bytes)
        return meaning(
            result, in: bytes, "withdrawn=\(result.withdrawnCount)", "late=\(result.lateCount)",
            "users=" + names(result.lateUsers, bytes))
    case .setWakeTarget:
        let result = try MRT.WakeTargetIdentifier(bytes.bytes)
        return meaning(result, in: bytes, "id=\(result.identifier)")
    case .listWakeTargets:
        let list = try MRT.WakeTargetList(bytes.bytes)
        var entries: [String] = []
        list.forEach(in: bytes.bytes) {
            entries.append("id=\($0.identifier) " + words($0.target, bytes))
        }
        return meaning(list, in: bytes, entries.joined(separator: "; "))
    default: preconditionFailure("an operation without a result of its own")
    }
}

private func understandEvent(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> Meaning {
    guard let event = try MRT.GroupEvent(bytes.bytes) else {
        return Meaning(text: "unknown", encoded: Array(bytes))
    }
    let text =
        switch event {
        case .joined(let user): "joined user=" + escape(user, bytes)
        case .left(let user): "left user=" + escape(user, bytes)
        case .kicked(let user): "kicked user=" + escape(user, bytes)
        case .allowListUpdated(let list): "allow-list " + words(list, bytes)
        case .metaUpdated(let meta): "meta meta=" + escape(meta, bytes)
        case .historyUpdated(let isKept, let shownCount):
            "history \(isKept ? "kept " : "")shown=\(shownCount)"
        case .added(let notice):
            "added \(notice.isCut ? "cut " : "")members=\(notice.memberCount) "
                + "owner=\(escape(notice.owner, bytes)) title=\(escape(notice.title, bytes)) "
                + "meta=\(escape(notice.meta, bytes))"
        case .removed: "removed"
        }
    return meaning(event, in: bytes, text)
}

private func words(_ entry: MRT.HistoryEntry, _ bytes: UnsafeRawBufferPointer) -> String {
    let (from, payload) = (escape(entry.from, bytes), escape(entry.payload, bytes))
    return "#\(entry.number),\(from),\(entry.time),\(payload)"
}

private func words(_ newest: MRT.NewestMessage?, _ bytes: UnsafeRawBufferPointer) -> String {
    guard let newest else { return "" }
    return "," + (newest.message.map { words($0, bytes) } ?? "none")
}

private func words(_ target: MRT.WakeTarget, _ bytes: UnsafeRawBufferPointer) -> String {
    "device=\(escape(target.device, bytes)) kind=\(target.kind) "
        + "environment=\(target.environment) language=\(escape(target.language, bytes)) "
        + "address=\(escape(target.address, bytes))"
}

private func words(_ report: MRT.WakeReport, _ bytes: UnsafeRawBufferPointer) -> String {
    "user=\(escape(report.user, bytes)) id=\(report.target) kind=\(report.kind) "
        + "step=\(report.step) time=\(report.time) number=\(report.number) "
        + "count=\(report.count) detail=\(escape(report.detail, bytes))"
}

private func words(_ list: MRT.AllowList, _ bytes: UnsafeRawBufferPointer) -> String {
    switch list {
    case .everybody: "everybody"
    case .only(let count, let ids): "allowed=" + names(ids, bytes, count: count)
    }
}
