// Messages that are recalled or replaced by operators and by the holders of keys and tokens.
//
// A message to a large group takes several commits. The request waits again after each of them, so
// that others have their turns.

import Administration
import BrokerCore
import BrokerTerms
import Glibc
import Primitives
import WireFormat

extension AdministrationService {
    /// Commits for which a request on the administration socket waits: others wait for it. A
    /// message to a group of up to tens of thousands of members is done then.
    private static let socketCommitsMaximum = 64
    /// A pause before the result is looked for again, if no commit is under way.
    private static let pauseMicroseconds: UInt32 = 1_000

    func recall(_ request: RecallMessage) throws(AdministrationRefusal) -> MessageRevision {
        try revise(Revision(request))
    }

    func replace(_ request: ReplaceMessage) throws(AdministrationRefusal) -> MessageRevision {
        try revise(Revision(request))
    }

    private func revise(_ revision: Revision) throws(AdministrationRefusal) -> MessageRevision {
        let number: UInt64
        switch try begin(revision, by: nil) {
        case .complete(let result): return try reply(to: revision, with: result)
        case .pending(let pending): number = pending
        }
        for _ in 0..<Self.socketCommitsMaximum {
            if let result = awaitResult(ofRecall: number) {
                return try reply(to: revision, with: result)
            }
        }
        shared.enter { $0.broker.forgetResult(ofOperatorRecall: number) }
        throw AdministrationRefusal(
            .serverBusy,
            "the group is large, and the recall goes on; repeat a recall later to read its counts",
            cause: .underWay)
    }

    /// Begins a request of the HTTP API, or looks for its result.
    ///
    /// - Returns: the answer; nil if the request waits again.
    func advance(
        _ command: AdministrationCommand, of request: APIRequest, by credential: APICredential
    ) throws(AdministrationRefusal) -> [UInt8]? {
        guard let revision = try Revision(command) else {
            preconditionFailure("\(command.kind.rawValue) revises no message")
        }
        let number: UInt64
        if let recall = request.recall {
            number = recall.number
        } else {
            switch try begin(revision, by: credential) {
            case .complete(let result):
                return command.object(revised: try reply(to: revision, with: result))
            case .pending(let pending): number = pending
            }
        }
        if let result = awaitResult(ofRecall: number) {
            return command.object(revised: try reply(to: revision, with: result))
        }
        var waiting = request
        waiting.recall = BegunRecall(place: place, number: number)
        requests.addAgain(waiting)
        return nil
    }

    private func begin(
        _ revision: Revision, by credential: APICredential?
    ) throws(AdministrationRefusal) -> OperatorRecall {
        let sender = try sender(revision.user, ofApp: revision.app, by: credential)
        let moment = clock.moment()
        let recall = shared.enter { state in
            state.broker.recall(
                revision.request, in: revision.bytes, as: sender, at: moment,
                effects: &state.effects)
        }
        guard let recall else {
            guard shared.enter({ $0.broker.hasApp(sender.app) }) else {
                throw unknownApp(revision.app)
            }
            throw Self.unknownUser(revision.user, revision.app)
        }
        return recall
    }

    /// Waits for the commit that is pending, and takes the result if that was the last one.
    private func awaitResult(ofRecall number: UInt64) -> OperatorRecallResult? {
        let (early, sequence) = shared.enter { state in
            (
                state.broker.takeResult(ofOperatorRecall: number), state.broker.pendingSequence
            )
        }
        if let early { return early }
        shared.waitForCommit(of: sequence)
        if let result = shared.enter({ $0.broker.takeResult(ofOperatorRecall: number) }) {
            return result
        }
        usleep(Self.pauseMicroseconds)
        return nil
    }

    private func reply(
        to revision: Revision, with result: OperatorRecallResult
    ) throws(AdministrationRefusal) -> MessageRevision {
        if let answer = result.answer, !result.reason.isFailure {
            return MessageRevision(
                withdrawnCount: answer.withdrawn, lateCount: answer.late,
                lateUsers: answer.names.map { String(decoding: $0, as: UTF8.self) })
        }
        let message =
            switch result.cause {
            case .recallsOff: "apps.\(revision.app).recall is false"
            case .none: "refused: \(result.reason.name)"
            case let cause: String(decoding: cause.text, as: UTF8.self)
            }
        let cause: AdministrationRefusal.Cause? =
            switch result.reason {
            case .topicNameInvalid: .unknown
            case .notAuthorized: .forbidden
            case .serverBusy: .underWay
            case .quotaExceeded: .full
            default: nil
            }
        throw AdministrationRefusal(
            result.reason.isFailure ? result.reason : .unspecifiedError, message, cause: cause)
    }
}

/// A recall or a replacement as the core reads it: a request, and the bytes that its ranges refer
/// to.
private struct Revision {
    let app: String
    let user: String
    let request: RecallRequest
    private(set) var bytes: [UInt8] = []

    /// Nil for another command.
    init?(_ command: AdministrationCommand) throws(AdministrationRefusal) {
        switch command {
        case .recallMessage(let request): self = try Revision(request)
        case .replaceMessage(let request): self = try Revision(request)
        default: return nil
        }
    }

    init(_ recall: RecallMessage) throws(AdministrationRefusal) {
        (app, user) = (recall.app, recall.from)
        var bytes: [UInt8] = []
        request = try Self.request(recall, in: &bytes)
        self.bytes = bytes
    }

    init(_ replace: ReplaceMessage) throws(AdministrationRefusal) {
        (app, user) = (replace.app, replace.from)
        let recall = RecallMessage(
            app: replace.app, from: replace.from, reference: replace.reference, mid: replace.mid,
            detail: replace.detail)
        var bytes: [UInt8] = []
        var request = try Self.request(recall, in: &bytes)
        let payload = [replace.t ?? 0] + Array(replace.b.utf8)
        request.content = RecallRequest.Content(
            payload: ByteRange(offset: bytes.count, count: payload.count),
            messageByteCount: UInt32(TextBody.minimalJSONByteCount(payload.span.bytes) ?? 0))
        bytes += payload
        self.request = request
        self.bytes = bytes
    }

    private static func request(
        _ recall: RecallMessage, in bytes: inout [UInt8]
    ) throws(AdministrationRefusal) -> RecallRequest {
        func append(_ text: String) -> ByteRange {
            let text = Array(text.utf8)
            bytes += text
            return ByteRange(offset: bytes.count - text.count, count: text.count)
        }
        let message: RecallRequest.Message
        switch (recall.reference, recall.mid) {
        case (let digits?, nil):
            guard let reference = UInt64(hexadecimal: Array(digits.utf8).span.bytes), reference != 0
            else {
                throw AdministrationRefusal(
                    .malformedPacket, "reference has 16 hexadecimal digits, not all 0")
            }
            message = .reference(reference)
        case (nil, let identifier?):
            guard TextRules.isMessageIdentifier(Array(identifier.utf8).span.bytes) else {
                throw AdministrationRefusal(
                    .payloadFormatInvalid,
                    "mid has 1 to \(SendMessage.identifierByteCountMaximum) bytes without control "
                        + "characters")
            }
            message = .messageIdentifier(append(identifier))
        case (nil, nil), (_?, _?):
            throw AdministrationRefusal(
                .malformedPacket, "missing message: exactly one of reference and mid")
        }
        let detail = recall.detail ?? ""
        guard detail.utf8.count <= RecallMessage.detailByteCountMaximum,
            TextRules.isGroupTitle(Array(detail.utf8).span.bytes)
        else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "detail has at most \(RecallMessage.detailByteCountMaximum) bytes without control "
                    + "characters")
        }
        return RecallRequest(message: message, detail: append(detail))
    }
}

extension AdministrationCommand {
    /// Whether it recalls or replaces a message.
    var revisesMessage: Bool { kind == .recallMessage || kind == .replaceMessage }

    /// The reply to it as an object.
    fileprivate func object(revised reply: MessageRevision) -> [UInt8] {
        switch self {
        case .recallMessage(let request): request.object(replying: reply)
        case .replaceMessage(let request): request.object(replying: reply)
        default: preconditionFailure("\(kind.rawValue) revises no message")
        }
    }
}
