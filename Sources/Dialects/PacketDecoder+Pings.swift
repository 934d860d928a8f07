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
    public mutating func answerHeldPings(through host: inout some ConnectionHost & ~Copyable) {
        for connection in heldPings { writePong(to: connection, through: &host) }
        heldPings.removeAll()
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
