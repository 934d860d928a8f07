// Recalls and replacements of messages, as events.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension MRTDecoder {
    static func recall(_ request: ReceivedRequest) throws(WireError) -> Event {
        let recall = try MRT.Recall(request.content.bytes)
        return event(
            RecallRequest(
                message: sentMessage(recall.message, request),
                detail: request.place(recall.detail),
                byteCountMaximum: request.resultByteCountMaximum),
            request)
    }

    static func replace(_ request: ReceivedRequest) throws(WireError) -> Event {
        let replace = try MRT.Replace(request.content.bytes)
        let payload = request.place(replace.payload)
        guard let count = TextBody.minimalJSONByteCount(payload.bytes(in: request.bytes.bytes))
        else { return request.fault(.payloadFormatInvalid) }
        return event(
            RecallRequest(
                message: sentMessage(replace.message, request),
                detail: request.place(replace.detail),
                content: RecallRequest.Content(
                    payload: payload, messageByteCount: UInt32(count)),
                byteCountMaximum: request.resultByteCountMaximum),
            request)
    }

    /// Checks the texts of a request.
    private static func event(_ recall: RecallRequest, _ request: ReceivedRequest) -> Event {
        guard Int(recall.detail.count) <= WireLimits.revisionDetailByteCountMaximum else {
            return request.fault(.packetTooLarge)
        }
        guard TextRules.isGroupTitle(recall.detail.bytes(in: request.bytes.bytes)) else {
            return request.fault(.payloadFormatInvalid)
        }
        if case .messageIdentifier(let identifier) = recall.message,
            !TextRules.isMessageIdentifier(identifier.bytes(in: request.bytes.bytes))
        {
            return request.fault(.payloadFormatInvalid)
        }
        return .recallRequested(
            request.connection, requestIdentifier: request.identifier, recall)
    }

    private static func sentMessage(
        _ message: MRT.SentMessage, _ request: ReceivedRequest
    ) -> RecallRequest.Message {
        switch message {
        case .reference(let reference): .reference(reference)
        case .messageIdentifier(let identifier): .messageIdentifier(request.place(identifier))
        }
    }
}
