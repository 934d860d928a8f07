// Shared subscriptions: of the sessions that subscribe to `$share/name/filter`, one gets each
// message (MQTT 5.0 section 4.8.2). Who that is, is decided when the message is accepted and stays
// so: what is under way to a session that went away waits for it [MQTT-4.8.2-5].

import Primitives

/// The shares of one filter: for each name, who subscribes under it.
struct ShareSet {
    /// Audiences by index. Their filters are spelled with `$share` and the name.
    var audiences: [UInt32] = []
}

/// A filter of a shared subscription, taken apart.
struct SharedFilter {
    let pattern: UnsafeRawBufferPointer

    private static let prefix: StaticString = "$share/"

    /// Nil for a filter of another kind. What follows the prefix has been checked by the dialect.
    init?(_ filter: UnsafeRawBufferPointer) {
        let prefix = SharedFilter.prefix
        guard filter.count > prefix.utf8CodeUnitCount else { return nil }
        for index in 0..<prefix.utf8CodeUnitCount where filter[index] != prefix.utf8Start[index] {
            return nil
        }
        var end = prefix.utf8CodeUnitCount
        while end < filter.count, filter[end] != UInt8(ascii: "/") { end += 1 }
        guard end + 1 < filter.count else { return nil }
        pattern = UnsafeRawBufferPointer(rebasing: filter[(end + 1)...])
    }
}

extension Broker {
    /// Notes that an audience shares a filter.
    mutating func addShare(_ audience: UInt32, filter: [UInt8], app: UInt32) {
        filter.withUnsafeBytes { filter in
            guard let shared = SharedFilter(filter) else { return }
            let known = apps[app].shares.audience(of: shared.pattern)
            let set = known ?? shareSets.insert(ShareSet()).index
            if known == nil { apps[app].shares.insert(shared.pattern, audience: set) }
            shareSets[set].audiences.append(audience)
            apps[app].shareCount += 1
        }
    }

    /// Nobody subscribes under this name any more.
    mutating func removeShare(_ audience: UInt32, filter: [UInt8], app: UInt32) {
        filter.withUnsafeBytes { filter in
            guard let shared = SharedFilter(filter),
                let set = apps[app].shares.audience(of: shared.pattern)
            else { return }
            shareSets[set].audiences.removeAll { $0 == audience }
            apps[app].shareCount -= 1
            if shareSets[set].audiences.isEmpty {
                shareSets.remove(set)
                apps[app].shares.remove(shared.pattern)
            }
        }
    }

    /// Those to whom a message on a topic goes by shared subscriptions: one for each name; nil
    /// where there are none.
    mutating func audience(
        ofSharesOf topic: UnsafeRawBufferPointer, _ app: UInt32, grade: Grade
    ) -> UInt32? {
        guard apps[app].shareCount > 0 else { return nil }
        var matched = ContiguousArray<UInt32>()
        swap(&matched, &matchedAudiences)
        defer { swap(&matched, &matchedAudiences) }
        matched.removeAll(keepingCapacity: true)
        apps[app].shares.match(topic, into: &matched)
        audiences[chosenAudience].subscribers.removeAll(keepingCapacity: true)
        for set in matched {
            for position in 0..<shareSets[set].audiences.count {
                let audience = shareSets[set].audiences[position]
                if let chosen = choose(from: audience, grade: grade) {
                    audiences[chosenAudience].subscribers.append(chosen)
                }
            }
        }
        return audiences[chosenAudience].subscribers.isEmpty ? nil : chosenAudience
    }

    /// The next subscriber in turn: one that is there and has room in its window, otherwise one
    /// that is there, otherwise one that will come back.
    private mutating func choose(from audience: UInt32, grade: Grade) -> Subscriber? {
        let count = audiences[audience].subscribers.count
        let start = Int(audiences[audience].turn) % count
        var second: Int?
        var third: Int?
        for step in 0..<count {
            let position = (start + step) % count
            let subscriber = audiences[audience].subscribers[position]
            if subscriber.connection == .none {
                if grade != .transient && subscriber.grade != .transient {
                    third = third ?? position
                }
                continue
            }
            if grade == .transient || hasRoomInWindow(subscriber.session) {
                audiences[audience].turn = UInt32(position + 1)
                return subscriber
            }
            second = second ?? position
        }
        guard let position = second ?? third else { return nil }
        audiences[audience].turn = UInt32(position + 1)
        return audiences[audience].subscribers[position]
    }

    private func hasRoomInWindow(_ session: UInt32) -> Bool {
        let attachment = sessions[session].attachment
        return attachments[attachment].backlogCount == 0
            && attachments[attachment].window.count < attachments[attachment].windowMaximum
    }
}
