// Subscriptions: to plain topics, and to what is told on topics that begin with `$`.

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

extension Broker {
    mutating func subscribe(
        _ connection: ConnectionID, _ request: SubscribeRequest, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let filter = request.filter.bytes(in: step.bytes)
        let index: Index<Subscription>
        let isNew: Bool
        do throws(SubscribeRefusal) {
            guard request.isFilterValid else { throw SubscribeRefusal(.topicFilterInvalid) }
            guard !isRefusedAsOpen(connection, request.requestIdentifier) else {
                throw SubscribeRefusal(.packetIdentifierInUse)
            }
            let judged = try admit(filter, of: session, in: &step)
            if let existing = subscription(of: session, filter) {
                change(existing, to: request)
                (index, isNew) = (existing, false)
            } else {
                index = try add(judged, of: session, request)
                isNew = true
            }
        } catch {
            let reason = error.reason
            counters.subscriptionsRefused += 1
            if reason == .quotaExceeded { counters.subscriptionsOverQuota += 1 }
            note(
                .subscribeRefused, session: session, reason: reason, subject: filter,
                limit: error.limit, in: &step)
            refuseOmitted(request.omittedCount, session, filter, in: &step)
            answer(
                session, request.requestIdentifier, reason, body: [],
                followingCount: request.followingCount, omittedCount: request.omittedCount,
                in: &step)
            return
        }
        // To be in a group is the user's, and is stored also where the session is not.
        answersAtCommit = answersAtCommit || isGroupAddress(filter)
        refuseOmitted(request.omittedCount, session, filter, in: &step)
        answer(
            session, request.requestIdentifier, .success, body: [request.grade.rawValue],
            followingCount: request.followingCount, omittedCount: request.omittedCount, in: &step)
        sendRetained(
            to: session, subscription: index, filter: filter, request: request, isNew: isNew,
            in: &step)
        if noteReplay(of: index) { writeSubscription(index) }
        pump(session, in: &step)
    }

    /// A repeated subscription replaces the earlier one [MQTT-3.8.4-3].
    private mutating func change(_ index: Index<Subscription>, to request: SubscribeRequest) {
        let place = subscriptions[index]
        let position = Int(place.position)
        var subscriber = audiences[place.audience].subscribers[position]
        let isChanged = subscriber.change(to: request)
        audiences[place.audience].subscribers[position] = subscriber
        // One that says what is stored already, or on its way there, needs no row.
        if isChanged { writeSubscription(index) }
    }

    private mutating func add(
        _ judged: JudgedFilter, of session: Index<Session>, _ request: SubscribeRequest
    ) throws(SubscribeRefusal) -> Index<Subscription> {
        let isStored = sessions[session].isPersistent
        let permit = admitGrowth(of: isStored ? growth(ofFilter: judged.bytes.count) : 0)
        guard let permit else { throw SubscribeRefusal(.quotaExceeded, .store) }
        let index = addSubscription(
            of: session, filter: judged, grade: request.grade,
            identifier: isStored ? makeIdentifier() : 0, options: request.options,
            subscriptionIdentifier: request.subscriptionIdentifier)
        if isStored { gathering.put(row(of: index), permit) }
        return index
    }

    mutating func unsubscribe(
        _ connection: ConnectionID, _ request: UnsubscribeRequest, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let reason: ReasonCode
        if isRefusedAsOpen(connection, request.requestIdentifier) {
            reason = .packetIdentifierInUse
        } else if let index = subscription(of: session, request.filter.bytes(in: step.bytes)) {
            forgetSubscription(index)
            reason = .success
        } else {
            reason = .noSubscriptionExisted
        }
        answer(
            session, request.requestIdentifier, reason, body: [],
            followingCount: request.followingCount, omittedCount: request.omittedCount,
            // Of the codes of UNSUBACK the one that refuses what is valid (section 3.11.3).
            omittedReason: .implementationSpecificError, in: &step)
    }

    /// Counts the filters of a packet that nobody looked at.
    private mutating func refuseOmitted(
        _ count: Int, _ session: Index<Session>, _ filter: UnsafeRawBufferPointer,
        in step: inout Step
    ) {
        guard count > 0 else { return }
        counters.subscriptionsRefused += UInt64(count)
        counters.subscriptionsOverQuota += UInt64(count)
        note(
            .subscribeRefused, session: session, reason: .quotaExceeded, subject: filter,
            limit: .filters, in: &step)
    }

    /// Answers a request once what it changed is committed. A session without durable state, unless
    /// it subscribes to a group, and a request that was refused, is answered at once. That there is
    /// no subscription is no refusal: its end may not be committed yet. In MQTT one answer has a
    /// byte for each of a packet's filters: what `body` holds, or the reason.
    private mutating func answer(
        _ session: Index<Session>, _ requestIdentifier: UInt64, _ reason: ReasonCode, body: [UInt8],
        followingCount: Int, omittedCount: Int = 0, omittedReason: ReasonCode = .quotaExceeded,
        in step: inout Step
    ) {
        let connection = attachments[attachmentIndex(of: session)].connection
        var (reason, body) = (reason, body)
        var isConfirmation = !reason.isFailure
        if sessions[session].dialect.isMQTT {
            answerCodes.append(body.first ?? reason.rawValue)
            if followingCount > 0 { return }
            answerCodes.append(
                contentsOf: repeatElement(omittedReason.rawValue, count: omittedCount))
            body = answerCodes
            answerCodes.removeAllKeepingCapacity()
            (reason, isConfirmation) = (.success, true)
        }
        let isStored = sessions[session].isPersistent || answersAtCommit
        answersAtCommit = false
        if isStored && isConfirmation {
            respondAtCommit(to: connection, request: requestIdentifier, reason: reason, body: body)
        } else {
            step.effects[connection.lane].respond(
                to: connection, request: requestIdentifier, reason: reason, body: body)
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
        let app = users[sessions[session].user].app
        var visitedCount = 0
        defer { work += visitedCount / CoreLimits.nodesPerWork }
        guard let audience = apps[app].topics.target(of: filter, visitedCount: &visitedCount)
        else { return nil }
        work += Int(sessions[session].filterCount) / CoreLimits.looksPerWork
        return subscription(of: session, audience: audience)
    }

    func subscription(of session: Index<Session>, audience: Index<Audience>) -> Index<Subscription>?
    {
        var next = sessions[session].firstSubscription
        while let index = next {
            if subscriptions[index].audience == audience { return index }
            next = subscriptions[index].next
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
        let app = users[sessions[session].user].app
        let countMaximum = limits.filterShapesMaximum
        guard let shared = SharedFilter(filter) else {
            // A subscription that others have too has a place.
            return apps[app].topics.shapes.admits(filter, countMaximum: countMaximum)
                ? .none : .filterShapes
        }
        guard apps[app].shares.shapes.admits(shared.pattern, countMaximum: countMaximum),
            apps[app].topics.shapes.admits(filter, countMaximum: countMaximum)
        else { return .filterShapes }
        if apps[app].shareCount >= limits.sharesPerAppMaximum,
            apps[app].topics.target(of: filter) == nil
        {
            return .sharesOfApp
        }
        work += Int(sessions[session].filterCount) / CoreLimits.looksPerWork
        var shareCount = 0
        forEachSubscription(of: session) {
            if audiences[subscriptions[$0].audience].share != 0 { shareCount += 1 }
        }
        return shareCount >= limits.sharesPerSessionMaximum ? .sharesOfSession : .none
    }

    @discardableResult
    mutating func addSubscription(
        of session: Index<Session>, filter judged: JudgedFilter, grade: Grade, identifier: UInt64,
        options: SubscriptionOptions, subscriptionIdentifier: UInt32
    ) -> Index<Subscription> {
        let filter = judged.bytes
        let app = users[sessions[session].user].app
        var audience = filter.withUnsafeBytes { apps[app].topics.target(of: $0) }
        if audience == nil {
            work += levelCount(of: filter) / CoreLimits.nodesPerWork
            unmarkAudiences()
            let new = audiences.insert(Audience(filter: filter)).index
            filter.withUnsafeBytes { apps[app].topics.insert($0, target: new) }
            audience = new
            switch filter.withUnsafeBytes({ ReservedTopic($0) }) {
            case .address?: apps[app].addressCount += 1
            case .presence?: apps[app].presenceFilterCount += 1
            case .share?: addShare(new, filter: filter, app: app)
            case .system?: apps[app].systemCount += 1
            case nil: break
            }
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
        if sessions[subscriptions[index].session].isPersistent {
            gathering.renew(row(of: index))
        }
    }

    private func row(of index: Index<Subscription>) -> RecordChange {
        let place = subscriptions[index]
        return Records.subscription(
            session: sessions[place.session].identifier, identifier: place.identifier,
            filter: audiences[place.audience].filter,
            audiences[place.audience].subscribers[Int(place.position)])
    }

    /// What a stored subscription has to be admitted for, by the length of its filter.
    private func growth(ofFilter byteCount: Int) -> Int {
        RecordChange.pageByteCount(key: 16, value: byteCount + 16)
    }

    /// Takes a session out of an audience, the row out of the store, and a filter that nobody has
    /// any more out of the tree.
    mutating func forgetSubscription(_ index: Index<Subscription>) {
        let subscription = subscriptions[index]
        let session = subscription.session
        leave(subscription: index)
        // What every session receives by itself has no filter, and its audience stays.
        let filter = audiences[subscription.audience].filter
        guard !filter.isEmpty else { return }
        sessions[session].filterCount -= 1
        if sessions[session].isPersistent {
            gathering.remove(
                .subscriptions,
                key: RecordKey.numbers(sessions[session].identifier, subscription.identifier))
        }
        if audiences[subscription.audience].subscribers.isEmpty {
            let app = users[sessions[session].user].app
            work += levelCount(of: filter) / CoreLimits.nodesPerWork
            unmarkAudiences()
            let removed = audiences.remove(subscription.audience)
            filter.withUnsafeBytes { apps[app].topics.remove($0) }
            switch filter.withUnsafeBytes({ ReservedTopic($0) }) {
            case .address?: apps[app].addressCount -= 1
            case .presence?: apps[app].presenceFilterCount -= 1
            case .share?: removeShare(removed, app: app)
            case .system?: apps[app].systemCount -= 1
            case nil: break
            }
        }
        addressChanged(session, filter: filter, isHeard: false)
    }
}
