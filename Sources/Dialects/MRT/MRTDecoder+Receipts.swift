// What receivers tell about messages, as events.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension MRTDecoder {
    static func reportApplied(_ request: ReceivedRequest) throws(WireError) -> Event {
        let applied = try MRT.Applied(request.content.bytes)
        let text = request.place(applied.text)
        guard Int(text.count) <= WireLimits.receiptTextByteCountMaximum else {
            return request.fault(.packetTooLarge, .appliedText)
        }
        guard TextRules.isGroupTitle(text.bytes(in: request.bytes.bytes)) else {
            return request.fault(.payloadFormatInvalid, .appliedText)
        }
        return .appliedReported(
            request.connection, requestIdentifier: request.identifier,
            AppliedRequest(reference: applied.reference, code: applied.code, text: text))
    }
}
