// The expected work of an event, before it is handled: a message to ten thousand receivers is
// delayed until clients that ask for little have been served.

import Primitives

extension Broker {
    /// The minimum work of a message or will that an event sends, in the unit of
    /// ``CoreLimits/turnWorkMaximum``; 0 if it is not known.
    public mutating func expectedWork(of event: Event, bytes: UnsafeRawBufferPointer) -> Int {
        switch event {
        case .sendReceived(let connection, let request):
            guard let sender = session(of: connection) else { return 0 }
            let app = registry.users[sessions[sender].user].app
            return receiverCount(of: request.target, app, in: bytes)
                // Each delivery looks for its receiver among the names that are mentioned.
                * expectedWork(
                    blockByteCount: Int(request.payload.count + request.mentions.names.count))
        case .connectionClosed(let connection, _), .peerFaulted(let connection, _):
            guard let session = session(of: connection), let will = sessions[session].will else {
                return 0
            }
            return expectedWork(ofWill: will)
        case .disconnectReceived(let connection, _):
            guard let session = session(of: connection), let will = sessions[session].will else {
                return 0
            }
            return expectedWork(ofWill: will)
        default:
            return 0
        }
    }

    private mutating func expectedWork(ofWill index: Index<Will>) -> Int {
        let app = registry.users[willTable.wills[index].user].app
        let (kind, address) = (willTable.wills[index].kind, willTable.wills[index].address)
        let count = address.withUnsafeBytes { address in
            switch kind {
            case .topic: receiverCount(ofTopic: address, app)
            case .group: receiverCount(ofGroup: address, app)
            case .everybody:
                routing.audiences[registry.apps[app].broadcastAudience].subscribers.count
            case .user, .users: 0
            }
        }
        return count * expectedWork(blockByteCount: willTable.wills[index].payload.count)
    }

    /// The work of one delivery.
    private func expectedWork(blockByteCount: Int) -> Int {
        1 + blockByteCount / CoreLimits.writtenBytesPerWork
    }

    /// Receivers that are listed by name are not counted, because a packet has no room for many.
    private mutating func receiverCount(
        of target: SendTarget, _ app: Index<App>, in bytes: UnsafeRawBufferPointer
    ) -> Int {
        switch target {
        case .user, .users: 0
        case .topic(let name): receiverCount(ofTopic: name.bytes(in: bytes), app)
        case .group(let name): receiverCount(ofGroup: name.bytes(in: bytes), app)
        case .everybody: routing.audiences[registry.apps[app].broadcastAudience].subscribers.count
        }
    }

    private func receiverCount(ofGroup name: UnsafeRawBufferPointer, _ app: Index<App>) -> Int {
        guard let group = registry.apps[app].groups.value(for: name) else { return 0 }
        return routing.audiences[groupTable.groups[group].audience].subscribers.count
    }

    /// A session with several matching filters counts several times.
    private mutating func receiverCount(
        ofTopic topic: UnsafeRawBufferPointer, _ app: Index<App>
    ) -> Int {
        if let recent = registry.apps[app].topics.recentMatch(of: topic) {
            return recent.target.map { routing.audiences[$0].subscribers.count } ?? 0
        }
        // Moved out of the broker while it is filled: the tree is a part of the same broker.
        var matched = ContiguousArray<Index<Audience>>()
        swap(&matched, &routing.matchedAudiences)
        defer { swap(&matched, &routing.matchedAudiences) }
        matched.removeAllKeepingCapacity()
        workload.charge(
            registry.apps[app].topics.match(topic, into: &matched) / CoreLimits.nodesPerWork)
        if matched.count <= 1 { registry.noteMatch(of: topic, target: matched.first, app: app) }
        var count = 0
        for audience in matched { count += routing.audiences[audience].subscribers.count }
        return count
    }
}
