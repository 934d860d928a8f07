// Sets, lists and removes wake targets, for their users, for those who have the right, and for
// operators. A change is answered after its commit.

import BrokerTerms
import Primitives

/// A request about wake targets. Ranges point into the buffer of the event.
public enum WakeRequest: Sendable {
    /// Sets a target of the user who asks. The dialect has checked that its texts are UTF-8; the
    /// numbers are those of the wire.
    case set(
        device: ByteRange, kind: UInt8, environment: UInt8, language: ByteRange,
        address: ByteRange)
    /// An empty user is the one who asks.
    case list(user: ByteRange, byteCountMaximum: Int)
    case remove(user: ByteRange, identifier: UInt64)
    /// What a relay reports: a run of entries whose form the dialect has checked.
    case report(entries: ByteRange)
}

/// The result of an operator's request to set a target.
public struct WakeTargetResult: Hashable, Sendable {
    /// ``ReasonCode/success``, or the reason of the refusal.
    public var reason: ReasonCode
    public var limit = LimitName.none
    /// The id of the target; 0 if it was refused.
    public var identifier: UInt64 = 0
}

extension Broker {
    // MARK: - Clients

    mutating func wakeRequested(
        by connection: ConnectionID, identifier requestIdentifier: UInt64, _ request: WakeRequest,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let own = sessions[session].user
        switch request {
        case .set(let device, let kind, let environment, let language, let address):
            guard let kind = WakeTarget.Kind(rawValue: kind),
                let environment = WakeTarget.Environment(rawValue: environment)
            else {
                return refuse(
                    connection, request: requestIdentifier, .implementationSpecificError,
                    cause: .wakeKind, in: &step)
            }
            let result = set(
                WakeTarget(
                    device: Array(device.bytes(in: step.bytes)), kind: kind,
                    address: Array(address.bytes(in: step.bytes)), environment: environment,
                    language: Array(language.bytes(in: step.bytes))),
                of: own)
            guard result.reason == .success else {
                if result.reason == .quotaExceeded { counters.requestsOverQuota += 1 }
                return refuse(
                    connection, request: requestIdentifier, result.reason, cause: result.limit,
                    in: &step)
            }
            commits.commitSoon()
            commits.answer(
                RequestKey(connection: connection, identifier: requestIdentifier),
                .reportWakeTarget(
                    connection, requestIdentifier: requestIdentifier,
                    target: result.identifier))
        case .list(let name, let byteCountMaximum):
            guard let user = wakeUser(named: name, for: session, in: step) else {
                return refuseWake(connection, request: requestIdentifier, of: name, in: &step)
            }
            let entries = encodedWakeTargets(of: user)
            guard entries.count <= byteCountMaximum else {
                return refuse(
                    connection, request: requestIdentifier, .packetTooLarge, in: &step)
            }
            workload.charge(entries.count / CoreLimits.answerBytesPerWork)
            step.effects[connection.loop].reportWakeTargets(
                to: connection, request: requestIdentifier, entries: entries)
        case .remove(let name, let identifier):
            guard let user = wakeUser(named: name, for: session, in: step) else {
                return refuseWake(connection, request: requestIdentifier, of: name, in: &step)
            }
            let isFound = remove(wakeTarget: identifier, of: user, in: &step)
            commits.commitSoon()
            respondAtCommit(
                to: connection, request: requestIdentifier,
                reason: isFound ? .success : .noSubscriptionExisted, body: [])
        case .report(let entries):
            wakesReported(by: connection, identifier: requestIdentifier, entries, in: &step)
        }
    }

    /// The user whose targets a client may list and remove; nil if there is none or no right allows
    /// it.
    private mutating func wakeUser(
        named name: ByteRange, for session: Index<Session>, in step: borrowing Step
    ) -> Index<User>? {
        let name = name.bytes(in: step.bytes)
        let own = sessions[session].user
        if name.isEmpty || registry.users[own].name == name { return own }
        guard allows(.wake(user: name), session) else { return nil }
        return user(named: name, app: registry.users[own].app)
    }

    private mutating func refuseWake(
        _ connection: ConnectionID, request requestIdentifier: UInt64, of name: ByteRange,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let name = name.bytes(in: step.bytes)
        let isUnknown =
            user(named: name, app: registry.users[sessions[session].user].app) == nil
            && allows(.wake(user: name), session)
        refuse(
            connection, request: requestIdentifier,
            isUnknown ? .topicNameInvalid : .notAuthorized,
            cause: isUnknown ? .none : .wakeRight, about: Array(name), in: &step)
    }

    /// The targets of a user in the form of MRT.
    ///
    ///     run of (varint id | string8 device | u8 kind | u8 environment | string8 language |
    ///             stringv address)
    private func encodedWakeTargets(of user: Index<User>) -> [UInt8] {
        guard let index = wakes.index(of: user) else { return [] }
        var bytes: [UInt8] = []
        func append(variable number: UInt64) {
            var rest = number
            while rest >= 0x80 {
                bytes.append(UInt8(rest & 0x7F) | 0x80)
                rest >>= 7
            }
            bytes.append(UInt8(rest))
        }
        for target in wakes[index].targets {
            append(variable: target.identifier)
            bytes.append(UInt8(target.device.count))
            bytes += target.device
            bytes += [target.kind.rawValue, target.environment.rawValue]
            bytes.append(UInt8(target.language.count))
            bytes += target.language
            append(variable: UInt64(target.address.count))
            bytes += target.address
        }
        return bytes
    }

    // MARK: - Operators

    /// Sets a wake target of a user, who must exist. It is durable with the pending batch.
    public mutating func setWakeTarget(
        _ target: WakeTarget, app appName: [UInt8], user userName: [UInt8]
    ) -> WakeTargetResult {
        guard let app = app(named: appName), let user = user(named: userName, app: app) else {
            return WakeTargetResult(reason: .topicNameInvalid)
        }
        let result = set(target, of: user)
        if result.reason == .success { commits.commitSoon() }
        return result
    }

    /// The wake targets of a user, in the order in which they were set first; nil if there is no
    /// such user.
    public func wakeTargets(app appName: [UInt8], user userName: [UInt8]) -> [WakeTarget]? {
        guard let app = app(named: appName), let user = user(named: userName, app: app) else {
            return nil
        }
        return wakes.index(of: user).map { wakes[$0].targets } ?? []
    }

    /// Removes a wake target. Returns whether the user had it; nil if there is no such user.
    public mutating func removeWakeTarget(
        _ identifier: UInt64, app appName: [UInt8], user userName: [UInt8], at moment: Moment,
        effects: inout Effects
    ) -> Bool? {
        guard let app = app(named: appName), let user = user(named: userName, app: app) else {
            return nil
        }
        var step = Step(at: moment, effects: effects)
        defer { commits.commitSoon() }
        return remove(wakeTarget: identifier, of: user, in: &step)
    }

    // MARK: - Changes

    private mutating func set(_ new: WakeTarget, of user: Index<User>) -> WakeTargetResult {
        let app = registry.apps[registry.users[user].app].name
        guard limits.policy(ofApp: app).wake != nil else {
            return WakeTargetResult(reason: .notAuthorized, limit: .wakesOff)
        }
        if let fault = new.fault {
            return WakeTargetResult(reason: fault.reason, limit: fault.cause)
        }
        var target = new
        var old: WakeTarget?
        if let index = wakes.index(of: user) {
            old = wakes[index].targets.first { $0.isSame(as: new) }
            guard old != nil || wakes[index].targets.count < CoreLimits.wakeTargetsMaximum else {
                return WakeTargetResult(reason: .quotaExceeded, limit: .wakeTargetsOfUser)
            }
        }
        target.identifier = old?.identifier ?? 0
        if target == old {
            return WakeTargetResult(reason: .success, identifier: target.identifier)
        }
        let growth = wakeTargetRow(target, of: user).pageByteCount
        let permit = admitGrowth(
            of: growth, replacing: old.map { wakeTargetRow($0, of: user).pageByteCount } ?? 0)
        guard let permit else {
            return WakeTargetResult(reason: .quotaExceeded, limit: commits.room.limit)
        }
        if target.identifier == 0 { target.identifier = makeIdentifier() }
        wakes.set(target, of: wakes.entry(of: user))
        commits.put(wakeTargetRow(target, of: user), permit)
        return WakeTargetResult(reason: .success, identifier: target.identifier)
    }

    /// Removes a target. Without its last one, the user is not woken any more; the interval after
    /// its last request remains, for a target that is set again.
    private mutating func remove(
        wakeTarget identifier: UInt64, of user: Index<User>, in step: inout Step
    ) -> Bool {
        guard let index = wakes.index(of: user), wakes.remove(identifier, of: index) else {
            return false
        }
        commits.remove(
            .wakeTargets, renewable: [wakeKey(ofUser: user) + RecordKey.number(identifier)])
        endWaking(index, removed: identifier, in: &step)
        guard wakes[index].targets.isEmpty else { return true }
        if wakes[index].token == .none { wakes.remove(index) } else { wakes.rest(index) }
        return true
    }

    /// Removes the targets of a user.
    mutating func removeWakeTargets(of user: Index<User>, in step: inout Step) {
        guard let index = wakes.index(of: user) else { return }
        for target in wakes[index].targets {
            _ = remove(wakeTarget: target.identifier, of: user, in: &step)
        }
    }

    // MARK: - Rows

    /// The beginning of the keys of a user's rows. The number 0 follows for the state of requests,
    /// and the id of a target for that target.
    func wakeKey(ofUser user: Index<User>) -> [UInt8] {
        RecordKey.name(
            app: registry.apps[registry.users[user].app].name, Array(registry.users[user].name))
    }

    func wakeTargetRow(_ target: WakeTarget, of user: Index<User>) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(target.device)
        row.write(target.kind.rawValue)
        row.write(target.environment.rawValue)
        row.write(target.language)
        row.write(target.address)
        row.write(UInt8(target.isSilent ? 1 : 0))
        return RecordChange(
            table: .wakeTargets,
            key: wakeKey(ofUser: user) + RecordKey.number(target.identifier), value: row.bytes)
    }

    mutating func restoreWakeTarget(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        let dangling = RestoreError.danglingRecord(.wakeTargets, key: key)
        guard let appCount = key.first, key.count > 9 + Int(appCount),
            let app = app(named: Array(key[1..<1 + Int(appCount)])),
            let user = user(named: Array(key[(1 + Int(appCount))..<key.count - 8]), app: app)
        else { throw dangling }
        let identifier = RecordKey.readNumber(Array(key.suffix(8)))
        var row = try RecordReader(value, version: 1, table: .wakeTargets, key: key)
        guard identifier != 0 else {
            let marks = WakeMarks(rawValue: try row.read(UInt8.self))
            return restoreWakeMarks(marks, of: user)
        }
        let device = try row.readString()
        guard let kind = WakeTarget.Kind(rawValue: try row.read(UInt8.self)),
            let environment = WakeTarget.Environment(rawValue: try row.read(UInt8.self))
        else { throw .unreadableRecord(.wakeTargets, key: key) }
        let language = try row.readString()
        var target = WakeTarget(
            device: device, kind: kind, address: try row.readString(), environment: environment,
            language: language)
        target.identifier = identifier
        target.isSilent = try row.read(UInt8.self) == 1
        let index = wakes.entry(of: user)
        guard wakes[index].targets.count < CoreLimits.wakeTargetsMaximum else {
            throw .unreadableRecord(.wakeTargets, key: key)
        }
        wakes.set(target, of: index)
    }
}
