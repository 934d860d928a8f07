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
        _ connection: ConnectionID, _ request: SubscribeRequest, _ bytes: UnsafeRawBufferPointer,
        _ moment: Moment, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        let filter = request.filter.bytes(in: bytes)
        let judged: JudgedFilter
        do throws(SubscribeRefusal) {
            guard request.isFilterValid else { throw SubscribeRefusal(.topicFilterInvalid) }
            judged = try admit(filter, of: session, moment, &effects)
        } catch {
            let reason = error.reason
            counters.subscriptionsRefused += 1
            if reason == .quotaExceeded { counters.subscriptionsOverQuota += 1 }
            note(
                .subscribeRefused, session, reason, subject: filter, limit: error.limit, &effects)
            answer(
                session, request.requestIdentifier, reason, body: [],
                followingCount: request.followingCount, &effects)
            return
        }
        let existing = subscription(of: session, filter)
        let index: UInt32
        var needsRow = true
        if let existing {
            // A repeated subscription replaces the earlier one [MQTT-3.8.4-3].
            let place = subscriptions[existing]
            let position = Int(place.position)
            var subscriber = audiences[place.audience].subscribers[position]
            // One that says what is stored already, or on its way there, needs no row.
            needsRow = subscriber.change(to: request)
            audiences[place.audience].subscribers[position] = subscriber
            index = existing
        } else {
            let identifier = sessions[session].isPersistent ? makeIdentifier() : 0
            index = addSubscription(
                session, judged, request.grade, identifier: identifier,
                options: request.options,
                subscriptionIdentifier: request.subscriptionIdentifier)
        }
        // To be in a group is the user's, and is stored also where the session is not.
        answersAtCommit = answersAtCommit || isGroupAddress(filter)
        answer(
            session, request.requestIdentifier, .success, body: [request.grade.rawValue],
            followingCount: request.followingCount, &effects)
        sendRetained(
            to: session, index, filter, request, isNew: existing == nil, moment, &effects)
        needsRow = noteReplay(of: index) || needsRow
        if needsRow { writeSubscription(index) }
        pump(session, moment, &effects)
    }

    mutating func unsubscribe(
        _ connection: ConnectionID, _ request: UnsubscribeRequest,
        _ bytes: UnsafeRawBufferPointer, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        let index = subscription(of: session, request.filter.bytes(in: bytes))
        if let index { forgetSubscription(index) }
        answer(
            session, request.requestIdentifier,
            index == nil ? .noSubscriptionExisted : .success, body: [],
            followingCount: request.followingCount, &effects)
    }

    /// Answers a request once what it changed is committed. A session without durable state, unless
    /// it subscribes to a group, and a request that was refused, is answered at once. That there is
    /// no subscription is no refusal: its end may not be committed yet. In MQTT one answer has a
    /// byte for each of a packet's filters: what `body` holds, or the reason.
    private mutating func answer(
        _ session: UInt32, _ requestIdentifier: UInt64, _ reason: ReasonCode, body: [UInt8],
        followingCount: Int, _ effects: inout Effects
    ) {
        let connection = attachments[sessions[session].attachment].connection
        var (reason, body) = (reason, body)
        var isConfirmation = !reason.isFailure
        if sessions[session].dialect.isMQTT {
            answerCodes.append(body.first ?? reason.rawValue)
            if followingCount > 0 { return }
            body = answerCodes
            answerCodes.removeAllKeepingCapacity()
            (reason, isConfirmation) = (.success, true)
        }
        let isStored = sessions[session].isPersistent || answersAtCommit
        answersAtCommit = false
        if isStored && isConfirmation {
            respondAtCommit(connection, requestIdentifier, reason, body: body)
        } else {
            effects[connection.lane].respond(connection, requestIdentifier, reason, body: body)
        }
    }

    /// Takes a filter that a session may have and that there is room for; joins the group where
    /// that is what it asks for.
    private mutating func admit(
        _ filter: UnsafeRawBufferPointer, of session: UInt32, _ moment: Moment,
        _ effects: inout Effects
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
        let limit: LimitName =
            if sessions[session].filterCount >= limits.subscriptionsMaximum {
                .subscriptions
            } else {
                isStoreFull && sessions[session].isPersistent ? .store : .none
            }
        if limit != .none && subscription(of: session, filter) == nil {
            throw SubscribeRefusal(.quotaExceeded, limit)
        }
        if let judged { return judged }
        if let reason = join(session, by: filter, moment, &effects) {
            throw SubscribeRefusal(reason)
        }
        // A member now, and judged as one.
        guard let joined = judge(filter: filter, of: session).filter else {
            throw SubscribeRefusal(.notAuthorized)
        }
        return joined
    }

    /// A session's subscription with exactly this filter.
    private func subscription(of session: UInt32, _ filter: UnsafeRawBufferPointer) -> UInt32? {
        let app = users[sessions[session].user].app
        guard let audience = apps[app].topics.audience(of: filter) else { return nil }
        return subscription(of: session, audience: audience)
    }

    func subscription(of session: UInt32, audience: UInt32) -> UInt32? {
        var found: UInt32?
        forEachSubscription(of: session) {
            if subscriptions[$0].audience == audience { found = $0 }
        }
        return found
    }

    @discardableResult
    mutating func addSubscription(
        _ session: UInt32, _ judged: JudgedFilter, _ grade: Grade, identifier: UInt64,
        options: SubscriptionOptions, subscriptionIdentifier: UInt32
    ) -> UInt32 {
        let filter = judged.bytes
        let app = users[sessions[session].user].app
        var audience = filter.withUnsafeBytes { apps[app].topics.audience(of: $0) }
        if audience == nil {
            let new = audiences.insert(Audience(filter: filter)).index
            filter.withUnsafeBytes { apps[app].topics.insert($0, audience: new) }
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

    mutating func writeSubscription(_ index: UInt32) {
        let place = subscriptions[index]
        guard sessions[place.session].isPersistent else { return }
        gathering.records.append(
            Records.subscription(
                session: sessions[place.session].identifier, identifier: place.identifier,
                filter: audiences[place.audience].filter,
                audiences[place.audience].subscribers[Int(place.position)]))
    }

    /// Takes a session out of an audience, the row out of the store, and a filter that nobody has
    /// any more out of the tree.
    mutating func forgetSubscription(_ index: UInt32) {
        let subscription = subscriptions[index]
        let session = subscription.session
        leave(subscription: index)
        // What every session receives by itself has no filter, and its audience stays.
        let filter = audiences[subscription.audience].filter
        guard !filter.isEmpty else { return }
        sessions[session].filterCount -= 1
        if sessions[session].isPersistent {
            gathering.records.append(
                Records.deletion(
                    .subscriptions,
                    key: RecordKey.numbers(
                        sessions[session].identifier, subscription.identifier)))
        }
        if audiences[subscription.audience].subscribers.isEmpty {
            let app = users[sessions[session].user].app
            audiences.remove(subscription.audience)
            filter.withUnsafeBytes { apps[app].topics.remove($0) }
            switch filter.withUnsafeBytes({ ReservedTopic($0) }) {
            case .address?: apps[app].addressCount -= 1
            case .presence?: apps[app].presenceFilterCount -= 1
            case .share?: removeShare(subscription.audience, filter: filter, app: app)
            case .system?: apps[app].systemCount -= 1
            case nil: break
            }
        }
        addressChanged(session, filter: filter, isHeard: false)
    }
}
