// Effects as lines that a test can be read by: who is told what.

import BrokerTerms
import Primitives

@testable import BrokerCore

extension LoopEffects {
    /// One effect as a line, with the receiver's name in front.
    func line(_ effect: Effect, name: (ConnectionID) -> String) -> String {
        switch effect {
        case .accept(let connection, let acceptance):
            let presence = acceptance.isSessionPresent ? "present" : "new"
            return "\(name(connection)): accepted, \(presence)"
        case .refuse(let connection, let reason, let retryAfterSeconds):
            return "\(name(connection)): refused, \(reason)"
                + (retryAfterSeconds == 0 ? "" : ", after \(retryAfterSeconds) s")
        case .deliver(let delivery):
            return "\(name(delivery.connection)): \(text(of: delivery))"
        case .reportResult(let result):
            return "\(name(result.connection)): \(text(of: result))"
        case .mrt(.reportGroups(let connection, let identifier, let hasMore, let entries)):
            return "\(name(connection)): groups \(identifier)"
                + " \(entryNames(in: entries))\(hasMore ? " and more" : "")"
        case .mrt(.reportGroup(let connection, let identifier, let report)):
            return "\(name(connection)): group \(identifier), \(text(of: report))"
        case .mrt(.reportGroupHistory(let connection, let identifier, let report)):
            let history = report.history
            let newest = HistoryEntry.read(report.newest, in: bytes.bytes.bytes).first
            return "\(name(connection)): group history \(identifier), "
                + "\(history.isKept ? "on" : "off"), \(history.shownCount) shown, "
                + "last \(report.lastNumber)"
                + (report.wantsMessage ? text(NewestMessage(message: newest)) : "")
        case .mrt(.reportConversations(let connection, let identifier, let next, let entries)):
            let lines = ConversationEntry.read(entries, in: bytes.bytes.bytes).map {
                "\($0.isGroup ? "group " : "")\(text($0.name)) \($0.unreadCount) unread after "
                    + "\($0.readThrough) of \($0.lastNumber)" + ($0.newest.map { text($0) } ?? "")
            }
            return "\(name(connection)): conversations \(identifier) "
                + "[\(lines.joined(separator: ", "))]" + (next == 0 ? "" : " and more")
        case .mrt(.reportHistory(let connection, let identifier, let next, let entries, _, _)):
            let texts = HistoryEntry.read(entries, in: bytes.bytes.bytes).map { text($0) }
            return "\(name(connection)): history \(identifier) [\(texts.joined(separator: ", "))]"
                + (next == 0 ? "" : " before \(next)")
        case .mqtt(.answerPacket(let answer)):
            return "\(name(answer.connection)): \(answer.step) \(answer.packetIdentifier)"
                + (answer.reason == .success ? "" : ", \(answer.reason)")
                + (answer.messageIdentifier.isEmpty
                    ? "" : ", \(text(answer.messageIdentifier)) \(answer.result)")
                + (answer.refusedCount == 0 ? "" : ", refused \(answer.refusedCount)")
                + text(verdict(of: answer))
                + named(answer.firstRefusal, answer.namedRefusalCount)
        case .mqtt(.answerFilters(let answer)):
            return "\(name(answer.connection)): \(answer.request) \(answer.requestIdentifier)"
        case .mqtt(.dropReply(let connection, let identifier)):
            return "\(name(connection)): no reply \(identifier)"
        case .mrt(.respond(let connection, let identifier, let reason, _)):
            return "\(name(connection)): response \(identifier), \(reason)"
        case .mrt(.reportRecall(let connection, let identifier, _)):
            return "\(name(connection)): response \(identifier), success"
        case .mrt(.reportWakeTarget(let connection, let identifier, _)):
            return "\(name(connection)): wake target \(identifier)"
        case .mrt(.reportWakeTargets(let connection, let identifier, let entries)):
            return "\(name(connection)): wake targets \(identifier), \(entries.count) bytes"
        case .mrt(
            .reportPresence(
                let connection, let identifier, let isOnline, let since, let devices, _)):
            let state = isOnline ? "online" : "offline"
            return "\(name(connection)): presence \(identifier), \(state) since \(since)"
                + " on \(names(in: devices))"
        case .answerCredential(let connection, let reason):
            return "\(name(connection)): credential, \(reason)"
        case .confirmDisconnect(let connection):
            return "\(name(connection)): good-bye"
        case .awaitDrain(let connection):
            return "\(name(connection)): tell when it has read"
        case .pauseReading(let connection):
            return "\(name(connection)): held"
        case .resumeReading(let connection):
            return "\(name(connection)): read again"
        case .close(let connection, let reason):
            return "\(name(connection)): closed, \(reason)"
        case .note(let note):
            return "note: \(note.kind), \(text(note.user))/\(text(note.device)), \(note.reason)"
                + (note.subject.isEmpty ? "" : ", \(text(note.subject))")
                + (note.limit.isRule ? ", \(note.limit)" : "")
        }
    }

    /// `#3 "text" from ann`, and what is out of the ordinary about it.
    private func text(of delivery: Delivery) -> String {
        let publication = publications[Int(delivery.publication)]
        let block = MessageBlock(publication.block.bytes(in: bytes.bytes))
        let isEvent = block.kind == .groupEvent || block.kind == .kicked
        if block.kind == .brokerEvent {
            return "#\(delivery.number) \(String(decoding: block.payload, as: UTF8.self))"
        }
        if block.kind == .receipt { return "#\(delivery.number) \(receipt(block))" }
        if block.kind == .recall || block.kind == .update {
            return "#\(delivery.number) \(revision(block))"
        }
        // A message is told by its text, without its type; an event by its number and data.
        let skipsType = !isEvent && !block.marks.contains(.raw)
        let payload = skipsType ? block.payload.dropFirst() : block.payload[...]
        var line = delivery.number == 0 ? "#-" : "#\(delivery.number)"
        if isEvent {
            let event = payload.first.flatMap(GroupEvent.init)
            line += event.map { " \($0)" } ?? ""
            if event == .added { line += notice(Array(payload.dropFirst())) }
        } else {
            line += " \"\(String(decoding: payload, as: UTF8.self))\""
        }
        line += " from \(String(decoding: block.sender, as: UTF8.self))"
        let address = String(decoding: block.address, as: UTF8.self)
        switch block.kind {
        case .unicast: break
        case .topic: line += " on \(address)"
        default: line += " by \(block.kind)" + (address.isEmpty ? "" : " \(address)")
        }
        switch delivery.grade {
        case .transient: if delivery.number != 0 { line += ", transient" }
        case .durable: break
        case .once: line += ", once"
        }
        let fields = MessageFields(of: block)
        line += fields.text
        if fields.isLate { line += ", at \(block.time)" }
        if block.marks.contains(.low) { line += ", low" }
        if block.marks.contains(.high) { line += ", high" }
        if block.marks.contains(.possibleDuplicate) { line += ", possible duplicate" }
        if block.hasFields {
            let fields = MessageFields(of: block)
            if fields.reference != 0 { line += ", reference \(hexadecimal(fields.reference))" }
            if fields.receipts.contains(.delivered) { line += ", told delivered" }
            if fields.receipts.contains(.applied) { line += ", told applied" }
        }
        if delivery.options.contains(.retain) { line += ", retained" }
        if delivery.options.contains(.repeated) { line += ", again" }
        if let list = delivery.identifierList {
            let identifiers = identifierLists[list].sorted().map(String.init)
            line += ", by \(identifiers.joined(separator: " and "))"
        } else if delivery.subscriptionIdentifier > 0 {
            line += ", by \(delivery.subscriptionIdentifier)"
        }
        return line
    }

    /// ` to "title" {} of ann, 2 members, cut`.
    private func notice(_ data: [UInt8]) -> String {
        let count = data[1...4].reversed().reduce(0) { $0 << 8 | Int($1) }
        let title = 6 + Int(data[5])
        let meta = title + 1 + Int(data[title])
        func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
        return " to \"\(text(data[(title + 1)..<meta]))\" \(text(data[meta...]))"
            + " of \(text(data[6..<title])), \(count) members" + (data[0] == 1 ? ", cut" : "")
    }

    private func text(of result: SendResult) -> String {
        var line = "result \(result.number)"
        if !result.messageIdentifier.isEmpty { line += " (\(text(result.messageIdentifier)))" }
        line += ", \(result.reason)"
        if result.reference != 0 { line += ", reference \(hexadecimal(result.reference))" }
        if result.refusedCount > 0 {
            line += ", \(result.refusedCount) refused"
            line += named(result.firstRefusal, result.namedRefusalCount)
        }
        return line + text(verdict(of: result))
    }

    private func text(_ verdict: VerdictNote?) -> String {
        verdict.map {
            ", verdict \($0.code)"
                + ($0.text.isEmpty ? "" : " \"\(String(decoding: $0.text, as: UTF8.self))\"")
        } ?? ""
    }

    private func hexadecimal(_ reference: UInt64) -> String { String(reference, radix: 16) }

    /// `a1 (m-1) delivered to bob/pc`
    private func receipt(_ block: MessageBlock) -> String {
        var bytes = Array(block.payload)[...]
        func take(_ count: Int) -> [UInt8] {
            defer { bytes = bytes.dropFirst(count) }
            return Array(bytes.prefix(count))
        }
        func number(_ count: Int) -> UInt64 { take(count).reduce(0) { $0 << 8 | UInt64($1) } }
        func text() -> String { String(decoding: take(Int(number(1))), as: UTF8.self) }
        let (kind, reference, identifier) = (number(1), number(8), text())
        let name = identifier.isEmpty ? "" : " (\(identifier))"
        let user = String(decoding: block.sender, as: UTF8.self)
        var line = "\(hexadecimal(reference))\(name) "
        switch kind {
        case 1: line += "delivered to \(user)/\(text())"
        case 2:
            line += "applied by \(user)/\(text()), \(number(1))"
            line += " \"\(String(decoding: bytes, as: UTF8.self))\""
        default:
            _ = text()
            line += "delivered to \(number(4)), applied by \(number(4)), failed \(number(4))"
            line += " of \(number(4))"
        }
        return line
    }

    /// `recall of a1 (m-1) "wrong" by ann`, `update of a1 to "text" by ann in g`
    private func revision(_ block: MessageBlock) -> String {
        var bytes = Array(block.payload)[...]
        func take(_ count: Int) -> [UInt8] {
            defer { bytes = bytes.dropFirst(count) }
            return Array(bytes.prefix(count))
        }
        func number(_ count: Int) -> UInt64 { take(count).reduce(0) { $0 << 8 | UInt64($1) } }
        func text() -> String { String(decoding: take(Int(number(1))), as: UTF8.self) }
        let (reference, identifier) = (number(8), text())
        _ = number(1)
        let detail = text()
        var line = "\(block.kind) of \(hexadecimal(reference))"
        if !identifier.isEmpty { line += " (\(identifier))" }
        if !detail.isEmpty { line += " \"\(detail)\"" }
        if block.kind == .update {
            line += " to \"\(String(decoding: bytes.dropFirst(), as: UTF8.self))\""
        }
        line += " by \(String(decoding: block.sender, as: UTF8.self))"
        let address = String(decoding: block.address, as: UTF8.self)
        return line + (address.isEmpty ? "" : " in \(address)")
    }

    private func named(_ first: UInt32, _ count: UInt32) -> String {
        let named = refusals.elements[Int(first)..<Int(first + count)].map {
            "\($0.index): \($0.reason)"
        }
        return named.isEmpty ? "" : " [\(named.joined(separator: ", "))]"
    }

    /// `title` by ann, own, limited, 2 members [ann, bob] and more, meta {}`.
    private func text(of report: GroupReport) -> String {
        var line = "\"\(text(report.title))\" by \(text(report.owner))"
        if report.isOwn { line += ", own" }
        if report.hasAllowList { line += ", limited" }
        line += ", \(report.memberCount) \(names(in: report.members))"
        if report.hasMoreMembers { line += " and more" }
        return report.meta.isEmpty ? line : line + ", meta \(text(report.meta))"
    }

    /// Each group's id, `*` behind the user's own.
    private func entryNames(in range: ByteRange) -> String {
        let run = Array(range.bytes(in: bytes.bytes))
        var names: [String] = []
        var offset = 0
        while offset < run.count {
            let end = offset + 1 + Int(run[offset])
            let own = end + 1 + Int(run[end])
            names.append(
                String(decoding: run[offset + 1..<end], as: UTF8.self)
                    + (run[own] == 1 ? "*" : ""))
            offset = own + 1
        }
        return "[\(names.joined(separator: ", "))]"
    }

    private func names(in range: ByteRange) -> String {
        let list = Array(range.bytes(in: bytes.bytes))
        var names: [String] = []
        var offset = 0
        while offset < list.count {
            let end = offset + 1 + Int(list[offset])
            names.append(String(decoding: list[offset + 1..<end], as: UTF8.self))
            offset = end
        }
        return "[\(names.joined(separator: ", "))]"
    }

    /// `#3 text of ann`.
    private func text(_ entry: HistoryEntry) -> String {
        let block = MessageBlock(entry.block.bytes(in: bytes.bytes))
        let (content, sender) = (block.payload.dropFirst(), block.sender)
        return "#\(entry.number) \(String(decoding: content, as: UTF8.self)) of "
            + String(decoding: sender, as: UTF8.self)
    }

    private func text(_ newest: NewestMessage) -> String {
        ", newest " + (newest.message.map { text($0) } ?? "none")
    }

    private func text(_ range: ByteRange) -> String {
        String(decoding: range.bytes(in: bytes.bytes), as: UTF8.self)
    }
}
