// A received message as one line: as text for people, or as JSON.

import CommandLineOptions
import FoundationEssentials
import JSON5
import MartletClient

/// Prints messages and stores the position in the inbox.
struct MessagePrinter {
    let isJSON: Bool
    let stateFile: InboxStateFile?

    /// Returns after the line is written and the position in the inbox is stored. The message may
    /// be acknowledged then.
    func print(_ message: IncomingMessage) throws(CommandFailure) {
        let line = isJSON ? json(message) : text(message)
        guard StandardStream.output.print(line) else {
            throw CommandFailure.output
        }
        if let record = message.record { try stateFile?.write(record) }
    }

    // MARK: - People

    /// `alice (unicast): hello`
    func text(_ message: IncomingMessage) -> String {
        var notes: [String]
        switch message.kind {
        case .unicast: notes = ["unicast"]
        case .broadcast: notes = ["broadcast"]
        case .group(let group): notes = ["group \(printable(group))"]
        case .topic(let topic): notes = ["topic \(printable(topic))"]
        case .kickedOut(let group): notes = ["kicked out of group \(printable(group))"]
        case .groupEvent(let group, let change):
            return "\(printable(message.from)) (group \(printable(group))): \(text(change))"
        case .presence(let event): notes = ["presence \(event)"]
        case .recall(let revision):
            return "\(printable(message.from)) (recall): \(text(revision))"
        case .update(let revision):
            return "\(printable(message.from)) (update): \(text(revision))"
        case .receipt(let receipt): return "\(printable(message.from)) (receipt): \(text(receipt))"
        case .brokerEvent(let json):
            return "\(printable(message.from)) (event of the broker): \(printable(json))"
        }
        let body: String
        switch message.content {
        case .text(let text, let type):
            body = printable(text)
            let names = ["", "image", "audio", "video", "html5"]
            if type > 0 { notes.append(type < names.count ? names[Int(type)] : "type \(type)") }
        case .bytes(let bytes):
            if let text = String(validating: bytes, as: UTF8.self) {
                body = printable(text)
            } else {
                body = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
                notes.append("hexadecimal")
            }
        }
        if message.isPossibleDuplicate { notes.append("possible duplicate") }
        if message.mention != nil { notes.append("mentions you") }
        if message.isLate { notes.append("late") }
        for (key, value) in message.attributes.sorted(by: { $0.key < $1.key }) {
            notes.append("\(printable(key))=\(printable(value))")
        }
        return "\(printable(message.from)) (\(notes.joined(separator: ", "))): \(body)"
    }

    /// `7a3c0f9e5b2d4861 delivered to pump`
    private func text(_ receipt: MessageReceipt?) -> String {
        guard let receipt else { return "of an unknown kind" }
        let name = receipt.messageID.map { " (\(printable($0)))" } ?? ""
        let fact =
            switch receipt.event {
            case .delivered(let device): "delivered" + suffix(" to ", device)
            case .applied(let device, let code, let text):
                "applied" + suffix(" by ", device) + (code == 0 ? "" : ", code \(code)")
                    + suffix(": ", text)
            case .counts(let group, let delivered, let applied, let failed, let members):
                "group \(printable(group)): "
                    + counts(delivered: delivered, applied: applied, failed: failed, of: members)
            case .other: "of an unknown kind"
            }
        return "\(receipt.reference)\(name) \(fact)"
    }

    /// `7a3c0f9e5b2d4861 (m-2), wrong valve: close`
    private func text(_ revision: MessageRevision?) -> String {
        guard let revision else { return "of an unknown kind" }
        var text = "\(revision.reference)"
        if let name = revision.messageID { text += " (\(printable(name)))" }
        if let group = revision.group { text += " to group \(printable(group))" }
        text += suffix(", ", revision.detail)
        if case .text(let body, _)? = revision.content { text += ": " + printable(body) }
        return text
    }

    /// Deliveries are not counted if only the answers were asked for.
    private func counts(
        delivered: UInt32, applied: UInt32, failed: UInt32, of members: UInt32
    ) -> String {
        applied > 0 && delivered == 0
            ? "\(applied) of \(members) applied, \(failed) failed"
            : "\(delivered) of \(members) delivered, \(applied) applied, \(failed) failed"
    }

    private func suffix(_ word: String, _ text: String) -> String {
        text.isEmpty ? "" : word + printable(text)
    }

    private func text(_ change: GroupChange) -> String {
        switch change {
        case .joined(let user): "\(printable(user)) joined"
        case .left(let user): "\(printable(user)) left"
        case .kicked(let user): "\(printable(user)) was kicked out"
        case .allowListUpdated(nil): "everybody may join"
        case .allowListUpdated(let users?):
            "may join: " + users.map(printable).joined(separator: ", ")
        case .metaUpdated(let meta): "meta \(printable(meta))"
        case .historyUpdated(let isKept, let shownCount):
            "history \(isKept ? "on" : "off"), \(shownCount) shown to new members"
        case .added(let notice):
            "you are a member" + (notice.title.isEmpty ? "" : " of \(printable(notice.title))")
        case .removed: "you are no member any more"
        case .other(let event): "event \(event)"
        }
    }

    // MARK: - Programs

    /// The message's own JSON members as they arrived, followed by those of the delivery. Not
    /// encoded again, so that numbers and texts stay as the sender wrote them.
    func json(_ message: IncomingMessage) -> String {
        var members: [String] = []
        if let json = message.json {
            members.append(String(json.dropFirst().dropLast()))
        } else if case .bytes(let bytes) = message.content {
            if case .topic = message.kind {
                members.append(#""bytes":"\#(Data(bytes).base64EncodedString())""#)
            }
            members.append(#""from":\#(JSONText.quoted(message.from)),"time":"\#(message.time)""#)
        }
        switch message.kind {
        case .unicast: members.append(#""kind":"unicast""#)
        case .broadcast: members.append(#""kind":"broadcast""#)
        case .group: members.append(#""kind":"group""#)
        case .topic(let topic):
            members.append(#""kind":"topic","topic":\#(JSONText.quoted(topic))"#)
        case .kickedOut(let group):
            members.append(#""kind":"kicked-out","groupid":\#(JSONText.quoted(group))"#)
        case .groupEvent(let group, let change):
            members.append(
                #""kind":"group-event",\#(json(change)),"groupid":\#(JSONText.quoted(group))"#)
        case .presence(let event): members.append(#""kind":"presence","event":\#(event)"#)
        case .recall(let revision):
            members.append(#""kind":"recall","event":"MESSAGE_RECALL"\#(json(revision))"#)
        case .update(let revision):
            members.append(#""kind":"update","event":"MESSAGE_UPDATE"\#(json(revision))"#)
        case .receipt(let receipt): members.append(#""kind":"receipt"\#(json(receipt))"#)
        case .brokerEvent(let json):
            members.append(#""kind":"brokerEvent","text":\#(JSONText.quoted(json))"#)
        }
        if let reference = message.reference { members.append(#""reference":"\#(reference)""#) }
        if !message.receipts.isEmpty {
            let words = message.receipts.words.map(JSONText.quoted)
            members.append(#""receipts":[\#(words.joined(separator: ","))]"#)
        }
        if let number = message.keptNumber { members.append(#""kept":\#(number)"#) }
        members.append(#""grade":"\#(message.grade.word)""#)
        if let record = message.record {
            let epoch = String(record.epoch, radix: 16)
            members.append(#""epoch":"\#(epoch)","number":\#(record.number)"#)
        }
        if message.isPossibleDuplicate { members.append(#""possibleDuplicate":true"#) }
        if !message.attributes.isEmpty {
            let attributes = message.attributes.sorted { $0.key < $1.key }.map {
                "\(JSONText.quoted($0.key)):\(JSONText.quoted($0.value))"
            }
            members.append(#""attributes":{\#(attributes.joined(separator: ","))}"#)
        }
        switch message.mention {
        case .byName: members.append(#""mentioned":"name""#)
        case .all: members.append(#""mentioned":"all""#)
        case nil: break
        }
        if message.isLate { members.append(#""isLate":true"#) }
        return "{\(members.joined(separator: ","))}"
    }
}

extension MessagePrinter {
    /// A receipt as JSON clients receive it (docs/JSON.md).
    private func json(_ receipt: MessageReceipt?) -> String {
        guard let receipt else { return "" }
        var members = ""
        switch receipt.event {
        case .delivered(let device):
            members = #","event":"delivered","device":\#(JSONText.quoted(device))"#
        case .applied(let device, let code, let text):
            members =
                #","event":"applied","device":\#(JSONText.quoted(device)),"code":\#(code)"#
                + #","text":\#(JSONText.quoted(text))"#
        case .counts(let group, let delivered, let applied, let failed, let count):
            members =
                #","event":"counts","group":\#(JSONText.quoted(group)),"delivered":\#(delivered)"#
                + #","applied":\#(applied),"failed":\#(failed),"members":\#(count)"#
        case .other: break
        }
        // Two names: `reference` is that of the other interfaces.
        members += #","reference":"\#(receipt.reference)","of":"\#(receipt.reference)""#
        if let name = receipt.messageID { members += #","mid":\#(JSONText.quoted(name))"# }
        return members
    }

    /// A recall or an update as JSON clients receive it.
    private func json(_ revision: MessageRevision?) -> String {
        guard let revision else { return "" }
        var members = #","of":"\#(revision.reference)""#
        if let name = revision.messageID { members += #","mid":\#(JSONText.quoted(name))"# }
        if let group = revision.group { members += #","group":\#(JSONText.quoted(group))"# }
        members += #","code":\#(revision.code),"detail":\#(JSONText.quoted(revision.detail))"#
        if case .text(let body, let type)? = revision.content {
            members += #","t":\#(type),"b":\#(JSONText.quoted(body))"#
        }
        return members
    }

    /// The events as MQTT clients receive them (docs/operating/mqtt.md), with the new values.
    private func json(_ change: GroupChange) -> String {
        switch change {
        case .joined(let user): #""event":"joined","user":\#(JSONText.quoted(user))"#
        case .left(let user): #""event":"left","user":\#(JSONText.quoted(user))"#
        case .kicked(let user): #""event":"kicked","user":\#(JSONText.quoted(user))"#
        case .allowListUpdated(nil): #""event":"allow-list-updated","allowed":null"#
        case .allowListUpdated(let users?):
            #""event":"allow-list-updated","allowed":"#
                + "[\(users.map(JSONText.quoted).joined(separator: ","))]"
        case .metaUpdated(let meta): #""event":"meta-updated","meta":\#(JSONText.quoted(meta))"#
        case .historyUpdated(let isKept, let shownCount):
            #""event":"history-updated","history":\#(isKept),"shown":\#(shownCount)"#
        case .added(let notice):
            #""event":"added","owner":\#(JSONText.quoted(notice.owner)),"#
                + #""title":\#(JSONText.quoted(notice.title)),"#
                + (notice.isCut ? #""isCut":true"# : #""meta":\#(JSONText.quoted(notice.meta))"#)
                + #","memberCount":\#(notice.memberCount)"#
        case .removed: #""event":"removed""#
        case .other(let event): #""event":\#(event)"#
        }
    }
}

/// Escapes a received text for a terminal: it can end no line and move no cursor.
func printable(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
        switch scalar.value {
        case 0...0x1F, 0x7F...0x9F, 0x2028...0x202E, 0x2066...0x2069:
            result += "\\u{\(String(scalar.value, radix: 16))}"
        default: result.unicodeScalars.append(scalar)
        }
    }
    return result
}

extension Receipts {
    /// As in JSON.
    var words: [String] {
        (contains(.delivered) ? ["delivered"] : []) + (contains(.applied) ? ["applied"] : [])
    }
}
