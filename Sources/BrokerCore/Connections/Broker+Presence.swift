// The presence of users: answers to queries by name, and messages to subscribers.
//
// Changes are published on `$presence/USER`, as `online` or `offline` and, after a space, the name
// of the device if it has one. They are sent to connected subscribers and never stored; a client
// that connects later asks. No client may publish on such a topic, so that its messages can be
// trusted.

import BrokerTerms
import Primitives

extension Broker {
    static let presencePrefix: StaticString = "$presence/"

    /// Answers whether a user is online, since when, and on which devices.
    mutating func reportPresence(
        to connection: ConnectionID, request requestIdentifier: UInt64,
        of name: UnsafeRawBufferPointer, in step: inout Step
    ) {
        guard let asking = session(of: connection) else { return }
        guard allows(.presence(user: name), asking) else {
            note(
                .presenceRefused, session: asking, reason: .notAuthorized, subject: name, in: &step)
            step.effects[connection.loop].respond(
                to: connection, request: requestIdentifier, reason: .notAuthorized)
            return
        }
        let app = registry.users[sessions[asking].user].app
        guard let user = self.user(named: name, app: app) else {
            step.effects[connection.loop].respond(
                to: connection, request: requestIdentifier, reason: .topicNameInvalid)
            return
        }
        var devices: [UInt8] = []
        var count = 0
        var since = registry.users[user].lastSeenUnixMilliseconds
        forEachSession(of: user) { session in
            guard liveConnection(of: session) != .none else { return }
            let connected = live.connectedSessions[connectedIndex(of: session)]
                .connectedUnixMilliseconds
            since = count == 0 ? connected : min(since, connected)
            count += 1
            devices.append(UInt8(sessions[session].device.count))
            devices += sessions[session].device
        }
        let loop = connection.loop
        step.effects[loop].effects.append(
            .mrt(
                .reportPresence(
                    connection, requestIdentifier: requestIdentifier, isOnline: count > 0,
                    sinceUnixMilliseconds: since, devices: step.effects[loop].bytes.append(devices),
                    count: count)))
    }

    /// Publishes that a device has connected or disconnected. Costs one comparison in an app
    /// without such subscriptions.
    mutating func announcePresence(of session: Index<Session>, isOnline: Bool, in step: inout Step)
    {
        let user = sessions[session].user
        guard registry.apps[registry.users[user].app].presenceFilterCount > 0 else { return }
        counters.presenceEvents += 1
        var topic: [UInt8] = []
        Self.presencePrefix.withUTF8Buffer { topic += $0 }
        topic += registry.users[user].name
        var payload = Array((isOnline ? "online" : "offline").utf8)
        if !sessions[session].device.isEmpty {
            payload.append(UInt8(ascii: " "))
            payload += sessions[session].device
        }
        publish(payload, on: topic, from: session, ofUser: user, in: &step)
    }
}
