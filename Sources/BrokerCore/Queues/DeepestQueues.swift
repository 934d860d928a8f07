// Finds the queues with the most messages, for operators. Sessions and users are read in slices: no
// message waits for more than one.

import BrokerTerms
import Primitives

/// A search for the deepest queues of all apps: the inboxes of sessions, and the offline queues of
/// users.
public struct DeepestQueues: Sendable {
    public struct Found: Hashable, Sendable {
        public var app: [UInt8]
        public var user: [UInt8]
        /// Nil for an offline queue.
        public var device: [UInt8]?
        public var isConnected: Bool
        public var count: UInt64
        public var byteCount: UInt64
    }

    /// The deepest first; none is empty.
    public fileprivate(set) var found: [Found] = []
    private let countMaximum: Int
    /// The session, or then the user, that was read last.
    fileprivate var place: UInt32?
    fileprivate var hasReadSessions = false

    /// Places that are read at a time: about a tenth of a millisecond.
    static let sliceCount = 4_096

    /// - Parameter countMaximum: the maximum number of queues, at least 1.
    public init(countMaximum: Int) {
        precondition(countMaximum > 0, "a search for \(countMaximum) queues")
        self.countMaximum = countMaximum
    }

    /// Whether a queue with so many messages is among those that were found.
    fileprivate func takes(_ count: UInt64) -> Bool {
        count > 0 && (found.count < countMaximum || count > found[countMaximum - 1].count)
    }

    fileprivate mutating func take(_ queue: Found) {
        let position = found.firstIndex { $0.count < queue.count } ?? found.count
        found.insert(queue, at: position)
        if found.count > countMaximum { found.removeLast() }
    }
}

extension Broker {
    /// Reads the next slice. Returns false when all were read.
    public func advance(_ search: inout DeepestQueues) -> Bool {
        guard search.hasReadSessions else {
            for (lookCount, session) in sessions.places.after(search.place).enumerated() {
                guard lookCount < DeepestQueues.sliceCount else { return true }
                search.place = session.place
                guard sessions.contains(session) else { continue }
                let user = sessions[session].user
                let count = UInt64(sessions[session].inbox.count)
                guard search.takes(count) else { continue }
                search.take(
                    DeepestQueues.Found(
                        app: registry.apps[registry.users[user].app].name,
                        user: Array(registry.users[user].name),
                        device: Array(sessions[session].device),
                        isConnected: sessions[session].isConnected, count: count,
                        byteCount: sessions[session].inbox.byteCount))
            }
            search.hasReadSessions = true
            search.place = nil
            return true
        }
        for (lookCount, user) in registry.users.places.after(search.place).enumerated() {
            guard lookCount < DeepestQueues.sliceCount else { return true }
            search.place = user.place
            guard registry.users.contains(user), let index = registry.users[user].offlineQueue
            else { continue }
            let count = UInt64(queues.offlineQueues[index].count)
            guard search.takes(count) else { continue }
            search.take(
                DeepestQueues.Found(
                    app: registry.apps[registry.users[user].app].name,
                    user: Array(registry.users[user].name), device: nil, isConnected: false,
                    count: count, byteCount: queues.offlineQueues[index].byteCount))
        }
        return false
    }
}
