// What the log is told of a session: who it was about, and why.

import BrokerTerms
import Primitives

extension Broker {
    /// Leaves a note on the event loop of the session's connection; on the first where it has none.
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

    /// Tells the log of a receiver whose queue takes no more, by its user and device; of many, a
    /// few each second.
    mutating func noteRefused(
        user: Index<User>, device: Name?, _ limit: LimitName, in step: inout Step
    ) {
        counters.queueRefused += 1
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
