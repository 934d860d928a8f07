// What an event will cost, as far as that can be told before it happens: a message for ten thousand
// receivers is put off until those who ask for little have been served.

import Primitives

extension Broker {
    /// What a message or a will costs that an event sends, at least, in the unit of
    /// ``CoreLimits/turnWorkMaximum``; 0 where nothing is known.
    public mutating func expectedWork(of event: Event, bytes: UnsafeRawBufferPointer) -> Int {
        switch event {
        case .sendReceived(let connection, let request):
            guard let sender = session(of: connection) else { return 0 }
            let app = users[sessions[sender].user].app
            return receiverCount(of: request.target, app, bytes)
                * expectedWork(blockByteCount: Int(request.payload.count))
        case .connectionClosed(let connection, _), .peerFaulted(let connection, _):
            guard let session = session(of: connection),
                sessions[session].will != Slab<Will>.none
            else { return 0 }
            return expectedWork(ofWill: sessions[session].will)
        case .disconnectReceived(let connection, _):
            guard let session = session(of: connection),
                sessions[session].will != Slab<Will>.none
            else { return 0 }
            return expectedWork(ofWill: sessions[session].will)
        default:
            return 0
        }
    }

    private mutating func expectedWork(ofWill index: UInt32) -> Int {
        let app = users[wills[index].user].app
        let (kind, address) = (wills[index].kind, wills[index].address)
        let count = address.withUnsafeBytes { address in
            switch kind {
            case .topic: receiverCount(ofTopic: address, app)
            case .group: receiverCount(ofGroup: address, app)
            case .everybody: audiences[apps[app].broadcastAudience].subscribers.count
            case .user, .users: 0
            }
        }
        return count * expectedWork(blockByteCount: wills[index].payload.count)
    }

    /// Of one delivery.
    private func expectedWork(blockByteCount: Int) -> Int {
        1 + blockByteCount / CoreLimits.writtenBytesPerWork
    }

    /// Who is named one by one is not counted: a packet has no room for many.
    private mutating func receiverCount(
        of target: SendTarget, _ app: UInt32, _ bytes: UnsafeRawBufferPointer
    ) -> Int {
        switch target {
        case .user, .users: 0
        case .topic(let name): receiverCount(ofTopic: name.bytes(in: bytes), app)
        case .group(let name): receiverCount(ofGroup: name.bytes(in: bytes), app)
        case .everybody: audiences[apps[app].broadcastAudience].subscribers.count
        }
    }

    private func receiverCount(ofGroup name: UnsafeRawBufferPointer, _ app: UInt32) -> Int {
        guard let group = apps[app].groups.value(for: name) else { return 0 }
        return audiences[groups[group].audience].subscribers.count
    }

    /// A session that several filters of its own bring counts several times.
    private mutating func receiverCount(
        ofTopic topic: UnsafeRawBufferPointer, _ app: UInt32
    ) -> Int {
        if let recent = apps[app].topics.recentAudience(of: topic) {
            return recent == TopicTree.none ? 0 : audiences[recent].subscribers.count
        }
        // Taken out for the while, since the tree is part of the same broker.
        var matched = ContiguousArray<UInt32>()
        swap(&matched, &matchedAudiences)
        defer { swap(&matched, &matchedAudiences) }
        matched.removeAllKeepingCapacity()
        work += apps[app].topics.match(topic, into: &matched) / CoreLimits.nodesPerWork
        if matched.count <= 1 { apps[app].topics.noteMatch(topic, audience: matched.first) }
        var count = 0
        for audience in matched { count += audiences[audience].subscribers.count }
        return count
    }
}
