// Several subscriptions of one session, with identifiers of their own, that match one message: it
// is sent once and brings all of them [MQTT-3.3.4-5]. Which they are is not kept with the message
// but looked up when it is delivered, so that nobody else pays for it.

import Primitives

extension Broker {
    /// The rare delivery of a fan-out that several subscriptions with identifiers bring. Apart from
    /// the others, which then keep their state in registers.
    @inline(never)
    func deliverListingIdentifiers(
        _ message: TransientMessage, to connection: ConnectionID, _ session: UInt32,
        _ dialect: SessionDialect, _ state: EntryState, _ effects: inout Effects
    ) {
        let state = listingIdentifiers(
            state, of: session, message.parts.address, in: &effects[connection.lane])
        effects[connection.lane].deliver(message, to: connection, dialect, state: state)
    }

    /// A state as a lane is to hear of it: where there are several identifiers, their list is put
    /// into the lane.
    @inline(__always)
    func listingIdentifiers(
        _ state: EntryState, of session: UInt32,
        _ topic: @autoclosure () -> UnsafeRawBufferPointer, in lane: inout EffectLane
    ) -> EntryState {
        guard state.subscriptionIdentifier == EntryState.severalIdentifiers else { return state }
        return listSeveral(state, of: session, topic(), in: &lane)
    }

    @inline(never)
    private func listSeveral(
        _ state: EntryState, of session: UInt32, _ topic: UnsafeRawBufferPointer,
        in lane: inout EffectLane
    ) -> EntryState {
        var identifiers: [UInt32] = []
        forEachSubscription(of: session) { index in
            let place = subscriptions[index]
            let identifier = audiences[place.audience].subscribers[Int(place.position)]
                .subscriptionIdentifier
            if identifier != 0, !identifiers.contains(identifier),
                audiences[place.audience].filter.withUnsafeBytes({
                    TopicLevels.matches(filter: $0, topic)
                })
            {
                identifiers.append(identifier)
            }
        }
        var state = state
        // One may have ended since.
        state.subscriptionIdentifier = identifiers.first ?? 0
        guard identifiers.count > 1 else { return state }
        state.subscriptionIdentifier =
            EntryState.severalIdentifiers + UInt32(lane.identifierLists.count)
        lane.identifierLists.append(identifiers)
        return state
    }
}

extension TopicLevels {
    /// Whether a filter matches a topic name: what the tree says of all filters at once. That of a
    /// shared subscription matches nothing here.
    static func matches(filter: UnsafeRawBufferPointer, _ topic: UnsafeRawBufferPointer) -> Bool {
        var (filterLevels, topicLevels) = (TopicLevels(filter), TopicLevels(topic))
        // [MQTT-4.7.2-1]
        var allowsWildcard = topic.first != UInt8(ascii: "$")
        while let level = filterLevels.next() {
            if level.isHash { return allowsWildcard }
            guard let name = topicLevels.next() else { return false }
            if level.isPlus ? !allowsWildcard : !level.bytes.elementsEqual(name.bytes) {
                return false
            }
            allowsWildcard = true
        }
        return topicLevels.next() == nil
    }
}
