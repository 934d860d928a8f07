// The JSON of an event: the members that Standard Webhooks names, the event's id, and data with the
// names of docs/JSON.md.

import CommandLineOptions
import MartletClient
import WireFormat

enum EventBody {
    /// The body of a request with one event.
    ///
    /// - Parameter user: the relay's own user.
    static func encode(_ event: WebhookEvent, identifier: String, user: String) -> [UInt8] {
        var writer = JSONWriter()
        let message = event.message
        writer.write("id", string: identifier)
        writer.write("type", string: event.kind.rawValue)
        writer.write("timestamp", string: LogTime.text(unixMilliseconds: message.time))
        writer.write(
            "data",
            object: { data in
                data.write("user", string: user)
                data.write("from", string: message.from)
                data.write("time", message.time)
                data.write("grade", string: "\(message.grade)")
                if message.isPossibleDuplicate { data.write("isDuplicate", true) }
                write(event, to: &data)
                write(fieldsOf: message, to: &data)
            })
        return writer.end()
    }

    /// The body of a request with several events, in order.
    static func encode(batch bodies: [[UInt8]], unixMilliseconds: UInt64) -> [UInt8] {
        let time = LogTime.text(unixMilliseconds: unixMilliseconds)
        let head = #"{"type":"batch","timestamp":"\#(time)","data":{"events":["#
        return Array(head.utf8) + bodies.joined(separator: CollectionOfOne(UInt8(ascii: ",")))
            + Array("]}}".utf8)
    }

    private static func write(_ event: WebhookEvent, to data: inout JSONWriter) {
        switch event.message.kind {
        case .unicast, .broadcast: write(event.message.content, to: &data)
        case .group(let group):
            data.write("group", string: group)
            write(event.message.content, to: &data)
        case .topic where event.kind == .presenceChanged: writePresence(event, to: &data)
        case .topic(let topic):
            data.write("topic", string: topic)
            write(event.message.content, to: &data)
        case .kickedOut(let group): data.write("group", string: group)
        case .groupEvent(let group, let change):
            data.write("group", string: group)
            write(change, to: &data)
        case .presence: data.write("subject", string: event.subject)
        case .receipt(let receipt): if let receipt { write(receipt, to: &data) }
        case .recall(let revision), .update(let revision):
            if let revision { write(revision, to: &data) }
        case .brokerEvent(let json): data.write("details", raw: json.utf8Span.span.bytes)
        }
    }

    private static func write(_ content: MessageContent, to data: inout JSONWriter) {
        switch content {
        case .text(let text, let type):
            data.write("t", UInt64(type))
            data.write("b", string: text)
        case .bytes(let bytes): data.write(text: "payload", orBase64: "base64", bytes.span.bytes)
        }
    }

    /// The payload is `online` or `offline`, then a space and the device if it has a name.
    private static func writePresence(_ event: WebhookEvent, to data: inout JSONWriter) {
        data.write("subject", string: event.subject)
        guard case .bytes(let bytes) = event.message.content else { return }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ", maxSplits: 1)
        data.write("isOnline", words.first == "online")
        if words.count == 2 { data.write("device", string: String(words[1])) }
    }

    private static func write(_ change: GroupChange, to data: inout JSONWriter) {
        switch change {
        case .joined(let user):
            data.write("event", string: "joined")
            data.write("member", string: user)
        case .left(let user):
            data.write("event", string: "left")
            data.write("member", string: user)
        case .kicked(let user):
            data.write("event", string: "kicked")
            data.write("member", string: user)
        case .allowListUpdated(let users):
            data.write("event", string: "allow-list-updated")
            if let users {
                data.write(
                    "allowed",
                    list: { list in
                        for user in users { list.append(Array(user.utf8).span.bytes) }
                    })
            }
        case .metaUpdated(let meta):
            data.write("event", string: "meta-updated")
            data.write("meta", string: meta)
        case .historyUpdated(let isKept, let shownCount):
            data.write("event", string: "history-updated")
            data.write("history", isKept)
            data.write("shown", UInt64(shownCount))
        case .added(let notice):
            data.write("event", string: "added")
            data.write("owner", string: notice.owner)
            data.write("title", string: notice.title)
            data.write("meta", string: notice.meta)
            data.write("memberCount", UInt64(clamping: notice.memberCount))
            if notice.isCut { data.write("isCut", true) }
        case .removed: data.write("event", string: "removed")
        case .other(let event): data.write("event", UInt64(event))
        }
    }

    private static func write(_ receipt: MessageReceipt, to data: inout JSONWriter) {
        data.write("reference", string: receipt.reference.description)
        if let identifier = receipt.messageID { data.write("mid", string: identifier) }
        switch receipt.event {
        case .delivered(let device):
            data.write("event", string: "delivered")
            data.write("device", string: device)
        case .applied(let device, let code, let text):
            data.write("event", string: "applied")
            data.write("device", string: device)
            data.write("code", UInt64(code))
            if !text.isEmpty { data.write("text", string: text) }
        case .counts(let group, let delivered, let applied, let failed, let members):
            data.write("event", string: "counts")
            data.write("group", string: group)
            data.write("delivered", UInt64(delivered))
            data.write("applied", UInt64(applied))
            data.write("failed", UInt64(failed))
            data.write("memberCount", UInt64(members))
        case .other: data.write("event", string: "other")
        }
    }

    private static func write(_ revision: MessageRevision, to data: inout JSONWriter) {
        data.write("reference", string: revision.reference.description)
        if let identifier = revision.messageID { data.write("mid", string: identifier) }
        if let group = revision.group { data.write("group", string: group) }
        data.write("code", UInt64(revision.code))
        if !revision.detail.isEmpty { data.write("detail", string: revision.detail) }
        if let content = revision.content { write(content, to: &data) }
    }

    /// What few messages have.
    private static func write(fieldsOf message: IncomingMessage, to data: inout JSONWriter) {
        if !message.attributes.isEmpty {
            let attributes = message.attributes.sorted { $0.key < $1.key }
            data.write(
                "attributes",
                object: { object in
                    for (key, value) in attributes {
                        object.write(
                            key: Array(key.utf8).span.bytes, Array(value.utf8).span.bytes)
                    }
                })
        }
        switch message.mention {
        case .byName: data.write("mentioned", string: "name")
        case .all: data.write("mentioned", string: "all")
        case nil: break
        }
        if message.isLate { data.write("isLate", true) }
        if let number = message.keptNumber { data.write("kept", number) }
        if let reference = message.reference {
            switch message.kind {
            // Theirs is that of the message that they are about.
            case .receipt, .recall, .update: break
            default: data.write("reference", string: reference.description)
            }
        }
        if !message.receipts.isEmpty {
            data.write(
                "receipts",
                list: { list in
                    let names = [(Receipts.delivered, "delivered"), (.applied, "applied")]
                    for (receipt, name) in names where message.receipts.contains(receipt) {
                        list.append(Array(name.utf8).span.bytes)
                    }
                })
        }
    }
}

extension JSONWriter {
    fileprivate mutating func write(_ name: StaticString, string text: String) {
        write(name, Array(text.utf8).span.bytes)
    }
}
