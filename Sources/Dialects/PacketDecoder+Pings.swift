// Answers to pings. They do not pass the core, so that a node of a cluster without a lease has to
// hold them here: its clients would stay, although another node serves the others.

import BrokerCore
import BrokerTerms
import WireFormat

extension PacketDecoder {
    /// Answers a ping, or remembers it. Several of one client have one answer: who waits for an
    /// answer sends no other ping.
    mutating func answerPing(
        of connection: ConnectionID, through host: inout some ConnectionHost & ~Copyable
    ) {
        if holdsPings {
            heldPings.insert(connection)
        } else {
            writePong(to: connection, through: &host)
        }
    }

    /// Answers the pings that were held.
    ///
    /// - Parameter mayEmit: whether those of a connection that has a socket may be answered now.
    public mutating func answerHeldPings(
        through host: inout some ConnectionHost & ~Copyable,
        where mayEmit: (ConnectionID) -> Bool = { _ in true }
    ) {
        for connection in heldPings
        where mayEmit(conversations.transportConnection(of: connection)) {
            heldPings.remove(connection)
            writePong(to: connection, through: &host)
        }
    }

    private func writePong(
        to connection: ConnectionID, through host: inout some ConnectionHost & ~Copyable
    ) {
        // A client that has gone meanwhile has none.
        guard let conversation = conversations[connection] else { return }
        switch conversation.dialect {
        case .unknown: break
        case .mqtt:
            conversations.write(MQTT.Ping(isResponse: true), to: connection, through: &host)
        case .mrt:
            conversations.write(MRT.Ping(isResponse: true), to: connection, through: &host)
        case .json(let form):
            JSONMessage.send(
                form == .leanMessage ? LeanMessageText.begin("PONG") : JSONMessage.begin("pong"),
                to: connection, in: conversations, through: &host)
        }
    }
}
