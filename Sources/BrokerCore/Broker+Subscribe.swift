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
            subscriptions[index].grade = request.grade
            let place = subscriptions[index]
            audiences[place.audience].subscribers[Int(place.position)].grade = request.grade
            writeSubscription(index)
        } else {
            addSubscription(session, Array(filter), request.grade, identifier: makeIdentifier())
            writeSubscription(sessions[session].subscriptions.last!)
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
        forgetSubscription(index, of: session)
        answer(session, request.requestIdentifier, body: [], &effects)
    }

    /// Answers a request once what it changed is committed; a session without durable state is
    /// answered at once.
    private mutating func answer(
        _ session: UInt32, _ requestIdentifier: UInt64, body: [UInt8], _ effects: inout Effects
    ) {
        let connection = sessions[session].connection
        if sessions[session].isPersistent {
            gathering.confirmations.append(
                .respond(
                    connection, requestIdentifier: requestIdentifier, .success, body: body))
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
        if sessions[session].filterCount >= limits.subscriptionsMaximum { return .quotaExceeded }
        return nil
    }

    /// A session's subscription with exactly this filter.
    private func subscription(of session: UInt32, _ filter: UnsafeRawBufferPointer) -> UInt32? {
        let app = users[sessions[session].user].app
        guard let audience = apps[app].topics.audience(of: filter) else { return nil }
        return sessions[session].subscriptions.first { subscriptions[$0].audience == audience }
    }

    mutating func addSubscription(
        _ session: UInt32, _ filter: [UInt8], _ grade: Grade, identifier: UInt64
    ) {
        let app = users[sessions[session].user].app
        var audience = filter.withUnsafeBytes { apps[app].topics.audience(of: $0) }
        if audience == nil {
            let new = makeAudience()
            filter.withUnsafeBytes { apps[app].topics.insert($0, audience: new) }
            audience = new
        }
        join(
            session: session, audience: audience!, grade: grade, identifier: identifier,
            filter: filter)
        sessions[session].filterCount += 1
    }

    private mutating func writeSubscription(_ index: UInt32) {
        let session = subscriptions[index].session
        guard sessions[session].isPersistent else { return }
        gathering.records.append(
            Records.subscription(
                session: sessions[session].identifier, identifier: subscriptions[index].identifier,
                filter: subscriptions[index].filter, grade: subscriptions[index].grade))
    }

    /// Takes a session out of an audience, and the row out of the store.
    mutating func forgetSubscription(_ index: UInt32, of session: UInt32) {
        let identifier = subscriptions[index].identifier
        if identifier != 0 {
            sessions[session].filterCount -= 1
            if sessions[session].isPersistent {
                gathering.records.append(
                    Records.deletion(
                        .subscriptions,
                        key: RecordKey.numbers(sessions[session].identifier, identifier)))
            }
        }
        leave(subscription: index)
    }

    /// Whether a user is online, since when, and on which devices.
    mutating func reportPresence(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ name: UnsafeRawBufferPointer,
        _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        guard allows(.presence(user: name), session) else {
            note(.presenceRefused, session, .notAuthorized, subject: name, &effects)
            effects[connection.lane].respond(connection, requestIdentifier, .notAuthorized)
            return
        }
        let app = users[sessions[session].user].app
        guard let user = apps[app].users.value(for: name) else {
            effects[connection.lane].respond(
                connection, requestIdentifier, .topicNameInvalid)
            return
        }
        var devices: [UInt8] = []
        var count = 0
        var since = users[user].lastSeenUnixMilliseconds
        for index in users[user].sessions where sessions[index].isConfirmed {
            since =
                count == 0
                ? sessions[index].connectedUnixMilliseconds
                : min(since, sessions[index].connectedUnixMilliseconds)
            count += 1
            devices.append(UInt8(sessions[index].device.count))
            devices.append(contentsOf: sessions[index].device)
        }
        let lane = connection.lane
        effects[lane].effects.append(
            .reportPresence(
                connection, requestIdentifier: requestIdentifier, isOnline: count > 0,
                sinceUnixMilliseconds: since, devices: effects[lane].bytes.append(devices),
                count: count))
    }
}
