// The answers to requests that MQTT clients made by publications: the JSON messages of the same
// answers, as publications.

import BrokerCore
import BrokerTerms
import WireFormat

extension MQTTEncoder {
    /// Replies to a request. A reply that is larger than its client accepts becomes one that says
    /// so.
    func reply(
        _ answer: MRTEffect, version: MQTT.Version,
        in context: borrowing EncodingContext<some ConnectionHost & ~Copyable>
    ) {
        let connection = answer.connection
        guard
            let reply = context.conversations.takeReply(answer.requestIdentifier, to: connection)
        else { return }
        var outcome: ConversationTable.WriteOutcome
        if let fault = reply.fault {
            outcome = context.conversations.write(
                fault, as: reply, to: connection, version: version, through: &context.connections)
        } else {
            var writer = JSONMessage.beginResponse(to: reply.request)
            JSONEffectEncoder.write(answer, to: &writer, in: context)
            outcome = context.conversations.write(
                writer.end(), as: reply, to: connection, version: version,
                through: &context.connections)
        }
        if outcome == .tooLarge {
            let fault = JSONFault(
                reason: .packetTooLarge, detail: "the reply is larger than the client accepts")
            outcome = context.conversations.write(
                fault, as: reply, to: connection, version: version, through: &context.connections)
        }
        if outcome == .tooLarge { context.append(.peerFaulted(connection, .packetTooLarge)) }
    }
}
