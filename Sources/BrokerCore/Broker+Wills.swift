// Wills: a message that is sent for a user whose device is lost. A will is committed before it is
// confirmed; firing it deletes it and enqueues its message in one batch, so that it is sent exactly
// once, whatever dies (design section 2).
//
//     set ──lost──► delay runs ──over──► fired, with the batch under way ──committed──► gone
//      ▲                │                           │
//      └────── back ────┘       store full: again ◄─┘

import Primitives

/// A will that a client wants kept.
public struct WillRequest: Sendable {
    /// Seconds between the loss and the sending.
    public var delaySeconds: UInt32
    /// Target, payload and expiry, as in a send; number and grade are of no meaning.
    public var message: SendRequest

    public init(delaySeconds: UInt32, message: SendRequest) {
        self.delaySeconds = delaySeconds
        self.message = message
    }
}

/// A will as it is kept: everything copied out of the packet it came in.
struct Will: Sendable {
    /// Durable name.
    let identifier: UInt64
    let user: UInt32
    let device: [UInt8]
    let delaySeconds: UInt32
    /// Of the connection that set it: how long its silence may last.
    let keepAliveSeconds: UInt32
    let kind: WillKind
    /// User, ids in a row, group or topic, by kind.
    let address: [UInt8]
    let isRaw: Bool
    let payload: [UInt8]
    let expirySeconds: UInt64?
    /// Set while the device is away and the delay runs.
    var token = TimerWheel.Token.none
}

/// Whom a will is for. Raw values are on disk.
enum WillKind: UInt8 {
    case user = 0
    case users = 1
    case group = 2
    case everybody = 3
    case topic = 4
}

extension Broker {
    // MARK: - Set and clear

    /// Keeps a will in place of the one there was: the last one set wins (L16).
    mutating func setWill(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ request: WillRequest,
        _ bytes: UnsafeRawBufferPointer, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        let reason =
            isStoreFull
            ? .quotaExceeded
            : refusal(of: request.message, from: session, bytes)
                ?? listRefusal(of: request.message, from: session, bytes)
        if let reason {
            note(.sendRefused, session, reason, &effects)
            effects[connection.lane].respond(connection, requestIdentifier, reason)
            return
        }
        removeWill(of: session)
        let (kind, address) = willTarget(request.message.target, bytes)
        let index = wills.insert(
            Will(
                identifier: makeIdentifier(), user: sessions[session].user,
                device: sessions[session].device, delaySeconds: request.delaySeconds,
                keepAliveSeconds: attachments[sessions[session].attachment].keepAliveSeconds,
                kind: kind,
                address: address, isRaw: request.message.isRaw,
                payload: Array(request.message.payload.bytes(in: bytes)),
                expirySeconds: request.message.expirySeconds)
        ).index
        sessions[session].will = index
        writeWill(index)
        gathering.confirmations.append(
            .respond(connection, requestIdentifier: requestIdentifier, .success, body: []))
    }

    mutating func clearWill(
        _ connection: ConnectionID, _ requestIdentifier: UInt64, _ effects: inout Effects
    ) {
        guard let session = session(of: connection) else { return }
        guard sessions[session].will != Slab<Will>.none else {
            effects[connection.lane].respond(connection, requestIdentifier, .success)
            return
        }
        removeWill(of: session)
        gathering.confirmations.append(
            .respond(connection, requestIdentifier: requestIdentifier, .success, body: []))
    }

    /// Forgets a session's will, here and in the store.
    mutating func removeWill(of session: UInt32) {
        let index = sessions[session].will
        guard index != Slab<Will>.none else { return }
        sessions[session].will = Slab<Will>.none
        deleteWill(index)
    }

    private mutating func deleteWill(_ index: UInt32) {
        let will = wills.remove(index)
        deadlines.cancel(will.token)
        gathering.records.append(
            Records.deletion(.wills, key: RecordKey.number(will.identifier)))
    }

    private func willTarget(
        _ target: SendTarget, _ bytes: UnsafeRawBufferPointer
    ) -> (WillKind, [UInt8]) {
        switch target {
        case .user(let name): (.user, Array(name.bytes(in: bytes)))
        case .users(let ids, let count): (.users, [UInt8(count - 1)] + ids.bytes(in: bytes))
        case .group(let name): (.group, Array(name.bytes(in: bytes)))
        case .everybody: (.everybody, [])
        case .topic(let name): (.topic, Array(name.bytes(in: bytes)))
        }
    }

    // MARK: - Loss and return

    /// A session has lost its connection without saying good-bye.
    mutating func startWill(of session: UInt32, _ moment: Moment, _ effects: inout Effects) {
        let index = sessions[session].will
        guard index != Slab<Will>.none else { return }
        // Where the session ends before the delay, its end sends the will.
        let delay = wills[index].delaySeconds
        if delay == 0 {
            fireWill(index, moment, &effects)
        } else {
            scheduleWill(index, at: moment.instant.advanced(bySeconds: UInt64(delay)))
        }
    }

    private mutating func scheduleWill(_ index: UInt32, at deadline: Instant) {
        wills[index].token = deadlines.insert(
            deadline: deadline, payload: DeadlinePayload.will(index).raw)
    }

    /// The device is back: a will that was about to be sent is not.
    mutating func stopWill(of session: UInt32) {
        let index = sessions[session].will
        guard index != Slab<Will>.none else { return }
        deadlines.cancel(wills[index].token)
        wills[index].token = .none
    }

    /// A will from before the broker's restart, for a device that is back as a new session.
    mutating func removeOrphanWill(ofUser user: UInt32, device: [UInt8]) {
        guard !orphanWills.isEmpty else { return }
        guard
            let index = orphanWills.first(where: {
                wills[$0].user == user && wills[$0].device == device
            })
        else { return }
        orphanWills.remove(index)
        deleteWill(index)
    }

    /// Sends a will: its row goes and its message comes in the same batch, or neither where the
    /// store is full.
    mutating func fireWill(_ index: UInt32, _ moment: Moment, _ effects: inout Effects) {
        deadlines.cancel(wills[index].token)
        wills[index].token = .none
        let will = wills[index]
        let owner = session(of: will.user, device: will.device)
        if let owner, sessions[owner].will == index { sessions[owner].will = Slab<Will>.none }
        orphanWills.remove(index)
        gathering.firedWills.append(index)
        gathering.sendRecords.append(
            Records.deletion(.wills, key: RecordKey.number(will.identifier)))
        // Put together as a send would have come, so that it is routed as one.
        var packet = will.address
        let payload = ByteRange(offset: packet.count, count: will.payload.count)
        packet += will.payload
        let request = SendRequest(
            number: 0, grade: .once, target: will.target, expirySeconds: will.expirySeconds,
            isRaw: will.isRaw, payload: payload, messageByteCount: 0)
        packet.withUnsafeBytes { bytes in
            sendSystemMessage(
                request.target.kind, about: request.target.address(in: bytes),
                payload: payload.bytes(in: bytes), from: users[will.user].name, grade: .once,
                isRaw: will.isRaw, expirySeconds: will.expirySeconds, moment
            ) { broker, message, tally in
                broker.route(
                    message, request, fromUser: will.user, excluding: owner ?? .max, bytes, &tally,
                    moment, &effects)
            }
        }
    }

    /// The wills that were fired with a batch are gone with it, or were taken back by a full store
    /// and are fired again.
    mutating func settleWills(isStored: Bool, _ moment: Moment) {
        for index in committing.firedWills {
            if isStored {
                wills.remove(index)
                counters.willsSent += 1
            } else {
                scheduleWill(
                    index,
                    at: moment.instant.advanced(
                        byMilliseconds: CoreLimits.housekeepingMilliseconds))
            }
        }
    }

    // MARK: - Rows

    private mutating func writeWill(_ index: UInt32) {
        let will = wills[index]
        var row = RecordWriter(version: 1)
        row.write(apps[users[will.user].app].name)
        row.write(users[will.user].name)
        row.write(will.device)
        row.write(will.delaySeconds)
        row.write(will.keepAliveSeconds)
        row.write(will.kind.rawValue)
        row.write(will.address)
        row.write(UInt8(will.isRaw ? 1 : 0))
        row.write(will.expirySeconds ?? .max)
        row.write(UInt32(will.payload.count))
        row.append(will.payload)
        gathering.records.append(
            RecordChange(
                table: .wills, key: RecordKey.number(will.identifier), value: row.bytes))
    }

    mutating func restoreWill(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .wills, key: key)
        let dangling = RestoreError.danglingRecord(.wills, key: key)
        let appName = try row.readString()
        let userName = try row.readString()
        guard key.count == 8, let app = app(named: appName),
            let user = userName.withUnsafeBytes({ apps[app].users.value(for: $0) })
        else { throw dangling }
        let device = try row.readString()
        let delay = try row.read(UInt32.self)
        let keepAlive = try row.read(UInt32.self)
        guard let kind = WillKind(rawValue: try row.read(UInt8.self)) else { throw dangling }
        let address = try row.readString()
        let isRaw = try row.read(UInt8.self) == 1
        let expiry = try row.read(UInt64.self)
        let payload = try row.readBytes(count: Int(try row.read(UInt32.self)))
        let index = wills.insert(
            Will(
                identifier: RecordKey.readNumber(key), user: user, device: device,
                delaySeconds: delay, keepAliveSeconds: keepAlive, kind: kind, address: address,
                isRaw: isRaw, payload: payload, expirySeconds: expiry == .max ? nil : expiry)
        ).index
        if let session = session(of: user, device: device) {
            sessions[session].will = index
        } else {
            orphanWills.insert(index)
        }
    }

    /// Gives every device that had a will when the broker ended its time to come back: the longest
    /// of the will's delay, 1.5 times its keep-alive and 60 s from now.
    mutating func scheduleRestoredWills(_ moment: Moment) {
        for index in 0..<wills.endIndex where wills.contains(index) {
            let silence = UInt64(wills[index].keepAliveSeconds) * 3 / 2
            let grace = max(
                UInt64(wills[index].delaySeconds), silence, CoreLimits.restartGraceSeconds)
            scheduleWill(index, at: moment.instant.advanced(bySeconds: grace))
        }
    }
}

extension Will {
    /// The target, with ranges in the address.
    fileprivate var target: SendTarget {
        let whole = ByteRange(offset: 0, count: address.count)
        switch kind {
        case .user: return .user(whole)
        case .users:
            return .users(
                ids: ByteRange(offset: 1, count: address.count - 1), count: Int(address[0]) + 1)
        case .group: return .group(whole)
        case .everybody: return .everybody
        case .topic: return .topic(whole)
        }
    }
}
