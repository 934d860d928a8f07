// Sessions of another broker, with the messages that wait for them, in pieces. A session gets its
// subscriptions with the last piece: until then nothing else enters its queue, and its client does
// not log in. Its row tells how many messages of the source it had, in the batch that stores them:
// there an import goes on that was interrupted, whatever was refused, has expired or was removed
// meanwhile.

import BrokerTerms
import Primitives

/// A session of an MQTT client, as another broker has kept it.
public struct ImportedSession: Sendable {
    public struct Filter: Sendable {
        public var filter: [UInt8]
        public var grade: Grade
        public var options: SubscriptionOptions
        /// The subscription identifier of MQTT 5; 0 for none.
        public var identifier: UInt32

        public init(
            filter: [UInt8], grade: Grade, options: SubscriptionOptions, identifier: UInt32
        ) {
            self.filter = filter
            self.grade = grade
            self.options = options
            self.identifier = identifier
        }
    }

    /// A publication that waits.
    public struct Message: Sendable {
        public var topic: [UInt8]
        public var payload: [UInt8]
        /// As ``MessageParts`` has them.
        public var properties: [UInt8]
        public var grade: Grade
        /// Nil for the oldest age of the queues; 0 if it has expired and only counts.
        public var expirySeconds: UInt64?

        public init(
            topic: [UInt8], payload: [UInt8], properties: [UInt8], grade: Grade,
            expirySeconds: UInt64?
        ) {
            self.topic = topic
            self.payload = payload
            self.properties = properties
            self.grade = grade
            self.expirySeconds = expirySeconds
        }
    }

    public var app: [UInt8]
    public var user: [UInt8]
    public var device: [UInt8]
    /// Nil for the default of the broker, which also has a maximum.
    public var expirySeconds: UInt32?
    /// For a session that is new: random.
    public var epoch: UInt64
    /// Whom receivers see as the sender of the messages.
    public var sender: [UInt8]
    /// How many messages of the source earlier pieces had, taken or not.
    public var position: UInt64
    public var messages: [Message]
    /// Nil except in the last piece.
    public var filters: [Filter]?

    public init(
        app: [UInt8], user: [UInt8], device: [UInt8], expirySeconds: UInt32?, epoch: UInt64,
        sender: [UInt8], position: UInt64, messages: [Message], filters: [Filter]?
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.expirySeconds = expirySeconds
        self.epoch = epoch
        self.sender = sender
        self.position = position
        self.messages = messages
        self.filters = filters
    }
}

/// What became of a piece.
public enum SessionImport: Hashable, Sendable {
    /// The messages are in the queue, which has so many now, except those that are too large or
    /// for which there is no room.
    case taken(count: UInt64, refusedCount: Int, refusedFilters: [[UInt8]])
    /// Earlier pieces had another number of messages of the source; nothing is taken.
    case elsewhere(position: UInt64, count: UInt64)
    /// A session that no import has begun, or that an import has completed; nothing is taken.
    case exists
    case unknownUser
    /// A limit keeps the session out.
    case refused(LimitName)
}

extension Broker {
    /// Takes a piece of a session.
    public mutating func importSession(
        _ piece: ImportedSession, at moment: Moment, effects: inout Effects
    ) -> SessionImport {
        guard let app = app(named: piece.app), let user = user(named: piece.user, app: app) else {
            return .unknownUser
        }
        let session: Index<Session>
        if let existing = self.session(of: user, device: Name(piece.device)) {
            guard sessions[existing].isPersistent, sessions[existing].dialect.isMQTT,
                !sessions[existing].isConnected, sessions[existing].filterCount == 0,
                !sessions[existing].hasEndedImport
            else { return .exists }
            session = existing
        } else {
            guard piece.position == 0 else { return .elsewhere(position: 0, count: 0) }
            do throws(ImportRefusal) {
                session = try makeSession(piece, app: app, user: user, at: moment)
            } catch {
                return .refused(error.limit)
            }
        }
        let hasMessages = sessions[session].inbox.count > 0
        guard let position = sessions[session].importPosition ?? (hasMessages ? nil : 0) else {
            return .exists
        }
        guard position == piece.position else {
            return .elsewhere(
                position: position, count: UInt64(sessions[session].inbox.count))
        }
        // Otherwise the store leaves out the messages, and their position with them.
        if commits.room.isFull, !piece.messages.isEmpty { return .refused(commits.room.limit) }
        sessions[session].importPosition = position + UInt64(piece.messages.count)
        if piece.messages.isEmpty {
            markDirty(session, .outbox, isUrgent: true)
        } else {
            commits.noteImport(into: sessions.handle(session), from: position)
            markDirty(session, .send, isUrgent: true)
        }
        var step = Step(at: moment, effects: effects)
        var refusedCount = 0
        for message in piece.messages where message.expirySeconds != 0 {
            let isTaken = take(message, from: piece.sender, of: session, in: &step)
            if !isTaken { refusedCount += 1 }
        }
        let refused = piece.filters.map { subscribe(session, to: $0) } ?? []
        if piece.filters != nil { _ = sessions[session].endImport() }
        return .taken(
            count: UInt64(sessions[session].inbox.count), refusedCount: refusedCount,
            refusedFilters: refused)
    }

    /// Where the import of a session goes on; nil if there is none under way.
    public func importPosition(app: [UInt8], user: [UInt8], device: [UInt8]) -> UInt64? {
        guard let app = self.app(named: app), let user = self.user(named: user, app: app),
            let session = session(of: user, device: Name(device))
        else { return nil }
        return sessions[session].importPosition
    }

    /// Goes back to before the pieces that the store has left out for want of room.
    mutating func takeBackImports() {
        for (session, position) in commits.inFlightBatch.imports.reversed()
        where sessions.contains(session) && !sessions[session.index].isConnected
            && (sessions[session.index].importPosition != nil
                || sessions[session.index].hasEndedImport)
        {
            sessions[session.index].importPosition = position
            markDirty(session.index, .outbox, isUrgent: true)
        }
    }

    private struct ImportRefusal: Error {
        let limit: LimitName
    }

    private mutating func makeSession(
        _ piece: ImportedSession, app: Index<App>, user: Index<User>, at moment: Moment
    ) throws(ImportRefusal) -> Index<Session> {
        let limit = limit(ofNewSession: user, app: app)
        if limit != .none { throw ImportRefusal(limit: limit) }
        let growth = growth(ofSession: piece.device, user: piece.user, app: app)
        guard let permit = admitGrowth(of: growth) else {
            throw ImportRefusal(limit: commits.room.limit)
        }
        let expiry = min(
            max(1, piece.expirySeconds ?? limits.sessionExpirySecondsDefault),
            limits.sessionExpirySecondsMaximum)
        let session = create(
            user: user, device: Name(piece.device), dialect: .mqtt5, epoch: piece.epoch,
            expirySeconds: expiry, permit: permit)
        sessions[session].disconnected = moment.instant
        startExpiry(session)
        return session
    }

    /// Puts a publication into the session's queue. Returns false if there is no room.
    private mutating func take(
        _ message: ImportedSession.Message, from sender: [UInt8], of session: Index<Session>,
        in step: inout Step
    ) -> Bool {
        let levels = 1 + message.topic.count { $0 == UInt8(ascii: "/") }
        guard message.payload.count <= limits.payloadMaximum, levels <= limits.topicLevelsMaximum
        else { return false }
        var taken: UInt32 = 0
        sendSystemMessage(
            .topic, about: message.topic, payload: message.payload,
            properties: message.properties, from: sender, grade: message.grade, marks: .raw,
            expirySeconds: message.expirySeconds, at: step.moment
        ) { broker, index, tally in
            broker.enqueue(
                index, session: session, state: EntryState(grade: message.grade), tally: &tally,
                in: &step)
            taken = tally.taken
            broker.memory.noteTaken(tally.taken, of: index)
        }
        return taken > 0
    }

    /// Adds subscriptions. Returns the filters that are refused. Their rights are checked when the
    /// client logs in, as those of every stored subscription.
    private mutating func subscribe(
        _ session: Index<Session>, to filters: [ImportedSession.Filter]
    ) -> [[UInt8]] {
        var refused: [[UInt8]] = []
        for wanted in filters {
            let isTaken = addStored(
                wanted.filter, of: session, grade: wanted.grade, options: wanted.options,
                subscriptionIdentifier: wanted.identifier)
            if !isTaken { refused.append(wanted.filter) }
        }
        return refused
    }
}
