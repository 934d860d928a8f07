// Verdicts of a moderator: publications on topics that begin with `$verdict/`, with the number of
// the question. Any client can publish, so that no dialect needs a packet for it.
//
//     $verdict/NUMBER/accept
//     $verdict/NUMBER/refuse           the payload is a text for the sender; the code is -1
//     $verdict/NUMBER/refuse/CODE      a code below 0
//     $verdict/NUMBER/rewrite          the payload is the new content
//     $verdict/NUMBER/rewrite/CODE     a code above 0
//     $verdict/NUMBER/later            no decision is possible now: the sender may send it again
//
// The new content of a `t`/`b` message is its text. The first verdict on a message counts.

import BrokerTerms
import Primitives

extension Broker {
    private static let verdictLevel = Array("$verdict".utf8)

    /// Whether a publication of a moderator is a verdict.
    func isVerdict(_ request: SendRequest, in step: borrowing Step) -> Bool {
        guard case .topic(let topic) = request.target else { return false }
        return topic.bytes(in: step.bytes).starts(with: Self.verdictLevel + [UInt8(ascii: "/")])
    }

    /// Takes a verdict, and answers its publication.
    mutating func takeVerdict(
        _ request: SendRequest, from moderator: Index<Session>, in step: inout Step
    ) {
        if let reason = request.fault {
            refuse(request, from: moderator, reason, limit: request.faultCause, in: &step)
            return
        }
        guard let form = VerdictForm(request, in: step) else {
            counters.verdictsRefused += 1
            refuse(
                request, from: moderator, .payloadFormatInvalid, limit: .verdictForm, in: &step)
            return
        }
        let app = registry.users[sessions[moderator].user].app
        guard let queue = moderation.queue(ofQuestion: form.question),
            moderation[queue].app == app,
            let send = moderation.send(ofQuestion: form.question, in: queue)
        else {
            counters.verdictsLate += 1
            settleForgotten(form.question, ofApp: app)
            acknowledge(request, of: moderator, .noMatchingSubscribers, in: &step)
            return
        }
        workload.charge(
            moderation[queue].count / CoreLimits.looksPerWork
                + Int(request.payload.count) / CoreLimits.bytesPerWork)
        if case .rewritten(let content, _) = form.verdict {
            let limit = moderation.limit(of: queue, growingBy: content.count)
            let reason =
                send.fault(ofContent: content, limits) ?? (limit == .none ? nil : .quotaExceeded)
            if let reason {
                counters.verdictsRefused += 1
                refuse(
                    request, from: moderator, reason,
                    limit: reason == .quotaExceeded ? limit : .verdictForm, in: &step)
                return
            }
        }
        if form.verdict == .later { counters.moderatorSilences += 1 }
        if moderation.decide(form.question, in: queue, form.verdict) { arm(queue) }
        acknowledge(request, of: moderator, .sent, in: &step)
    }

    /// Answers a publication that is no message. It leaves no trace: a verdict that is sent again
    /// is late.
    private mutating func acknowledge(
        _ request: SendRequest, of sender: Index<Session>, _ reason: ReasonCode,
        in step: inout Step
    ) {
        if request.packetIdentifier > 0 {
            var entry = OutboxEntry(number: request.number, stamp: 0, grade: request.grade)
            entry.packetIdentifier = request.packetIdentifier
            entry.isComplete = true
            entry.reason = reason
            addPublication(entry, of: sender)
            reportInOrder(sender, in: &step)
        } else if request.number > 0 {
            let connection = liveConnection(of: sender)
            step.effects[connection.loop].appendResult(
                connection, number: request.number, reason: reason,
                messageIdentifier: request.messageIdentifier.bytes(in: step.bytes))
        }
    }
}

/// A verdict as it was published.
struct VerdictForm {
    let question: UInt64
    let verdict: Verdict

    /// Nil for a topic or a text that is not allowed.
    init?(_ request: SendRequest, in step: borrowing Step) {
        guard case .topic(let topic) = request.target else { return nil }
        let levels = Array(topic.bytes(in: step.bytes)).split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard (3...4).contains(levels.count),
            let number = UInt64(String(decoding: levels[1], as: UTF8.self)), number > 0
        else { return nil }
        var payload = Array(request.payload.bytes(in: step.bytes))
        // The type of a message says nothing here.
        if !request.isRaw { payload = Array(payload.dropFirst()) }
        let code = levels.count == 4 ? Int32(String(decoding: levels[3], as: UTF8.self)) : 0
        guard let code else { return nil }
        question = number
        switch String(decoding: levels[2], as: UTF8.self) {
        case "accept" where levels.count == 3 && payload.isEmpty: verdict = .accepted
        case "later" where levels.count == 3 && payload.isEmpty: verdict = .later
        case "refuse" where (levels.count == 3 || code < 0) && Self.isText(payload):
            verdict = .refused(VerdictNote(code: levels.count == 3 ? -1 : code, text: payload))
        case "rewrite" where levels.count == 3 || code > 0:
            verdict = .rewritten(content: payload, VerdictNote(code: code))
        default: return nil
        }
    }

    /// Whether a text can be told to a sender.
    private static func isText(_ bytes: [UInt8]) -> Bool {
        bytes.count <= CoreLimits.verdictTextBytesMaximum
            && String(validating: bytes, as: UTF8.self) != nil
            && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }
}
