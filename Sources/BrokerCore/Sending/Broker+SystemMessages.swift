// Messages that the broker sends by itself: events in groups, and wills.

import Primitives

extension Broker {
    /// Sends a message as a user. `body` puts it into inboxes.
    mutating func sendSystemMessage(
        _ kind: MessageKind, about address: some Collection<UInt8>, payload: some Collection<UInt8>,
        properties: [UInt8] = [], from name: [UInt8], grade: Grade = .durable,
        marks: MessageMarks = [], expirySeconds: UInt64? = nil, at moment: Moment,
        _ body: (inout Broker, Index<Message>, inout RoutingTally) -> Void
    ) {
        let (address, payload) = (Array(address), Array(payload))
        let (stamp, deadline) = (makeStamp(), deadline(after: expirySeconds, at: moment))
        let message = name.withUnsafeBytes { sender in
            address.withUnsafeBytes { address in
                (properties + payload).withUnsafeBytes { both in
                    let (properties, payload) = (
                        ByteRange(offset: 0, count: properties.count).bytes(in: both),
                        ByteRange(offset: properties.count, count: payload.count)
                            .bytes(in: both)
                    )
                    return memory.insert(
                        MessageParts(
                            kind: kind, marks: marks, grade: grade,
                            time: moment.unixMilliseconds, sender: sender, address: address,
                            properties: properties, payload: payload),
                        messageIdentifier: ByteRange.empty.bytes(in: both), stamp: stamp,
                        deadline: deadline,
                        sender: .none, senderNumber: 0)
                }
            }
        }
        var tally = RoutingTally(stamp: stamp)
        body(&self, message, &tally)
        counters.receiversRefused += UInt64(tally.refusedCount)
        memory.noteRouted(message)
        memory.release(message)
    }
}
