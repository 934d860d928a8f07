// Requests whose answers wait for a commit. MRT clients name their requests by numbers, and no two
// that are open have one number.

import BrokerTerms

/// One client's request.
struct RequestName: Hashable {
    let connection: ConnectionID
    let identifier: UInt64
    /// A SUBSCRIBE and an UNSUBSCRIBE of MQTT that are open under one packet identifier are told
    /// apart by their answers.
    var isUnsubscribe = false
}

extension Broker {
    /// Answers a request with the pending batch.
    mutating func respondAtCommit(
        to connection: ConnectionID, request identifier: UInt64, reason: ReasonCode, body: [UInt8]
    ) {
        commits.answer(
            RequestName(connection: connection, identifier: identifier),
            .respond(connection, requestIdentifier: identifier, reason, body: body))
    }

    /// Answers a SUBSCRIBE or an UNSUBSCRIBE of MQTT with the pending batch.
    mutating func answerFiltersAtCommit(
        to connection: ConnectionID, request: FilterAnswer.Request, identifier: UInt64,
        codes: [UInt8]
    ) {
        commits.answer(
            RequestName(
                connection: connection, identifier: identifier,
                isUnsubscribe: request == .unsubscribe),
            .answerFilters(connection, request, requestIdentifier: identifier, codes: codes))
    }

    /// Whether a request may be looked at. One under the number of another that is open ends its
    /// connection: of their two answers its client could not tell which is which. In MQTT it is
    /// refused where it is carried out, see ``isRefusedAsOpen(_:_:isUnsubscribe:)``.
    mutating func admits(
        _ connection: ConnectionID, request identifier: UInt64, in step: inout Step
    ) -> Bool {
        guard commits.isOpen(RequestName(connection: connection, identifier: identifier)),
            let session = session(of: connection), !sessions[session].dialect.isMQTT
        else { return true }
        peerFaulted(connection, .protocolError, in: &step)
        return false
    }

    /// Whether a request of an MQTT 5 client has the packet identifier of one that is open, which
    /// is refused with 0x91. MQTT 3.1.1 has no word for it, and some of its clients name all their
    /// requests alike: they are answered in the order of the requests.
    func isRefusedAsOpen(
        _ connection: ConnectionID, _ identifier: UInt64, isUnsubscribe: Bool = false
    ) -> Bool {
        guard
            commits.isOpen(
                RequestName(
                    connection: connection, identifier: identifier, isUnsubscribe: isUnsubscribe)),
            let session = session(of: connection)
        else { return false }
        return sessions[session].dialect == .mqtt5
    }
}
