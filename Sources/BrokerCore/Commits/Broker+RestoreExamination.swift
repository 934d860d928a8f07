// What the check of a store asks a broker that reads its rows: which rows belong to nothing, and
// whose a queue is. The broker is not used for anything else then.

import Primitives

/// What a broker found in rows that it only examined.
public struct RestoreExamination: Sendable {
    /// Records that name an app, a user, a session or a group that does not exist. A start fails at
    /// such a record.
    public internal(set) var dangling: [(table: RecordTable, key: [UInt8])] = []
    /// Queues that no row names, and that are not marked as deleted. The next start deletes them.
    public internal(set) var ownerless: [QueueTally] = []
}

extension Broker {
    /// The visits that follow list the records that belong to nothing, in place of failing at the
    /// first.
    public mutating func beginExamination() { commits.beginExamination() }

    /// What was found; to be asked before the restore is finished.
    public var examination: RestoreExamination {
        commits.restoration?.examination ?? RestoreExamination()
    }

    /// Whose messages a queue has, for people, such as `demo/alice/phone`; nil if no row names it.
    public func ownerName(of queue: QueueID) -> String? {
        switch owner(of: queue) {
        case .session(let session)?:
            let device = sessions[session].device.withUnsafeBytes { Array($0) }
            return text(of: sessions[session].user) + "/" + String(decoding: device, as: UTF8.self)
        case .offlineQueue(let user)?: return text(of: user)
        case .leftover(let leftover)?:
            return text(of: queues.leftovers[leftover].app) + ", a shared subscription"
        case .conversation(let conversation)?:
            return text(of: conversationTable.conversations[conversation].app) + ", a conversation"
        case .inherited, nil: return nil
        }
    }

    private func text(of user: Index<User>) -> String {
        let name = Array(registry.users[user].name)
        return text(of: registry.users[user].app) + "/" + String(decoding: name, as: UTF8.self)
    }

    private func text(of app: Index<App>) -> String {
        String(decoding: registry.apps[app].name, as: UTF8.self)
    }
}
