// What few sends ask for: a time of their own that is not the present, a priority, and mentions of
// members of a group. All of it is apart from the path of other sends.

import BrokerTerms
import Primitives

extension SendRequest {
    /// Whether the broker remembers it until its message expires.
    @inline(__always)
    var isTracked: Bool { isUnusual && needsReference }

    /// Whether its message has fields.
    @inline(__always)
    var hasFields: Bool {
        isUnusual
            && (!asks.isEmpty || isLate || !attributes.isEmpty || !mentions.isEmpty
                || !collapseKey.isEmpty || !push.isEmpty)
    }
}

extension Broker {
    // MARK: - Rules

    /// The reason for which a send that asks for something unusual is refused.
    @inline(never)
    mutating func fault(
        ofUnusual request: SendRequest, at moment: Moment
    ) -> (reason: ReasonCode, cause: LimitName)? {
        // The other grades are never dropped.
        if request.priority != .normal && request.grade != .transient {
            return (.qosNotSupported, .priorityGrade)
        }
        if !request.mentions.isEmpty {
            guard case .group = request.target else {
                return (.topicNameInvalid, .mentionsTarget)
            }
            // Only those whom it mentions, and it mentions nobody.
            guard request.mentions.options != .only || !request.mentions.names.isEmpty else {
                return (.payloadFormatInvalid, .mentionsOfNobody)
            }
        }
        if request.isLate, !request.isUndelivered,
            !isPlausible(lateTime: request.senderUnixMilliseconds, at: moment)
        {
            counters.senderClocksRejected += 1
            return (.payloadFormatInvalid, .lateTime)
        }
        return nil
    }

    /// Whether a late message may have its sender's time: not later than the broker's, but for the
    /// difference that all senders may have, and not older than messages may become.
    private func isPlausible(lateTime time: UInt64, at moment: Moment) -> Bool {
        let now = moment.unixMilliseconds
        let newest = now &+ limits.senderClockDifferenceMillisecondsMaximum
        let oldest = limits.queueAgeSecondsMaximum.multipliedReportingOverflow(by: 1_000)
        return time > 0 && time <= newest
            && (oldest.overflow || now.missing(from: oldest.partialValue) <= time)
    }

    /// The time that a message has: its sender's if that is plausible. Nobody takes a message that
    /// is only kept for a present one, so its time may be any in the past.
    mutating func time(of request: SendRequest, at moment: Moment) -> UInt64 {
        let (own, now) = (request.senderUnixMilliseconds, moment.unixMilliseconds)
        if own == 0 { return now }
        if request.isLate, !request.isUndelivered { return own }
        let difference = own > now ? own - now : now - own
        if difference <= limits.senderClockDifferenceMillisecondsMaximum
            || request.isUndelivered && own < now
        {
            return own
        }
        counters.senderClocksRejected += 1
        return now
    }

    // MARK: - Receivers

    /// The receivers of a message that only those get whom it mentions. All members are mentioned
    /// where its sender says so.
    func restricted(
        _ target: AuthorizedTarget, by options: Mentions.Options, names: ListReader
    ) -> AuthorizedTarget {
        options == .only ? target.only(names) : target
    }

    /// Calls `body` with the destinations of the members of a group whom a message mentions by
    /// name. Names of others are ignored.
    ///
    /// - Parameter isQueued: whether it waits for members without a session.
    @inline(never)
    mutating func forEachDestination(
        mentionedIn names: ListReader, of group: Index<Group>, app: Index<App>,
        isQueued: Bool, tally: inout RoutingTally,
        _ body: (inout Broker, Destination, inout RoutingTally) -> Void
    ) {
        let members = members(of: group, namedIn: names, app: app)
        let users = Set(members)
        var audiences: ContiguousArray = [groupTable.groups[group].audience]
        if let address = audience(ofAddress: .group, groupTable.groups[group].name, app: app) {
            audiences.append(address)
        }
        var subscribers = ContiguousArray<Subscriber>()
        for audience in audiences {
            workload.charge(
                routing.audiences[audience].subscribers.count / CoreLimits.looksPerWork)
            for subscriber in routing.audiences[audience].subscribers
            where users.contains(sessions[subscriber.session].user) {
                subscribers.append(subscriber)
            }
        }
        if !subscribers.isEmpty {
            routing.replaceMerged(with: subscribers)
            body(&self, .audience(routing.mergedAudience), &tally)
        }
        guard isQueued else { return }
        for user in members {
            guard let membership = membership(of: user, in: group), isWaiting(membership) else {
                continue
            }
            body(&self, .offlineQueue(ofUser: user), &tally)
        }
    }

    /// The members of a group who are named in a list, in its order, each once.
    func members(
        of group: Index<Group>, namedIn names: ListReader, app: Index<App>
    ) -> [Index<User>] {
        var known: Set<Index<User>> = []
        var members: [Index<User>] = []
        var names = names
        while !names.isAtEnd {
            if let user = user(named: names.next(), app: app),
                membership(of: user, in: group) != nil,
                known.insert(user).inserted
            {
                members.append(user)
            }
        }
        return members
    }

    /// Puts mentions into the fields of a message. If it goes to those only whom it names, they
    /// need no names.
    func take(
        _ options: Mentions.Options, names: [UInt8], into fields: inout MessageFields
    ) {
        if options == .only {
            fields.mention = .byName
        } else {
            fields.mentionOptions = options.intersection(.all)
            fields.mentionedNames = names
        }
    }
}
