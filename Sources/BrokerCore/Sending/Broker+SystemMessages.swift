// Messages that the broker sends by itself: events in groups, wills, and texts on its own topics.

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

    /// Publishes text on one of the broker's own topics, to connected subscribers. Each was checked
    /// when it subscribed, and no client can publish there.
    ///
    /// - Parameters:
    ///   - session: the session that it is about, if there is one.
    ///   - excluded: the session that does not receive it.
    mutating func publish(
        _ text: [UInt8], on topic: [UInt8], from session: Index<Session>?, ofUser user: Index<User>,
        excluding excluded: Index<Session>? = nil, in step: inout Step
    ) {
        let app = registry.users[user].app
        topic.withUnsafeBytes { topic in
            precondition(
                ReservedTopic(topic) == .presence || ReservedTopic(topic) == .unread,
                "\(String(decoding: topic, as: UTF8.self)) is no topic of the broker")
            guard let audience = audience(ofTopic: topic, app, from: session) else { return }
            text.withUnsafeBytes { text in
                scratch.removeAll()
                let name = scratch.append(registry.users[user].name)
                let parts = MessageParts(
                    kind: .topic, marks: .raw, grade: .transient,
                    time: step.moment.unixMilliseconds, sender: name.bytes(in: scratch.bytes),
                    address: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0),
                    payload: text)
                deliver(
                    TransientMessage(
                        stamp: makeStamp(), parts: parts,
                        deadline: deadline(after: nil, at: step.moment), excluded: excluded,
                        sender: session, isRetained: false),
                    to: audience, in: &step)
            }
        }
    }
}
