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
        let digits = Array(request.reference.utf8)
        guard let reference = UInt64(hexadecimal: digits.span.bytes) else {
            throw AdministrationRefusal(
                .malformedPacket,
                "a reference has 16 hexadecimal digits, not \"\(request.reference)\"")
        }
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
                throw Self.unknownApp(request.app)
            }
            throw Self.unknownUser(request.user, request.app)
        }
        guard outcome.reason == .success else {
            throw Self.refusal(outcome.reason, outcome.cause)
        }
        return ReportApplied.Reply()
    }
}
