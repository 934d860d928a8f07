// What receivers tell about messages over the HTTP API and the admin socket.

import Administration
import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension AdministrationService {
    func report(
        _ request: ReportApplied
    ) throws(AdministrationRefusal) -> ReportApplied.Reply {
        let reference = try Self.reference(request.reference)
        if let device = request.device, !device.isEmpty {
            try Self.checkIdentifier(device, "device")
        }
        let text = Array((request.text ?? "").utf8)
        guard text.count <= ReceiptLimits.textByteCountMaximum,
            TextRules.isGroupTitle(text.span.bytes)
        else {
            throw AdministrationRefusal(.payloadFormatInvalid, "\(LimitName.appliedText.key)")
        }
        let moment = clock.moment()
        let outcome = changeAndCommit { state in
            state.broker.reportApplied(
                reference, code: request.code ?? 0, text: text, app: Array(request.app.utf8),
                user: Array(request.user.utf8), device: Array((request.device ?? "").utf8),
                at: moment, effects: &state.effects)
        }
        guard let outcome else {
            guard shared.enter({ $0.broker.hasApp(Array(request.app.utf8)) }) else {
                throw unknownApp(request.app)
            }
            throw Self.unknownUser(request.user, request.app)
        }
        guard outcome.reason == .success else {
            throw Self.refusal(outcome.reason, outcome.cause)
        }
        return ReportApplied.Reply()
    }

    func show(_ request: ShowReceipts) throws(AdministrationRefusal) -> ShowReceipts.Reply {
        let reference = try Self.reference(request.reference)
        let moment = clock.moment()
        let states = shared.enter { state in
            state.broker.receiptStates(
                of: reference, app: Array(request.app.utf8),
                after: Array((request.after ?? "").utf8),
                countMaximum: request.limit ?? ShowReceipts.countMaximum, at: moment)
        }
        guard let states else {
            guard shared.enter({ $0.broker.hasApp(Array(request.app.utf8)) }) else {
                throw unknownApp(request.app)
            }
            throw AdministrationRefusal(
                .topicNameInvalid, "no message with this reference is remembered", cause: .unknown)
        }
        return ShowReceipts.Reply(states, at: moment)
    }

    private static func reference(_ text: String) throws(AdministrationRefusal) -> UInt64 {
        let digits = Array(text.utf8)
        guard let reference = UInt64(hexadecimal: digits.span.bytes) else {
            throw AdministrationRefusal(
                .malformedPacket, "a reference has 16 hexadecimal digits, not \"\(text)\"")
        }
        return reference
    }
}

extension ShowReceipts.Reply {
    fileprivate init(_ states: ReceiptStates, at moment: Moment) {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        self.init(
            from: text(states.sender),
            receipts: (states.asks.contains(.delivered) ? ["delivered"] : [])
                + (states.asks.contains(.applied) ? ["applied"] : []),
            unixMilliseconds: states.acceptedUnixMilliseconds, isExpired: states.isExpired,
            receiverCount: states.receiverCount, deliveredCount: states.deliveredCount,
            appliedCount: states.appliedCount,
            receivers: states.receivers.map {
                ShowReceipts.Receiver(
                    user: text($0.user), isDelivered: $0.isDelivered, isApplied: $0.isApplied,
                    isWithdrawn: $0.isWithdrawn ? true : nil)
            }, next: states.next.map(text))
        mid = states.messageIdentifier.isEmpty ? nil : text(states.messageIdentifier)
        groupid = states.group.map(text)
        expiresUnixSeconds = moment.unixSeconds(of: states.deadline)
        failedCount = states.failedCount
        guard states.isRecalled else { return }
        isRecalled = true
        withdrawnCount = states.withdrawnCount
        lateCount = states.lateCount
    }
}
