// What the log is told of a session: who it was about, and why.

import Primitives

extension Broker {
    /// Leaves a note on the lane of the session's connection; on the first where it has none.
    func note(
        _ kind: Note.Kind, session: Index<Session>, reason: ReasonCode,
        subject: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        other: ConnectionID = .none, limit: LimitName = .none, in step: inout Step
    ) {
        let attachment = sessions[session].attachment
        let connection = attachment.map { attachments[$0].connection } ?? .none
        let lane = connection.lane
        step.effects[lane].effects.append(
            .note(
                Note(
                    kind: kind, connection: connection, reason: reason,
                    user: step.effects[lane].bytes.append(users[sessions[session].user].name),
                    device: step.effects[lane].bytes.append(sessions[session].device),
                    subject: step.effects[lane].bytes.append(subject), other: other, limit: limit)))
    }

    /// Tells the log of a receiver whose queue takes no more, by its user and device; of many, a
    /// few each second.
    mutating func noteRefused(
        user: Index<User>, device: Name?, _ limit: LimitName, in step: inout Step
    ) {
        counters.queueRefused += 1
        guard receiverNotes.takes(at: step.moment) else { return }
        step.effects[0].effects.append(
            .note(
                Note(
                    kind: .receiverRefused, connection: .none, reason: .quotaExceeded,
                    user: step.effects[0].bytes.append(users[user].name),
                    device: device.map { step.effects[0].bytes.append($0) } ?? .empty,
                    subject: .empty, other: .none, limit: limit)))
    }
}
