// Recalls and replacements of a device: those that it asks for, and those that it is told.

import BrokerTerms
import ClientCore
import Primitives
import WireFormat

extension SimulatedClient {
    /// Recalls one of the messages that its user has sent, or gives it new content.
    func revise() {
        guard isConnected, let message = oracle.takeRevisable(of: habits.user) else { return }
        let isRecall = context.revisionRandom.happens(perTenThousand: 6_000)
        var source = Array(oracle.sends[message].messageIdentifier.utf8)
        let named = MRT.SentMessage.messageIdentifier(
            ByteRange(offset: 0, count: source.count))
        if isRecall {
            guard let identifier = request(.recall, MRT.Recall(message: named), from: source)
            else { return }
            oracle.revising(message, content: nil)
            requests[identifier] = .revision(message: message, content: nil)
            return
        }
        let content = oracle.nextContent(of: message)
        let text = [0] + MessageText.make(message, content: content)
        let payload = ByteRange(offset: source.count, count: text.count)
        source += text
        let part = MRT.Replace(message: named, payload: payload)
        guard let identifier = request(.replace, part, from: source) else { return }
        oracle.revising(message, content: content)
        requests[identifier] = .revision(message: message, content: content)
    }

    /// Takes the answer to a recall or a replacement.
    func handle(_ response: MRT.Response, of message: Int, content: Int?) {
        switch response.reason {
        case .success: break
        case .topicNameInvalid, .serverBusy, .quotaExceeded: return
        default:
            return oracle.fail(
                .everySendIsAnswered, "a recall was refused: \(response.reason.name)",
                message: message, client: index)
        }
        let body = bytes(through: response.content.endOffset)
        let range = response.content.bytes(in: body)
        guard let result = try? MRT.RevisionResult(range.bytes) else {
            return oracle.fail(
                .recallsAreTrue, "an answer that cannot be read", message: message, client: index)
        }
        var late: [String] = []
        var walk = MRT.IdentifierList(result.lateUsers, in: range.bytes)
        while let name = walk.next() {
            late.append(String(decoding: name.bytes(in: range), as: UTF8.self))
        }
        oracle.revised(
            message, content: content, withdrawnCount: Int(result.withdrawnCount),
            lateCount: Int(result.lateCount), late: late, client: index)
    }

    /// Reads what a sender did with a message. The caller acknowledges it.
    func readRevision(_ deliver: MRT.Deliver, in bytes: RawSpan) {
        guard let session, let revision = MRT.Revision(deliver.kind, deliver.payload, in: bytes)
        else {
            oracle.fail(.recallsAreTold, "a recall that cannot be read", client: index)
            return
        }
        let identifier = revision.messageIdentifier.bytes(in: bytes).withUnsafeBytes {
            String(decoding: $0, as: UTF8.self)
        }
        oracle.revisionTold(
            identifier, isRecall: deliver.kind == .recall, number: deliver.number,
            session: session, client: index)
    }
}
