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
    case .groupJoin, .groupLeave:
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
            "count=\(query.count)")
    case .searchHistory:
        let search = try MRT.HistorySearchQuery(bytes.bytes)
        return meaning(
            search, in: bytes, party(search.query.party),
            search.query.before == 0 ? nil : "before=\(search.query.before)",
            "count=\(search.query.count)", text("from", search.from), "since=\(search.since)",
            "until=\(search.until)", text("text", search.text))
    case .conversations:
        let query = try MRT.ConversationQuery(bytes.bytes)
        return meaning(
            query, in: bytes, query.after == 0 ? nil : "after=\(query.after)",
            mark("unread", query.isUnreadOnly), "count=\(query.count)")
    case .markRead, .hideHistory:
        let mark = try MRT.ReadMark(bytes.bytes)
        return meaning(mark, in: bytes, party(mark.party), "number=\(mark.number)")
    case .groupSetHistory:
        let change = try MRT.GroupSetHistory(bytes.bytes)
        return meaning(
            change, in: bytes, text("group", change.group), mark("kept", change.isKept),
            "shown=\(change.shownCount)")
    case .groupHistory:
        let name = try MRT.GroupName(bytes.bytes)
        return meaning(name, in: bytes, text("group", name.group))
    case .applied:
        let applied = try MRT.Applied(bytes.bytes)
        return meaning(
            applied, in: bytes, "reference=\(fixed8(applied.reference))", "code=\(applied.code)",
            text("text", applied.text))
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
        var walk = MRT.HistoryEntryList(page.entries, in: bytes.bytes)
        var entries: [String] = []
        while let entry = walk.next() {
            let from = escape(entry.from, bytes)
            entries.append("#\(entry.number),\(from),\(entry.time),\(escape(entry.payload, bytes))")
        }
        return meaning(
            page, in: bytes, page.next == 0 ? nil : "next=\(page.next)",
            entries.isEmpty ? nil : entries.joined(separator: " "))
    case .conversations:
        let list = try MRT.ConversationList(bytes.bytes)
        var walk = MRT.ConversationEntryList(list.entries, in: bytes.bytes)
        var entries: [String] = []
        while let entry = walk.next() {
            let name = escape(entry.party.name, bytes)
            let kind = if case .group = entry.party { "group" } else { "user" }
            entries.append(
                "\(kind)=\(name),\(entry.lastNumber),\(entry.readThrough),\(entry.unreadCount)")
        }
        return meaning(
            list, in: bytes, list.next == 0 ? nil : "next=\(list.next)",
            entries.isEmpty ? nil : entries.joined(separator: " "))
    case .groupHistory:
        let history = try MRT.GroupHistory(bytes.bytes)
        return meaning(
            history, in: bytes, mark("kept", history.isKept), "shown=\(history.shownCount)",
            "last=\(history.lastNumber)")
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
        }
    return meaning(event, in: bytes, text)
}

private func words(_ list: MRT.AllowList, _ bytes: UnsafeRawBufferPointer) -> String {
    switch list {
    case .everybody: "everybody"
    case .only(let count, let ids): "allowed=" + names(ids, bytes, count: count)
    }
}
