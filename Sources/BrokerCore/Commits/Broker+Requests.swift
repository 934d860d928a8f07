// Requests whose answers wait for a commit. MRT clients number their requests, and no two open
// requests have the same number.

import BrokerTerms

/// One client's request.
struct RequestKey: Hashable {
    let connection: ConnectionID
    let identifier: UInt64
    /// Distinguishes a SUBSCRIBE and an UNSUBSCRIBE of MQTT that are open with the same packet
    /// identifier; their answers differ.
    var isUnsubscribe = false
}

extension Broker {
    /// Answers a request after the commit of the pending batch.
    mutating func respondAtCommit(
        to connection: ConnectionID, request identifier: UInt64, reason: ReasonCode, body: [UInt8]
    ) {
        commits.answer(
            RequestKey(connection: connection, identifier: identifier),
            .respond(connection, requestIdentifier: identifier, reason, body: body))
    }

    /// Answers a SUBSCRIBE or an UNSUBSCRIBE of MQTT after the commit of the pending batch.
    mutating func answerFiltersAtCommit(
        to connection: ConnectionID, request: FilterAnswer.Request, identifier: UInt64,
        codes: [UInt8]
    ) {
        commits.answer(
            RequestKey(
                connection: connection, identifier: identifier,
                isUnsubscribe: request == .unsubscribe),
            .answerFilters(connection, request, requestIdentifier: identifier, codes: codes))
    }

    /// Whether a request may be handled. A request with the number of an open one ends its
    /// connection, because its client could not distinguish the two answers. A request that an MQTT
    /// client published is handled unless its publication is a repeated one. SUBSCRIBE and
    /// UNSUBSCRIBE are refused later, see ``isRefusedAsOpen(_:_:isUnsubscribe:)``.
    mutating func admits(
        _ connection: ConnectionID, request identifier: UInt64, in step: inout Step
    ) -> Bool {
        guard let session = session(of: connection) else { return true }
        if sessions[session].dialect.isMQTT {
            guard let request = PublishedRequest(number: identifier) else { return true }
            return take(request, from: session, in: &step)
        }
        guard commits.isOpen(RequestKey(connection: connection, identifier: identifier)) else {
            return true
        }
        peerFaulted(connection, .protocolError, in: &step)
        return false
    }

    /// Whether a request of an MQTT 5 client has the packet identifier of an open one, which is
    /// refused with 0x91. MQTT 3.1.1 has no such code, and some of its clients use one identifier
    /// for all requests: those are answered in the order of the requests.
    func isRefusedAsOpen(
        _ connection: ConnectionID, _ identifier: UInt64, isUnsubscribe: Bool = false
    ) -> Bool {
        guard
            commits.isOpen(
                RequestKey(
                    connection: connection, identifier: identifier, isUnsubscribe: isUnsubscribe)),
            let session = session(of: connection)
        else { return false }
        return sessions[session].dialect == .mqtt5
    }
}
