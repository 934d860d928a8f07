// Recalls, replacements and collapse keys in the tests' world.

import BrokerTerms
import Primitives

@testable import BrokerCore

extension World {
    /// A recall, or a replacement if there is a text.
    func recall(
        _ name: String, _ reference: UInt64 = 0, id: String = "", with text: String? = nil,
        detail: String = "", byteCount: UInt32? = nil, request identifier: UInt64? = nil
    ) {
        var bytes = World.preceding
        let message: RecallRequest.Message =
            id.isEmpty ? .reference(reference) : .messageIdentifier(bytes.appendRange(id))
        var request = RecallRequest(message: message, detail: bytes.appendRange(detail))
        if let text {
            request.content = RecallRequest.Content(
                payload: bytes.appendRange("\0" + text),
                messageByteCount: byteCount ?? UInt32(text.utf8.count) + 16)
        }
        step(
            .recallRequested(
                connections[name]!, requestIdentifier: identifier ?? freeRequest(name), request),
            bytes: bytes)
    }

    /// What the last answer says: how many were withdrawn, and who is late.
    var lastRecall: String {
        let body = lastAnswer
        let answer = RecallAnswer(decoding: body.span.bytes)
        let names = answer.names.map { String(decoding: $0, as: UTF8.self) }
        return "\(answer.withdrawn) withdrawn, \(answer.late) late"
            + (names.isEmpty ? "" : ": \(names.joined(separator: ", "))")
    }

    /// A send with a collapse key.
    func sendCollapsing(
        _ name: String, _ number: UInt64, to target: Target, _ text: String, key: String,
        grade: Grade = .durable
    ) {
        var bytes = World.preceding
        var request = SendRequest(
            number: number, grade: grade, target: target.append(to: &bytes),
            payload: bytes.appendRange("\0" + text),
            messageByteCount: UInt32(text.utf8.count) + 16)
        request.collapseKey = bytes.appendRange(key)
        request.reference = 0xA0 + number
        step(.sendReceived(connections[name]!, request), bytes: bytes)
    }

    /// Commits, and lets what is due follow, until nothing is left.
    func settleAll() {
        repeat {
            settle()
            pass(milliseconds: 0)
        } while hasBatch
    }
}
