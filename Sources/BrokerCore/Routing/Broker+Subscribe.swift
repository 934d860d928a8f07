// Subscriptions to plain topics, and to topics that begin with `$`.

import BrokerTerms
import Primitives

/// The reason of a refused subscription.
private struct SubscribeRefusal: Error {
    let reason: ReasonCode
    let limit: LimitName

    init(_ reason: ReasonCode, _ limit: LimitName = .none) {
        self.reason = reason
        self.limit = limit
    }
}

/// The answers for the filters of one packet: one in MRT, a code for each filter in MQTT.
private struct FilterAnswers {
    let request: FilterAnswer.Request
    let identifier: UInt64
    /// Whether the answer must wait for a commit, also if the session is not stored.
    var waitsForCommit = false
    /// The reason of the last one.
    private(set) var reason = ReasonCode.success
    private(set) var body: [UInt8] = []
    private(set) var codes: [UInt8] = []

    init(_ request: FilterAnswer.Request, _ identifier: UInt64) {
        self.request = request
        self.identifier = identifier
    }

    /// Adds the answer for one filter: `body`, or the reason if that is empty.
    mutating func append(_ reason: ReasonCode, body: [UInt8] = []) {
        self.reason = reason
        self.body = body
        codes.append(body.first ?? reason.rawValue)
    }

    /// Adds answers for filters that were not handled.
    mutating func append(_ reason: ReasonCode, count: Int) {
        codes.append(contentsOf: repeatElement(reason.rawValue, count: count))
    }
}

extension Broker {
    /// Handles the filters of a packet one by one. One answer contains the results.
    mutating func subscribe(
        _ connection: ConnectionID, _ request: SubscribeRequest, in step: inout Step
    ) {
        var answer = FilterAnswers(.subscribe, request.requestIdentifier)
        var walk = FilterRequestWalk(request.filters, in: step.bytes)
        // The event itself has been charged for the first.
        workload.charge(walk.remainingCount - 1)
        while let wanted = walk.next() {
            guard let session = session(of: connection) else { return }
            let filter = wanted.filter.bytes(in: step.bytes)
            let added = add(
                wanted, filter: filter, of: session, for: request, connection: connection, in: &step
            )
            switch added {
            case .success(nil):
                // Replies are sent once, to connected clients.
                answer.append(.success, body: [Grade.transient.rawValue])
            case .success:
                answer.append(.success, body: [wanted.grade.rawValue])
                // A membership belongs to the user, and is stored even if the session is not.
                if isGroupAddress(filter) { answer.waitsForCommit = true }
            case .failure(let refusal): answer.append(refusal.reason)
            }
            if walk.remainingCount == 0 {
                refuseOmitted(request.omittedCount, of: session, filter: filter, in: &step)
                answer.append(.quotaExceeded, count: request.omittedCount)
                give(answer, to: session, in: &step)
            }
            guard case .success((let index, let isNew)?) = added else { continue }
            sendRetained(
                to: session, subscription: index, filter: filter, request: wanted, isNew: isNew,
                in: &step)
            if noteReplay(of: index) { writeSubscription(index) }
            pump(session, in: &step)
        }
    }

    /// Adds the subscription to one filter of a packet, or changes it if it exists. The result is
    /// nil for the topic of replies, which their client receives without a subscription.
    private mutating func add(
        _ wanted: FilterRequest, filter: UnsafeRawBufferPointer, of session: Index<Session>,
        for request: SubscribeRequest, connection: ConnectionID, in step: inout Step
    ) -> Result<(index: Index<Subscription>, isNew: Bool)?, SubscribeRefusal> {
        do throws(SubscribeRefusal) {
            guard wanted.isValid else { throw SubscribeRefusal(.topicFilterInvalid) }
            guard !isRefusedAsOpen(connection, request.requestIdentifier) else {
                throw SubscribeRefusal(.packetIdentifierInUse)
            }
            if sessions[session].dialect.isMQTT, RequestTopic.isReply(filter.bytes) {
                return .success(nil)
            }
            let authorized = try admit(filter, of: session, in: &step)
            if let existing = subscription(of: session, filter) {
                change(existing, to: wanted, identifier: request.subscriptionIdentifier)
                return .success((existing, false))
            }
            let index = try add(
                authorized, of: session, wanted, identifier: request.subscriptionIdentifier)
            return .success((index, true))
        } catch {
            let reason = error.reason
            counters.subscriptionsRefused += 1
            if reason == .quotaExceeded { counters.subscriptionsOverQuota += 1 }
            note(
                .subscribeRefused, session: session, reason: reason, subject: filter,
                limit: error.limit, in: &step)
            return .failure(error)
        }
    }

    /// Replaces the options of an existing subscription [MQTT-3.8.4-3].
    private mutating func change(
        _ index: Index<Subscription>, to wanted: FilterRequest, identifier: UInt32
    ) {
        let isChanged = routing.change(index, to: wanted, identifier: identifier)
        // Unchanged options are stored already, or in the pending batch.
        if isChanged { writeSubscription(index) }
    }

    private mutating func add(
        _ authorized: AuthorizedFilter, of session: Index<Session>, _ wanted: FilterRequest,
        identifier: UInt32
    ) throws(SubscribeRefusal) -> Index<Subscription> {
        let isStored = sessions[session].isPersistent
        let permit = admitGrowth(of: isStored ? growth(ofFilter: authorized.bytes.count) : 0)
        guard let permit else { throw SubscribeRefusal(.quotaExceeded, commits.room.limit) }
        let index = addSubscription(
            of: session, filter: authorized, grade: wanted.grade,
            identifier: isStored ? makeIdentifier() : 0, options: wanted.options,
            subscriptionIdentifier: identifier)
        if isStored { commits.put(row(of: index), permit) }
        return index
    }

    mutating func unsubscribe(
        _ connection: ConnectionID, _ request: UnsubscribeRequest, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        var answer = FilterAnswers(.unsubscribe, request.requestIdentifier)
        var walk = FilterWalk(request.filters, in: step.bytes)
        // The event itself has been charged for the first.
        workload.charge(walk.remainingCount - 1)
        while let filter = walk.next() {
            let reason: ReasonCode
            if isRefusedAsOpen(connection, request.requestIdentifier, isUnsubscribe: true) {
                reason = .packetIdentifierInUse
            } else if let index = subscription(of: session, filter.bytes(in: step.bytes)) {
                forgetSubscription(index)
                reason = .success
            } else if sessions[session].dialect.isMQTT,
                RequestTopic.isReply(filter.bytes(in: step.bytes).bytes)
            {
                reason = .success
            } else {
                reason = .noSubscriptionExisted
            }
            answer.append(reason)
        }
        // The code of UNSUBACK that refuses a valid request (section 3.11.3).
        answer.append(.implementationSpecificError, count: request.omittedCount)
        give(answer, to: session, in: &step)
    }

    /// Refuses the filters of a packet that exceed the limit, and counts them.
    private mutating func refuseOmitted(
        _ count: Int, of session: Index<Session>, filter: UnsafeRawBufferPointer,
        in step: inout Step
    ) {
        guard count > 0 else { return }
        counters.subscriptionsRefused += UInt64(count)
        counters.subscriptionsOverQuota += UInt64(count)
        note(
            .subscribeRefused, session: session, reason: .quotaExceeded, subject: filter,
            limit: .filters, in: &step)
    }

    /// Answers a packet after the commit of its changes. The answer is immediate if the session is
    /// not stored and no filter is a group, and for a refused request of MRT. A subscription that
    /// does not exist is no refusal: its end may not be committed yet.
    private mutating func give(
        _ answer: FilterAnswers, to session: Index<Session>, in step: inout Step
    ) {
        let connection = live.connectedSessions[connectedIndex(of: session)].connection
        let isStored = sessions[session].isPersistent || answer.waitsForCommit
        if sessions[session].dialect.isMQTT {
            if isStored {
                answerFiltersAtCommit(
                    to: connection, request: answer.request, identifier: answer.identifier,
                    codes: answer.codes)
            } else {
                step.effects[connection.loop].answerFilters(
                    to: connection, request: answer.request, identifier: answer.identifier,
                    codes: answer.codes)
            }
            return
        }
        if isStored && !answer.reason.isFailure {
            respondAtCommit(
                to: connection, request: answer.identifier, reason: answer.reason, body: answer.body
            )
        } else {
            step.effects[connection.loop].respond(
                to: connection, request: answer.identifier, reason: answer.reason, body: answer.body
            )
        }
    }

    /// Adds a filter that a session may have, if there is room for it. Joins a group if the filter
    /// asks for that.
    private mutating func admit(
        _ filter: UnsafeRawBufferPointer, of session: Index<Session>, in step: inout Step
    ) throws(SubscribeRefusal) -> AuthorizedFilter {
        var levels = 1
        for byte in filter where byte == UInt8(ascii: "/") { levels += 1 }
        if levels > limits.topicLevelsMaximum || filter.count > limits.filterBytesMaximum {
            throw SubscribeRefusal(.topicFilterInvalid)
        }
        // The broker publishes nothing on other topics with `$`.
        if filter.first == UInt8(ascii: "$"), ReservedTopic(filter) == nil {
            throw SubscribeRefusal(.topicFilterInvalid)
        }
        let (decision, authorized) = authorize(filter: filter, of: session)
        if let reason = decision.refusal { throw SubscribeRefusal(reason) }
        let limit = limit(keepingOut: filter, of: session)
        if limit != .none && subscription(of: session, filter) == nil {
            throw SubscribeRefusal(.quotaExceeded, limit)
        }
        if let authorized { return authorized }
        if let reason = join(session, by: filter, in: &step) {
            throw SubscribeRefusal(reason)
        }
        // The user is a member now, and the filter is checked again.
        guard let joined = authorize(filter: filter, of: session).filter else {
            throw SubscribeRefusal(.notAuthorized)
        }
        return joined
    }

    /// Adds a filter to a persistent session without a connection. Its rights are checked when the
    /// client logs in, as those of every stored subscription. Returns false if there is no room for
    /// it, or if its topics begin with `$`.
    ///
    /// - Parameter filter: a valid filter.
    mutating func addStored(
        _ filter: [UInt8], of session: Index<Session>, grade: Grade,
        options: SubscriptionOptions, subscriptionIdentifier: UInt32
    ) -> Bool {
        let isAdmitted = filter.withUnsafeBytes { bytes in
            (bytes.first != UInt8(ascii: "$") || SharedFilter(bytes) != nil)
                && subscription(of: session, bytes) == nil
                && limit(keepingOut: bytes, of: session) == .none
        }
        guard isAdmitted, levelCount(of: filter) <= limits.topicLevelsMaximum,
            filter.count <= limits.filterBytesMaximum,
            let permit = admitGrowth(of: growth(ofFilter: filter.count))
        else { return false }
        let index = addSubscription(
            of: session, filter: AuthorizedFilter(restored: filter), grade: grade,
            identifier: makeIdentifier(), options: options,
            subscriptionIdentifier: subscriptionIdentifier)
        commits.put(row(of: index), permit)
        return true
    }

    /// A session's subscription with exactly this filter.
    private mutating func subscription(
        of session: Index<Session>, _ filter: UnsafeRawBufferPointer
    ) -> Index<Subscription>? {
        let app = registry.users[sessions[session].user].app
        var visitedCount = 0
        defer { workload.charge(visitedCount / CoreLimits.nodesPerWork) }
        guard
            let audience = registry.apps[app].topics.target(of: filter, visitedCount: &visitedCount)
        else { return nil }
        workload.charge(Int(sessions[session].filterCount) / CoreLimits.looksPerWork)
        return subscription(of: session, audience: audience)
    }

    func subscription(of session: Index<Session>, audience: Index<Audience>) -> Index<Subscription>?
    {
        var next = sessions[session].firstSubscription
        while let index = next {
            if routing.subscriptions[index].audience == audience { return index }
            next = routing.subscriptions[index].next
        }
        return nil
    }

    /// The limit that forbids a new subscription; `none` if there is room for it.
    private mutating func limit(
        keepingOut filter: UnsafeRawBufferPointer, of session: Index<Session>
    ) -> LimitName {
        if sessions[session].filterCount >= limits.subscriptionsMaximum { return .subscriptions }
        if sessions[session].isPersistent && !hasRoom(for: growth(ofFilter: filter.count)) {
            return commits.room.limit
        }
        let app = registry.users[sessions[session].user].app
        let countMaximum = limits.filterShapesMaximum
        guard let shared = SharedFilter(filter) else {
            // A filter that other sessions have too needs no new place in the tree.
            return registry.apps[app].topics.shapes.admits(filter, countMaximum: countMaximum)
                ? .none : .filterShapes
        }
        guard registry.apps[app].shares.shapes.admits(shared.pattern, countMaximum: countMaximum),
            registry.apps[app].topics.shapes.admits(filter, countMaximum: countMaximum)
        else { return .filterShapes }
        if registry.apps[app].shareCount >= limits.sharesPerAppMaximum,
            registry.apps[app].topics.target(of: filter) == nil
        {
            return .sharesOfApp
        }
        workload.charge(Int(sessions[session].filterCount) / CoreLimits.looksPerWork)
        var shareCount = 0
        forEachSubscription(of: session) {
            if routing.audiences[routing.subscriptions[$0].audience].share != 0 { shareCount += 1 }
        }
        return shareCount >= limits.sharesPerSessionMaximum ? .sharesOfSession : .none
    }

    @discardableResult
    mutating func addSubscription(
        of session: Index<Session>, filter authorized: AuthorizedFilter, grade: Grade,
        identifier: UInt64,
        options: SubscriptionOptions, subscriptionIdentifier: UInt32, storedShare: UInt16? = nil
    ) -> Index<Subscription> {
        let filter = authorized.bytes
        let app = registry.users[sessions[session].user].app
        var audience = filter.withUnsafeBytes { registry.apps[app].topics.target(of: $0) }
        if audience == nil {
            workload.charge(levelCount(of: filter) / CoreLimits.nodesPerWork)
            let new = routing.makeAudience(filter: filter)
            filter.withUnsafeBytes { registry.insert(filter: $0, audience: new, app: app) }
            audience = new
            addShare(new, filter: filter, app: app, stored: storedShare)
        }
        sessions[session].filterCount += 1
        routing.countFilter(isNew: true)
        let index = join(
            session: session, audience: audience!, grade: grade, identifier: identifier,
            options: options.stored, subscriptionIdentifier: subscriptionIdentifier)
        addressChanged(session, filter: filter, isSubscribed: true)
        return index
    }

    private func levelCount(of filter: [UInt8]) -> Int {
        1 + filter.count { $0 == UInt8(ascii: "/") }
    }

    /// Writes the row of a stored subscription again; its length does not change.
    mutating func writeSubscription(_ index: Index<Subscription>) {
        if sessions[routing.subscriptions[index].session].isPersistent {
            commits.renew(row(of: index))
        }
    }

    private func row(of index: Index<Subscription>) -> RecordChange {
        let subscription = routing.subscriptions[index]
        return Records.subscription(
            session: sessions[subscription.session].identifier, identifier: subscription.identifier,
            filter: routing.audiences[subscription.audience].filter,
            share: routing.audiences[subscription.audience].share,
            routing.audiences[subscription.audience].subscribers[Int(subscription.position)])
    }

    /// The growth that a stored subscription must be admitted for, by the length of its filter.
    private func growth(ofFilter byteCount: Int) -> Int {
        RecordChange.pageByteCount(key: 16, value: byteCount + 16)
    }

    /// Removes a session from an audience, the row from the store, and the filter from the tree if
    /// no session has it any more.
    mutating func forgetSubscription(_ index: Index<Subscription>) {
        let subscription = routing.subscriptions[index]
        let session = subscription.session
        leave(subscription: index)
        // Audiences that every session joins by itself have no filter, and remain.
        let filter = routing.audiences[subscription.audience].filter
        guard !filter.isEmpty else { return }
        sessions[session].filterCount -= 1
        routing.countFilter(isNew: false)
        if sessions[session].isPersistent {
            commits.remove(
                .subscriptions,
                key: RecordKey.numbers(sessions[session].identifier, subscription.identifier))
        }
        if routing.audiences[subscription.audience].subscribers.isEmpty {
            let app = registry.users[sessions[session].user].app
            workload.charge(levelCount(of: filter) / CoreLimits.nodesPerWork)
            let removed = routing.remove(subscription.audience)
            filter.withUnsafeBytes { registry.remove(filter: $0, app: app) }
            if removed.shareSet != nil { removeShare(removed, app: app) }
        }
        addressChanged(session, filter: filter, isSubscribed: false)
    }
}
