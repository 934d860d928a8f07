// Sends over the HTTP API and the admin socket, as users of an app. The sender has no session: the
// result is returned, or kept until it is taken.

import BrokerTerms
import Primitives

/// The result of an operator's send.
public struct OperatorSendResult: Hashable, Sendable {
    /// ``ReasonCode/sent``, ``ReasonCode/noMatchingSubscribers``, or the reason of the refusal.
    public var reason: ReasonCode
    /// What caused a refusal, if its reason does not tell.
    public var limit = LimitName.none
    /// Sessions and offline queues that took the message.
    public var receiverCount: UInt32 = 0
    /// Receivers that refused it, named or not.
    public var refusedCount: UInt32 = 0
    /// Refused receivers of a list.
    public var refusals: [Refusal] = []
    /// The message's reference, if it asked for one or for receipts; 0 for none.
    public var reference: UInt64 = 0
    /// The number of the kept message in its only conversation; 0 if it is not kept, or for a
    /// repeated send.
    public var keptNumber: UInt64 = 0
    /// What a moderator said of a message that it refused or rewrote.
    public var verdict: VerdictNote?
}

/// An operator's send that was accepted or refused.
public enum OperatorSend: Hashable, Sendable {
    /// The result is final.
    case complete(OperatorSendResult)
    /// The result is final when all changes that are pending now are committed; see
    /// ``Broker/takeResult(ofOperatorSend:)``.
    case pending(number: UInt64)
    /// A moderator decides on it; see ``Broker/takeHeldOutcomes()``.
    case held(number: UInt64)
    /// Its key was used for another send; nothing was sent.
    case otherContent
    /// The first send with its key is under way; nothing was sent.
    case underWay
}

/// The user as whom an operator, or a holder of a credential, sends.
public struct SendingUser: Sendable {
    public var app: [UInt8]
    public var user: [UInt8]
    /// The device that a right with `%d` names; empty for none.
    public var device: [UInt8]
    /// The rights of the send.
    public var rights: Rights
    public var moderation = Moderation.none
    /// Whether the credential is the user's own, and not that of an app or an operator.
    public var isProved = false

    /// What becomes of a message on which a moderator decides.
    public enum Moderation: Hashable, Sendable {
        /// It is sent: an operator needs no verdict.
        case none
        /// It waits for the verdict, and its sender for the outcome.
        case holds
        /// It waits for the verdict, and nobody for the outcome.
        case holdsUnanswered
        /// It is refused, because its sender cannot wait.
        case refuses
    }

    /// - Parameter rights: everything for an operator, who can also mint a token with any right.
    public init(
        app: [UInt8], user: [UInt8], device: [UInt8] = [], rights: Rights = .everything
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.rights = rights
    }
}

/// The operators' sends whose results have not been taken, by their numbers.
struct OperatorSends {
    private struct Entry {
        var result: OperatorSendResult
        /// Whether its message is settled.
        var isComplete = false
        /// Whether the row of its key is not committed.
        var awaitsKey = false
    }

    private var entries: [UInt64: Entry] = [:]
    private var lastNumber: UInt64 = 0

    /// The number of the next send; a message of the broker itself has the number 0.
    mutating func makeNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Adds an accepted send.
    ///
    /// - Parameter isComplete: whether its message is settled already.
    mutating func add(
        _ number: UInt64, _ result: OperatorSendResult, isComplete: Bool = false
    ) {
        entries[number] = Entry(result: result, isComplete: isComplete)
    }

    /// Notes that the send has a key, whose row is in the pending batch.
    mutating func awaitKey(of number: UInt64) { entries[number]?.awaitsKey = true }

    /// Takes the result of the commit of a key's row. A send whose key is not stored is refused as
    /// a whole, even if receivers have acknowledged it: its repeat would be a new send.
    mutating func settleKey(of number: UInt64, isStored: Bool) {
        entries[number]?.awaitsKey = false
        if !isStored { refuse(number) }
    }

    private mutating func refuse(_ number: UInt64) {
        entries[number]?.result.reason = .quotaExceeded
        entries[number]?.result.limit = .store
        entries[number]?.result.receiverCount = 0
    }

    /// Takes the result of a commit.
    mutating func complete(_ number: UInt64, isTakenBack: Bool, refusedCount: UInt32) {
        entries[number]?.isComplete = true
        entries[number]?.result.refusedCount += refusedCount
        if isTakenBack { refuse(number) }
    }

    /// Adds what the result tells of a verdict.
    mutating func note(_ verdict: VerdictNote, of number: UInt64) {
        entries[number]?.result.verdict = verdict
    }

    /// Forgets a result, complete or not.
    mutating func forget(_ number: UInt64) { entries[number] = nil }

    /// Removes and returns a complete result.
    mutating func take(_ number: UInt64) -> OperatorSendResult? {
        guard let entry = entries[number], entry.isComplete, !entry.awaitsKey else {
            return nil
        }
        entries[number] = nil
        return entry.result
    }
}

extension Broker {
    /// Sends a message as a user, whether or not the user is connected, with the rights of the
    /// sender; a group gets messages of its members only.
    ///
    /// - Parameters:
    ///   - request: its ranges refer to `bytes`.
    ///   - sender: the user whom receivers see as the sender.
    ///   - key: makes the send safe to repeat. If an earlier send with this key was accepted,
    ///     nothing is sent, and the result is that of the earlier one. Keys are remembered for
    ///     ``CoreLimits/sendKeySeconds``, also over restarts.
    /// - Returns: nil if there is no such user.
    public mutating func send(
        _ request: SendRequest, in bytes: [UInt8], as sender: SendingUser, key: SendKey? = nil,
        at moment: Moment, effects: inout Effects
    ) -> OperatorSend? {
        guard let app = app(named: sender.app) else { return nil }
        if let key, let answer = repeated(key, ofApp: app, at: moment.instant) { return answer }
        guard let user = user(named: sender.user, app: app) else { return nil }
        let principal = principal(of: sender, user, app)
        return bytes.withUnsafeBytes {
            var step = Step(bytes: $0, at: moment, effects: effects)
            if moderation.isOn, sender.moderation != .none,
                let held = moderate(
                    request, as: user, by: principal, key: key, sender, in: &step)
            {
                return held
            }
            return send(request, as: user, by: principal, key: key, in: &step)
        }
    }

    /// Whether a sender may send to a user.
    public func maySend(to receiver: [UInt8], as sender: SendingUser) -> Bool {
        guard let app = app(named: sender.app), let user = user(named: sender.user, app: app)
        else { return false }
        return receiver.withUnsafeBytes {
            decision(.send(user: $0), principal(of: sender, user, app)).isAllowed
        }
    }

    /// The principal whose rights decide on a request of a sender.
    func principal(of sender: SendingUser, _ user: Index<User>, _ app: Index<App>) -> Principal {
        Principal(
            app: app, user: user,
            names: PrincipalNames(user: registry.users[user].name, device: Name(sender.device)),
            rights: sender.rights, isMQTT: false)
    }

    mutating func send(
        _ request: SendRequest, as user: Index<User>, by principal: Principal, key: SendKey?,
        in step: inout Step
    ) -> OperatorSend {
        let target: AuthorizedTarget
        if request.isUnusual, let (reason, cause) = fault(ofUnusual: request, at: step.moment) {
            counters.sendsRefused += 1
            return .complete(OperatorSendResult(reason: reason, limit: cause))
        }
        switch authorize(request, by: .principal(principal), ofUser: user, in: step.bytes) {
        case .refused(let reason, let limit):
            counters.sendsRefused += 1
            return .complete(OperatorSendResult(reason: reason, limit: limit))
        case .allowed(let allowed): target = allowed
        }
        var request = request
        if request.reference != 0 {
            request.reference = freeReference(request.reference)
            untakenReceivers.begin(isNoting: !request.collapseKey.isEmpty)
        }
        defer { untakenReceivers.end() }
        let name = Array(registry.users[user].name)
        var plan: HistoryPlan?
        if mayBeKept(request) {
            switch planHistory(of: request, sentTo: target, fromUser: user) {
            case .notKept: break
            case .kept(let decided): plan = decided
            case .refused(let reason, let limit):
                counters.sendsRefused += 1
                return .complete(OperatorSendResult(reason: reason, limit: limit))
            }
        }
        let keptNumber = plan?.number ?? 0
        let section =
            request.hasFields || keptNumber != 0 || request.isUndelivered
            ? section(of: request, keptNumber: keptNumber, in: step.bytes) : []
        if !wakes.isEmpty { wakes.push = Array(request.push.bytes(in: step.bytes)) }
        defer { wakes.forgetPush() }
        return (name + section).withUnsafeBytes { both in
            let sender = ByteRange(offset: 0, count: name.count).bytes(in: both)
            let parts = MessageParts(
                kind: request.target.kind,
                marks: section.isEmpty ? marks(of: request) : marks(of: request).union(.fields),
                grade: request.grade, time: time(of: request, at: step.moment), sender: sender,
                address: request.target.address(in: step.bytes),
                properties: section.isEmpty
                    ? request.properties.bytes(in: step.bytes)
                    : ByteRange(offset: name.count, count: section.count).bytes(in: both),
                payload: request.payload.bytes(in: step.bytes))
            guard let key else {
                return route(
                    request, parts, to: target, keptBy: plan, fromUser: user, in: &step
                ).send
            }
            return route(
                request, parts, to: target, keptBy: plan, fromUser: user, key: key, in: &step)
        }
    }

    /// Routes a send with a key, whose result is final when its row is committed.
    private mutating func route(
        _ request: SendRequest, _ parts: MessageParts, to target: AuthorizedTarget,
        keptBy plan: HistoryPlan?, fromUser user: Index<User>, key: SendKey, in step: inout Step
    ) -> OperatorSend {
        let app = registry.users[user].app
        let owner = key.isOfUser ? user : nil
        let permit: GrowthPermit
        do throws(KeyRefusal) {
            permit = try admitKey(of: request, app: app, owner: owner)
        } catch {
            counters.sendsRefused += 1
            if !error.limit.isOfStore { counters.sendKeysRefused += 1 }
            return .complete(OperatorSendResult(reason: .quotaExceeded, limit: error.limit))
        }
        let (send, accepted) = route(
            request, parts, to: target, keptBy: plan, fromUser: user, in: &step)
        guard let accepted else { return send }
        let number: UInt64
        if case .pending(let pending) = send {
            number = pending
        } else {
            number = operatorSends.makeNumber()
            operatorSends.add(number, accepted, isComplete: true)
        }
        operatorSends.awaitKey(of: number)
        remember(
            key, ofApp: app, owner: owner, send: number, result: accepted, at: step.moment.instant,
            permit: permit)
        return .pending(number: number)
    }

    /// - Returns: the send, and its result unless it was refused.
    private mutating func route(
        _ request: SendRequest, _ parts: MessageParts, to target: AuthorizedTarget,
        keptBy plan: HistoryPlan?, fromUser user: Index<User>, in step: inout Step
    ) -> (send: OperatorSend, accepted: OperatorSendResult?) {
        if request.grade == .transient {
            let tally = sendTransient(
                request, parts, to: target, from: nil, ofUser: user, in: &step)
            let result = accepted(tally)
            return (.complete(result ?? refused(tally)), result)
        }
        let (stamp, number) = (makeStamp(), operatorSends.makeNumber())
        let message = memory.insert(
            parts, messageIdentifier: request.messageIdentifier.bytes(in: step.bytes), stamp: stamp,
            deadline: deadline(after: request.expirySeconds, at: step.moment), sender: .none,
            senderNumber: number)
        // Held until it is routed.
        defer { memory.release(message) }
        var tally = RoutingTally(stamp: stamp)
        if let plan, conversationTable.pullingCount > 0 {
            notePullable(plan, request, sentTo: target, fromUser: user, tally: &tally)
        }
        if request.isUndelivered {
            routeNowhere(target, grade: request.grade, fromUser: user, tally: &tally)
        } else {
            route(
                message, to: target, grade: request.grade, fromUser: user, excluding: nil,
                tally: &tally, in: &step)
        }
        guard var result = accepted(tally) else { return (.complete(refused(tally)), nil) }
        result.reference = request.reference
        result.keptNumber = plan?.number ?? 0
        counters.receiversRefused += UInt64(tally.refusedCount)
        memory.noteTaken(
            request.isUndelivered ? 0 : tally.taken - tally.pulledCount, of: message)
        operatorSends.add(number, result)
        if request.isRetained { retain(message, ofUser: user, request, at: step.moment) }
        if let plan {
            keep(
                message, by: plan, fromUser: user,
                news: tally.isPullable ? conversationTable.pull.newsUsers : [])
        }
        if request.isTracked {
            track(
                message, request, sentTo: target, fromUser: user, session: nil, in: &step)
        }
        memory.noteRouted(message)
        completeIfSettled(message, in: &step)
        let send = operatorSends.take(number).map { OperatorSend.complete($0) }
        return (send ?? .pending(number: number), result)
    }

    /// The result of a send that is accepted; nil if all receivers refused it.
    private mutating func accepted(_ tally: RoutingTally) -> OperatorSendResult? {
        guard tally.taken > 0 || tally.refusedCount == 0 else { return nil }
        counters.sendsAccepted += 1
        return OperatorSendResult(
            reason: tally.taken > 0 ? .sent : .noMatchingSubscribers, receiverCount: tally.taken,
            refusedCount: tally.refusedCount, refusals: tally.refusals)
    }

    private mutating func refused(_ tally: RoutingTally) -> OperatorSendResult {
        counters.sendsRefused += 1
        return OperatorSendResult(
            reason: tally.reason, limit: tally.limit, refusedCount: tally.refusedCount,
            refusals: tally.refusals)
    }

    /// Takes the result of an operator's message. Messages of the broker itself have no sender who
    /// is told.
    mutating func completeOperatorSend(_ message: Index<Message>, isTakenBack: Bool) {
        let number = memory.messages[message].senderNumber
        guard number > 0 else { return }
        if isTakenBack { counters.sendsTakenBack += 1 }
        operatorSends.complete(
            number, isTakenBack: isTakenBack, refusedCount: memory.messages[message].refusedCount)
    }

    /// Forgets the result of an operator's send whose sender does not wait for it. The send goes
    /// on.
    public mutating func forgetResult(ofOperatorSend number: UInt64) {
        operatorSends.forget(number)
    }

    /// Removes and returns the result of an operator's send; nil if it is not final.
    public mutating func takeResult(ofOperatorSend number: UInt64) -> OperatorSendResult? {
        operatorSends.take(number)
    }
}
