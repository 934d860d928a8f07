// What an operator may see of single things: apps, sessions, queues. Walks that take as long as
// there is much to see, for people and not for messages.

import Primitives

/// One app in detail.
public struct AppDescription: Hashable, Sendable {
    /// Whether its key lets clients in.
    public var hasKey: Bool
    public var rights: Rights
    public var userCount: Int
    public var sessionCount: Int
    public var connectionCount: Int
    public var tokenCount: Int
}

extension Broker {
    /// An app by its name; nil when there is none.
    public func appDescription(_ name: [UInt8]) -> AppDescription? {
        guard let app = app(named: name) else { return nil }
        var (sessionCount, connectionCount) = (0, 0)
        for session in 0..<sessions.endIndex where sessions.contains(session) {
            guard users[sessions[session].user].app == app else { continue }
            sessionCount += 1
            if sessions[session].isConnected { connectionCount += 1 }
        }
        return AppDescription(
            hasKey: apps[app].keyDigest != nil, rights: apps[app].rights,
            userCount: apps[app].users.count, sessionCount: sessionCount,
            connectionCount: connectionCount, tokenCount: tokens.count(ofApp: name))
    }
}
