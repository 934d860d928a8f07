// Retained messages: the last one of each topic, for later subscriptions (MQTT 5.0 section
// 3.3.1.3). They are in memory, and in the store with the batch that their acknowledgement waits
// for.

import Primitives

/// The last message of one topic.
struct Retained {
    /// Durable identifier, unique in the store.
    let identifier: UInt64
    let app: Index<App>
    /// The message in the layout of ``MessageBlock``; its address is the topic.
    let block: [UInt8]
    /// Expiry; `.never` for a message without one.
    let deadline: Instant
    var token = TimerWheel.Token.none
}

extension Broker {
    // MARK: - Storing

    /// Stores a message as the retained one of its topic, in place of the previous one
    /// [MQTT-3.3.1-5]. A message without a payload removes the previous one [MQTT-3.3.1-6] and is
    /// not stored [MQTT-3.3.1-7].
    ///
    /// - Returns: the limit that forbids it. A send is refused for that limit before it is routed;
    ///   a will is sent, but not retained.
    @discardableResult
    mutating func retain(
        _ message: MessageParts, app: Index<App>, expirySeconds: UInt64?, at moment: Moment
    ) -> LimitName {
        if message.payload.isEmpty {
            let old = registry.removeRetained(topic: message.address, app: app)
            if let old { forgetRetained(old) }
            return .none
        }
        let limit = retainLimit(
            message.address, byteCount: message.blockByteCount, app: app)
        if limit != .none { return limit }
        let deadline = expirySeconds.map { moment.instant.advanced(bySeconds: $0) } ?? .never
        let new = Retained(
            identifier: makeIdentifier(), app: app, block: message.block(), deadline: deadline)
        // The caller has checked the limit, and with it ``hasRoom(toRetain:)``.
        let row = Records.retained(new, app: registry.apps[app].name)
        let permit = commits.room.admitAuthorized(row.pageByteCount)
        commits.put(row, permit)
        insertRetained(new)
        return .none
    }

    /// The same for a message whose sender is told after the commit.
    @discardableResult
    mutating func retain(
        _ message: Index<Message>, ofUser user: Index<User>, _ request: SendRequest,
        at moment: Moment
    ) -> LimitName {
        let parts = MessageParts(MessageBlock(memory.messages[message].block))
        let limit = retain(
            parts, app: registry.users[user].app, expirySeconds: request.expirySeconds, at: moment)
        if limit != .none { return limit }
        attachToBatch(message)
        memory.awaitRow(of: message)
        return .none
    }

    /// Adds a message, or replaces that of its topic at the same place, so that a list of all
    /// messages meets each topic once.
    private mutating func insertRetained(_ new: Retained) {
        let known = new.block.withUnsafeBytes {
            registry.apps[new.app].retained.value(of: MessageBlock($0).address)
        }
        let index: Index<Retained>
        if let known {
            index = known
            forget(retention.replace(known, with: new))
        } else {
            index = retention.insert(new)
        }
        new.block.withUnsafeBytes {
            registry.setRetained(
                index, topic: MessageBlock($0).address, byteCount: new.block.count, app: new.app)
        }
        if new.deadline != .never {
            let token = deadlines.insert(.retained(index), at: new.deadline)
            retention.setTimer(token, of: index)
        }
    }

    /// Removes a message that its topic does not lead to any more.
    mutating func forgetRetained(_ index: Index<Retained>) { forget(retention.remove(index)) }

    private mutating func forget(_ old: Retained) {
        registry.giveBackRetained(byteCount: old.block.count, app: old.app)
        deadlines.cancel(old.token)
        commits.remove(.retained, key: RecordKey.number(old.identifier))
    }

    mutating func expire(retained index: Index<Retained>) {
        retention.setTimer(.none, of: index)
        counters.expired += 1
        let app = retention.retained[index].app
        _ = retention.retained[index].block.withUnsafeBytes {
            registry.removeRetained(topic: MessageBlock($0).address, app: app)
        }
        forgetRetained(index)
    }

    /// The limit that forbids retaining the message of a request that asks for it.
    func retainLimit(
        _ request: SendRequest, ofUser user: Index<User>, in bytes: UnsafeRawBufferPointer
    ) -> LimitName {
        guard !request.payload.isEmpty, case .topic(let topic) = request.target else {
            return .none
        }
        let byteCount =
            MessageBlock.headerByteCount + registry.users[user].name.count + Int(topic.count)
            + Int(request.properties.count) + Int(request.payload.count)
        return retainLimit(
            topic.bytes(in: bytes), byteCount: byteCount, app: registry.users[user].app)
    }

    /// The limit that forbids to retain a message. A message that replaces another does not change
    /// their number, and needs room only for the difference in size.
    func retainLimit(
        _ topic: UnsafeRawBufferPointer, byteCount: Int, app: Index<App>
    ) -> LimitName {
        if !hasRoom(toRetain: byteCount) { return commits.room.limit }
        var growth = byteCount
        if let old = registry.apps[app].retained.value(of: topic) {
            growth -= retention.retained[old].block.count
            if growth <= 0 { return .none }
        } else if registry.apps[app].retained.count >= limits.retainedPerAppMaximum {
            return .retainedCount
        } else {
            growth += registry.apps[app].retained.growth(for: topic)
        }
        return retainedByteCount(ofApp: app) + growth > limits.retainedBytesPerAppMaximum
            ? .retainedBytes : .none
    }

    /// Bytes of an app's retained messages and of their tree.
    func retainedByteCount(ofApp app: Index<App>) -> Int {
        registry.apps[app].retainedByteCount + registry.apps[app].retained.byteCount
    }

    /// Whether the store has room for a retained message with a block of so many bytes.
    func hasRoom(toRetain byteCount: Int) -> Bool {
        hasRoom(
            for: RecordChange.pageByteCount(
                key: 8, value: byteCount + CoreLimits.retainedRowOverhead))
    }

    // MARK: - Sending

    /// Sends one retained message to a new subscription: [MQTT-3.3.1-9], [MQTT-3.3.1-10],
    /// [MQTT-3.3.1-11].
    mutating func send(
        retained index: Index<Retained>, to session: Index<Session>, grade: Grade,
        subscriptionIdentifier: UInt32, in step: inout Step
    ) {
        let block = retention.retained[index].block
        // In the queue it has the maximum age of any other message.
        let deadline = min(
            retention.retained[index].deadline,
            step.moment.instant.advanced(bySeconds: limits.queueAgeSecondsMaximum))
        block.withUnsafeBytes { block in
            let grade = min(MessageBlock(block).grade, grade)
            let state = EntryState(
                grade: grade, options: .retain, subscriptionIdentifier: subscriptionIdentifier)
            guard grade != .transient else {
                let connection = liveConnection(of: session)
                guard connection != .none else { return }
                step.effects[connection.loop].deliver(
                    stamp: makeUnmeasuredStamp(), block: block, deadline: deadline, to: connection,
                    sessions[session].dialect, state: state)
                counters.deliveries += 1
                return
            }
            let message = memory.insert(
                copying: block, stamp: makeUnmeasuredStamp(), deadline: deadline)
            var tally = RoutingTally(stamp: memory.messages[message].stamp)
            enqueue(message, session: session, state: state, tally: &tally, in: &step)
            counters.receiversRefused += UInt64(tally.refusedCount)
            memory.noteRouted(message)
            memory.release(message)
        }
    }

    // MARK: - Rows

    mutating func restoreRetained(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .retained, key: key)
        let appName = try row.readString()
        guard key.count == 8, let app = app(named: appName) else {
            throw .danglingRecord(.retained, key: key)
        }
        let deadline = Instant(milliseconds: try row.read(UInt64.self))
        let block = try row.readBytes(count: Int(try row.read(UInt32.self)))
        guard block.withUnsafeBytes({ MessageBlock.isValid($0) }) else {
            throw .unreadableRecord(.retained, key: key)
        }
        insertRetained(
            Retained(
                identifier: RecordKey.readNumber(key), app: app, block: block, deadline: deadline))
    }
}

extension Records {
    static func retained(_ retained: Retained, app: [UInt8]) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(app)
        row.write(retained.deadline.milliseconds)
        row.write(UInt32(retained.block.count))
        row.append(retained.block)
        return RecordChange(
            table: .retained, key: RecordKey.number(retained.identifier), value: row.bytes)
    }
}
