// Subscriptions: to plain topics, and to what is told on topics that begin with `$`.

import BrokerTerms
import Primitives

/// Why a subscription is refused.
private struct SubscribeRefusal: Error {
    let reason: ReasonCode
    let limit: LimitName

    init(_ reason: ReasonCode, _ limit: LimitName = .none) {
        self.reason = reason
        self.limit = limit
    }
}

/// What becomes of the filters of one packet: in MRT there is one, in MQTT a code for each.
private struct FilterAnswers {
    let request: FilterAnswer.Request
    let identifier: UInt64
    /// Whether one of them has to wait for a commit, whatever the session is.
    var waitsForCommit = false
    /// What became of the last one.
    private(set) var reason = ReasonCode.success
    private(set) var body: [UInt8] = []
    private(set) var codes: [UInt8] = []

    init(_ request: FilterAnswer.Request, _ identifier: UInt64) {
        self.request = request
        self.identifier = identifier
    }

    /// One more filter. Its code is what `body` holds, or the reason.
    mutating func append(_ reason: ReasonCode, body: [UInt8] = []) {
        self.reason = reason
        self.body = body
        codes.append(body.first ?? reason.rawValue)
    }

    /// Filters that nobody looked at.
    mutating func append(_ reason: ReasonCode, count: Int) {
        codes.append(contentsOf: repeatElement(reason.rawValue, count: count))
    }
}

extension Broker {
    /// Looks at the filters of a packet one after the other; one answer tells of them all.
    mutating func subscribe(
        _ connection: ConnectionID, _ request: SubscribeRequest, in step: inout Step
    ) {
        var answer = FilterAnswers(.subscribe, request.requestIdentifier)
        var walk = FilterRequestWalk(request.filters, in: step.bytes)
        // The step has been charged for the first.
        workload.charge(walk.remainingCount - 1)
        while let wanted = walk.next() {
            guard let session = session(of: connection) else { return }
            let filter = wanted.filter.bytes(in: step.bytes)
            let added = add(
                wanted, filter: filter, of: session, for: request, connection: connection, in: &step
            )
            switch added {
            case .success:
                answer.append(.success, body: [wanted.grade.rawValue])
                // To be in a group is the user's, and is stored also where the session is not.
                if isGroupAddress(filter) { answer.waitsForCommit = true }
            case .failure(let refusal): answer.append(refusal.reason)
            }
            if walk.remainingCount == 0 {
                refuseOmitted(request.omittedCount, of: session, filter: filter, in: &step)
                answer.append(.quotaExceeded, count: request.omittedCount)
                give(answer, to: session, in: &step)
            }
            guard case .success(let (index, isNew)) = added else { continue }
            sendRetained(
                to: session, subscription: index, filter: filter, request: wanted, isNew: isNew,
                in: &step)
            if noteReplay(of: index) { writeSubscription(index) }
            pump(session, in: &step)
        }
    }

    /// Adds the subscription to one filter of a packet, or changes the one there is.
    private mutating func add(
        _ wanted: FilterRequest, filter: UnsafeRawBufferPointer, of session: Index<Session>,
        for request: SubscribeRequest, connection: ConnectionID, in step: inout Step
    ) -> Result<(index: Index<Subscription>, isNew: Bool), SubscribeRefusal> {
        do throws(SubscribeRefusal) {
            guard wanted.isValid else { throw SubscribeRefusal(.topicFilterInvalid) }
            guard !isRefusedAsOpen(connection, request.requestIdentifier) else {
                throw SubscribeRefusal(.packetIdentifierInUse)
            }
            let judged = try admit(filter, of: session, in: &step)
            if let existing = subscription(of: session, filter) {
                change(existing, to: wanted, identifier: request.subscriptionIdentifier)
                return .success((existing, false))
            }
            let index = try add(
                judged, of: session, wanted, identifier: request.subscriptionIdentifier)
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

    /// A repeated subscription replaces the earlier one [MQTT-3.8.4-3].
    private mutating func change(
        _ index: Index<Subscription>, to wanted: FilterRequest, identifier: UInt32
    ) {
        let isChanged = routing.change(index, to: wanted, identifier: identifier)
        // One that says what is stored already, or on its way there, needs no row.
        if isChanged { writeSubscription(index) }
    }

    private mutating func add(
        _ judged: JudgedFilter, of session: Index<Session>, _ wanted: FilterRequest,
        identifier: UInt32
    ) throws(SubscribeRefusal) -> Index<Subscription> {
        let isStored = sessions[session].isPersistent
        let permit = admitGrowth(of: isStored ? growth(ofFilter: judged.bytes.count) : 0)
        guard let permit else { throw SubscribeRefusal(.quotaExceeded, .store) }
        let index = addSubscription(
            of: session, filter: judged, grade: wanted.grade,
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
        // The step has been charged for the first.
        workload.charge(walk.remainingCount - 1)
        while let filter = walk.next() {
            let reason: ReasonCode
            if isRefusedAsOpen(connection, request.requestIdentifier, isUnsubscribe: true) {
                reason = .packetIdentifierInUse
            } else if let index = subscription(of: session, filter.bytes(in: step.bytes)) {
                forgetSubscription(index)
                reason = .success
            } else {
                reason = .noSubscriptionExisted
            }
            answer.append(reason)
        }
        // Of the codes of UNSUBACK the one that refuses what is valid (section 3.11.3).
        answer.append(.implementationSpecificError, count: request.omittedCount)
        give(answer, to: session, in: &step)
    }

    /// Counts the filters of a packet that nobody looked at.
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

    /// Answers a packet once what it changed is committed. A session without durable state, unless
    /// it subscribes to a group, and a request of MRT that was refused, is answered at once. That
    /// there is no subscription is no refusal: its end may not be committed yet.
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

    /// Takes a filter that a session may have and that there is room for; joins the group where
    /// that is what it asks for.
    private mutating func admit(
        _ filter: UnsafeRawBufferPointer, of session: Index<Session>, in step: inout Step
    ) throws(SubscribeRefusal) -> JudgedFilter {
        var levels = 1
        for byte in filter where byte == UInt8(ascii: "/") { levels += 1 }
        if levels > limits.topicLevelsMaximum || filter.count > limits.filterBytesMaximum {
            throw SubscribeRefusal(.topicFilterInvalid)
        }
        // The broker publishes nothing there.
        if filter.first == UInt8(ascii: "$"), ReservedTopic(filter) == nil {
            throw SubscribeRefusal(.topicFilterInvalid)
        }
        let (verdict, judged) = judge(filter: filter, of: session)
        if case .refused(let reason) = verdict { throw SubscribeRefusal(reason) }
        let limit = limit(keepingOut: filter, of: session)
        if limit != .none && subscription(of: session, filter) == nil {
            throw SubscribeRefusal(.quotaExceeded, limit)
        }
        if let judged { return judged }
        if let reason = join(session, by: filter, in: &step) {
            throw SubscribeRefusal(reason)
        }
        // A member now, and judged as one.
        guard let joined = judge(filter: filter, of: session).filter else {
            throw SubscribeRefusal(.notAuthorized)
        }
        return joined
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

    /// The limit that keeps a new subscription out, `none` where there is room for it.
    private mutating func limit(
        keepingOut filter: UnsafeRawBufferPointer, of session: Index<Session>
    ) -> LimitName {
        if sessions[session].filterCount >= limits.subscriptionsMaximum { return .subscriptions }
        if sessions[session].isPersistent && !hasRoom(for: growth(ofFilter: filter.count)) {
            return .store
        }
        let app = registry.users[sessions[session].user].app
        let countMaximum = limits.filterShapesMaximum
        guard let shared = SharedFilter(filter) else {
            // A subscription that others have too has a place.
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
        of session: Index<Session>, filter judged: JudgedFilter, grade: Grade, identifier: UInt64,
        options: SubscriptionOptions, subscriptionIdentifier: UInt32, storedShare: UInt16? = nil
    ) -> Index<Subscription> {
        let filter = judged.bytes
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
        let index = join(
            session: session, audience: audience!, grade: grade, identifier: identifier,
            options: options.stored, subscriptionIdentifier: subscriptionIdentifier)
        addressChanged(session, filter: filter, isHeard: true)
        return index
    }

    private func levelCount(of filter: [UInt8]) -> Int {
        1 + filter.count { $0 == UInt8(ascii: "/") }
    }

    /// Writes the row of a stored subscription again, which is as long as before.
    mutating func writeSubscription(_ index: Index<Subscription>) {
        if sessions[routing.subscriptions[index].session].isPersistent {
            commits.renew(row(of: index))
        }
    }

    private func row(of index: Index<Subscription>) -> RecordChange {
        let place = routing.subscriptions[index]
        return Records.subscription(
            session: sessions[place.session].identifier, identifier: place.identifier,
            filter: routing.audiences[place.audience].filter,
            share: routing.audiences[place.audience].share,
            routing.audiences[place.audience].subscribers[Int(place.position)])
    }

    /// What a stored subscription has to be admitted for, by the length of its filter.
    private func growth(ofFilter byteCount: Int) -> Int {
        RecordChange.pageByteCount(key: 16, value: byteCount + 16)
    }

    /// Takes a session out of an audience, the row out of the store, and a filter that nobody has
    /// any more out of the tree.
    mutating func forgetSubscription(_ index: Index<Subscription>) {
        let subscription = routing.subscriptions[index]
        let session = subscription.session
        leave(subscription: index)
        // What every session receives by itself has no filter, and its audience stays.
        let filter = routing.audiences[subscription.audience].filter
        guard !filter.isEmpty else { return }
        sessions[session].filterCount -= 1
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
        addressChanged(session, filter: filter, isHeard: false)
    }
}
