// Requests about wake targets, as events.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension MRTDecoder {
    static func setWakeTarget(_ request: ReceivedRequest) throws(WireError) -> Event {
        let target = try MRT.WakeTarget(request.content.bytes)
        for range in [target.device, target.language, target.address]
        where !TextRules.isUTF8(range.bytes(in: request.content.bytes)) {
            return request.fault(.payloadFormatInvalid)
        }
        return .wakeRequested(
            request.connection, requestIdentifier: request.identifier,
            .set(
                device: request.place(target.device), kind: target.kind,
                environment: target.environment, language: request.place(target.language),
                address: request.place(target.address)))
    }

    static func listWakeTargets(_ request: ReceivedRequest) throws(WireError) -> Event {
        let query = try MRT.WakeTargetQuery(request.content.bytes)
        return .wakeRequested(
            request.connection, requestIdentifier: request.identifier,
            .list(
                user: request.place(query.user), byteCountMaximum: request.resultByteCountMaximum))
    }

    static func removeWakeTarget(_ request: ReceivedRequest) throws(WireError) -> Event {
        let name = try MRT.WakeTargetName(request.content.bytes)
        return .wakeRequested(
            request.connection, requestIdentifier: request.identifier,
            .remove(user: request.place(name.user), identifier: name.identifier))
    }
    static func reportWakes(_ request: ReceivedRequest) throws(WireError) -> Event {
        let content = request.content
        let list = try MRT.WakeReportList(content.bytes)
        var isText = true
        list.forEach(in: content.bytes) { report in
            isText = isText && TextRules.isUTF8(report.detail.bytes(in: content.bytes))
        }
        guard isText else { return request.fault(.payloadFormatInvalid) }
        return .wakeRequested(
            request.connection, requestIdentifier: request.identifier,
            .report(entries: request.place(list.entries)))
    }
}
