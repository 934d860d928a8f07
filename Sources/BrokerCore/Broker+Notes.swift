// Log events about sessions.

import BrokerTerms
import Primitives

extension Broker {
    /// Adds a log event to the effects of the session's event loop, or of the first one without a
    /// connection.
    func note(
        _ kind: LogEvent.Kind, session: Index<Session>, reason: ReasonCode,
        subject: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        other: ConnectionID = .none, limit: LimitName = .none, in step: inout Step
    ) {
        let connected = sessions[session].connected
        let connection = connected.map { live.connectedSessions[$0].connection } ?? .none
        let loop = connection.loop
        step.effects[loop].effects.append(
            .note(
                LogEvent(
                    kind: kind, connection: connection, reason: reason,
                    user: step.effects[loop].bytes.append(
                        registry.users[sessions[session].user].name),
                    device: step.effects[loop].bytes.append(sessions[session].device),
                    subject: step.effects[loop].bytes.append(subject), other: other, limit: limit)))
    }

    /// The same about something that is not in the event.
    func note(
        _ kind: LogEvent.Kind, session: Index<Session>, reason: ReasonCode, about subject: [UInt8],
        limit: LimitName, in step: inout Step
    ) {
        subject.withUnsafeBytes {
            note(kind, session: session, reason: reason, subject: $0, limit: limit, in: &step)
        }
    }

    /// What the log tells of a login: the app, and the kind and the name of the credential.
    func loginSubject(of session: Index<Session>) -> [UInt8] {
        let user = sessions[session].user
        return LogEvent.loginSubject(
            app: registry.apps[registry.users[user].app].name, credential: credential(of: session))
    }

    /// Logs a receiver whose queue is full, with its user and device; at most a few per second.
    mutating func noteRefused(
        user: Index<User>, device: Name?, _ limit: LimitName, in step: inout Step
    ) {
        counters.queueRefused += 1
        untakenReceivers.note(user)
        reportFullQueue(of: user, device: device, limit, at: step.moment)
        noteReceiver(user: user, device: device, limit, in: &step)
    }

    /// Logs a receiver that does not get an accepted message because the store refused it at the
    /// commit; at most a few per second.
    mutating func noteTakenBack(user: Index<User>, device: Name?, in step: inout Step) {
        noteReceiver(user: user, device: device, commits.room.limit, in: &step)
    }

    private mutating func noteReceiver(
        user: Index<User>, device: Name?, _ limit: LimitName, in step: inout Step
    ) {
        guard queues.takesReceiverNote(at: step.moment) else { return }
        step.effects[0].effects.append(
            .note(
                LogEvent(
                    kind: .receiverRefused, connection: .none, reason: .quotaExceeded,
                    user: step.effects[0].bytes.append(registry.users[user].name),
                    device: device.map { step.effects[0].bytes.append($0) } ?? .empty,
                    subject: .empty, other: .none, limit: limit)))
    }
}
