// Retained messages: the last one of each topic, for those who subscribe later (MQTT 5.0 section
// 3.3.1.3). They are kept in memory, and in the store by the batch that their acknowledgement
// follows.

import Primitives

/// The last message of one topic.
struct Retained {
    /// Durable name.
    let identifier: UInt64
    let app: UInt32
    /// As ``MessageBlock`` lays it out; its address is the topic.
    let block: [UInt8]
    /// When it is worth nothing any more; `.never` for one that stays.
    let deadline: Instant
    var token = TimerWheel.Token.none
}

extension Broker {
    // MARK: - Keeping

    /// Keeps a message as the last one of its topic, in place of the one there was [MQTT-3.3.1-5];
    /// one without a payload takes that away [MQTT-3.3.1-6] and is not kept itself [MQTT-3.3.1-7].
    mutating func retain(
        _ message: MessageParts, app: UInt32, expirySeconds: UInt64?, _ moment: Moment
    ) {
        if message.payload.isEmpty {
            if let old = apps[app].retained.remove(message.address) { forgetRetained(old) }
            return
        }
        let deadline = expirySeconds.map { moment.instant.advanced(bySeconds: $0) } ?? .never
        let new = Retained(
            identifier: makeIdentifier(), app: app, block: message.block(), deadline: deadline)
        // Whoever retains has asked ``hasRoom(toRetain:)``.
        let row = Records.retained(new, app: apps[app].name)
        let permit = admitJudgedGrowth(of: row.pageByteCount)
        gathering.put(row, permit)
        insertRetained(new)
    }

    /// As above, for a message whose sender is told when that is committed.
    mutating func retain(
        _ message: UInt32, ofUser user: UInt32, _ request: SendRequest, _ moment: Moment
    ) {
        let parts = MessageParts(MessageBlock(messages[message].block))
        retain(parts, app: users[user].app, expirySeconds: request.expirySeconds, moment)
        attachToBatch(message)
        messages[message].unsettled += 1
        messages[message].awaitsRow = true
    }

    private mutating func insertRetained(_ new: Retained) {
        let index = retained.insert(new).index
        let old = new.block.withUnsafeBytes {
            apps[new.app].retained.set(MessageBlock($0).address, to: index)
        }
        apps[new.app].retainedByteCount += new.block.count
        if let old { forgetRetained(old) }
        if new.deadline != .never {
            retained[index].token = deadlines.insert(
                deadline: new.deadline, payload: DeadlinePayload.retained(index).raw)
        }
    }

    private mutating func forgetRetained(_ index: UInt32) {
        let old = retained.remove(index)
        apps[old.app].retainedByteCount -= old.block.count
        deadlines.cancel(old.token)
        gathering.remove(.retained, key: RecordKey.number(old.identifier))
    }

    mutating func expire(retained index: UInt32) {
        retained[index].token = .none
        counters.expired += 1
        let app = retained[index].app
        _ = retained[index].block.withUnsafeBytes {
            apps[app].retained.remove(MessageBlock($0).address)
        }
        forgetRetained(index)
    }

    /// Whether the store has room for a retained message with so long a payload.
    func hasRoom(toRetain payloadByteCount: Int) -> Bool {
        hasRoom(
            for: RecordChange.pageByteCount(
                key: 8, value: payloadByteCount + CoreLimits.retainedOverheadMaximum))
    }

    /// The limit for which a retained message cannot be kept.
    func retainLimit(_ request: SendRequest, app: UInt32) -> LimitName {
        guard request.isRetained, !request.payload.isEmpty else { return .none }
        if !hasRoom(toRetain: Int(request.payload.count)) { return .store }
        if apps[app].retained.count >= limits.retainedPerAppMaximum { return .retainedCount }
        let byteCount = apps[app].retainedByteCount + Int(request.payload.count)
        return byteCount > limits.retainedBytesPerAppMaximum ? .retainedBytes : .none
    }

    // MARK: - Sending

    /// Sends one retained message to a new subscription: [MQTT-3.3.1-9], [MQTT-3.3.1-10],
    /// [MQTT-3.3.1-11].
    mutating func send(
        retained index: UInt32, to session: UInt32, grade: Grade, subscriptionIdentifier: UInt32,
        _ moment: Moment, _ effects: inout Effects
    ) {
        let block = retained[index].block
        // In the store it waits no longer than any other message.
        let deadline = min(
            retained[index].deadline,
            moment.instant.advanced(bySeconds: limits.queueAgeSecondsMaximum))
        block.withUnsafeBytes { block in
            let grade = min(MessageBlock(block).grade, grade)
            let state = EntryState(
                grade: grade, options: .retain, subscriptionIdentifier: subscriptionIdentifier)
            guard grade != .transient else {
                let connection = liveConnection(of: session)
                guard connection != .none else { return }
                effects[connection.lane].deliver(
                    stamp: makeStamp(), block: block, deadline: deadline, to: connection,
                    sessions[session].dialect, state: state)
                counters.deliveries += 1
                return
            }
            let message = messages.insert(
                Message(copying: block, stamp: makeStamp(), deadline: deadline, in: &blocks)
            ).index
            messages[message].references = 1
            var tally = RoutingTally(stamp: messages[message].stamp)
            enqueue(message, session: session, state, &tally, moment, &effects)
            counters.receiversRefused += UInt64(tally.refusedCount)
            messages[message].isRouted = true
            release(message)
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
