// Subscriptions to plain topics, and what can be asked about a user.

import Primitives

extension Broker {
    mutating func subscribe(
        _ connection: ConnectionID, _ request: SubscribeRequest, _ bytes: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        let filter = request.filter.bytes(in: bytes)
        if let reason = request.isFilterValid
            ? subscribeRefusal(session, filter) : .topicFilterInvalid
        {
            note(.subscribeRefused, session, reason, subject: filter, &effects)
            effects[connection.lane].respond(connection, request.requestIdentifier, reason)
            return
        }
        if let index = subscription(of: session, filter) {
            // A repeated subscription replaces the earlier one [MQTT-3.8.4-3].
            let place = subscriptions[index]
            audiences[place.audience].subscribers[Int(place.position)].grade = request.grade
            writeSubscription(index)
        } else {
            let identifier = sessions[session].isPersistent ? makeIdentifier() : 0
            writeSubscription(
                addSubscription(session, Array(filter), request.grade, identifier: identifier))
        }
        answer(session, request.requestIdentifier, body: [request.grade.rawValue], &effects)
    }

    mutating func unsubscribe(
        _ connection: ConnectionID, _ request: UnsubscribeRequest,
        _ bytes: UnsafeRawBufferPointer, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        guard let index = subscription(of: session, request.filter.bytes(in: bytes)) else {
            effects[connection.lane].respond(
                connection, request.requestIdentifier, .noSubscriptionExisted)
            return
        }
        forgetSubscription(index)
        answer(session, request.requestIdentifier, body: [], &effects)
    }

    /// Answers a request once what it changed is committed; a session without durable state is
    /// answered at once.
    private mutating func answer(
        _ session: UInt32, _ requestIdentifier: UInt64, body: [UInt8], _ effects: inout Effects
    ) {
        let connection = attachments[sessions[session].attachment].connection
        if sessions[session].isPersistent {
            gathering.confirmations.append(
                .respond(connection, requestIdentifier: requestIdentifier, .success, body: body))
        } else {
            effects[connection.lane].respond(connection, requestIdentifier, .success, body: body)
        }
    }

    private mutating func subscribeRefusal(
        _ session: UInt32, _ filter: UnsafeRawBufferPointer
    ) -> ReasonCode? {
        if filter.first == UInt8(ascii: "$") { return .notAuthorized }
        var levels = 1
        for byte in filter where byte == UInt8(ascii: "/") { levels += 1 }
        if levels > limits.topicLevelsMaximum { return .topicFilterInvalid }
        if !allows(.subscribe(filter: filter), session) { return .notAuthorized }
        let isFull =
            sessions[session].filterCount >= limits.subscriptionsMaximum
            || (isStoreFull && sessions[session].isPersistent)
        if isFull && subscription(of: session, filter) == nil {
            return .quotaExceeded
        }
        return nil
    }

    /// A session's subscription with exactly this filter.
    private func subscription(of session: UInt32, _ filter: UnsafeRawBufferPointer) -> UInt32? {
        let app = users[sessions[session].user].app
        guard let audience = apps[app].topics.audience(of: filter) else { return nil }
        var found: UInt32?
        forEachSubscription(of: session) {
            if subscriptions[$0].audience == audience { found = $0 }
        }
        return found
    }

    @discardableResult
    mutating func addSubscription(
        _ session: UInt32, _ filter: [UInt8], _ grade: Grade, identifier: UInt64
    ) -> UInt32 {
        let app = users[sessions[session].user].app
        var audience = filter.withUnsafeBytes { apps[app].topics.audience(of: $0) }
        if audience == nil {
            let new = audiences.insert(Audience(filter: filter)).index
            filter.withUnsafeBytes { apps[app].topics.insert($0, audience: new) }
            audience = new
        }
        sessions[session].filterCount += 1
        return join(
            session: session, audience: audience!, grade: grade, identifier: identifier)
    }

    private mutating func writeSubscription(_ index: UInt32) {
        let place = subscriptions[index]
        guard sessions[place.session].isPersistent else { return }
        gathering.records.append(
            Records.subscription(
                session: sessions[place.session].identifier, identifier: place.identifier,
                filter: audiences[place.audience].filter,
                grade: audiences[place.audience].subscribers[Int(place.position)].grade))
    }

    /// Takes a session out of an audience, the row out of the store, and a filter that nobody has
    /// any more out of the tree.
    mutating func forgetSubscription(_ index: UInt32) {
        let subscription = subscriptions[index]
        let session = subscription.session
        leave(subscription: index)
        // What every session receives by itself has no filter, and its audience stays.
        guard !audiences[subscription.audience].filter.isEmpty else { return }
        sessions[session].filterCount -= 1
        if sessions[session].isPersistent {
            gathering.records.append(
                Records.deletion(
                    .subscriptions,
                    key: RecordKey.numbers(
                        sessions[session].identifier, subscription.identifier)))
        }
        guard audiences[subscription.audience].subscribers.isEmpty else { return }
        let app = users[sessions[session].user].app
        let audience = audiences.remove(subscription.audience)
        audience.filter.withUnsafeBytes { apps[app].topics.remove($0) }
    }

    /// Whether a user is online, since when, and on which devices.
    mutating func reportPresence(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ name: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) {
        guard let asking = session(of: connection) else { return }
        guard allows(.presence(user: name), asking) else {
            note(.presenceRefused, asking, .notAuthorized, subject: name, &effects)
            effects[connection.lane].respond(connection, requestIdentifier, .notAuthorized)
            return
        }
        let app = users[sessions[asking].user].app
        guard let user = apps[app].users.value(for: name) else {
            effects[connection.lane].respond(
                connection, requestIdentifier, .topicNameInvalid)
            return
        }
        var devices: [UInt8] = []
        var count = 0
        var since = users[user].lastSeenUnixMilliseconds
        forEachSession(of: user) { session in
            guard liveConnection(of: session) != .none else { return }
            let connected = attachments[sessions[session].attachment].connectedUnixMilliseconds
            since = count == 0 ? connected : min(since, connected)
            count += 1
            devices.append(UInt8(sessions[session].device.count))
            devices += sessions[session].device
        }
        let lane = connection.lane
        effects[lane].effects.append(
            .reportPresence(
                connection, requestIdentifier: requestIdentifier, isOnline: count > 0,
                sinceUnixMilliseconds: since, devices: effects[lane].bytes.append(devices),
                count: count))
    }
}
