// Messages that match several subscriptions of one session with different identifiers. Such a
// message is sent once, with all identifiers [MQTT-3.3.4-5]. The message does not contain them:
// they are found at the delivery, so that other deliveries cost nothing. The topic is matched once
// for all receivers, and its audiences are marked.

import BrokerTerms
import Primitives

extension Broker {
    /// Delivers a message of a fan-out that several subscriptions with identifiers match. It is a
    /// separate function, so that the common deliveries keep their state in registers. The merge
    /// has marked the audiences.
    @inline(never)
    func deliverListingIdentifiers(
        _ message: TransientMessage, to connection: ConnectionID, session: Index<Session>,
        dialect: SessionDialect, state: EntryState, in step: inout Step
    ) {
        let state = listMarked(state, of: session, in: &step.effects[connection.loop])
        step.effects[connection.loop].deliver(message, to: connection, dialect, state: state)
    }

    /// A state for an event loop. Several identifiers are appended to the effects as a list.
    @inline(__always)
    mutating func listingIdentifiers(
        _ state: EntryState, of session: Index<Session>, _ message: Index<Message>,
        in loop: inout LoopEffects
    ) -> EntryState {
        guard state.subscriptionIdentifier == EntryState.severalIdentifiers else { return state }
        return listSeveral(state, of: session, message, in: &loop)
    }

    @inline(never)
    private mutating func listSeveral(
        _ state: EntryState, of session: Index<Session>, _ message: Index<Message>,
        in loop: inout LoopEffects
    ) -> EntryState {
        markAudiences(
            of: MessageBlock(memory.messages[message].block).address,
            registry.users[sessions[session].user].app)
        let listed = listMarked(state, of: session, in: &loop)
        workload.charge(Int(sessions[session].filterCount) / CoreLimits.looksPerWork)
        if listed.subscriptionIdentifier >= EntryState.severalIdentifiers {
            workload.charge(loop.identifierLists.last!.count / CoreLimits.identifiersPerWork)
        }
        return listed
    }

    private func listMarked(
        _ state: EntryState, of session: Index<Session>, in loop: inout LoopEffects
    ) -> EntryState {
        var identifiers: [UInt32] = []
        forEachSubscription(of: session) { index in
            let subscription = routing.subscriptions[index]
            guard routing.audiences[subscription.audience].isMarked else { return }
            let identifier = routing.audiences[subscription.audience].subscribers[
                Int(subscription.position)
            ]
            .subscriptionIdentifier
            if identifier != 0 { identifiers.append(identifier) }
        }
        identifiers.sort()
        var distinctCount = 0
        for identifier in identifiers
        where distinctCount == 0 || identifiers[distinctCount - 1] != identifier {
            identifiers[distinctCount] = identifier
            distinctCount += 1
        }
        identifiers.removeSubrange(distinctCount...)
        var state = state
        // A subscription may have ended meanwhile.
        state.subscriptionIdentifier = identifiers.first ?? 0
        guard identifiers.count > 1 else { return state }
        state.subscriptionIdentifier =
            EntryState.severalIdentifiers + UInt32(loop.identifierLists.count)
        loop.identifierLists.append(identifiers)
        return state
    }

    // MARK: - Marks

    /// Marks the audiences of a topic, unless they are marked.
    private mutating func markAudiences(of topic: UnsafeRawBufferPointer, _ app: Index<App>) {
        if routing.isMarked(topic, app) { return }
        var matched = ContiguousArray<Index<Audience>>()
        swap(&matched, &routing.matchedAudiences)
        defer { swap(&matched, &routing.matchedAudiences) }
        matched.removeAllKeepingCapacity()
        workload.charge(
            registry.apps[app].topics.match(topic, into: &matched) / CoreLimits.nodesPerWork)
        routing.mark(matched, topic: topic, app: app)
    }
}
