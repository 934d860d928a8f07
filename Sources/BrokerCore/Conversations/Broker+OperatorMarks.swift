// Read marks over the HTTP API and the admin socket, for a user who need not be connected.

import BrokerTerms
import Primitives

extension Broker {
    /// Notes that a user has read a conversation up to a number, or does not want to see it up to
    /// there.
    ///
    /// - Parameters:
    ///   - user: one of the users of the conversation, or a member of the group.
    ///   - hides: whether the messages are hidden as well.
    /// - Returns: the number under which ``takeMark(_:)`` has the outcome, now or when a batch has
    ///   its result; nil if there is no such user or group.
    public mutating func mark(
        _ selection: ConversationSelection, through number: UInt64, hides: Bool, by user: [UInt8],
        at moment: Moment, effects: inout Effects
    ) -> UInt64? {
        guard let app = app(named: selection.app), let user = self.user(named: user, app: app),
            let parties = parties(of: selection, app: app)
        else { return nil }
        let outcome = inspections.addMark()
        func refuse(_ reason: ReasonCode, _ cause: LimitName) -> UInt64 {
            counters.requestsRefused += 1
            inspections.complete(outcome, with: MarkOutcome(reason: reason, cause: cause))
            return outcome
        }
        if case .group(let group) = parties, membership(of: user, in: group) == nil {
            return refuse(.notAuthorized, .memberOnly)
        }
        guard !parties.isTopic else { return refuse(.topicNameInvalid, .topicMark) }
        guard let index = conversationTable.find(parties),
            number <= conversationTable.conversations[index].lastNumber
        else { return refuse(.topicNameInvalid, .numberAhead) }
        let reader = ConversationTable.Reader(conversation: index, user: user)
        var step = Step(at: moment, effects: effects)
        begin(
            PendingMark(
                teller: .operator(outcome), reader: reader, number: number, hides: hides,
                start: conversationTable.reading(of: reader).readThrough),
            in: &step)
        return outcome
    }

    /// How far users have read a conversation: numbers in the order of the users, 0 for one who has
    /// read nothing of it or is none of its users.
    public func readMarks(of selection: ConversationSelection, by users: [[UInt8]]) -> [UInt64] {
        guard let app = app(named: selection.app),
            let parties = parties(of: selection, app: app),
            let index = conversationTable.find(parties)
        else { return users.map { _ in 0 } }
        return users.map { name in
            user(named: name, app: app).map {
                conversationTable.reading(
                    of: ConversationTable.Reader(conversation: index, user: $0)
                ).readThrough
            } ?? 0
        }
    }

    /// Removes and returns what became of a mark; nil while the store counts messages for it.
    public mutating func takeMark(_ number: UInt64) -> MarkOutcome? { inspections.takeMark(number) }
}
